"""How far out is far: thresholds in standard errors."""

import math
from statistics import NormalDist

FALSE_ALARM = 1e-3  # for a whole check, however many numbers it looks at


def threshold(count: int) -> float:
    """Standard errors that the largest of `count` right figures exceeds with chance FALSE_ALARM (Bonferroni)."""
    return -NormalDist().inv_cdf(FALSE_ALARM / (2 * max(1, count)))


def p_value(z: float, count: int = 1) -> float:
    """How often the largest of `count` right figures is this many standard errors out."""
    return min(1.0, count * math.erfc(abs(z) / math.sqrt(2)))
