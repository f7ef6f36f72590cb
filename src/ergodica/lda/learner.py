"""The chain of a topic model: two compiled halves of the general kernel, with the Gibbs expectations between them."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from ergodica.compiling import sound_filter_jit
from ergodica.driver.keys import Purpose, step_keys
from ergodica.integrators import Euler, Kernel, State
from ergodica.integrators.kernel import with_domain_only
from ergodica.lda.expanded_mean import ExpandedMean, is_finite
from ergodica.lda.samplers import Method, Preset, draws_of
from ergodica.lda.scir import ScirLearner
from ergodica.lda.steps import StepPlan, TopicChain
from ergodica.lda.stream import DocumentBatch
from ergodica.phase import Evaluation
from ergodica.recipe import Recipe


class Learner(TopicChain):
    """The chain of a model by a recipe and an integrator."""

    def __init__(
        self, model: ExpandedMean, method: Method, plan: StepPlan, seed: int, evenness: float = 1.0,
        start_mean: float = 1.0,
    ):  # fmt: skip
        super().__init__(model, plan, seed)
        kernel = Kernel(model.target(iter(())), *method)
        self.state: State = kernel.init(jnp.asarray(model.init(seed, evenness, start_mean), jnp.float32), self._key(0))
        self._kernel = with_domain_only(kernel)

    @property
    def recipe(self) -> Recipe:
        return self._kernel.recipe

    @property
    def steps(self) -> int:
        return int(self.state.steps)

    @property
    def theta(self) -> np.ndarray:
        return np.asarray(self.state.phase.position)

    def _move(self, model: ExpandedMean, batch: DocumentBatch, step_size: float) -> bool:
        size = jnp.asarray(step_size, jnp.float32)
        draws = draws_of(self.recipe, self.seed, self.steps, (self.model.words, self.model.topics))
        # Euler's step has its gradient where it is: no need to copy.
        stays = isinstance(self._kernel.integrator, Euler)
        probed = self.state if stays else _probe(self._kernel, self.state, draws, size)
        gradient = model.gradient(np.asarray(probed.phase.position), batch.documents, batch.visit, self.seed)
        new = _finish(self._kernel, probed, gradient, draws, size)
        is_sound = all(is_finite(np.asarray(slot)) for slot in new.phase)
        self.state = new if is_sound else self.state
        return is_sound

    def start_at(self, theta: np.ndarray) -> None:
        above = jnp.asarray(np.maximum(theta, np.float32(self.model.floor)), jnp.float32)
        phase = self.recipe.draw_auxiliaries(above, self._key(self.steps), 1.0)
        self.state = self.state._replace(phase=phase)

    def _key(self, step: int) -> Any:
        return step_keys(self.seed, 0, jnp.full(1, step, jnp.int32), Purpose.INIT)[0]

    def _state(self) -> dict[str, np.ndarray]:
        slots = {name: np.asarray(value) for name, value in self.state.phase._asdict().items()}
        return {"steps": np.asarray(self.state.steps), **slots}

    def _set_state(self, saved: dict[str, np.ndarray]) -> None:
        phase = self.state.phase._replace(**{name: jnp.asarray(saved[name]) for name in self.state.phase._fields})
        self.state = self.state._replace(phase=phase, steps=jnp.asarray(saved["steps"], jnp.int32))


def learner_of(model: ExpandedMean, sampler: str, settings: Preset, seed: int) -> TopicChain:
    """The chain of a named sampler, at its start."""
    # under a rate at the prior's scale, where theta_.k stays under the posterior; else as in the paper
    start = {"evenness": settings.evenness, "start_mean": 1.0 if settings.rate is None else settings.alpha}
    if sampler == "scir":
        return ScirLearner(model, settings.plan(), seed, **start)
    return Learner(model, settings.method(sampler), settings.plan(), seed, **start)


@sound_filter_jit
def _probe(kernel: Kernel, state: State, draws: Any, step_size: Any) -> State:
    return kernel.probe(state, draws, step_size)


@sound_filter_jit
def _finish(kernel: Kernel, probed: State, gradient: Any, draws: Any, step_size: Any) -> State:
    return kernel.finish(probed, (Evaluation(gradient),), draws, step_size)[0]
