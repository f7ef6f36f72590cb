"""One step of a linear sampler as the affine map that it is, read off the library's own step by differentiation.

    z' = A z + b + B w + F n,    the gradient taken at q = C z + c + E w

with w the standard normals of the step and n the noise of its gradient; and the stationary covariance of such a chain,
Sigma = A Sigma A^T + S, in float64, by doubling.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ergodica import tree
from ergodica.energy import Gaussian
from ergodica.errors import InputError
from ergodica.integrators import Kernel, Setting, State
from ergodica.phase import Evaluation, Phase, Point
from ergodica.recipe import Recipe
from ergodica.targets import Target
from ergodica.tree import Layout
from ergodica.verify.discrete.quadratic import SAME_DERIVATIVE, slope_and_hessian

RANDOM_POINTS = 2  # beside the mean, at which the derivatives must be the same
MOST_DOUBLINGS = 60  # a chain that needs more than 2^60 steps to forget looks like one that never does
FEEDBACK_ROUNDS = 5_000
LINEAR_ONLY = "eg.exact_law is for constant D, Q and mass: look at this one by eg.audit or a run"


class AffineStep(NamedTuple):
    """A, b, B, F, C, E; how many directions of injected noise were cut at zero, and the largest step without a cut."""

    transition: np.ndarray
    offset: np.ndarray
    spread: np.ndarray
    through: np.ndarray
    probe: np.ndarray
    probe_spread: np.ndarray
    cuts: int
    largest_step: float

    def in_units(self, scale: np.ndarray) -> "AffineStep":
        """The same step with the phase in units of `scale`, the position in its first entries, gradients inversely."""
        position = scale[: len(self.probe)]
        return self._replace(
            transition=self.transition * scale / scale[:, None],
            offset=self.offset / scale,
            spread=self.spread / scale[:, None],
            through=self.through / position / scale[:, None],
            probe=self.probe * scale / position[:, None],
            probe_spread=self.probe_spread / position[:, None],
        )


class PhaseLaw(NamedTuple):
    """exp(-H/T) of a quadratic H: the law that the chain ought to have."""

    mean: np.ndarray
    covariance: np.ndarray

    @property
    def scale(self) -> np.ndarray:
        return np.sqrt(np.diag(self.covariance))


def phase_law(recipe: Recipe, target: Target, phase: Phase, temperature: float) -> PhaseLaw:
    """The law on the whole phase; `target` has a quadratic potential."""
    layout, rng = Layout.of(phase), np.random.default_rng(1)
    start = np.asarray(layout.ravel(phase))
    bare = Recipe(energy=recipe.energy)  # H does not look at D and Q: compiled once for all that share the energy
    given = (bare, target, layout, jnp.asarray(temperature))
    slope, hessian = slope_and_hessian(_hamiltonian, start, *given)
    for size in (1.0, 3.0):
        other = slope_and_hessian(_hamiltonian, start + size * rng.normal(size=start.shape), *given)[1]
        if not np.max(np.abs(other - hessian)) <= SAME_DERIVATIVE * np.max(np.abs(hessian)):
            kinds = ", ".join(f"eg.{type(e).__name__}" for e in recipe.energies if not isinstance(e, Gaussian))
            raise InputError(
                f"the step is not linear: the energy {kinds} of an auxiliary slot is not quadratic; {LINEAR_ONLY}"
            )
    covariance = temperature * np.linalg.inv(hessian)
    return PhaseLaw(start - np.linalg.solve(hessian, slope), (covariance + covariance.T) / 2)


def _hamiltonian(x: Array, recipe: Recipe, target: Target, layout: Layout, temperature: Array) -> Array:
    return recipe.hamiltonian(target, layout.unravel(x), temperature=temperature)


def affine_step(kernel: Kernel, phase: Phase, law: PhaseLaw, step_size: float, temperature: float) -> AffineStep:
    """The map, from its derivatives at the mean of `law`."""
    draws = _draws_layout(kernel, phase)
    rest = np.zeros(draws.size + Layout.of(phase.position).size)
    value, jacobian, cuts, largest = _at(kernel, phase, draws, law.mean, rest, step_size, temperature)
    n = law.mean.size
    by_phase, by_draws, by_noise = np.split(jacobian, [n, n + draws.size], axis=1)
    return AffineStep(
        transition=by_phase[:n],
        offset=value[:n] - by_phase[:n] @ law.mean,
        spread=by_draws[:n],
        through=by_noise[:n],
        probe=by_phase[n:],
        probe_spread=by_draws[n:],
        cuts=int(cuts),
        largest_step=float(largest),
    )


def refuse_curved(kernel: Kernel, phase: Phase, law: PhaseLaw, step_size: float, temperature: float) -> None:
    """Raise InputError unless the step has the same derivatives wherever the law lives."""
    draws, rng = _draws_layout(kernel, phase), np.random.default_rng(2)
    position = law.scale[: Layout.of(phase.position).size]
    free = draws.size + position.size
    scale = np.concatenate([law.scale, position])
    widths = np.concatenate([law.scale, np.ones(draws.size), 1 / position])

    def derivatives(spread: float) -> np.ndarray:
        point = law.mean + spread * law.scale * rng.normal(size=law.mean.shape)
        rest = spread * widths[law.mean.size :] * rng.normal(size=free)
        return _at(kernel, phase, draws, point, rest, step_size, temperature)[1] * widths / scale[:, None]

    first = derivatives(0.0)
    for _ in range(RANDOM_POINTS):
        change = np.max(np.abs(derivatives(2.0) - first)) / np.max(np.abs(first))
        if not change < SAME_DERIVATIVE:
            raise InputError(
                f"the step is not linear: its derivative changes by {change:.3g} of its size between two points"
                f"{_who_reads(kernel.recipe, phase)}; {LINEAR_ONLY}"
            )


def _who_reads(recipe: Recipe, phase: Phase) -> str:
    """The blocks of D and Q that depend on the phase, in words."""
    point = Point(phase, jax.ShapeDtypeStruct((), tree.common_dtype(phase.position)))
    found = {f"diffusion[{slot!r}]": recipe.reads(point, slot) for slot in recipe.diffusion}
    found |= {f"curl[{pair!r}]": recipe.reads(point, pair) for pair in recipe.curl}
    words = [
        f"{name} depends on " + " and ".join(f"z.{s}" for s in sorted(read)) for name, read in found.items() if read
    ]
    return f" ({', '.join(words)})" if words else ""


def _draws_layout(kernel: Kernel, phase: Phase) -> Layout:
    def draw(key: Array) -> Any:
        return kernel.integrator.draw(kernel.recipe, phase, key, Setting(0.1, 1.0))

    draws = jax.eval_shape(draw, jax.random.key(0))
    if not all(jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in jax.tree.leaves(draws)):
        raise InputError(
            f"a step of eg.{type(kernel.integrator).__name__} is not one linear map of its normals; eg.exact_law is "
            "for eg.Euler(), eg.Splitting() and eg.Leapfrog()"
        )
    return Layout.of(draws)


def _at(kernel: Kernel, phase: Phase, draws: Layout, point, rest, step_size: float, temperature: float):
    vector = jnp.asarray(np.concatenate([point, rest]))
    numbers = (jnp.asarray(step_size, vector.dtype), jnp.asarray(temperature, vector.dtype))
    return tuple(np.asarray(x) for x in _linearised(kernel, Layout.of(phase), draws, vector, *numbers))


@eqx.filter_jit
def _linearised(kernel: Kernel, phase: Layout, draws: Layout, vector: Array, step_size: Array, temperature: Array):
    """(z', q) at (z, w, n), their derivatives, and what compensation met."""

    def step(x):
        z, w, n = jnp.split(x, [phase.size, phase.size + draws.size])
        start, normals = phase.unravel(z), draws.unravel(w)
        noise = None if kernel.gradient_noise is None else kernel.gradient_noise.init(start.position)
        state = kernel.probe(State(start, noise, jnp.zeros((), jnp.int32)), normals, step_size, temperature)
        position = Layout.of(start.position)
        potential, gradient = kernel.target.evaluate(state.phase.position)
        seen = Evaluation(tree.add(gradient, position.unravel(n)), potential, gradient)
        after, info = kernel.finish(state, (seen,), normals, step_size, None, temperature)
        out = jnp.concatenate([phase.ravel(after.phase), position.ravel(state.phase.position)])
        return out, (info.cuts, info.largest_step)

    value, along, met = jax.linearize(step, vector, has_aux=True)
    return value, jax.vmap(along, out_axes=1)(jnp.eye(vector.size)), *met


def radius(matrix: np.ndarray) -> float:
    """The spectral radius."""
    return float(np.max(np.abs(np.linalg.eigvals(matrix))))


class Doubling:
    """Sigma = sum_k A^k S (A^k)^T for any S, the first 2^m terms in m rounds (Smith, 1968).

    With Sigma_m the sum of the first 2^m terms, Sigma_(m+1) = Sigma_m + A^(2^m) Sigma_m (A^(2^m))^T.
    """

    def __init__(self, transition: np.ndarray):
        self.powers = [transition]
        # the round after one with a power of size p adds p^4 of what is there
        while np.linalg.norm(self.powers[-1]) > 1e-5:
            if len(self.powers) == MOST_DOUBLINGS or not np.all(np.isfinite(self.powers[-1])):
                raise InputError(
                    f"the spectral radius {radius(transition):.15g} of a step is too close to 1 for float64: take a "
                    "larger step, or scale the target's coordinates"
                )
            self.powers.append(self.powers[-1] @ self.powers[-1])

    def solve(self, noise: np.ndarray) -> np.ndarray:
        total = noise
        for power in self.powers:
            total = total + power @ total @ power.T
        return (total + total.T) / 2


def solve_with_feedback(
    doubling: Doubling, noise: np.ndarray, feedback: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray | None:
    """Sigma = A Sigma A^T + S + feedback(Sigma), `feedback` linear and PSD for PSD arguments; None if there is none.

    Summed as a Neumann series. What comes back in each round is PSD, so it turns into the slowest direction of the map,
    whose eigenvalue is its spectral radius: the series converges exactly when that is below 1, and once only this
    direction is left, the rest of the series is geometric.
    """
    total = added = doubling.solve(noise)
    for _ in range(FEEDBACK_ROUNDS):
        before, added = added, doubling.solve(feedback(added))
        size = np.linalg.norm(added)
        if size <= 1e-17 * np.linalg.norm(total):
            return total
        total = total + added
        ratio = np.sum(added * before) / np.sum(before * before)
        others = np.linalg.norm(added - ratio * before) / size
        if others < 1e-6 and ratio >= 1:
            return None
        if others < 1e-13:
            return total + added * ratio / (1 - ratio)
    raise InputError(
        "the effect of the batches' noise on itself did not settle: the step is too close to the largest stable one; "
        "take a smaller step"
    )
