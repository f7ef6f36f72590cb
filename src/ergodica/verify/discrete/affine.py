"""One step of a linear sampler as the affine map that it is, read off the library's own step by differentiation.

    z' = A z + b + B w + F n,    the gradient taken at q = C z + c + E w

with w the standard normals of the step and n the noise of its gradient.
"""

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
from ergodica.tree import Layout
from ergodica.verify.discrete.quadratic import SAME

POINTS = 2  # random points, beside the mean, at which the derivatives must be the same
ADVICE = "eg.exact_law is for constant D, Q and mass: look at this one by eg.audit or a run"


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


def phase_law(recipe: Recipe, target: Any, phase: Phase, temperature: float) -> PhaseLaw:
    """The law on the whole phase; `target` has a quadratic potential."""
    layout, rng = Layout.of(phase), np.random.default_rng(1)
    start = np.asarray(layout.ravel(phase))
    bare = Recipe(energy=recipe.energy)  # H does not look at D and Q: compiled once for all that share the energy
    slope, hessian = _energy_derivatives(bare, target, layout, start, temperature)
    for size in (1.0, 3.0):
        other = _energy_derivatives(bare, target, layout, start + size * rng.normal(size=start.shape), temperature)[1]
        if not np.max(np.abs(other - hessian)) <= SAME * np.max(np.abs(hessian)):
            kinds = ", ".join(f"eg.{type(e).__name__}" for e in recipe.energies if not isinstance(e, Gaussian))
            raise InputError(
                f"the step is not linear: the energy {kinds} of an auxiliary slot is not quadratic; {ADVICE}"
            )
    covariance = temperature * np.linalg.inv(hessian)
    return PhaseLaw(start - np.linalg.solve(hessian, slope), (covariance + covariance.T) / 2)


def _energy_derivatives(recipe: Recipe, target: Any, layout: Layout, vector: np.ndarray, temperature: float):
    found = _hamiltonian_derivatives(recipe, target, layout, jnp.asarray(vector), jnp.asarray(temperature))
    return tuple(np.asarray(x) for x in found)


@eqx.filter_jit
def _hamiltonian_derivatives(recipe, target, layout: Layout, vector: Array, temperature: Array) -> tuple[Array, Array]:
    def slope(x):
        return jax.grad(lambda x: recipe.hamiltonian(target, layout.unravel(x), temperature=temperature))(x)

    return slope(vector), jax.jacfwd(slope)(vector)


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
    free = draws.size + Layout.of(phase.position).size
    scale = np.concatenate([law.scale, law.scale[: Layout.of(phase.position).size]])
    widths = np.concatenate([law.scale, np.ones(draws.size), 1 / law.scale[: free - draws.size]])

    def derivatives(spread: float) -> np.ndarray:
        point = law.mean + spread * law.scale * rng.normal(size=law.mean.shape)
        rest = spread * widths[law.mean.size :] * rng.normal(size=free)
        return _at(kernel, phase, draws, point, rest, step_size, temperature)[1] * widths / scale[:, None]

    first = derivatives(0.0)
    for _ in range(POINTS):
        change = np.max(np.abs(derivatives(2.0) - first)) / np.max(np.abs(first))
        if not change < SAME:
            raise InputError(
                f"the step is not linear: its derivative changes by {change:.3g} of its size between two points"
                f"{_who_reads(kernel.recipe, phase)}; {ADVICE}"
            )


def _who_reads(recipe: Recipe, phase: Phase) -> str:
    """The blocks of D and Q that depend on the phase, in words."""
    point = Point(phase, jax.ShapeDtypeStruct((), tree.common_dtype(phase.position)))
    blocks = [(f"diffusion[{slot!r}]", slot) for slot in recipe.diffusion]
    blocks += [(f"curl[{pair!r}]", pair) for pair in recipe.curl]
    found = [(name, sorted(recipe.reads(point, key))) for name, key in blocks]
    words = [f"{name} depends on " + " and ".join(f"z.{slot}" for slot in read) for name, read in found if read]
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
