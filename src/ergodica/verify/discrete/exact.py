"""The exact law of a sampler's *discrete* chain on a Gaussian target: bias of step size and batch without sampling.

With constant D, Q and mass every step of the library's integrators is z' = A z + b + B w + F n, so that the stationary
mean is (1 - A)^-1 b and the stationary covariance solves

    Sigma = A Sigma A^T + B B^T + F V F^T,    V = (N^2/n)(1 - n/N) s^2 the covariance of n

(docs/explanation/mathematics.md). Where s^2 depends on the position (a regression), its mean under the law is
V(mean) + sum_j m_j X m_j with X the covariance of the position that the gradient is taken at: linear in Sigma, and
solved with it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from ergodica import structure
from ergodica.errors import InputError
from ergodica.gradients import GradientNoise, Known, PerExample, as_gradient_noise
from ergodica.integrators import Integrator, Kernel, Leapfrog
from ergodica.phase import Phase
from ergodica.recipe import Recipe
from ergodica.targets import Target
from ergodica.targets.base import DataTarget
from ergodica.tree import Layout
from ergodica.verify.discrete import affine
from ergodica.verify.discrete.law import DiscreteLaw, LawTable
from ergodica.verify.discrete.quadratic import ExampleSpread, as_density, example_spread, quadratic_of
from ergodica.verify.sde import checked_position, widened

# spectral radius below which a chain forgets: a direction that stands still comes out at 1 - 1e-16
STABLE_RADIUS = 1 - 1e-13
MOST_NUMBERS = 1_000  # numbers in the phase: matrices of its size are solved densely


def exact_law(
    recipe: Recipe,
    target: Target,
    step_size: float | Sequence[float],
    integrator: Integrator | None = None,
    gradient_noise: Any = None,
    temperature: float = 1.0,
    *,
    batch_size: int | Sequence[int | None] | None = None,
    compensate: bool | None = None,
    position: PyTree = None,
) -> DiscreteLaw | LawTable:
    """Mean and covariance of the *discrete* chain on a Gaussian target, exact to rounding; float64 in any mode.

    Use it to choose a step size and a batch size: it gives the bias that a run would show after infinitely many steps,
    without sampling. A linear step on a Gaussian target leaves the Gaussian invariant whose covariance solves
    Sigma = A Sigma A^T + S (docs/explanation/mathematics.md; for SGLD see https://arxiv.org/abs/1501.00438), with A and
    S from the library's own step. For a list of step sizes, or of batch sizes, a table and a picture of the bias.
    Leapfrog with its Metropolis test has the target's law at every step size.

    Args:
        recipe: with constant D, Q and mass: `eg.sgld`, `eg.sghmc`, `eg.sgfs`, ... or your own.
        target: an `eg.Density` or `eg.Posterior` with a quadratic potential.
        step_size: one, or several for a table.
        integrator: None picks the one that `eg.sample` picks.
        gradient_noise: V, the covariance of the gradient's noise, which the steps compensate for: a number, a vector
            like the position, a matrix, or `eg.PerExample()`. Without `batch_size` the chain has this noise; with it,
            that of the batch, and V is what is subtracted.
        temperature: T of the law exp(-H/T).
        batch_size: rows in a minibatch, drawn without replacement, independently between steps; None: all data. Several
            for a table.
        compensate: False leaves the noise alone; True subtracts that of the batch where no V is given. By default what
            `eg.sample` does: V is subtracted where `gradient_noise`, or the recipe (`eg.sgfs`), gives it.
        position: an example of the position, where the target has no `init`.

    Returns:
        A `DiscreteLaw` with `mean`, `covariance` and `bias`; a `LawTable` for lists. `print` shows either.

    Example:
        >>> import ergodica as eg
        >>> law = eg.exact_law(eg.sgld(), eg.gallery.gaussian(2), step_size=0.1)
        >>> law.covariance.round(4).tolist()  # 1 / (1 - eps/2)
        [[1.0526, 0.0], [0.0, 1.0526]]
    """
    if not isinstance(recipe, Recipe):
        raise InputError(f"exact_law takes the recipe first, then the target; the first is a {type(recipe).__name__}")
    advice = "it must see that the law is Gaussian"
    target, start = checked_position("exact_law", target, position, advice, temperature)
    if target.domain is not None:
        raise InputError(
            "the target has a domain: a chain that reflects is not linear; leave the domain out, or use a run"
        )
    sizes: list[Any] = [step_size] if np.ndim(step_size) == 0 else list(step_size)  # pyright: ignore[reportArgumentType]
    batches = list(batch_size) if isinstance(batch_size, Iterable) else [batch_size]
    if not sizes or not batches:
        raise InputError("step_size and batch_size must not be empty: give a number, or a list of numbers")
    for size in sizes:
        structure.check_step_size(size)
    structure.check_temperature(temperature)
    if compensate and gradient_noise is None and all(n is None for n in batches):
        raise InputError("compensate=True, but the chain has no gradient noise: give gradient_noise or batch_size")
    # standard promotion: what a potential closes over may be float32, and meets a float64 position here
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"):
        chain = _Chain(widened(recipe), widened(target), start, integrator, float(temperature))
        columns = [chain.with_noise(as_gradient_noise(gradient_noise), n, compensate) for n in batches]
        if np.ndim(step_size) == 0 and not isinstance(batch_size, Iterable):
            return columns[0].law(float(sizes[0]))
        return _table([float(size) for size in sizes], columns)


def _table(step_sizes: list[float], columns: list["_Column"]) -> LawTable:
    rows = [tuple(column.law_or_none(size) for column in columns) for size in step_sizes]
    limits = []
    for i, column in enumerate(columns):
        unstable = [size for size, row in zip(step_sizes, rows, strict=True) if row[i] is None]
        limits.append(column.largest_stable(min(unstable)) if unstable else None)
    return LawTable(tuple(step_sizes), tuple(column.label for column in columns), tuple(rows), tuple(limits))


class _Chain:
    """What all step sizes and batches share: the Gaussian, its law on the phase, and the shapes."""

    def __init__(
        self, recipe: Recipe, target: Target, start: PyTree, integrator: Integrator | None, temperature: float
    ):
        self.recipe, self.target, self.integrator, self.temperature = recipe, target, integrator, temperature
        self.position = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), start)
        kernel = Kernel(target, recipe, integrator)
        self.phase: Phase = kernel.init(self.position, jax.random.key(0), temperature).phase
        if Layout.of(self.phase).size > MOST_NUMBERS:
            raise InputError(
                f"the phase holds {Layout.of(self.phase).size:,} numbers, more than {MOST_NUMBERS:,}: exact_law solves "
                "dense matrices of that size; take a smaller target of the same kind"
            )
        self.is_exact = isinstance(kernel.integrator, Leapfrog)
        gaussian = quadratic_of(target, self.position)
        self.gaussian = as_density(gaussian, self.position)
        self.mean = gaussian.mean
        self.law = affine.phase_law(recipe, self.gaussian, self.phase, temperature)
        self.spread: ExampleSpread | None = None  # of the examples' gradients: a pass over the data, made if needed

    def with_noise(self, given: GradientNoise | None, batch_size: int | None, compensate: bool | None) -> "_Column":
        """The chain with the noise of a batch, or with the V given, and what its steps subtract."""
        given = None if given is None else widened(given)
        covariance, modes = np.zeros((self.mean.size, self.mean.size)), None
        if isinstance(given, Known):
            noise = given.operator((), Layout.of(self.position))
            structure.check_psd("gradient_noise", noise, strict=False)
            covariance = np.asarray(noise.to_dense())
        if batch_size is not None:
            covariance, modes = self._batch_noise(batch_size)
        elif given is not None and not isinstance(given, Known):
            raise InputError("eg.PerExample estimates V from batches: give batch_size, or V itself")
        has_noise = batch_size is not None or given is not None
        if self.is_exact and has_noise:
            raise InputError(
                "eg.Leapfrog with a Metropolis test needs all data: leave batch_size and gradient_noise out"
            )
        return _Column(self, covariance, modes, self._subtracted(given, covariance, has_noise, compensate), batch_size)

    def _batch_noise(self, batch_size: int) -> tuple[np.ndarray, np.ndarray | None]:
        if not isinstance(self.target, DataTarget):
            raise InputError("batch_size is for targets with data (eg.Posterior): give this one gradient_noise=V")
        self.target.check_batch_size(batch_size)
        spread = self.spread = self.spread or example_spread(self.target, self.position, self.mean)
        factor = spread.factor(batch_size)
        return factor * spread.at_mean, None if spread.modes is None else np.sqrt(factor) * spread.modes

    def _subtracted(self, given, covariance: np.ndarray, has_noise: bool, compensate: bool | None) -> Known | None:
        if compensate is False or not has_noise:
            return None
        if isinstance(given, PerExample):  # what it estimates on average
            return Known(Layout.of(self.position).unravel(jnp.asarray(np.diag(covariance))))
        if given is not None:
            return given
        if self.recipe.gradient_noise is not None:
            return Known(self.recipe.gradient_noise)
        return Known(covariance) if compensate else None


@dataclass
class _Column:
    """One chain at any step size: V at the mean, the modes of its growth, and the V that its steps subtract."""

    chain: _Chain
    covariance: np.ndarray
    modes: np.ndarray | None
    subtracted: Known | None
    batch_size: int | None

    @property
    def label(self) -> str:
        if self.batch_size is None:
            return "all data" if not np.any(self.covariance) else "given V"
        return f"batch of {self.batch_size}"

    def law(self, step_size: float) -> DiscreteLaw:
        found = self.law_or_none(step_size)
        if found is not None:
            return found
        here, largest = affine.radius(self._step(step_size).transition), self.largest_stable(step_size)
        why = f"the spectral radius of a step is {here:.6g}, expected below 1"
        if here < STABLE_RADIUS:
            why = "the noise of the batches grows faster with the distance from the mean than the steps shrink it"
        advice = f"the largest stable step size is {largest or 0:.4g}"
        if largest is None:
            advice = "no smaller step has one: some direction has no drift, or is 1e13 times slower than the fastest"
        raise InputError(f"at step size {step_size:g} the chain has no stationary law ({why}); {advice}")

    def law_or_none(self, step_size: float) -> DiscreteLaw | None:
        truth = self.chain.law
        if self.chain.is_exact:
            return self._result(step_size, truth, None)
        affine.refuse_curved(self._kernel(), self.chain.phase, truth, step_size, self.chain.temperature)
        step = self._step(step_size)
        covariance = self._stationary(step)
        if covariance is None:
            return None
        # (1 - A)^-1 b as a distance from the target's mean: no digits are lost where that is large
        unit, move = step.in_units(truth.scale), step.transition @ truth.mean + step.offset - truth.mean
        distance = truth.scale * np.linalg.solve(np.eye(move.size) - unit.transition, move / truth.scale)
        return self._result(step_size, affine.PhaseLaw(truth.mean + distance, covariance), step)

    def largest_stable(self, unstable: float) -> float | None:
        """The step size below which there is a stationary law, by bisection; None if none is found."""
        low, high = unstable / 2, unstable
        while not self._is_stable(low):
            low, high = low / 2, low
            if low < 1e-12 * unstable:
                return None
        while high / low > 1 + 1e-5:
            middle = (low + high) / 2
            low, high = (middle, high) if self._is_stable(middle) else (low, middle)
        return low

    def _is_stable(self, step_size: float) -> bool:
        try:
            return self._stationary(self._step(step_size)) is not None
        except InputError:  # too close to the limit for float64
            return False

    def _kernel(self) -> Kernel:
        recipe = self.chain.recipe
        bare = Recipe(recipe.energy, recipe.diffusion, recipe.curl)  # a V of the recipe's own is in `subtracted`
        return Kernel(self.chain.gaussian, bare, self.chain.integrator, self.subtracted)

    def _step(self, step_size: float) -> affine.AffineStep:
        return affine.affine_step(self._kernel(), self.chain.phase, self.chain.law, step_size, self.chain.temperature)

    def _stationary(self, step: affine.AffineStep) -> np.ndarray | None:
        """Sigma, solved in units of the target's standard deviations: none is lost beside a larger one."""
        scale = self.chain.law.scale
        position = scale[: len(self.covariance)]
        unit = step.in_units(scale)
        if not affine.radius(unit.transition) < STABLE_RADIUS:
            return None
        noise = position[:, None] * self.covariance * position
        doubling = affine.Doubling(unit.transition)
        total = unit.spread @ unit.spread.T + unit.through @ noise @ unit.through.T
        if self.modes is None:
            sigma = doubling.solve(total)
        else:
            modes = position[:, None] * self.modes * position

            def carried(x: np.ndarray) -> np.ndarray:
                grown = np.einsum("rab,bc,rdc->ad", modes, x, modes, optimize=True)
                return unit.through @ grown @ unit.through.T

            total = total + carried(unit.probe_spread @ unit.probe_spread.T)
            sigma = affine.solve_with_feedback(doubling, total, lambda x: carried(unit.probe @ x @ unit.probe.T))
        return None if sigma is None else scale[:, None] * sigma * scale

    def _result(self, step_size: float, law: affine.PhaseLaw, step: affine.AffineStep | None) -> DiscreteLaw:
        truth = self.chain.law
        return DiscreteLaw(
            step_size=step_size,
            temperature=self.chain.temperature,
            noise=self.label + (", compensated" if self.subtracted is not None else ""),
            dim=len(self.covariance),
            phase_mean=law.mean,
            phase_covariance=law.covariance,
            target_phase_mean=truth.mean,
            target_phase_covariance=truth.covariance,
            transition=None if step is None else step.transition,
            radius=float("nan") if step is None else affine.radius(step.transition),
            cuts=0 if step is None else step.cuts,
            largest_step=float("inf") if step is None else step.largest_step,
        )
