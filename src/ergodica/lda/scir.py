"""SCIR for topic models: theta by exact Cox-Ingersoll-Ross transitions, with no floor and no boundary bias.

SGRLD's equation for the posterior of expanded_mean.py is, with D = diag(theta), whose correction Gamma is 1,

    d theta = [-theta dU/dtheta + 1] dt + sqrt(2 theta) dW,
    -theta_wk dU/dtheta_wk + 1 = -(1 - alpha) - theta_wk + (S/n) [N_wk - theta_wk N_.k / theta_.k] + 1
                               = a_wk - b_k theta_wk,
    a_wk = alpha + (S/n) N_wk,    b_k = 1 + (S/n) N_.k / theta_.k.

With a and b held, every entry is a Cox-Ingersoll-Ross process, whose law after the time h is known (Cox, Ingersoll and
Ross, 1985): with c = (1 - exp(-b h)) / (2 b), theta' / c is noncentral chi-squared with 2 a degrees of freedom and
noncentrality theta exp(-b h) / c, a Poisson mixture of Gamma laws:

    P ~ Poisson(theta exp(-b h) / (2 c)),    theta' = 2 c Gamma(a + P, 1).

Its mean is theta e + (a/b)(1 - e) for e = exp(-b h), and for any h it leaves Gamma(a, rate b) invariant: nothing is
reflected, and theta = 0 is as good a place as any other. What is left of discretisation is that a and b, which depend
on theta, are held over a step; it is of order 1 in h, as is what gradient noise adds.

How this differs from Baker, Fearnhead, Fox and Nemeth (2018, https://arxiv.org/abs/1806.07137, section 4.1). They take
b = 1, from theta_wk ~ Gamma(alpha + N_wk, 1), the conjugate posterior of phi_k given the topics of all tokens. Its
phi_k has the same law given these counts; but its theta_.k is Gamma(V alpha + N_.k, 1), so that theta is another
random variable, and over a step of time h phi_k moves by the fraction h N_.k / theta_.k, about h. Here the likelihood
sees phi alone, as in U: theta_.k keeps its prior law, Gamma(V alpha, 1), whatever the documents. That law is known
exactly, and so a check of every run (scale_check.py); and step sizes and `StepNoise` mean what they mean for SGRLD.
"""

import numpy as np

from ergodica.lda.expanded_mean import ExpandedMean, column_sums, is_finite
from ergodica.lda.gibbs.cached import cached_njit, prange
from ergodica.lda.gibbs.random_numbers import ZIGGURAT_TABLES, gamma, poisson, start_stream
from ergodica.lda.steps import StepPlan, TopicChain
from ergodica.lda.stream import DocumentBatch
from ergodica.recipe import Recipe
from ergodica.samplers import expanded_mean, sgrld


class ScirLearner(TopicChain):
    """The chain of a model by exact transitions; its gradient noise is that of SGRLD with the same step."""

    def __init__(self, model: ExpandedMean, plan: StepPlan, seed: int, evenness: float = 1.0, start_mean: float = 1.0):
        super().__init__(model, plan, seed)
        self._theta, self._steps = model.init(seed, evenness, start_mean), 0
        self._recipe = sgrld(expanded_mean())

    @property
    def recipe(self) -> Recipe:
        return self._recipe

    @property
    def steps(self) -> int:
        return self._steps

    @property
    def theta(self) -> np.ndarray:
        return self._theta

    def _move(self, model: ExpandedMean, batch: DocumentBatch, step_size: float) -> bool:
        sums, found = model.counts(self._theta, batch.documents, batch.visit, self.seed)
        scale = model.size / len(batch.documents)
        rates = 1 + scale * column_sums(found.counts) / sums
        theta = transition(
            self._theta, found.words, found.counts, rates, alpha=model.alpha, scale=scale,
            step_size=step_size * self.topic_steps, seed=self.seed, step=self._steps,
        )  # fmt: skip
        if is_finite(theta) and column_sums(theta).all():
            self._theta, self._steps = theta, self._steps + 1
            return True
        return False

    def start_at(self, theta: np.ndarray) -> None:
        self._theta = np.array(theta, np.float32, order="C")

    def _state(self) -> dict[str, np.ndarray]:
        return {"steps": np.asarray(self._steps, np.int32), "position": self._theta}

    def _set_state(self, saved: dict[str, np.ndarray]) -> None:
        self._theta, self._steps = np.array(saved["position"], np.float32, order="C"), int(saved["steps"])


def transition(
    theta: np.ndarray, words: np.ndarray, counts: np.ndarray, rates: np.ndarray, *, alpha: float, scale: float,
    step_size: float | np.ndarray, seed: int, step: int,
) -> np.ndarray:  # fmt: skip
    """theta' after the time `step_size`: (V, K) float32, exact for a and b held.

    Leaves invariant: Gamma(a, rate b), entry by entry.

    The random numbers of a row depend on seed, step and row alone, so that they are the same for any number of threads.

    Args:
        words, counts: N of the words (m,) that occur, (m, K). scale: S/n, so that a = alpha + scale N.
        rates: b, one for every topic. step_size: a number, or one for every topic.
    """
    kept = np.exp(-rates * step_size)
    twice_c = -np.expm1(-rates * step_size) / rates
    row_of = np.full(len(theta), -1)
    row_of[words] = np.arange(len(words))
    out = np.empty_like(theta)
    _transition(
        theta, row_of, counts, kept / twice_c, twice_c, float(alpha), float(scale), np.uint64(seed % 2**64),
        np.uint64(step * len(theta)), *ZIGGURAT_TABLES, out,
    )  # fmt: skip
    return out


@cached_njit(nogil=True, parallel=True, error_model="numpy")
def _transition(theta, row_of, counts, inverse, twice_c, alpha, scale, seed, first, inside, unit, density, out):
    for w in prange(theta.shape[0]):
        # another stream than that of any document, and than that of normals
        a, b = start_stream(seed ^ np.uint64(0x73636972), first + np.uint64(w))
        row = row_of[w]
        for k in range(theta.shape[1]):
            shape = alpha if row < 0 else alpha + scale * counts[row, k]
            a, b, number = poisson(a, b, theta[w, k] * inverse[k])
            a, b, drawn = gamma(a, b, shape + number, inside, unit, density)
            out[w, k] = twice_c[k] * drawn
