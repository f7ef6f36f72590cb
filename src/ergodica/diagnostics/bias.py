"""The bias that ESS and R-hat cannot see: a chain with steps has a law of its own. Halve the step, and compare.

A tuned run has a witness beside it, with twice the step at the same friction times step: there an error of order 2 is
four times as large, so the bias at h is a third of the difference.

With a bias of order p, b(h) = c h^p, runs with step h and h/2 differ by b(h) - b(h/2) = b(h) (1 - 1/R), R = 2^p.

For SGHMC by the splitting more is known: gradient noise widens variances on a Gaussian by exactly (h^2/4) c w, with
c = coth(friction h / 2) and w the noise, at every stable step. So R = 4 c(h) / c(h/2), which is 4 where friction times
step is kept (`run.halve()`). Noise of control variates grows with the width of the law itself: then R is larger by the
ratio of variances, and by (1 - u/4) / (1 - u), u = h^2 / 4 in units of the law's width.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from ergodica.diagnostics.columns import (
    Columns,
    Effective,
    Named,
    at,
    correlation_of,
    effective,
    effective_from_moments,
)
from ergodica.diagnostics.mixing import chain_sums, extreme, finite_chains, is_integrator, too_short
from ergodica.diagnostics.thresholds import BLUNT_BIAS, LARGEST_BIAS, largest_z, p_value
from ergodica.errors import InputError
from ergodica.output.labelled import named
from ergodica.report import Check

LARGEST_SHARE = 0.95  # of R, for a ratio of variances: above it the law has next to no end

NOT_LOOKED_AT = (
    "Step-size bias was not looked at, and neither R-hat nor effective sample sizes can see it. run.halve() and "
    "`ergodica sample --halve` run again with half the step; a run saved apart is given by "
    "`ergodica diagnose run.nc --halved half.nc`."
)


class Bias(NamedTuple):
    """For each number, in units of its sd: the difference of means (of sds), its error, and the bias at step h."""

    names: list[str]
    mean_difference: np.ndarray
    mean_error: np.ndarray
    sd_difference: np.ndarray
    sd_error: np.ndarray
    order: float
    ratio: float | None = None
    """The bias at step h over that at h/2, where it is known to be other than 2^order."""
    is_doubled: bool = False
    """Whether the other run has twice the step, and differences are that run minus this one."""
    allowed: tuple[float, float] = (LARGEST_BIAS, LARGEST_BIAS)
    """Of means and of sds."""

    @property
    def other(self) -> str:
        return "twice the step" if self.is_doubled else "half the step"

    @property
    def extrapolation(self) -> float:
        """The bias at step h over the difference between h and h/2, or between 2h and h."""
        if self.is_doubled:
            return 1 / (2.0**self.order - 1)
        return 1 / (1 - 1 / (2.0**self.order if self.ratio is None else self.ratio))

    @property
    def mean_bias(self) -> np.ndarray:
        return self.extrapolation * self.mean_difference

    @property
    def sd_bias(self) -> np.ndarray:
        """Of variances v = (1 + b) / (1 + b/R) is seen, so b = (v - 1) / (1 - v/R): exact however large b is."""
        if self.ratio is None:
            return self.extrapolation * self.sd_difference
        v = np.square(1 + self.sd_difference)
        return np.sqrt(1 + (v - 1) / (1 - np.minimum(v / self.ratio, LARGEST_SHARE))) - 1


def known_order(
    found: Effective, halved: Effective, runs: tuple[Named, Named], steps: tuple[float, float]
) -> tuple[float, float] | None:
    """The order of the bias, and the bias at step h over that at h/2, for friction by a splitting; None for others.

    Args:
        runs: the settings of the two runs.
        steps: their mean step sizes.
    """
    if not all(has_friction(settings) for settings in runs):
        return None
    first, second = (math.tanh(settings["friction"] * step / 2) for settings, step in zip(runs, steps, strict=True))
    settings = runs[0]
    if settings.get("batch_size") is None or settings.get("gradient_noise") is not None:  # exact gradients
        return 2, 4.0
    ratio = 4 * second / first
    order = math.log2(ratio)
    if "ControlVariates" not in str(settings.get("estimator")):
        return order, ratio
    wider = float(np.nanmean(np.square(found.sd / halved.sd)))
    u = _squared_step(found, settings, first)
    return order, ratio * max(1.0, wider) * (1 - u / 4) / (1 - u)


def _squared_step(found: Effective, settings: Named, slowness: float) -> float:
    """h^2 / 4 in units of the law's width, from the steps that an independent draw takes, 4 / (h^2 c)."""
    if not {"chains", "steps"} <= set(settings):
        return 0.0
    times = int(settings["chains"]) * int(settings["steps"]) / found.bulk
    u = float(np.nanmean(slowness / np.maximum(times, 1.0))) if np.isfinite(times).any() else 0.0
    return min(u, 0.5)


def has_friction(settings: Named) -> bool:
    """Whether the only noise is on a Gaussian momentum with friction, by a splitting."""
    return settings.get("friction") is not None and is_integrator(settings, "splitting")


def order_of(settings: Named) -> int:
    """The order of the bias in the step size: 2 for a splitting with exact gradients, else 1."""
    if settings.get("order") is not None:
        return int(settings["order"])
    return 2 if is_integrator(settings, "splitting") and settings.get("batch_size") is None else 1


def bias(found: Effective, halved: Effective, order: float, ratio: float | None = None) -> Bias:
    """Compare a run with that of half the step, in units of the latter's sds."""
    sd = np.where(halved.sd > 0, halved.sd, np.nan)
    means = (found.mean - halved.mean) / sd, np.hypot(found.mean_error, halved.mean_error) / sd
    sds = (found.sd - halved.sd) / sd, np.hypot(found.sd_error, halved.sd_error) / sd
    return Bias(found.names, *means, *sds, order, ratio)


def bias_checks(found: Bias) -> list[Check]:
    return [
        _check("bias of means", "mean", found, found.mean_bias, found.mean_difference, found.mean_error, 0),
        _check("bias of sds", "sd", found, found.sd_bias, found.sd_difference, found.sd_error, 1),
    ]


def _check(
    name: str, what: str, found: Bias, size: np.ndarray, difference: np.ndarray, error: np.ndarray, which: int
) -> Check:
    """Fails where the bias at step h is above what is allowed and the difference is more than noise."""
    allowed = found.allowed[which]
    limit = largest_z(len(found.names))
    with np.errstate(all="ignore"):
        z = np.nan_to_num(difference / error)
    size = np.abs(size)
    is_biased = (size > allowed) & (np.abs(z) > limit)
    shown = np.where(is_biased, size, 0)
    worst, figure, count = extreme(shown, found.names, np.nanargmax, is_biased)
    p = p_value(float(np.max(np.abs(z))), len(found.names))
    if count:
        at = int(np.argmax(shown))
        words = (
            f"The {what} of {worst} is off by about {figure:.2f} sd at this step: with {found.other} it differs by "
            f"{difference[at]:+.2f} sd, {abs(z[at]):.1f} Monte Carlo errors (order {found.order:.2g}; {allowed} "
            f"sd is allowed; {count} of {len(found.names)} numbers are off). {_advice(found, figure)}"
        )
        return Check(name, False, figure, allowed, words, p)
    unseen = np.nan_to_num(limit * found.extrapolation * error)  # NaN: a number that never moves
    return _passed(name, what, found, float(unseen.max()), found.names[int(np.argmax(unseen))], p, allowed)


def _passed(name: str, what: str, found: Bias, unseen: float, worst: str, p: float, allowed: float) -> Check:
    """`unseen`: the largest bias that Monte Carlo error may have hidden, that of `worst`."""
    if unseen > BLUNT_BIAS * allowed / LARGEST_BIAS:
        words = (
            f"A run with {found.other} changes no {what} beyond Monte Carlo error, but both are too short to tell: a "
            f"bias of {unseen:.2f} sd in {worst} would not have been seen ({allowed} sd is allowed; order "
            f"{found.order:.2g}). Run longer."
        )
        return Check(name, True, 0.0, allowed, words, p, is_undecided=True)
    words = f"No {what} is off by more than {allowed} sd, by a run with {found.other} (order {found.order:.2g})."
    if unseen > allowed:
        words += f" Up to {unseen:.2f} sd ({worst}) could hide in Monte Carlo error: run longer to look closer."
    return Check(name, True, 0.0, allowed, words, p)


def _advice(found: Bias, figure: float) -> str:
    times = (figure / LARGEST_BIAS) ** (1 / found.order)
    if found.ratio is not None:
        return f"Divide the step by {times:.1f} or more, and multiply the friction by as much."
    others = " A splitting with exact gradients, control variates or larger batches also lower it."
    return f"Divide the step by {times:.1f} or more.{others if found.order == 1 else ''}"


def compare(
    found: Effective, stats: Named, settings: Named, halved: Any, looked_at: Columns | None, is_doubled: bool = False
) -> Bias:
    """The run against the one with half the step, or with twice the step, in the same numbers."""
    if halved.posterior is not None and looked_at is not None:
        other = at(named(halved.posterior), looked_at.places, looked_at.most)
        _check_same(looked_at.total, other.total)
        good, _ = finite_chains(halved.stats, halved.settings, other.values)
        other = other.only(good)
        if not good.any() or too_short(other) is not None:
            raise InputError("the run with half the step has no draws to compare with: run it longer")
        second = effective(other, correlation_of(halved.settings), has_ranks=looked_at.thinning is None)
    elif halved.moments is not None and looked_at is None:
        good, _ = finite_chains(halved.stats, halved.settings, chain_sums(halved.moments))
        if good.sum() < 2:
            raise InputError("the run with half the step kept moments of a single chain: several are needed to compare")
        second = effective_from_moments(halved.moments, good)
        _check_same(len(found.names), len(second.names))
    else:
        raise InputError("one run kept draws and the other, with half the step, moments: keep the same in both")
    if is_doubled:
        return bias(second, found, 2)._replace(is_doubled=True)
    steps = _check_half(stats, halved.stats)
    known = None if steps is None else known_order(found, second, (settings, halved.settings), steps)
    return bias(found, second, *(known or (order_of(settings), None)))


def _check_same(size: int, other: int) -> None:
    if size != other:
        raise InputError(f"the two runs are of different positions: {size} numbers, and {other} with half the step")


def _check_half(stats: Named, other: Named) -> tuple[float, float] | None:
    """The mean step sizes of the two runs, where they are known."""
    if "step_size" not in stats or "step_size" not in other:
        return None
    step, half = (float(np.mean(x["step_size"])) for x in (stats, other))
    if not 1.8 < step / half < 2.2:
        raise InputError(f"the steps of the two runs are {step:.3g} and {half:.3g} on average: expected h and h/2")
    return step, half
