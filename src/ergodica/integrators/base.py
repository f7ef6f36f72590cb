"""What an integrator is: one step of size eps around one evaluation of the gradient.

To write one, subclass `Integrator`. The recipe does the work: `recipe.moves` is eps f(z), `recipe.diffusion_at` is D.
"""

from abc import abstractmethod
from typing import Any, NamedTuple

import equinox as eqx
import jax
from jaxtyping import Array, PyTree

from ergodica.errors import InputError
from ergodica.integrators.compensation import StepReport
from ergodica.operators import Operator
from ergodica.phase import Evaluation, Phase, Point
from ergodica.recipe import Recipe


class Setting(NamedTuple):
    """What one step is taken with: its size, the temperature, where the position may be, and the step's number."""

    step_size: Any
    temperature: Any
    domain: PyTree = None
    number: Any = 0


class Integrator(eqx.Module):
    """One step as probe (move to where the gradient is wanted), evaluation, finish.

    In JAX both halves run inside one compiled step; a target whose gradient comes from outside is called between them.
    All random numbers of a step come from `draw`, so that they can be drawn ahead of a loop.
    """

    @abstractmethod
    def refusal(self, recipe: Recipe, phase: Phase) -> str | None:
        """Why this integrator cannot serve the recipe, with advice; None if it can."""

    @abstractmethod
    def draw(self, recipe: Recipe, phase: Phase, key: Array, setting: Setting) -> Any:
        """The random numbers of one step; of `phase` only the shapes matter."""

    @abstractmethod
    def probe(self, recipe: Recipe, phase: Phase, draws: Any, setting: Setting) -> Phase:
        """The phase at whose position the gradient is wanted."""

    @abstractmethod
    def finish(
        self,
        recipe: Recipe,
        phase: Phase,
        evaluations: tuple[Evaluation, ...],
        draws: Any,
        setting: Setting,
        noise: Operator | None,
    ) -> tuple[Phase, StepReport]:
        """The phase after the step, from the probed one. `noise`: V, to be compensated, or None."""


class Resampled(Integrator):
    """Another integrator, with a fresh momentum from exp(-g/T) at every N-th step.

    Use it where friction is weak and a chain keeps circling at one energy. `eg.sample(..., resample_every=N)` does the
    same. Under strong friction it changes nothing worth having.

    Leaves invariant: what the inner integrator does; drawing a slot from its conditional law changes no law.

    Args:
        inner: `eg.Splitting()` or `eg.Euler()`.
        every: N.

    Example:
        >>> import ergodica as eg
        >>> integrator = eg.Resampled(eg.Splitting(), every=50)
        >>> kernel = eg.Kernel(eg.gallery.gaussian(2), eg.sghmc(friction=0.1), integrator)
    """

    inner: Integrator
    every: int = eqx.field(static=True)

    def __check_init__(self):
        if self.every < 1:
            raise InputError(f"momentum resampling must happen every 1 or more steps, got {self.every}")

    def refusal(self, recipe, phase):
        if not recipe.momenta:
            return "there is no momentum to resample: this recipe moves the position without one"
        return self.inner.refusal(recipe, phase)

    def draw(self, recipe, phase, key, setting):
        inner, momentum = jax.random.split(key)
        return self.inner.draw(recipe, phase, inner, setting), momentum

    def probe(self, recipe, phase, draws, setting):
        inner, key = draws
        is_due = setting.number % self.every == 0
        phase = jax.lax.cond(is_due, lambda z: resample(recipe, z, key, setting), lambda z: z, phase)
        return self.inner.probe(recipe, phase, inner, setting)

    def finish(self, recipe, phase, evaluations, draws, setting, noise):
        return self.inner.finish(recipe, phase, evaluations, draws[0], setting, noise)


def resample(recipe: Recipe, phase: Phase, key: Array, setting: Setting) -> Phase:
    """The phase with a fresh draw of every momentum."""
    keys = jax.random.split(key, len(recipe.momenta))
    for k, name in zip(keys, recipe.momenta, strict=True):
        point = Point(phase, temperature=setting.temperature)
        phase = phase._replace(**{name: recipe.energy[name].draw(k, point, name)})
    return phase
