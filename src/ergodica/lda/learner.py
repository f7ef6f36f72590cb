"""The chain of a topic model: two compiled halves of the general kernel, with the Gibbs expectations between them."""

from contextlib import suppress
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from ergodica.compiling import sound_filter_jit
from ergodica.driver.keys import Purpose, step_keys
from ergodica.driver.schedules import Polynomial, StepSizes
from ergodica.errors import NonFiniteError
from ergodica.integrators import Euler, Kernel, State
from ergodica.integrators.kernel import with_domain_only
from ergodica.lda.expanded_mean import ExpandedMean, is_finite, phi_of
from ergodica.lda.samplers import Method, draws_of
from ergodica.lda.stream import DocumentBatch
from ergodica.phase import Evaluation
from ergodica.recipe import Recipe

MOST_STEPS = 2**31 - 1  # that a schedule may be asked for


class Learner:
    """The chain of a model: its state, and how a batch changes it."""

    def __init__(
        self, model: ExpandedMean, method: Method, step_size: Polynomial | float, seed: int, evenness: float = 1.0
    ):
        self.model, self.seed = model, seed
        self.sizes = StepSizes(step_size, MOST_STEPS)
        kernel = Kernel(model.target(iter(())), *method)
        key = step_keys(seed, 0, jnp.zeros(1, jnp.int32), Purpose.INIT)[0]
        self.state: State = kernel.init(jnp.asarray(model.init(seed, evenness), jnp.float32), key)
        self._kernel = with_domain_only(kernel)
        self.fixed_size: float | None = None  # of all steps from now on, instead of the schedule

    @property
    def recipe(self) -> Recipe:
        return self._kernel.recipe

    @property
    def steps(self) -> int:
        """How many were made."""
        return int(self.state.steps)

    @property
    def theta(self) -> np.ndarray:
        """(words, topics)."""
        return np.asarray(self.state.phase.position)

    @property
    def phi(self) -> np.ndarray:
        return phi_of(self.theta)

    def step_size(self, step: int) -> float:
        return float(self.sizes.between(step, step + 1)[0]) if self.fixed_size is None else self.fixed_size

    def step(self, batch: DocumentBatch) -> None:
        """Learn from a batch; NonFiniteError leaves the state as it was."""
        number = self.steps
        size = jnp.asarray(self.step_size(number), jnp.float32)
        draws = draws_of(self.recipe, self.seed, number, (self.model.words, self.model.topics))
        # Euler's step has its gradient where it is: no need to copy.
        stays = isinstance(self._kernel.integrator, Euler)
        probed = self.state if stays else _probe(self._kernel, self.state, draws, size)
        model = replace(self.model, size=batch.size)
        with suppress(NonFiniteError):
            gradient = model.gradient(np.asarray(probed.phase.position), batch.documents, batch.visit, self.seed)
            new = _finish(self._kernel, probed, gradient, draws, size)
            if all(is_finite(np.asarray(slot)) for slot in new.phase):
                self.state = new
                return
        raise NonFiniteError(
            f"the topics are not finite after step {number} (step size {float(size):g}): take a smaller step size; "
            "what was learnt before is kept"
        )

    def saved(self) -> dict[str, np.ndarray]:
        """All that is needed to continue."""
        slots = {name: np.asarray(value) for name, value in self.state.phase._asdict().items()}
        return {"steps": np.asarray(self.state.steps), **slots}

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        phase = self.state.phase._replace(**{name: jnp.asarray(saved[name]) for name in self.state.phase._fields})
        self.state = self.state._replace(phase=phase, steps=jnp.asarray(saved["steps"], jnp.int32))


@sound_filter_jit
def _probe(kernel: Kernel, state: State, draws: Any, step_size: Any) -> State:
    return kernel.probe(state, draws, step_size)


@sound_filter_jit
def _finish(kernel: Kernel, probed: State, gradient: Any, draws: Any, step_size: Any) -> State:
    return kernel.finish(probed, (Evaluation(gradient),), draws, step_size)[0]
