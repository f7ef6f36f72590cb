"""What an integrator is: one step of size eps around one evaluation of the gradient.

To write one, subclass `Integrator`. The recipe does the work: `recipe.moves` is eps f(z), `recipe.diffusion_at` is D.
"""

from abc import abstractmethod
from typing import Any, NamedTuple

import equinox as eqx
from jaxtyping import Array, PyTree

from ergodica.integrators.compensation import StepReport
from ergodica.operators import Operator
from ergodica.phase import Evaluation, Phase
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
