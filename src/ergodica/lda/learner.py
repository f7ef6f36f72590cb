"""One step of a model: two compiled halves of the general kernel, and the Gibbs expectations between them."""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from ergodica.compiling import sound_filter_jit
from ergodica.driver.chunk import all_finite
from ergodica.driver.keys import Purpose, step_keys
from ergodica.driver.schedules import StepSizes
from ergodica.errors import NonFiniteError
from ergodica.integrators import Kernel, State
from ergodica.lda.expanded_mean import ExpandedMean, phi_of
from ergodica.lda.samplers import SAMPLERS, draws_of
from ergodica.lda.stream import Batch
from ergodica.phase import Evaluation

STEPS = 2**31 - 1  # that a schedule may be asked for


class Learner:
    """The chain of a model: its state, and how a batch changes it."""

    def __init__(self, model: ExpandedMean, sampler: str, step_size: Any, seed: int):
        self.model, self.seed = model, seed
        self.sizes = StepSizes(step_size, STEPS)
        recipe, integrator = SAMPLERS[sampler]()
        kernel = Kernel(model.target(iter(())), recipe, integrator)
        key = step_keys(seed, 0, jnp.zeros(1, jnp.int32), Purpose.INIT)[0]
        self.state: State = kernel.init(jnp.asarray(model.init(seed), jnp.float32), key)
        self._kernel = eqx.tree_at(lambda k: k.target, kernel, _Place(kernel.target.domain))
        self.fixed_size: float | None = None  # of all steps from now on, in the place of the schedule

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

    def step(self, batch: Batch) -> None:
        """Learn from a batch; NonFiniteError leaves the state as it was."""
        number = self.steps
        size = jnp.asarray(self.step_size(number), jnp.float32)
        draws = draws_of(self._kernel.recipe, self.seed, number, (self.model.words, self.model.topics))
        probed, is_fine = _probe(self._kernel, self.state, draws, size)
        theta = np.asarray(probed.phase.position)
        if bool(is_fine):
            model = replace(self.model, size=batch.size)
            gradient = model.gradient(theta, batch.documents, batch.visit, self.seed)
            new, is_fine = _finish(self._kernel, probed, gradient, draws, size)
            if bool(is_fine):
                self.state = new
                return
        raise NonFiniteError(
            f"the topics are not finite after step {number} (step size {float(size):g}): take a smaller step size; "
            "what was learnt before is kept"
        )

    def saved(self) -> dict[str, np.ndarray]:
        """All that is needed to go on."""
        slots = {name: np.asarray(value) for name, value in self.state.phase._asdict().items()}
        return {"steps": np.asarray(self.state.steps), **slots}

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        phase = self.state.phase._replace(**{name: jnp.asarray(saved[name]) for name in self.state.phase._fields})
        self.state = self.state._replace(phase=phase, steps=jnp.asarray(saved["steps"], jnp.int32))


class _Place(eqx.Module):
    """All that a compiled half needs to know of the target."""

    domain: Any


@sound_filter_jit
def _probe(kernel: Kernel, state: State, draws: Any, step_size: Any) -> tuple[State, Any]:
    probed = kernel.probe(state, draws, step_size)
    return probed, all_finite(probed.phase)


@sound_filter_jit
def _finish(kernel: Kernel, probed: State, gradient: Any, draws: Any, step_size: Any) -> tuple[State, Any]:
    new, _ = kernel.finish(probed, (Evaluation(gradient),), draws, step_size)
    return new, all_finite(new.phase)
