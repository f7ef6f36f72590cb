"""The limit of small steps, and the order at which a bias falls.

What the parabola leaves of a bias of order one half, a sqrt(h), is a quarter of its size at h, of the same sign. Which
part of a bias may be of that order is bounded in two ways: by all of the change from h to h/4, and by the curvature:
(1/3, -1, 2/3) f is 0 for order 1, has the sign of the bias for higher orders and the other one for order 1/2.
"""

from typing import NamedTuple

import numpy as np

from ergodica.verify.audit.result import Estimate
from ergodica.verify.audit.rungs import Rung

# f(h) = f0 + c1 h + c2 h² + c3 h³ at h, h/2, h/4: these weights leave f0 + c3 h³/8, those f0 - c2 h²/8.
WEIGHTS = np.array([1 / 3, -2, 8 / 3])
STRAIGHT = np.array([0.0, -1.0, 2.0])
SIGNIFICANT = 3.0
CLEAR = 4.0  # standard errors of a bias that counts towards its order
SMALLEST = 3  # step sizes that show a bias clearly, from which its order is told
SLOW = 4.0  # times what changed from the first to the second half of a record may be still to come
UNSURE = 2.0  # times the error of that change, where the chains have not relaxed
STILL_LARGE = 0.05  # change from h/2 to h/4 at which extrapolation is not trusted
ROOTS = np.sqrt([1.0, 0.5, 0.25])  # a bias of order 1/2 at the three step sizes
PER_CHANGE = float(WEIGHTS @ ROOTS / (ROOTS[0] - ROOTS[2]))  # what is left of it over its change from h to h/4: 0.505
PER_CURVATURE = float(WEIGHTS @ ROOTS / -((WEIGHTS - STRAIGHT) @ ROOTS))  # over its curvature: 6.2
CONFIDENT = 2.0  # standard errors of the bounds on what is of order 1/2
VISIBLE = 2.5  # standard errors of a change from h to h/4, for what is of order 1/2 in it
ROUGH = 0.08  # change from h to h/4 above which a bias of order 1/2 is too large to extrapolate
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


def is_rough(three: list[Rung], select: np.ndarray, expected: float) -> bool:
    """Whether one of features @ select, which should be `expected`, falls too slowly from h to h/4 to be of order 1,
    and still by much: next to a bias of order 1/2, terms of order 3/2 count."""
    (first, error), (last, last_error) = (statistics(three[k], select) for k in (0, 2))
    falls_little = np.abs(last - expected) - CONFIDENT * last_error > FALLS_LITTLE * np.abs(first - expected)
    change = np.abs(first - last) - SIGNIFICANT * np.hypot(error, last_error)
    return bool(np.any(falls_little & (change > ROUGH)))


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
    value, error = WEIGHTS @ means, np.sqrt(WEIGHTS**2 @ errors**2)
    differ, spread = (WEIGHTS - STRAIGHT) @ means, np.sqrt((WEIGHTS - STRAIGHT) ** 2 @ errors**2)
    change, noise = np.abs(means[1] - means[2]), np.hypot(errors[1], errors[2])
    is_large = change - SIGNIFICANT * noise > STILL_LARGE
    leftover = np.maximum(np.abs(differ) - SIGNIFICANT * spread, 0) / 2
    # differ / change is 0 for a bias of order 1, 2/3 for order 2, 2 for order 3
    is_wild = is_large & (np.abs(differ) > 2 * change)
    leftover = np.where(is_large, np.where(is_wild, 2 * change, np.abs(differ) + change), leftover)
    value = np.where(is_wild, STRAIGHT @ means, value)
    error = np.where(is_wild, np.sqrt(STRAIGHT**2 @ errors**2), error)
    to_come, unsure = (np.stack(parts) for parts in zip(*(_to_come(rung, select) for rung in three), strict=True))
    # that change and the curvature are 0.98 of what order 1/2 leaves: it is not counted twice
    half = np.where(is_large, 0.0, _of_order_half(means, errors, differ, spread))
    forgiven = np.abs(means[0] - means[2]) * mistrusted
    leftover = leftover + forgiven + np.abs(WEIGHTS) @ to_come
    return Limit(value, np.sqrt(error**2 + WEIGHTS**2 @ unsure**2), leftover, half, forgiven)


def _of_order_half(means: np.ndarray, errors: np.ndarray, differ: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """The most that a bias of order 1/2 has left in the parabola's limit, with its sign; 0 where no bias is seen."""
    change, noise = means[0] - means[2], np.hypot(errors[0], errors[2])
    by_change = PER_CHANGE * np.where(np.abs(change) > VISIBLE * noise, np.abs(change), 0)
    by_curvature = PER_CURVATURE * np.maximum(CONFIDENT * spread - np.sign(change) * differ, 0)
    return np.sign(change) * np.minimum(by_change, by_curvature)


def _to_come(rung: Rung, select: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How far the averages of a rung may be from stationary, by what changed significantly between the halves of its
    record; and a standard error: what may hide in the error of that change, where chains have not relaxed."""
    if rung.halves is None:
        return np.zeros(select.shape[1]), np.zeros(select.shape[1])
    first, second = rung.halves
    change = (second - first) @ select
    error = change.std(0, ddof=1) / np.sqrt(len(change))
    hidden = np.zeros_like(error) if rung.is_relaxed else UNSURE * error
    return SLOW * np.maximum(np.abs(change.mean(0)) - SIGNIFICANT * error, 0), hidden


def order(step_sizes: np.ndarray, bias: np.ndarray, errors: np.ndarray) -> Estimate | None:
    """p of |bias| = c h^p, by weighted least squares of logarithms; None unless two step sizes show it clearly.

    From the three smallest of these. The interval holds what a bias that is no pure power may still change: as much as
    the slope changes from the larger two to the smaller two; where there are only two, its size (Euler's bias
    b = h/2 + h²/4 + ... has the slope 1 + b).
    """
    clear = np.flatnonzero(np.abs(bias) > CLEAR * errors)
    if len(clear) < 2 or len(set(np.sign(bias[clear]))) > 1:
        return None
    clear = clear[np.argsort(-step_sizes[clear])][-SMALLEST:]
    x, y, noise = np.log(step_sizes[clear]), np.log(np.abs(bias[clear])), np.abs(errors[clear] / bias[clear])
    weight = noise**-2
    centre = np.average(x, weights=weight)
    information = np.sum(weight * (x - centre) ** 2)
    slope = np.sum(weight * (x - centre) * y) / information
    if len(clear) == 2:
        bend = np.abs(bias[clear[0]]) / 2
    else:
        local, gap = np.diff(y) / np.diff(x), np.diff(x)
        by_point = noise * np.array([1 / gap[0], 1 / gap[0] + 1 / gap[1], 1 / gap[1]])
        bend = max(abs(local[1] - local[0]) - np.linalg.norm(by_point), 0.0)
    return Estimate.of(float(slope), float(np.hypot(information**-0.5, bend)))
