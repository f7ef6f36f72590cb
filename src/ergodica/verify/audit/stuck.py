"""Features that do not relax although every coordinate seems to: a step that keeps the sign of a product is reducible.

Chains that keep sign(x_i x_j x_k) forget x_i, x_j and x_k, and a product at one time has little in common with itself
later: 0.29 of its variance, for a Gaussian. Averages over time have more: over the chains, those of the first half of
the record are correlated with those of the second, by more the longer the record is, where those of a feature that
relaxes are by less. For one that decays exponentially, with the time tau, and halves of the length t = x tau,

    correlation = (1 - e^-x)² / (2 (x - 1 + e^-x)).

A feature is stuck where the correlation is larger than this, for the slowest that counts as forgotten, beyond chance.
"""

from typing import NamedTuple

import numpy as np

from ergodica.verify.audit.features import Features
from ergodica.verify.audit.result import FALSE_ALARM
from ergodica.verify.audit.rungs import FORGOTTEN, Rung, standard
from ergodica.verify.audit.tails import each_of, threshold

LEAST = 0.25  # correlation of halves below which a feature relaxes, however long the record
SLOWER = 1.25  # times that of an exponential decay: decays are not all of one rate
MOST = 0.95


class Stuck(NamedTuple):
    """Features that have not relaxed, those first that are most correlated, and by how much."""

    which: tuple[int, ...] = ()
    correlation: float = 0.0


def stuck(three: list[Rung], features: Features) -> Stuck:
    """Among coordinates, products of two and of three: those that keep something for the whole record, at the step
    sizes at which chains seemed to relax, taken together."""
    watched = np.r_[features.linear, features.crossed, features.triple]
    beyond, correlations, freedom = np.zeros(len(watched)), np.zeros(len(watched)), 0
    for rung in three:
        if not rung.is_settled or rung.halves is None:
            continue
        early, late = (standard(half[:, watched]) for half in rung.halves)
        found, more = np.clip((early * late).mean(0), -MOST, MOST), max(len(early) - 3, 1)
        # by Fisher's transform, whose error is 1/sqrt(chains - 3)
        beyond += more * (np.arctanh(found) - np.arctanh(allowed(rung)))
        correlations, freedom = correlations + more * found, freedom + more
    if not freedom:
        return Stuck()
    scores = beyond / np.sqrt(freedom)
    is_stuck = scores > threshold(each_of(FALSE_ALARM, len(watched)))
    worst = np.argsort(-scores)[: int(is_stuck.sum())]
    return Stuck(tuple(int(k) for k in watched[worst]), float(correlations[worst[0]] / freedom) if len(worst) else 0.0)


def allowed(rung: Rung) -> float:
    """The correlation of the halves of a record, for the slowest feature that counts as relaxed."""
    length = rung.blocks * rung.thin / 2 / max(rung.relaxation, 1)
    x = -np.log(FORGOTTEN) * length
    decays = float((1 - np.exp(-x)) ** 2 / (2 * (x - 1 + np.exp(-x))))
    return float(np.clip(SLOWER * decays, LEAST, MOST))
