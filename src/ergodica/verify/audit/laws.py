"""The stationary law in the limit of small steps, held against the claimed one: one test for each kind of feature."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ergodica.verify.audit.features import Features
from ergodica.verify.audit.limit import Limit, is_rough, limit
from ergodica.verify.audit.reference import Reference
from ergodica.verify.audit.rungs import Rung
from ergodica.verify.audit.tails import any_of, largest_of, normal_score, two_sided

COLLINEAR = 1e-6  # share of a variance's variance that equipartition must leave for it to be a question of its own


@dataclass(frozen=True)
class LawTest:
    """Statistics with a known mean: the largest standard score counts, against as many independent ones."""

    name: str
    limit: Limit
    expected: np.ndarray
    expected_error: np.ndarray
    which: np.ndarray
    """The coordinate, or the number of the pair, of each statistic."""
    count: int
    chains: int
    root: np.ndarray | None = None
    """The statistics are root times independent numbers; None: they are independent themselves."""

    @property
    def error(self) -> np.ndarray:
        return np.hypot(self.limit.error, self.expected_error)

    @property
    def scores(self) -> np.ndarray:
        """Distances beyond what the extrapolation may leave, in standard errors, as normal scores."""
        return normal_score(self.limit.beyond(self.expected) / np.maximum(self.error, 1e-300), self.chains)

    @property
    def leftover(self) -> np.ndarray:
        """All that the extrapolation may leave."""
        return self.limit.leftover + np.abs(self.limit.half)

    @property
    def worst(self) -> int:
        return int(np.argmax(np.abs(self.scores)))

    @property
    def p_value(self) -> float:
        score = float(abs(self.scores[self.worst]))
        return any_of(float(two_sided(score)), self.count) if self.root is None else largest_of(score, self.root)


class Laws(NamedTuple):
    """The tests, and the weights with which coordinates make up the temperature."""

    tests: tuple[LawTest, ...]
    """The temperature first."""
    weights: np.ndarray
    strict: tuple[LawTest, ...] = ()
    """The same without what is allowed for a bias that falls too slowly to be extrapolated; none where none is."""

    def is_open(self, alpha: float) -> bool:
        """Whether nothing is wrong only because of that: an error that does not fall at all looks the same."""
        return any(
            strict.p_value < alpha <= test.p_value for test, strict in zip(self.tests, self.strict, strict=False)
        )


def laws(three: list[Rung], features: Features, law: Reference, expected: np.ndarray, errors: np.ndarray) -> Laws:
    """Temperature is the mean of equipartition over coordinates, `equipartition` the differences from that mean, so
    that the two are independent; `variance` is what the variance says beyond equipartition, so that it is independent
    of both (for a Gaussian in its own axes: nothing). Where the reference has not settled, only what needs none of it
    is asked."""
    d = features.dim
    even = features.columns(features.equipartition)
    weights = _weights(limit(three, even).error)
    pooled = even @ weights
    mistrusted = is_rough(three, features.scales, 1.0)

    def test(name: str, select: np.ndarray, which: np.ndarray | None = None) -> LawTest:
        count = select.shape[1]
        known, blur, chains = expected @ select, np.sqrt(errors**2 @ select**2), len(three[0].total)
        return LawTest(
            name,
            limit(three, select, mistrusted),
            known,
            blur,
            np.arange(count) if which is None else which,
            count,
            chains,
        )

    tests = [test("temperature", pooled[:, None])]
    if d > 1:
        differences = test("equipartition", even - pooled[:, None])
        tests.append(replace(differences, root=difference_root(weights)))
    beyond, which = _beyond_equipartition(three[2], features)
    if law.is_settled:
        tests.append(test("mean", features.columns(features.linear)))
        if len(which):
            tests.append(test("variance", beyond, which))
    if d > 1:
        tests.append(test("covariance", features.columns(features.crossed)))
    if law.is_settled:
        tests.append(test("shape", features.columns(features.shape)))
    if law.is_settled and d > 2:
        tests.append(test("triples", features.columns(features.triple)))
    strict = [replace(test, limit=test.limit.strict()) for test in tests] if mistrusted else []
    return Laws(tuple(tests), weights, tuple(strict))


def _weights(errors: np.ndarray) -> np.ndarray:
    """Smaller for coordinates that are known less well, in steps of 4: weights that follow every error would follow
    the estimates, since a mean of squares that comes out low also has a small spread."""
    ratio = errors**2 / np.median(errors**2)
    weights = 4.0 ** -np.round(np.log(np.maximum(ratio, 1e-12)) / np.log(4.0))
    return weights / weights.sum()


def difference_root(weights: np.ndarray) -> np.ndarray:
    """Of e_i - sum_j w_j e_j for independent e_j of variances 1/w_j."""
    root = (np.eye(len(weights)) - weights) / np.sqrt(weights)
    return root / np.linalg.norm(root, axis=1, keepdims=True)


def _beyond_equipartition(rung: Rung, features: Features) -> tuple[np.ndarray, np.ndarray]:
    """Columns v_i - b_i e_i with b_i by regression over chains, and the coordinates where they are not constant."""
    x = rung.averages
    v, e = x[:, features.square], x[:, features.equipartition]
    v0, e0 = v - v.mean(0), e - e.mean(0)
    slope = (v0 * e0).mean(0) / np.maximum((e0 * e0).mean(0), 1e-300)
    rest = (v0 - slope * e0).var(0) / np.maximum(v.var(0), 1e-300)
    which = np.flatnonzero(rest > COLLINEAR)
    select = np.zeros((x.shape[1], len(which)))
    start_v, start_e = features.square.start, features.equipartition.start
    select[start_v + which, np.arange(len(which))] = 1.0
    select[start_e + which, np.arange(len(which))] = -slope[which]
    return select, which


def expectations(features: Features, law: Reference, observed: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Means of the features under the claimed law, with standard errors.

    `observed` (clusters, features): averages over draws, for the shape of a law that is no Gaussian.
    """
    expected, errors = np.zeros(features.size), np.zeros(features.size)
    expected[features.square] = expected[features.equipartition] = 1.0
    errors[features.linear], errors[features.square] = law.mean_error, law.variance_error
    if observed is not None:
        part = slice(features.shape.start, features.triple.stop)
        expected[part] = observed.mean(0)[part]
        errors[part] = observed.std(0, ddof=1)[part] / np.sqrt(len(observed))
    return expected, errors
