"""How many independent draws those of a chain are worth, by the words that people look at."""

from typing import NamedTuple

import numpy as np

from ergodica.diagnostics.columns import size_of_mean
from ergodica.lda.topics import top_words

FEWEST_RANKED_DRAWS = 8  # below that there is nothing to estimate from
LOW_QUANTILE = 0.05


class EffectiveDraws(NamedTuple):
    """Effective sizes of the probabilities of top words: their median, and what 95 % of them exceed."""

    median: float
    low: float


def effective_draws(draws: np.ndarray, count: int = 10) -> EffectiveDraws:
    """Of (draws, words, topics): the `count` likeliest words of every topic, by the mean of the draws.

    >>> effective_draws(np.random.default_rng(0).dirichlet(np.ones(30), (400, 2)).swapaxes(1, 2)).median > 200
    True
    """
    if len(draws) < FEWEST_RANKED_DRAWS:
        return EffectiveDraws(np.nan, np.nan)
    words = top_words(np.asarray(np.mean(draws, axis=0, dtype=np.float64)), count)  # (topics, count)
    values = np.asarray(draws[:, words, np.arange(len(words))[:, None]], np.float64)
    sizes = size_of_mean(values[None]).ravel()
    return EffectiveDraws(float(np.nanmedian(sizes)), float(np.nanquantile(sizes, LOW_QUANTILE)))
