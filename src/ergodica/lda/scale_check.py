"""A check of every run that has a posterior: theta_.k, whose law is known exactly.

The prior makes theta_.k = sum_w theta_wk ~ Gamma(V alpha, 1) independent of phi_k = theta_k / theta_.k, and the
documents see phi alone. So under the posterior, whatever the documents, theta_.1, ..., theta_.K are independent
Gamma(V alpha, 1). A floor that is too high, steps that are too long near 0, noise of another size and a drift with a
term missing all change that.

Summed over words, SGRLD's equation (scir.py) is closed: d theta_.k = (V alpha - theta_.k) dt + sqrt(2 theta_.k) dW.
theta_.k forgets where it was in a time of 1, phi_k (S/n) N_.k / theta_.k times as fast, which is hundreds: a chain
that has found its topics by other means must be given its scale (`at_posterior_scale`), and then has it at all times.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ergodica.diagnostics.columns import size_of_mean
from ergodica.errors import InputError
from ergodica.lda.topics import top_words

FEWEST_SCALES = 10  # draws, for a verdict
FALSE_ALARM = 1e-3
# In sds of theta_.k, and of its variance: what a step of finite length may do. Bands of phi do not feel that.
TOLERATED = 0.1
FEWEST_RANKED_DRAWS = 8  # below that there is nothing to estimate from
UNSEEN_TOLERATED, UNSEEN_ERRORS = 0.05, 3.3  # of the probability, and standard errors beyond that: level 1e-3
SETTLED_CHANGE = 0.03  # between the means of the last two quarters of the passes, while priors are learnt
_MOST_COLUMNS = 16  # topics whose times are looked at
_FURTHEST = 8.0  # sds; beyond, how far out a number is does not matter


@dataclass(frozen=True)
class ScaleCheck:
    """What became of the law of theta_.k.

    Args:
        passed: None where there were too few draws to look at.
        figure, expected, standard_error: of the mean of theta_.k over topics and draws.
        spread: the mean square of the deviations of theta_.k, 1 is expected. spread_error: its standard error.
    """

    passed: bool | None
    figure: float
    expected: float
    standard_error: float
    spread: float
    spread_error: float

    @property
    def text(self) -> str:
        """One line, for a run and its page."""
        start = "theta_.k, which is Gamma(V alpha, 1) under the posterior"
        if self.passed is None:
            return f"{start}: not checked, there are too few draws"
        words = (
            f"{start}: mean {self.figure:,.1f}, expected {self.expected:,.4g} +- {self.standard_error:.2g}; "
            f"variance {self.spread:.2f} of what is expected +- {self.spread_error:.2g}"
        )
        return words + (": agrees" if self.passed else ": does not agree, the bands are not a posterior's")


def at_posterior_scale(phi: np.ndarray, alpha: float, seed: int) -> np.ndarray:
    """theta_k = phi_k times a draw of Gamma(V alpha, 1): a start for topics that were found by other means."""
    scales = np.random.default_rng(seed).gamma(len(phi) * alpha, size=phi.shape[1])
    total = phi.sum(0, dtype=np.float64)
    return np.ascontiguousarray(phi * (scales / total), np.float32)


def check_scales(scales: np.ndarray, shape: float, times: np.ndarray | None = None) -> ScaleCheck:
    """Whether theta_.k is Gamma(shape, 1), from draws that began with that law.

    Each number is turned into a standard normal z by its probability under the law. The means of z and of z^2 over
    topics and draws are compared with 0 and 1. At times s and t the correlation of theta_.k is r = exp(-|s - t|), that
    of z nearly so, and that of z^2 nearly r^2: so the mean of z has the variance mean(r) / K, and the mean of z^2 is
    nearly chi-squared with K / mean(r^2) degrees of freedom, divided by them.

    Args:
        scales: (draws, K).
        shape: V alpha.
        times: of the draws, the sum of the (Langevin) step sizes, (draws,) or for each topic (draws, K); None: unknown,
            as if all draws were one.

    >>> from numpy.random import default_rng
    >>> print(check_scales(default_rng(1).gamma(400.0, size=(20, 50)), 400.0).text.split(";")[0])
    theta_.k, which is Gamma(V alpha, 1) under the posterior: mean 399.8, expected 400 +- 2.8
    """
    from scipy import stats

    draws, topics = np.shape(scales)
    if times is not None and len(times) != draws:
        raise InputError(f"{len(times)} times for {draws} draws: expected one for each")
    times = np.zeros(1) if times is None or not draws else np.asarray(times, np.float64)
    law, scales = stats.gamma(shape), np.asarray(scales, np.float64)
    correlation = _correlations(times if times.ndim == 2 else times[:, None])
    mean_error = math.sqrt(correlation[0] / topics)
    freedom = topics / correlation[1]
    figures = {
        "figure": float(np.mean(scales)) if draws else math.nan, "expected": float(shape),
        "standard_error": mean_error * math.sqrt(shape), "spread_error": math.sqrt(2 / freedom),
    }  # fmt: skip
    if draws < FEWEST_SCALES:
        return ScaleCheck(None, spread=math.nan, **figures)
    # the smaller tail, so that neither end is rounded to 1
    below, above = stats.norm.ppf(law.cdf(scales)), stats.norm.isf(law.sf(scales))
    z = np.clip(np.where(scales < law.median(), below, above), -_FURTHEST, _FURTHEST)
    spread = float(np.mean(z**2))
    off = max(0.0, abs(float(np.mean(z))) - TOLERATED)
    low, high = spread / (1 - TOLERATED), spread / (1 + TOLERATED)
    tails = (
        2 * stats.norm.sf(off / mean_error),
        2 * min(stats.chi2.cdf(low * freedom, freedom), stats.chi2.sf(high * freedom, freedom)),
    )
    return ScaleCheck(bool(min(tails) >= FALSE_ALARM / 2), spread=spread, **figures)


def _correlations(times: np.ndarray) -> tuple[float, float]:
    """Means over all pairs of draws, and over topics, of exp(-|s - t|) and of its square; (draws, topics)."""
    columns = np.unique(np.linspace(0, times.shape[1] - 1, min(_MOST_COLUMNS, times.shape[1])).astype(int))
    apart = np.abs(times[:, None, columns] - times[None][:, :, columns])
    return float(np.mean(np.exp(-apart))), float(np.mean(np.exp(-2 * apart)))


class UnseenCheck(NamedTuple):
    """Whether words that a topic has no token of are as probable as they should be; passed None: not looked at."""

    passed: bool | None
    ratio: float

    @property
    def text(self) -> str:
        if self.passed is None:
            return "words that a topic has no token of: not checked"
        words = f"words that a topic has no token of have {self.ratio:.2f} of the probability that they should have"
        return words + (": agrees" if self.passed else ": steps are too long near 0, the bands are not a posterior's")


def check_unseen(pairs: np.ndarray) -> UnseenCheck:
    """From (draws, 2): `AllTopics.unseen_mass` of each; a twentieth off is tolerated.

    >>> check_unseen(np.array([[1.0, 1.0], [1.1, 1.0], [0.9, 1.0]] * 20)).passed
    True
    """
    pairs = np.asarray(pairs, np.float64).reshape(-1, 2)
    if len(pairs) < FEWEST_SCALES or not pairs[:, 1].mean() > 0:
        return UnseenCheck(None, math.nan)
    off, expected = pairs[:, 0] - pairs[:, 1], pairs[:, 1].mean()
    size = max(1.0, float(np.nan_to_num(size_of_mean(off[None]), nan=1.0)))
    error = float(np.std(off)) / math.sqrt(size)
    beyond = max(0.0, abs(float(off.mean())) - UNSEEN_TOLERATED * expected)
    return UnseenCheck(bool(beyond <= UNSEEN_ERRORS * error), float(1 + off.mean() / expected))


class EffectiveDraws(NamedTuple):
    """Effective sizes of the probabilities of top words: their median, and that of the topic which has fewest."""

    median: float
    least: float


def effective_draws(draws: np.ndarray, count: int = 10) -> EffectiveDraws:
    """Of (draws, words, topics): the `count` likeliest words of every topic, by the mean of the draws.

    >>> effective_draws(np.random.default_rng(0).dirichlet(np.ones(30), (400, 2)).swapaxes(1, 2)).median > 200
    True
    """
    if len(draws) < FEWEST_RANKED_DRAWS:
        return EffectiveDraws(np.nan, np.nan)
    words = top_words(np.asarray(np.mean(draws, axis=0, dtype=np.float64)), count)  # (topics, count)
    values = np.asarray(draws[:, words, np.arange(len(words))[:, None]], np.float64)
    sizes = np.nan_to_num(size_of_mean(values[None]).reshape(words.shape), nan=0.0)
    return EffectiveDraws(float(np.median(sizes)), float(np.median(sizes, axis=1).min()))


def has_settled(trail: np.ndarray) -> bool:
    """Whether alpha and the sum of gamma, (passes, 1 + K), no longer drift."""
    both, quarter = np.log(np.column_stack([trail[:, 0], trail[:, 1:].sum(axis=1)])), len(trail) // 4
    last, before = both[-quarter:].mean(axis=0), both[-2 * quarter : -quarter].mean(axis=0)
    return bool(np.abs(last - before).max() < SETTLED_CHANGE)
