"""The paper's four samplers for topic models, as general recipes, and the settings they are run with.

None of them knows of LDA: the target brings the gradient and its floor, the recipe the metric, diag(theta) or constant.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ergodica.integrators import Euler, Splitting
from ergodica.integrators.base import Integrator
from ergodica.lda.corpus.documents import Documents
from ergodica.lda.expanded_mean import ExpandedMean
from ergodica.lda.gibbs.normals import normals
from ergodica.phase import Evaluation, Phase, Point
from ergodica.recipe import Recipe
from ergodica.samplers import expanded_mean, sghmc, sgld, sgrhmc, sgrld

# Without momentum by Euler's step; with momentum by the splitting, whose friction is exact: the explicit friction that
# the paper prints, r - eps theta r, amplifies where theta > 2 / eps (docs/paper/errata.md).
SAMPLERS: dict[str, Callable[[], tuple[Recipe, Integrator]]] = {
    "sgld": lambda: (sgld(), Euler()),
    "sghmc": lambda: (sghmc(), Splitting()),
    "sgrld": lambda: (sgrld(expanded_mean()), Euler()),
    "sgrhmc": lambda: (sgrhmc(expanded_mean()), Splitting()),
}

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
        noise: None, or the ratio of gradient noise to injected noise for which the step is made once the topics are
            found with `step_size`: noise / noise_ratio(..., step_size=1), as the ratio is linear in it.
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


def _paper(step_size: float | tuple[float, float, float], alpha: float, gamma: float) -> Preset:
    return Preset(alpha, gamma, 50, 50, 25, "sampled", "uniform", step_size, size=3.3e6)


# Tuned on 20,000 of the Wikipedia articles of ../shared/data (vocabulary-8000, K = 50, S = 59,000, 1,000 held out,
# every tenth token asked for; unigram 4,216): single perplexity after 10,000 and 20,000 documents, one seed; it jitters
# by about 15.
#   SGRLD   alpha 0.05, 0.01 (1 + t/30)^-0.7               2,174  2,010
#             ten sweeps                                   2,145  1,988    in 1.2 times the time
#             uniform start                                2,197  2,045
#             alpha 0.01, ten sweeps                       2,158  2,012
#             batch 400, 0.02 (1 + t/20)^-0.7              2,159  1,989    in 0.8 times the time, but too few steps for
#                                                                          a corpus of some thousand documents
#           alpha 0.01, 0.01 (1 + t/100)^-0.6, 20 sweeps   2,173  2,080
#             ten sweeps                                   2,182  2,077
#             ten sweeps, batch 100                        2,282  2,249
#   SGRHMC  alpha 0.5, 0.3 (1 + t/50)^-0.6                 2,275  2,110
#             0.15 (1 + t/100)^-0.6                        2,289  2,124
#             the same, alpha 0.6                          2,667  2,459
#   SGLD, SGHMC: with a constant metric no topics were found (the lowest figures were 4,599 and 4,266).
def _tuned(step_size: tuple[float, float, float], alpha: float) -> Preset:
    return Preset(alpha, 0.1, 200, 6, 2, "rao-blackwell", "phi", step_size)


def _posterior(step_size: float | tuple[float, float, float]) -> Preset:
    return Preset(0.1, 0.1, 200, 30, 10, "rao-blackwell", "phi", step_size, noise=0.1)


PRESETS: dict[str, dict[str, Preset]] = {
    "paper": {
        "sgld": _paper(0.01, 0.01, 0.1),
        "sghmc": _paper(0.1, 0.01, 0.1),
        "sgrld": _paper((0.01, 1000.0, 0.55), 0.0001, 0.01),
        "sgrhmc": _paper(0.02, 0.0001, 0.01),
    },
    "tuned": {
        "sgld": _tuned((0.002, 100.0, 0.6), 0.5),
        "sghmc": _tuned((0.02, 100.0, 0.6), 0.5),
        "sgrld": _tuned((0.01, 30.0, 0.7), 0.05),
        "sgrhmc": _tuned((0.3, 50.0, 0.6), 0.5),
    },
    "posterior": {
        "sgld": _posterior((0.01, 100.0, 0.6)),
        "sghmc": _posterior((0.01, 100.0, 0.6)),
        "sgrld": _posterior((0.01, 100.0, 0.6)),
        "sgrhmc": _posterior((0.01, 100.0, 0.6)),
    },
}


def draws_of(recipe: Recipe, seed: int, step: int, shape: tuple[int, int]) -> dict[str, np.ndarray]:
    """The random numbers of a step, as the integrators' own `draw` would give them, some eight times faster.

    For recipes as those above: noise on some slots, each like theta, and no probed correction.
    """
    slots = list(recipe.diffusion)
    return {slot: normals(seed, step * len(slots) + i, *shape) for i, slot in enumerate(slots)}


def noise_ratio(
    model: ExpandedMean,
    sampler: str,
    theta: np.ndarray,
    documents: Documents,
    *,
    step_size: float,
    batch_size: int,
    seed: int,
    visit: int = 0,
) -> float:
    """How much gradient noise a step adds for one unit of injected noise: eps tr(B) / (2 tr D), of the worst topic.

    B = (D + Q) V (D + Q)^T for the covariance V of the gradient of a batch of `batch_size` documents. Halves of
    `documents` give two independent gradients: their difference has four times the covariance of one from all of them,
    which is V batch_size / len(documents). For SGRLD this is about eps (S/n)^2 N_.k / (2 theta_.k).
    """
    half = len(documents) // 2
    parts = documents.take(range(half)), documents.take(range(half, 2 * half))
    gradients = [model.gradient(theta, part, visit + half * i, seed) for i, part in enumerate(parts)]
    recipe, _ = SAMPLERS[sampler]()
    through, injected = _noises(recipe, jnp.asarray(theta, jnp.float32), jnp.asarray(gradients[0] - gradients[1]))
    scale = step_size * (2 * half / batch_size) / 4
    return float(np.max(scale * np.asarray(through) / (2 * np.asarray(injected))))


def _noises(recipe: Recipe, theta: Any, difference: Any) -> tuple[Any, Any]:
    """By topic: the squared length of (D + Q) times a difference of gradients, and the trace of D."""
    phase = recipe.draw_auxiliaries(theta, jax.random.key(0), 1.0)
    one = jnp.ones((), theta.dtype)
    moved, still = (_moves(recipe, phase, g, one) for g in (difference, jnp.zeros_like(theta)))
    through = sum(jnp.sum((moved[slot] - still[slot]) ** 2, axis=0) for slot in moved)
    diffusion = recipe.diffusion_at(Point(phase, temperature=one))
    return through, sum(jnp.sum(operator.apply(jnp.ones_like(theta)), axis=0) for operator in diffusion.values())


def _moves(recipe: Recipe, phase: Phase, gradient: Any, time: Any) -> dict[str, Any]:
    return {slot: move.value() for slot, move in recipe.moves(phase, (Evaluation(gradient),), time, time).items()}
