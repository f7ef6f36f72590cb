"""The stationary law in the limit of small steps, held against the claimed one: one test for each kind of feature.

What the parabola leaves of a bias of order one half, a sqrt(h), is a quarter of its size at h, of the same sign. Which
part of a bias may be of that order is bounded in two ways: by all of the change from h to h/4, and by the curvature:
(1/3, -1, 2/3) f is 0 for order 1, has the sign of the bias for higher orders and the other one for order 1/2.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ergodica.verify.audit.chains import Rung
from ergodica.verify.audit.features import Features
from ergodica.verify.audit.reference import Reference
from ergodica.verify.tails import Estimate, any_of, largest_of, normal_score, two_sided

COLLINEAR_SHARE = 1e-6  # of a variance's variance that equipartition must leave for it to be a question of its own
# f(h) = f0 + c1 h + c2 h² + c3 h³ at h, h/2, h/4: these weights leave f0 + c3 h³/8, those f0 - c2 h²/8.
PARABOLA_WEIGHTS = np.array([1 / 3, -2, 8 / 3])
STRAIGHT_WEIGHTS = np.array([0.0, -1.0, 2.0])
CURVATURE_WEIGHTS = PARABOLA_WEIGHTS - STRAIGHT_WEIGHTS
SIGNIFICANT_SCORE = 3.0
CLEAR_BIAS = 4.0  # standard errors of a bias that counts towards its order
SIZES_FOR_ORDER = 3  # step sizes that show a bias clearly, from which its order is estimated
STILL_TO_COME = 4.0  # times what changed from the first to the second half of a record may be still to come
UNSURE_FACTOR = 2.0  # times the error of that change, where the chains have not relaxed
STILL_LARGE = 0.05  # change from h/2 to h/4 at which extrapolation is not trusted
HALF_ORDER = np.sqrt([1.0, 0.5, 0.25])  # a bias of order 1/2 at the three step sizes
# what is left of it over its change from h to h/4, 0.505, and over its curvature, 6.2
PER_CHANGE = float(PARABOLA_WEIGHTS @ HALF_ORDER / (HALF_ORDER[0] - HALF_ORDER[2]))
PER_CURVATURE = float(PARABOLA_WEIGHTS @ HALF_ORDER / -(CURVATURE_WEIGHTS @ HALF_ORDER))
CONFIDENT_SCORE = 2.0  # standard errors of the bounds on what is of order 1/2
VISIBLE_CHANGE = 2.5  # standard errors of a change from h to h/4, for what is of order 1/2 in it
ROUGH_CHANGE = 0.08  # change from h to h/4 above which a bias of order 1/2 is too large to extrapolate
FALLS_LITTLE = 0.4  # bias at h/4 over that at h: 1/4 for order 1, 1/2 for order 1/2


class Limit(NamedTuple):
    """Statistics at step size 0: estimates, standard errors, and what the extrapolation may leave."""

    value: np.ndarray
    error: np.ndarray
    leftover: np.ndarray
    """Of a bias of order 1 or more, and of what changes with time: of either sign."""
    half: np.ndarray
    """Of a bias of order 1/2, which has a sign: the truth may be anywhere from value - half to value."""
    forgiven: np.ndarray | float = 0.0
    """What `leftover` has of a bias that is too rough to extrapolate."""

    def strict(self) -> "Limit":
        """With nothing forgiven."""
        return self._replace(leftover=self.leftover - self.forgiven, forgiven=0.0)

    def beyond(self, expected: np.ndarray) -> np.ndarray:
        """Distances from what was expected that nothing left by the extrapolation explains."""
        off = self.value - expected
        off = off - np.clip(off, np.minimum(self.half, 0), np.maximum(self.half, 0))
        return np.sign(off) * np.maximum(np.abs(off) - self.leftover, 0)

    def estimate(self, k: int, blur: float = 0.0) -> Estimate:
        """Of statistic k, with an interval that holds what may be left; `blur` is one more standard error."""
        width = 1.96 * float(np.sqrt(self.error[k] ** 2 + self.leftover[k] ** 2 + blur**2))
        value, half = float(self.value[k]), float(self.half[k])
        return Estimate(value, value - width - max(half, 0.0), value + width + max(-half, 0.0))


def statistics(rung: Rung, select: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """features @ select, averaged over a rung's chains, with standard errors over chains."""
    values = rung.averages @ select
    return values.mean(0), values.std(0, ddof=1) / np.sqrt(len(values))


def is_rough(three: list[Rung], select: np.ndarray) -> bool:
    """Whether one of features @ select, which should be 1, falls too slowly from h to h/4 to be of order 1,
    and still by much: next to a bias of order 1/2, terms of order 3/2 count."""
    (first, error), (last, last_error) = (statistics(three[k], select) for k in (0, 2))
    falls_little = np.abs(last - 1) - CONFIDENT_SCORE * last_error > FALLS_LITTLE * np.abs(first - 1)
    change = np.abs(first - last) - SIGNIFICANT_SCORE * np.hypot(error, last_error)
    return bool(np.any(falls_little & (change > ROUGH_CHANGE)))


def limit(three: list[Rung], select: np.ndarray, mistrusted: bool = False) -> Limit:
    """Of features @ select, by the parabola through three step sizes.

    What is left of a regular bias is smaller than the difference of the quadratic and the straight extrapolation by as
    much as that is smaller than the bias: half of its significant part is allowed for. Where the bias still changes
    much from h/2 to h/4, all of it and that change; where it is worse than of third order there, h is left out. Where
    averages still change with time, what may be to come of it is added. A bias of order 1/2 is allowed for on its own,
    see `Limit.half`; where it is too large (`mistrusted`, by `is_rough`), all of the change from h to h/4 as well.
    """
    both = [statistics(rung, select) for rung in three]
    means, errors = np.stack([m for m, _ in both]), np.stack([e for _, e in both])
    value, error = PARABOLA_WEIGHTS @ means, np.sqrt(PARABOLA_WEIGHTS**2 @ errors**2)
    differ, spread = CURVATURE_WEIGHTS @ means, np.sqrt(CURVATURE_WEIGHTS**2 @ errors**2)
    change, noise = np.abs(means[1] - means[2]), np.hypot(errors[1], errors[2])
    is_large = change - SIGNIFICANT_SCORE * noise > STILL_LARGE
    leftover = np.maximum(np.abs(differ) - SIGNIFICANT_SCORE * spread, 0) / 2
    # differ / change is 0 for a bias of order 1, 2/3 for order 2, 2 for order 3
    is_wild = is_large & (np.abs(differ) > 2 * change)
    leftover = np.where(is_large, np.where(is_wild, 2 * change, np.abs(differ) + change), leftover)
    value = np.where(is_wild, STRAIGHT_WEIGHTS @ means, value)
    error = np.where(is_wild, np.sqrt(STRAIGHT_WEIGHTS**2 @ errors**2), error)
    to_come, unsure = (np.stack(parts) for parts in zip(*(_to_come(rung, select) for rung in three), strict=True))
    # that change and the curvature are 0.98 of what order 1/2 leaves: it is not counted twice
    half = np.where(is_large, 0.0, _of_order_half(means, errors, differ, spread))
    forgiven = np.abs(means[0] - means[2]) * mistrusted
    leftover = leftover + forgiven + np.abs(PARABOLA_WEIGHTS) @ to_come
    return Limit(value, np.sqrt(error**2 + PARABOLA_WEIGHTS**2 @ unsure**2), leftover, half, forgiven)


def _of_order_half(means: np.ndarray, errors: np.ndarray, differ: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """The most that a bias of order 1/2 has left in the parabola's limit, with its sign; 0 where no bias is seen."""
    change, noise = means[0] - means[2], np.hypot(errors[0], errors[2])
    by_change = PER_CHANGE * np.where(np.abs(change) > VISIBLE_CHANGE * noise, np.abs(change), 0)
    by_curvature = PER_CURVATURE * np.maximum(CONFIDENT_SCORE * spread - np.sign(change) * differ, 0)
    return np.sign(change) * np.minimum(by_change, by_curvature)


def _to_come(rung: Rung, select: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How far the averages of a rung may be from stationary, by what changed significantly between the halves of its
    record; and a standard error: what may hide in the error of that change, where chains have not relaxed."""
    if rung.halves is None:
        return np.zeros(select.shape[1]), np.zeros(select.shape[1])
    first, second = rung.halves
    change = (second - first) @ select
    error = change.std(0, ddof=1) / np.sqrt(len(change))
    hidden = np.zeros_like(error) if rung.is_relaxed else UNSURE_FACTOR * error
    return STILL_TO_COME * np.maximum(np.abs(change.mean(0)) - SIGNIFICANT_SCORE * error, 0), hidden


def order(step_sizes: np.ndarray, bias: np.ndarray, errors: np.ndarray) -> Estimate | None:
    """p of |bias| = c h^p, by weighted least squares of logarithms; None unless two step sizes show it clearly.

    From the three smallest of these. The interval holds what a bias that is no pure power may still change: as much as
    the slope changes from the larger two to the smaller two; where there are only two, its size (Euler's bias
    b = h/2 + h²/4 + ... has the slope 1 + b).
    """
    clear = np.flatnonzero(np.abs(bias) > CLEAR_BIAS * errors)
    if len(clear) < 2 or len(set(np.sign(bias[clear]))) > 1:
        return None
    clear = clear[np.argsort(-step_sizes[clear])][-SIZES_FOR_ORDER:]
    x, y, noise = np.log(step_sizes[clear]), np.log(np.abs(bias[clear])), np.abs(errors[clear] / bias[clear])
    slope, error = weighted_slope(x, y, noise)
    if len(clear) == 2:
        bend = np.abs(bias[clear[0]]) / 2
    else:
        local, gap = np.diff(y) / np.diff(x), np.diff(x)
        by_point = noise * np.array([1 / gap[0], 1 / gap[0] + 1 / gap[1], 1 / gap[1]])
        bend = max(abs(local[1] - local[0]) - np.linalg.norm(by_point), 0.0)
    return Estimate.of(slope, float(np.hypot(error, bend)))


def weighted_slope(x: np.ndarray, y: np.ndarray, error: np.ndarray) -> tuple[float, float]:
    """The slope of the line through y with these errors, by weighted least squares, and its standard error."""
    weight = error**-2
    centre = np.average(x, weights=weight)
    information = np.sum(weight * (x - centre) ** 2)
    return float(np.sum(weight * (x - centre) * y) / information), float(information**-0.5)


@dataclass(frozen=True)
class LawTest:
    """Statistics with a known mean: the largest standard score counts, against as many independent ones."""

    name: str
    limit: Limit
    expected: np.ndarray
    expected_error: np.ndarray
    which: np.ndarray
    """The coordinate, or the number of the pair, of each statistic."""
    chains: int
    root: np.ndarray | None = None
    """The statistics are root times independent numbers; None: they are independent themselves."""

    @property
    def count(self) -> int:
        return len(self.which)

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
        both = zip(self.tests, self.strict, strict=False)
        return any(strict.p_value < alpha <= test.p_value for test, strict in both)


def laws(three: list[Rung], features: Features, law: Reference, expected: np.ndarray, errors: np.ndarray) -> Laws:
    """Temperature is the mean of equipartition over coordinates, `equipartition` the differences from that mean, so
    that the two are independent; `variance` is what the variance says beyond equipartition, so that it is independent
    of both (for a Gaussian in its own axes: nothing). Where the reference has not settled, only what needs none of it
    is asked."""
    d = features.dim
    even = features.columns(features.equipartition)
    weights = _weights(limit(three, even).error)
    pooled = even @ weights
    mistrusted = is_rough(three, features.scales)

    def test(name: str, select: np.ndarray, which: np.ndarray | None = None) -> LawTest:
        known, blur, chains = expected @ select, np.sqrt(errors**2 @ select**2), len(three[0].total)
        which = np.arange(select.shape[1]) if which is None else which
        return LawTest(name, limit(three, select, mistrusted), known, blur, which, chains)

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
    which = np.flatnonzero(rest > COLLINEAR_SHARE)
    select = features.columns(features.square) - slope * features.columns(features.equipartition)
    return select.take(which, axis=1), which


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
