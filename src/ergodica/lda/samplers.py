"""The samplers for topic models, the settings they are run with, and their chain: the paper's four, and SCIR.

None of the four knows of LDA: they are general recipes, the target brings the gradient and its floor, the recipe the
metric, diag(theta) or constant. Their chain, `Learner`, is two compiled halves of the general kernel, with the Gibbs
expectations between them. SCIR is in scir.py.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from ergodica.compiling import sound_filter_jit
from ergodica.driver.keys import Purpose, step_keys
from ergodica.driver.schedules import polynomial
from ergodica.integrators import Euler, Kernel, Splitting, State
from ergodica.integrators.base import Integrator
from ergodica.integrators.kernel import with_domain_only
from ergodica.lda.expanded_mean import THETA_FLOOR, ExpandedMean, is_finite
from ergodica.lda.gibbs.random_numbers import normals
from ergodica.lda.scir import ScirLearner
from ergodica.lda.steps import Rate, StepPlan, TopicChain
from ergodica.lda.stream import DocumentBatch
from ergodica.phase import Evaluation
from ergodica.recipe import Recipe
from ergodica.samplers import expanded_mean, sghmc, sgld, sgrhmc, sgrld

Method = tuple[Recipe, Integrator]


# Without momentum by Euler's step; with momentum by the splitting, whose friction is exact: the explicit friction that
# the paper prints, r - eps theta r, amplifies where theta > 2 / eps (docs/paper/errata.md). `friction`: of SGRHMC, None
# as in the paper.
PAPER_SAMPLERS: dict[str, Callable[[float | None], Method]] = {
    "sgld": lambda friction: (sgld(), Euler()),
    "sghmc": lambda friction: (sghmc(), Splitting()),
    "sgrld": lambda friction: (sgrld(expanded_mean()), Euler()),
    "sgrhmc": lambda friction: (sgrhmc(expanded_mean(), friction), Splitting()),
}
LDA_SAMPLERS = (*PAPER_SAMPLERS, "scir")

# The paper's eps is the integrators' step size as it is. Its updates, z - eps [(D + Q) grad H - Gamma] + N(0, 2 eps D),
# are those of `Euler`; with momentum eps is the time that one step moves on, as in `Splitting`. (Patterson and Teh's
# paper writes eps / 2 before the drift of SGRLD and eps in the noise: their eps is twice ours. Ma, Chen and Fox keep
# their numbers in the form above, and so do we.)


@dataclass(frozen=True)
class Preset:
    """What a sampler is run with.

    Args:
        alpha, gamma: priors of words in a topic and of topics in a document.
        size: S, the documents a batch stands for; None: as many as the corpus has.
        batch_size, sweeps, burn_in, estimator, start: of the Gibbs expectations.
        step_size: a number, or (a, b, c) for a (1 + t/b)^-c.
        rate: None, or (a, b, c) for steps that move phi by the fraction a (1 + t/b)^-c (`steps.Rate`), in place of
            `step_size`; theta then begins at the prior's scale.
        noise: None, or the ratio of gradient noise to injected noise for which the step is made once the topics are
            found with `step_size`.
        friction: of SGRHMC.
        floor: on theta. evenness: of theta at the start.
    """

    alpha: float
    gamma: float
    batch_size: int
    sweeps: int
    burn_in: int
    estimator: str
    start: str
    step_size: float | tuple[float, float, float]
    size: float | None = None
    noise: float | None = None
    friction: float | None = None
    floor: float = THETA_FLOOR
    evenness: float = 1.0
    rate: tuple[float, float, float] | None = None

    def method(self, sampler: str) -> Method:
        return PAPER_SAMPLERS[sampler](self.friction)

    def plan(self) -> StepPlan:
        """How long the steps are."""
        if self.rate is not None:
            return Rate(*self.rate, self.friction)
        return polynomial(*self.step_size) if isinstance(self.step_size, tuple) else self.step_size


def _paper(step_size: float | tuple[float, float, float], alpha: float, gamma: float) -> Preset:
    return Preset(alpha, gamma, 50, 50, 25, "sampled", "uniform", step_size, size=3.3e6)


# Tuned on the Wikipedia articles of ../shared/data (vocabulary-8000, K = 50, S = 59,000; unigram 4,216): single
# perplexity of 1,000 held-out documents, every tenth token asked for, after 10,000 and 20,000 documents, mean over 3
# orders of the articles, each with held-out documents of its own (standard deviations 10 to 40).
#   SGRLD   as below                               2,137  2,004
#             evenness 1, as in the paper          2,177  2,026
#             alpha 0.01                           2,134  1,988
#             ten sweeps                           2,124  1,989    in 1.2 times the time
#             0.005 (1 + t/30)^-0.7                2,347  2,150
#             0.02 (1 + t/20)^-0.7                 2,145  2,027
#   SGRHMC  as below                               2,162  2,008
#             evenness 1                           2,215  2,040
#             friction 10, 0.2 (1 + t/20)^-0.6     2,154  2,021    but two topics of the demo end in one more often
#             friction G^-1, 0.3 (1 + t/50)^-0.6   2,324  2,163    with alpha 0.5 2,294 and 2,149
#   SGHMC   as below                               4,082  3,970
#   SGLD    as below                               4,341  4,584    the lowest found; a constant metric suits no word
# With the paper's friction, G^-1, the metric is lost where friction is large (see `sgrhmc`). With a constant one it is
# not. Kicks by the force (alpha - 1/2) / sqrt(theta) move theta by no more than itself where theta > (eps/2)^2: hence
# the floor, which here is a probability of about 1e-7.
#
# Steps as a rate (`steps.Rate`) do for other sizes of corpus, too. Single perplexity of 500 held-out articles after
# 50,000 documents (59,000: one pass), one seed; differences under 40 are noise.
#                                         1,000 x 50   9,500 x 20   9,500 x 50   59,000 x 50
#   SGRLD   0.01 (1 + t/30)^-0.7, mean 1                              2,322        1,742
#           rate 0.5 (1 + t/10)^-0.7        2,990        2,190        1,919        1,743
#   SGRHMC  0.14 (1 + t/30)^-0.35, mean 1                             2,309        1,767
#           rate 0.5 (1 + t/10)^-0.7        2,905        2,211        1,913        1,719
#   SCIR    0.01 (1 + t/30)^-0.7, mean 1                              2,346        1,791
#           rate 0.5 (1 + t/10)^-0.7        2,900        2,193        1,963        1,765
# Of 9,500 x 50, with the mean of theta_.k in b, not the median: rates 1 (1 + t/10)^-0.7, 0.5 (1 + t/30)^-0.7,
# 0.5 (1 + t/10)^-0.5 and
# 0.5 (1 + t/30)^-1 gave SGRLD 1,912, 1,916, 1,906 and 1,900, SGRHMC 1,961, 1,954, 1,950 and 1,889, SCIR 1,984, 1,938,
# 1,954 and 1,980. With V alpha instead of theta_.k SGRHMC is at 2,005.
_RATE = (0.5, 10.0, 0.7)
_TUNED_SGRHMC = {"friction": 100.0, "floor": 3e-3}


def _tuned(step_size: tuple[float, float, float], alpha: float, **more: Any) -> Preset:
    return Preset(alpha, 0.1, 200, 6, 2, "rao-blackwell", "phi", step_size, evenness=100.0, **more)


# 90 % bands on four topics of the demo, 400 documents of 60 words, by benchmarks/_lda_coverage.py: bands of the exact
# posterior (Gibbs sampling of all documents) cover 0.75 of the truth under alpha = 0.1, 0.91 under 0.3, 0.93 under 0.5
# and 0.92 under 1: a sparse prior is wrong for words that a topic has now and then. (Where the truth is drawn from the
# prior itself they cover 0.92 under 0.1 and 0.90 under 0.5.) With 10 sweeps SCIR covers
# 0.896 where Gibbs sampling, with as many, covers 0.899 (ten seeds); 30 sweeps were not tried under this alpha.
def _posterior(step_size: tuple[float, float, float], **more: Any) -> Preset:
    return Preset(0.3, 0.1, 200, 10, 4, "rao-blackwell", "phi", step_size, noise=0.1, evenness=100.0, **more)


LDA_PRESETS: dict[str, dict[str, Preset]] = {
    "paper": {
        "sgld": _paper(0.01, 0.01, 0.1),
        "sghmc": _paper(0.1, 0.01, 0.1),
        "sgrld": _paper((0.01, 1000.0, 0.55), 0.0001, 0.01),
        "sgrhmc": _paper(0.02, 0.0001, 0.01),
        "scir": _paper((0.01, 1000.0, 0.55), 0.0001, 0.01),  # SGRLD's: the paper has none of it
    },
    "tuned": {
        "sgld": _tuned((0.002, 100.0, 0.6), 0.5),
        "sghmc": _tuned((0.02, 100.0, 0.6), 0.5),
        "sgrld": _tuned((0.01, 30.0, 0.7), 0.05, rate=_RATE),
        "sgrhmc": _tuned((0.14, 30.0, 0.35), 0.05, rate=_RATE, **_TUNED_SGRHMC),
        "scir": _tuned((0.01, 30.0, 0.7), 0.05, rate=_RATE),
    },
    "posterior": {
        "sgld": _posterior((0.01, 100.0, 0.6)),
        "sghmc": _posterior((0.01, 100.0, 0.6)),
        "sgrld": _posterior((0.01, 100.0, 0.6), rate=_RATE),
        "sgrhmc": _posterior((0.14, 100.0, 0.3), rate=_RATE, friction=100.0, floor=1e-4),
        "scir": _posterior((0.01, 100.0, 0.6), rate=_RATE),
    },
}


def draws_of(recipe: Recipe, seed: int, step: int, shape: tuple[int, int]) -> dict[str, np.ndarray]:
    """The random numbers of a step, as the integrators' own `draw` would give them, some eight times faster.

    For recipes as those above: noise on some slots, each like theta, and no probed correction.
    """
    slots = list(recipe.diffusion)
    return {slot: normals(seed, step * len(slots) + i, *shape) for i, slot in enumerate(slots)}


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
