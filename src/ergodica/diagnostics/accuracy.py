"""What accuracy is asked of every number that is kept, and how much of it a run has reached.

For each number two statements are made: its mean is within `mean` standard deviations, its standard deviation within a
share `sd`. Each is a sum, bias and Monte Carlo error, that must stay below its tolerance:

    |bias| + z sqrt(e_run^2 + (e_difference / leverage)^2) <= tolerance

`bias` is what theory predicts and what the witness, a run with twice the step, shows beyond that; e_difference is the
error of the comparison with the witness, and `leverage` how much larger an error of order 2 is in that difference than
at the step of the run: 4 - 1 = 3. What the comparison could not have seen is thereby counted as if it were there.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import PyTree

from ergodica.diagnostics.columns import number_names
from ergodica.errors import InputError
from ergodica.host.validate import positive_number
from ergodica.output.labelled import named

SEGMENTS = 100  # of all chains together, whose means tell the Monte Carlo error: it is known to 7 %
FEWEST_SEGMENTS = 20
NEIGHBOUR_ERRORS = 3.5  # of the correlation of neighbouring segments, beyond which it is more than chance
LEAST_SKEWNESS = 2.0  # of segments, beyond which it counts: for draws of a Gaussian it is below 1
LARGEST_CORRELATION = 0.98
LEVERAGE = 3.0  # of a witness with twice the step, for an error of order 2
BLOCK_NUMBERS = 2**22  # draws of numbers that are looked at together


@dataclass(frozen=True)
class Accuracy:
    """The accuracy that `eg.sample(target)` works for: of every number that is kept, all together.

    Args:
        mean: by how much a mean may be off, in standard deviations of that number.
        sd: by what share a standard deviation may be off.
        r_hat: the largest R-hat allowed.
        level: the chance that all of these statements hold together.

    Example:
        >>> import ergodica as eg
        >>> eg.Accuracy(sd=0.1)
        Accuracy(mean=0.1, sd=0.1, r_hat=1.01, level=0.95)
    """

    mean: float = 0.1
    sd: float = 0.05
    r_hat: float = 1.01
    level: float = 0.95

    def __post_init__(self) -> None:
        for name in ("mean", "sd", "r_hat", "level"):
            object.__setattr__(self, name, positive_number(f"accuracy: {name}", getattr(self, name)))
        if self.mean > 1 or self.sd > 1 or self.level >= 1 or not 1 < self.r_hat <= 2:
            raise InputError(
                f"accuracy is {self!r}: expected mean and sd of at most 1, r_hat above 1 and at most 2, level below 1"
            )

    def z(self, count: int) -> float:
        """Standard errors that none of the 2 `count` statements exceeds, with chance `level` (Bonferroni)."""
        from scipy.stats import norm

        return float(norm.isf((1 - self.level) / (4 * max(1, count))))

    def words(self, count: int) -> str:
        together = f" ({self.level:.0%} for all {count} together)" if count > 1 else f" ({self.level:.0%})"
        return f"every mean within {self.mean:g} sd and every sd within {100 * self.sd:.3g}%{together}"


class MeasuredNumbers(NamedTuple):
    """Of each number: mean, sd, their Monte Carlo errors in units of the sd, and R-hat of half-chains."""

    mean: np.ndarray
    sd: np.ndarray
    mean_error: np.ndarray
    sd_error: np.ndarray
    r_hat: np.ndarray


def names_of(posterior: PyTree) -> list[str]:
    """Of the numbers of draws (chain, draw, ...), in the order of `measured`."""
    found: list[str] = []
    for name, values in named(posterior).items():
        found += number_names(name, np.arange(math.prod(values.shape[2:])), values.shape[2:])
    return found


def measured(posterior: PyTree) -> MeasuredNumbers:
    """Of draws (chain, draw, ...), by the means of segments: their scatter is the Monte Carlo error."""
    parts = []
    for values in named(posterior).values():
        flat = np.asarray(values).reshape(*values.shape[:2], -1)
        width = max(1, BLOCK_NUMBERS // max(1, flat.shape[0] * flat.shape[1]))
        parts += [_measured(flat[..., at : at + width]) for at in range(0, flat.shape[2], width)]
    return MeasuredNumbers(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _measured(values: np.ndarray) -> MeasuredNumbers:
    """Of (chain, draw, k)."""
    chains, draws, _ = values.shape
    each = max(2, -(-SEGMENTS // chains))
    length = draws // each
    if length < 1 or chains * each < FEWEST_SEGMENTS:
        nothing = np.full(values.shape[2], np.nan)
        return MeasuredNumbers(nothing, nothing, nothing, nothing, nothing)
    with np.errstate(all="ignore"):
        centre = values.reshape(-1, values.shape[2]).mean(axis=0, dtype=np.float64)
        part = (values[:, draws - each * length :].astype(np.float64) - centre).reshape(chains * each, length, -1)
        squares = np.square(part)
        mean, variance = part.mean(axis=(0, 1)), squares.mean(axis=(0, 1))
        sd = np.sqrt(np.maximum(variance - mean**2, 0))
        by_segment = part.mean(axis=1), squares.mean(axis=1) - 2 * mean * part.mean(axis=1)
        errors = [_error_of(x, chains) for x in by_segment]
        return MeasuredNumbers(centre + mean, sd, errors[0] / sd, errors[1] / (2 * sd**2), _r_hat(part, chains))


def _error_of(segments: np.ndarray, chains: int) -> np.ndarray:
    """The standard error of the mean of segments (chain x segment, k).

    Where neighbours are correlated, the chains remember for longer than a segment, and their scatter says too little:
    for an autoregression with that correlation the error is larger by sqrt((1 + r) / (1 - r)). Where segments are
    skewed (squares of heavy tails), both mean and scatter are too small until the largest values were met: after
    Johnson (1978) the upper limit is further off by a share of about skewness / sqrt(count).
    """
    count, shifts = len(segments), segments - segments.mean(axis=0)
    by_chain = shifts.reshape(chains, -1, shifts.shape[1])
    neighbours = np.sum(by_chain[:, 1:] * by_chain[:, :-1], axis=(0, 1)) / (count - chains)
    r = neighbours / shifts.var(axis=0)
    r = np.where(r > NEIGHBOUR_ERRORS / math.sqrt(count - chains), np.minimum(r, LARGEST_CORRELATION), 0.0)
    skewness = np.mean(shifts**3, axis=0) / shifts.var(axis=0) ** 1.5
    skewness = np.where(skewness > LEAST_SKEWNESS, skewness, 0.0)
    more = np.sqrt((1 + r) / (1 - r)) * (1 + skewness / math.sqrt(count))
    return segments.std(axis=0, ddof=1) / math.sqrt(count) * more


def _r_hat(part: np.ndarray, chains: int) -> np.ndarray:
    """Of half-chains, from segments (chain x segment, draw, k)."""
    each = part.shape[0] // chains
    halves = part.reshape(chains, each, *part.shape[1:])
    halves = np.concatenate([halves[:, : each // 2], halves[:, each - each // 2 :]])
    halves = halves.reshape(2 * chains, -1, part.shape[2])
    within, between = halves.var(axis=1, ddof=1).mean(axis=0), halves.mean(axis=1).var(axis=0, ddof=1)
    return np.sqrt((halves.shape[1] - 1) / halves.shape[1] + between / within)


class Sums(NamedTuple):
    """The sum of each number for its mean, and for its sd; and what they are made of, in units of the sd."""

    mean_bias: np.ndarray
    mean_error: np.ndarray
    sd_bias: np.ndarray
    sd_error: np.ndarray
    z: float
    r_hat: float

    @property
    def mean(self) -> np.ndarray:
        return np.abs(self.mean_bias) + self.z * self.mean_error

    @property
    def sd(self) -> np.ndarray:
        return np.abs(self.sd_bias) + self.z * self.sd_error

    def is_within(self, accuracy: Accuracy) -> bool:
        return self.is_unbiased_within(accuracy) and bool(self.r_hat <= accuracy.r_hat)

    def is_unbiased_within(self, accuracy: Accuracy) -> bool:
        """Whether every sum is below its tolerance; a NaN is not."""
        return bool(np.all(self.mean <= accuracy.mean) and np.all(self.sd <= accuracy.sd))


def sums(
    accuracy: Accuracy,
    run: MeasuredNumbers,
    witness: MeasuredNumbers | None = None,
    predicted: tuple[Any, Any] = (0.0, 0.0),
) -> Sums:
    """What was reached.

    Args:
        witness: the run with twice the step; None for a run without a bias of its step, by a Metropolis test.
        predicted: the bias of sds at the step of the run, and at that of the witness.
    """
    z, r_hat = accuracy.z(len(run.mean)), float(np.max(run.r_hat, initial=1.0))
    zeros = np.zeros_like(run.mean)
    if witness is None:
        return Sums(zeros, run.mean_error, zeros, run.sd_error, z, r_hat)
    here, there = (np.broadcast_to(np.asarray(x, float), run.mean.shape) for x in predicted)
    with np.errstate(all="ignore"):
        shift = (witness.mean - run.mean) / run.sd
        widening = witness.sd / run.sd - (1 + there) / (1 + here)
        shift_error = np.hypot(run.mean_error, witness.mean_error * witness.sd / run.sd)
        widening_error = np.hypot(run.sd_error, witness.sd_error) * witness.sd / run.sd
        # what is beyond chance is a bias; what is not is counted by its error
        mean_bias = np.where(np.abs(shift) > z * shift_error, -shift / LEVERAGE, 0.0)
        unpredicted = np.where(np.abs(widening) > z * widening_error, widening / LEVERAGE, 0.0)
    mean_error = np.hypot(run.mean_error, shift_error / LEVERAGE)
    sd_error = np.hypot(run.sd_error, widening_error / LEVERAGE)
    return Sums(mean_bias, mean_error, here + unpredicted, sd_error, z, r_hat)
