"""What a model has learnt: plain arrays and figures, as they are saved."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ergodica.lda.corpus import Vocabulary
from ergodica.lda.expanded_mean import phi_of
from ergodica.lda.training import Row


@dataclass
class Fitted:
    """The end of a run.

    Attributes:
        parameters: of the estimator, but for the vocabulary.
        state: the chain, as `Learner.saved` gives it: position (theta), steps, and momentum where there is one.
        counts: (words,) how often each was seen.
        draws: phi by step; `every`: how many steps lie between two.
        shares, lengths: of the sample documents; `samples`: the words of some.
        figures: settings, versions, perplexities, timings: run.json.
    """

    vocabulary: Vocabulary
    parameters: dict[str, Any]
    state: dict[str, np.ndarray]
    counts: np.ndarray
    draws: dict[int, np.ndarray]
    every: int
    shares: np.ndarray
    lengths: np.ndarray
    samples: list[dict[str, Any]]
    history: list[Row]
    figures: dict[str, Any]

    @property
    def gamma(self) -> float:
        return float(self.figures["settings"]["gamma"])

    @cached_property
    def phi(self) -> np.ndarray:
        """(words, topics) of the last step."""
        return phi_of(np.ascontiguousarray(self.state["position"]))

    @cached_property
    def mean(self) -> np.ndarray:
        """(words, topics): phi in the mean of the draws, of the last step where there are none."""
        if not self.draws:
            return self.phi
        total = np.zeros(self.phi.shape)
        for phi in self.draws.values():
            total += phi
        return (total / len(self.draws)).astype(np.float32)

    def topic_shares(self) -> np.ndarray | None:
        """(topics,): of all words of the sample documents."""
        total = self.lengths.sum()
        return None if total == 0 else self.lengths @ self.shares / total
