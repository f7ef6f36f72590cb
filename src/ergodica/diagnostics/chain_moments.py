"""Where only each chain's mean and variance were kept: do the chains agree, and how well are means known?"""

from typing import Any

import numpy as np

from ergodica.diagnostics.columns import label
from ergodica.diagnostics.effective import Effective
from ergodica.diagnostics.mixing import ERROR, extreme, longer
from ergodica.output.labelled import named
from ergodica.report import Check

APART = 1.01


def moment_columns(moments: Any, good: np.ndarray) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Names, means and variances, (chain, k), of all numbers; chains that are not `good` left out."""
    means, variances = named(moments.mean), named(moments.variance)
    chains = len(good)
    names = [label(name, i, x.shape[1:]) for name, x in means.items() for i in range(x[0].size)]

    def flat(part: dict[str, Any]) -> np.ndarray:
        return np.concatenate([np.asarray(x, np.float64).reshape(chains, -1) for x in part.values()], axis=1)[good]

    return names, flat(means), flat(variances)


def from_moments(moments: Any, good: np.ndarray) -> Effective:
    """As `effective`, with errors from the spread of the chains alone.

    With few chains that spread is itself uncertain, number by number, so a spread below the average over all numbers,
    in units of their variances, is taken as that average.
    """
    names, means, variances = moment_columns(moments, good)
    chains = len(means)
    within = variances.mean(axis=0)
    with np.errstate(all="ignore"):
        mean_ratio = _at_least_average(means.var(axis=0, ddof=1) / within)
        sds = np.sqrt(variances)
        sd_ratio = _at_least_average(sds.var(axis=0, ddof=1) / within)
        r_hat = np.sqrt(1 + means.var(axis=0, ddof=1) / within)
    sd = np.sqrt(within + means.var(axis=0))
    unknown = np.full(len(names), np.nan)
    errors = np.sqrt(mean_ratio * within / chains), np.sqrt(sd_ratio * within / chains)
    return Effective(names, means.mean(axis=0), sd, unknown, unknown, *errors, chains / mean_ratio, unknown, r_hat)


def _at_least_average(ratio: np.ndarray) -> np.ndarray:
    return np.maximum(ratio, np.nanmean(ratio)) if ratio.size else ratio


def moment_checks(moments: Any, good: np.ndarray) -> tuple[list[Check], tuple[str, ...]]:
    """Agreement and error from the spread of the chains' means; notes on what could not be looked at."""
    if good.sum() < 2:
        return [], ("Only moments of a single chain were kept: nothing can be said of its mixing. Run several chains.",)
    found = from_moments(moments, good)
    worst, figure, count = extreme(found.r_hat, found.names, np.nanargmax, ~(found.r_hat < APART))
    words = f"The chains' means agree: their spread over that of the draws gives R-hat {figure:.4f} at most ({worst})."
    if count:
        words = (
            f"The chains' means do not agree: R-hat is {figure:.3f} for {worst} and not below {APART} for {count} of "
            f"{len(found.names):,} numbers. Run longer, drop more as warm-up, or look for several modes."
        )
    checks = [Check("R-hat of moments", not count, figure, APART, words, is_essential=True)]
    with np.errstate(all="ignore"):
        errors = np.maximum(found.mean_error, found.sd_error) / found.sd
    worst, figure, count = extreme(errors, found.names, np.nanargmax, ~(errors <= ERROR))
    words = (
        f"From the spread of {int(good.sum())} chains the error of means and sds is {figure:.3f} sd at most ({worst}); "
        f"{ERROR} is allowed."
    )
    if count:
        words += f" It is more for {count} of {len(found.names):,} numbers: {longer(figure, found, int(good.sum()))}."
    checks.append(Check("Monte Carlo error", not count, figure, ERROR, words, is_essential=True))
    note = "Only moments were kept: rank-normalised R-hat, effective sample sizes, tails and drift were not looked at."
    return checks, (note,)
