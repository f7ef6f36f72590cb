"""One step of a chain: target, recipe, integrator and gradient noise put together."""

from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ergodica import structure, tree
from ergodica.energy import Gaussian
from ergodica.errors import InputError
from ergodica.gradients import GradientNoise, as_gradient_noise
from ergodica.integrators.base import Integrator, Resampled, Setting
from ergodica.integrators.euler import Euler
from ergodica.integrators.leapfrog import Leapfrog
from ergodica.integrators.reflection import check_reflection
from ergodica.integrators.splitting import Splitting
from ergodica.operators import Operator
from ergodica.phase import Evaluation, Phase
from ergodica.recipe import Recipe, evaluate
from ergodica.targets.base import Target
from ergodica.tree import Layout


class State(NamedTuple):
    """A chain between two steps: its phase, its estimate of V, and how many steps it has made."""

    phase: Phase
    noise: Any
    steps: Array


class StepInfo(NamedTuple):
    """What is known of a step; in a compiled loop a field that is not used is not computed.

    Args:
        potential: of the step's batch; None where the target has gradients only.
        cuts: directions in which gradient noise exceeded the noise to inject, and was cut at zero.
        largest_step: the largest step without such a cut.
        accepted: whether a trajectory was accepted; always, where there is no Metropolis test.
        gradient_norm: the length of the gradient.
        after_friction: the phase whose momenta show the temperature: in a splitting the phase right after friction,
            else that after the step. On a Gaussian the momenta right after friction have temperature T at any stable
            step, while at the end of the step it is T / (1 - h² w² / 4) for a frequency w.
        mean_momentum: of a splitting, the mean of the momenta before and after friction: a step moves the position by
            h R^T M^-1 times that. Its square shows all that gradient noise adds to the variance of the position
            (docs/explanation/tuning.md). None of other steps.
    """

    potential: Array | None
    cuts: Array
    largest_step: Array
    accepted: Array
    gradient_norm: Array
    after_friction: Phase
    mean_momentum: PyTree = None


class Kernel(eqx.Module):
    """One step of a chain, (state, key, step size, batch) -> (state, info): what `eg.sample` repeats.

    Use it in a loop of your own, under `jit`, `vmap` or `grad`. Checkpoints, warm-up, batches and diagnoses are the
    business of `eg.sample`: if you want those, use that.

    Args:
        target: what to sample.
        recipe: how.
        integrator: None picks one: `eg.Leapfrog` for D = 0, `eg.Splitting` for a Gaussian momentum with D on it, else
            `eg.Euler`.
        gradient_noise: V to compensate for: None, a constant, or `eg.PerExample()`. A recipe built for a known V
            (`eg.sgfs`) brings its own for steps with a batch.
        resample_every: draw a fresh momentum every N-th step; refused with `eg.Leapfrog`, which always does.

    Example:
        >>> import jax, ergodica as eg
        >>> kernel = eg.Kernel(eg.gallery.gaussian(2), eg.sgld())
        >>> state = kernel.init(kernel.target.init, jax.random.key(0))
        >>> state, info = kernel.step(state, jax.random.key(1), step_size=0.1)
        >>> int(state.steps), state.phase.position.shape
        (1, (2,))
    """

    target: Any  # a Target; the driver asks some kinds for more than every target has
    recipe: Recipe
    integrator: Any  # an Integrator, or a Leapfrog: a step in halves, or a trajectory
    gradient_noise: GradientNoise | None

    def __init__(
        self,
        target: Target,
        recipe: Recipe,
        integrator: Integrator | Leapfrog | None = None,
        gradient_noise: Any = None,
        resample_every: int | None = None,
    ):
        self.target, self.recipe = target, recipe
        if isinstance(integrator, type):
            raise InputError(f"integrator is the class {integrator.__name__}: make one, eg.{integrator.__name__}()")
        if not isinstance(integrator, Integrator | Leapfrog | None):
            raise InputError(f"integrator is {integrator!r}: expected eg.Euler(), eg.Splitting() or eg.Leapfrog()")
        chosen = default_integrator(recipe) if integrator is None else integrator
        if resample_every is not None:
            if isinstance(chosen, Leapfrog):
                raise InputError(
                    f"resample_every={resample_every} has no effect here: eg.Leapfrog (eg.hmc) draws a fresh momentum "
                    "for every trajectory. Leave it out; eg.Leapfrog(steps=...) sets how long a trajectory is"
                )
            chosen = Resampled(chosen, resample_every)
        self.integrator = chosen
        self.gradient_noise = as_gradient_noise(gradient_noise)

    def init(self, position: PyTree, key: Array, temperature: Any = 1.0) -> State:
        """The state at a start; refuses what cannot be run, before anything is compiled."""
        phase = self.recipe.init(self.target, position, key, temperature)
        reason = self.integrator.refusal(self.recipe, phase)
        if reason is not None:
            raise InputError(reason)
        if isinstance(self.integrator, Leapfrog) and not self.target.has_potential:
            raise InputError(
                "eg.Leapfrog needs the potential for its Metropolis test, but this target gives gradients only: use a "
                "recipe with friction (eg.sghmc), or a target with a potential (eg.Density, eg.Posterior)"
            )
        noise = None if self.gradient_noise is None else self.gradient_noise.init(phase.position)
        is_plain = self.target.domain is None and self.gradient_noise is None
        if not (is_plain or tree.is_traced(phase) or tree.is_staged()):
            self._check_values(phase, noise, temperature)
        return State(phase, noise, jnp.zeros((), jnp.int32))

    def _check_values(self, phase: Phase, noise: Any, temperature: Any) -> None:
        if self.target.domain is not None:  # else no point is needed, which may take a pass over all data
            check_reflection(self.recipe, self.target, self.recipe.point_at(self.target, phase, temperature))
        if self.gradient_noise is not None:
            covariance = self.gradient_noise.operator(noise, Layout.of(phase.position))
            if covariance is not None and not tree.is_traced(covariance):
                structure.check_psd("gradient_noise", covariance, strict=False)

    def step(
        self, state: State, key: Array, step_size: Any, batch: PyTree | None = None, temperature: Any = 1.0
    ) -> tuple[State, StepInfo]:
        """One step; `batch=None`: all data. A recipe that reads z.potential takes an `eg.BatchPair`."""
        structure.check_step_size(step_size)
        structure.check_temperature(temperature)
        setting = self._setting(state, step_size, temperature)
        if isinstance(self.integrator, Leapfrog):
            return self._trajectory(state, key, setting, batch)
        draws = self.integrator.draw(self.recipe, state.phase, key, setting)
        return self.step_with(state, draws, step_size, batch, temperature)

    def step_with(
        self, state: State, draws: Any, step_size: Any, batch: PyTree | None = None, temperature: Any = 1.0
    ) -> tuple[State, StepInfo]:
        """One step with its random numbers at hand, so that a loop can draw them ahead."""
        probed = self.probe(state, draws, step_size, temperature)
        reads_potential = self.recipe.reads_potential(state.phase)
        target = self.target.tempered(temperature)
        evaluations = evaluate(target, probed.phase.position, batch, reads_potential)
        return self.finish(probed, evaluations, draws, step_size, batch, temperature)

    def probe(self, state: State, draws: Any, step_size: Any, temperature: Any = 1.0) -> State:
        """The first half of a step: at its position the gradient is wanted."""
        setting = self._setting(state, step_size, temperature)
        return state._replace(phase=self.integrator.probe(self.recipe, state.phase, draws, setting))

    def finish(
        self,
        state: State,
        evaluations: tuple[Evaluation, ...],
        draws: Any,
        step_size: Any,
        batch: PyTree | None = None,
        temperature: Any = 1.0,
    ) -> tuple[State, StepInfo]:
        """The second half, from the evaluation at the probed position."""
        setting = self._setting(state, step_size, temperature)
        covariance = self._covariance(state, batch)
        phase, report = self.integrator.finish(self.recipe, state.phase, evaluations, draws, setting, covariance)
        noise = state.noise
        if self.gradient_noise is not None:
            noise = self.gradient_noise.update(noise, self.target, state.phase.position, batch)
        potentials = [e.potential for e in evaluations if e.potential is not None]
        potential = sum(potentials[1:], start=potentials[0]) / len(potentials) if potentials else None
        gradients = [e.gradient for e in evaluations]
        gradient = gradients[0] if len(gradients) == 1 else tree.mean(*gradients)
        after_friction = phase if report.after_friction is None else report.after_friction
        always = jnp.ones((), bool)
        met = (always, tree.norm(gradient), after_friction, report.mean_momentum)
        return State(phase, noise, state.steps + 1), StepInfo(potential, report.cuts, report.largest_step, *met)

    def _setting(self, state: State, step_size: Any, temperature: Any) -> Setting:
        # in the dtype of the position: a float32 schedule and a float64 temperature could not meet
        dtype = tree.common_dtype(state.phase.position)
        return Setting(jnp.asarray(step_size, dtype), jnp.asarray(temperature, dtype), self.target.domain, state.steps)

    def _covariance(self, state: State, batch: PyTree | None) -> Operator | None:
        layout = Layout.of(state.phase.position)
        if self.gradient_noise is not None:
            return self.gradient_noise.operator(state.noise, layout)
        if batch is None or self.recipe.gradient_noise is None:
            return None
        return as_gradient_noise(self.recipe.gradient_noise).operator((), layout)  # pyright: ignore

    def _trajectory(self, state: State, key: Array, setting: Setting, batch: PyTree | None) -> tuple[State, StepInfo]:
        if batch is not None:
            raise InputError(
                "eg.Leapfrog with a Metropolis test needs all data, but a batch was given: drop batch_size, or use a "
                "recipe with friction (eg.sghmc)"
            )
        target = self.target.tempered(setting.temperature)
        phase, potential, gradient, accepted = self.integrator.step(self.recipe, target, state.phase, key, setting)
        never = jnp.asarray(jnp.inf, potential.dtype)
        info = StepInfo(potential, jnp.zeros((), jnp.int32), never, accepted, tree.norm(gradient), phase)
        return State(phase, state.noise, state.steps + 1), info


class _DomainOnly(eqx.Module):
    domain: Any


def with_domain_only(kernel: Kernel) -> Kernel:
    """The kernel for the compiled halves of a step: they need nothing of the target but where it lies."""
    return eqx.tree_at(lambda k: k.target, kernel, _DomainOnly(kernel.target.domain))


def default_integrator(recipe: Recipe) -> Integrator | Leapfrog:
    """Leapfrog for D = 0; Splitting for one Gaussian momentum with D on it alone; else Euler."""
    if not recipe.diffusion:
        return Leapfrog() if recipe.momenta else Euler()
    is_gaussian = len(recipe.momenta) == 1 and isinstance(recipe.energy[recipe.momenta[0]], Gaussian)
    if is_gaussian and set(recipe.diffusion) == set(recipe.momenta) and ("position", "position") not in recipe.curl:
        return Splitting()
    return Euler()
