"""Checks of the chains themselves: finite, moving, together, long enough."""

from typing import Any

import numpy as np

from ergodica.diagnostics import thresholds
from ergodica.diagnostics.columns import Columns, Effective, Named, second_half, widening
from ergodica.output.labelled import Moments, named
from ergodica.report import Check

SMALLER_STEP = "Take a smaller step, or a scale on which the density is less steep (the log of a positive number)."
PRECONDITION = "precondition (docs/how-to/precondition.md)"
NOT_MET = "That is a few for each chain: they have not met, and it is unknown how long a run would do."


def chain_sums(moments: Moments) -> np.ndarray:
    """Numbers by chain that are finite unless the chain is not."""
    means = named(moments.mean).values()
    return np.stack([np.asarray(leaf, np.float64).reshape(len(leaf), -1).sum(axis=1) for leaf in means], axis=1)


def is_integrator(settings: Named, name: str) -> bool:
    return name in str(settings.get("integrator", "")).lower()


def finite_chains(stats: Named, settings: Named, values: np.ndarray) -> tuple[np.ndarray, Check]:
    """Which chains stayed finite, by their marks and by `values` (chain, ...), and the check."""
    chains = len(values)
    good = np.asarray(np.isfinite(values).reshape(chains, -1).all(axis=1))
    diverging = stats.get("diverging")
    if diverging is not None and np.shape(diverging)[0] == chains:
        good &= ~np.asarray(diverging, bool).reshape(chains, -1).any(axis=1)
    frozen = settings.get("frozen") or []
    good[[one["chain"] for one in frozen]] = False
    bad = np.flatnonzero(~good)
    if bad.size == 0:
        return good, Check("finite", True, 0, 0, f"All {chains} chains stayed finite.", is_essential=True)
    words = (
        f"{listed('chain', bad)} of {chains} became non-finite{_when(frozen, diverging, bad)}, so the law "
        "that is left is not the one asked for; other checks leave it out. Try a tenth of the step size, a start "
        "closer to the mode, or a stronger prior."
    )
    return good, Check("finite", False, float(bad.size), 0, words, is_essential=True)


def _when(frozen: list[dict[str, Any]], diverging: Any, bad: np.ndarray) -> str:
    if frozen:
        first = min(frozen, key=lambda one: one["step"])
        return f" (chain {first['chain']} at step {first['step']}, with step size {first['step_size']:.3g})"
    marked = np.asarray(diverging, bool)[bad] if diverging is not None else np.zeros((0, 0), bool)
    return f" (draw {int(np.argmax(marked.any(axis=0)))} was the first)" if marked.any() else ""


def listed(word: str, numbers: np.ndarray) -> str:
    """`Chain 2`, `Chains 0, 3 and 5`."""
    words = [str(int(n)) for n in numbers[:8]] + (["others"] if len(numbers) > 8 else [])
    if len(words) == 1:
        return f"{word.capitalize()} {words[0]}"
    return f"{word.capitalize()}s {', '.join(words[:-1])} and {words[-1]}"


def moving(columns: Columns, chain_numbers: np.ndarray) -> Check:
    """The longest stretch of draws in which a number of a chain stays exactly the same."""
    draws = columns.values.shape[1]
    longest = longest_stretch(columns.values)
    chain, number = np.unravel_index(int(np.argmax(longest)), longest.shape)
    share, allowed = float(longest.max()) / max(1, draws), max(thresholds.LONGEST_STILL, 10 / max(1, draws))
    stuck = np.unique(np.nonzero(longest > allowed * draws)[0])
    if stuck.size == 0:
        words = f"Every number moves: none stays the same for more than {max(1, int(longest.max()))} of {draws} draws."
        return Check("moving", True, share, allowed, words)
    words = (
        f"{listed('chain', chain_numbers[stuck])} stood still: {columns.names[number]} of chain "
        f"{chain_numbers[chain]} is exactly the same in {int(longest.max())} of {draws} draws in a row (at most "
        f"{allowed:.0%} is allowed). With a Metropolis test every move is refused: take a smaller step. Without, the "
        "moves are below rounding: take a larger step, or float64."
    )
    return Check("moving", False, share, allowed, words)


def longest_stretch(values: np.ndarray) -> np.ndarray:
    """(chain, k): how many draws in a row equal the one before."""
    longest = np.zeros((values.shape[0], values.shape[2]), int)
    places = np.arange(values.shape[1] - 1)
    for place in np.ndindex(longest.shape):
        chain, number = place
        same = values[chain, 1:, number] == values[chain, :-1, number]
        if same.any():
            longest[place] = int(np.max(places - np.maximum.accumulate(np.where(same, -1, places))))
    return longest


def too_short(columns: Columns) -> Check | None:
    draws, least = columns.values.shape[1], thresholds.FEWEST_DRAWS
    words = f"There are {draws} draws in each chain; at least {least} are needed to say anything: run longer."
    return None if draws >= least else Check("length", False, draws, least, words, is_essential=True)


def r_hat(found: Effective, chains: int, thrown: str | None = None, slack: float = 1.0) -> Check:
    """`thrown`, here and below: signs that the step is too large, in words. `slack`: see `thresholds.slack_for`."""
    limit = 1 + slack * (thresholds.LARGEST_R_HAT - 1)
    worst, figure, count = extreme(found.r_hat, found.names, np.nanargmax, found.r_hat >= limit)
    words = f"The chains agree: rank-normalised R-hat is {figure:.4f} at most ({worst}), below {limit:.4g}."
    if count:
        words = (
            f"The chains do not agree: rank-normalised R-hat is {figure:.3f} for {worst} and not below {limit:.4g} for "
            f"{count} of {len(found.names)} numbers looked at. "
        )
    if count and thrown is not None:
        words += f"There are signs of too large a step: {thrown}. {SMALLER_STEP}"
    elif count:
        words += (
            "They have not met: run longer (or drop more as warm-up). If it stays, chains are in different modes, or "
            f"coordinates are of very different scale: {PRECONDITION}."
        )
    if chains == 1:
        words += " There is one chain, so this compares its halves: run several from dispersed starts."
    return Check("R-hat", not count, figure, limit, words, is_essential=True)


def sample_sizes(
    found: Effective, chains: int, draws: int, thrown: str | None = None, slack: float = 1.0
) -> list[Check]:
    """Bulk and tail: 100 effective draws a chain, and no more than 400 altogether."""
    wanted = round(min(thresholds.ESS_PER_CHAIN * chains, thresholds.ESS_AT_MOST) / slack)
    checks = []
    for name, sizes, of in (("bulk ESS", found.bulk, "centre"), ("tail ESS", found.tail, "5 % and 95 % quantiles")):
        worst, figure, count = extreme(sizes, found.names, np.nanargmin, ~(sizes >= wanted))
        start = f"For the {of} the {chains * draws:,} draws are worth {figure:,.0f} independent ones"
        if not count:
            words = f"{start} at least ({worst}); {wanted} are wanted."
        else:
            words = (
                f"{start} for {worst}, and fewer than {wanted} for {count} of {len(found.names)} numbers: errors "
                f"cannot be trusted. {_cure(figure, wanted / figure if figure else np.inf, chains, thrown)}"
            )
        checks.append(Check(name, not count, figure, wanted, words, is_essential=True))
    return checks


def _cure(worth: float, times: float, chains: int, thrown: str | None) -> str:
    if thrown is not None:
        return SMALLER_STEP
    if not worth >= thresholds.FEWEST_EFFECTIVE * chains:
        return f"{NOT_MET} Run much longer, or {PRECONDITION}; look for modes in the pictures (ergodica plot)."
    return f"Run about {times:.1f} times as long, use a larger step as far as the bias allows, or {PRECONDITION}."


def monte_carlo_error(found: Effective, chains: int, correlation: float, thrown: str | None = None) -> Check:
    """Errors of means and of sds, in units of the sd."""
    limit = thresholds.LARGEST_ERROR
    worst, figure, count = extreme(found.error, found.names, np.nanargmax, ~(found.error <= limit))
    words = f"Means and sds are known to {figure:.3f} sd or better ({worst}); {limit} is allowed."
    if count:
        words = (
            f"The Monte Carlo error of mean or sd is {figure:.3f} sd for {worst}, above {limit} for {count} of "
            f"{len(found.names)} numbers: {longer(figure, found, chains, thrown)}."
        )
    if correlation > 0:
        words += (
            f" Chains shared their batches and correlate by {correlation:.3f}: errors are widened by "
            f"{np.sqrt(widening(chains, correlation)):.2f}, which R-hat does not know."
        )
    return Check("Monte Carlo error", not count, figure, limit, words)


def longer(error: float, found: Effective, chains: int, thrown: str | None = None) -> str:
    """How much longer to run for an error of LARGEST_ERROR; no factor where the error itself cannot be trusted."""
    if thrown is not None:
        return "that is no matter of length, see R-hat"
    if not np.nanmin(found.bulk, initial=np.inf) >= thresholds.FEWEST_EFFECTIVE * chains:
        return "the chains have not met, so it is not known how much longer to run"
    return f"run {max(1.0, (error / thresholds.LARGEST_ERROR) ** 2):.1f} times as long"


def acceptance(stats: Named, settings: Named, good: np.ndarray) -> Check | None:
    """The share of trajectories that the Metropolis test accepts; None where there is no such test."""
    accepted = stats.get("accepted")
    if accepted is None or np.shape(accepted)[1:2] == (0,):
        return None
    rates = np.asarray(accepted, float)[good].mean(axis=1)
    if not is_integrator(settings, "leapfrog") and not np.any(rates < 1):
        return None
    lowest, wanted = float(rates.min()), thresholds.LEAST_ACCEPTANCE
    words = f"The Metropolis test accepts {lowest:.0%} or more in every chain; {wanted:.0%} is wanted."
    if lowest > 0.98:
        words += " Nearly all are: a larger step would move further at the same cost."
    if lowest < wanted:
        chain = int(np.flatnonzero(good)[np.argmin(rates)])
        words = (
            f"The Metropolis test accepts {lowest:.0%} of the trajectories of chain {chain}, below {wanted:.0%}: the "
            "step is too large for the narrowest direction. Take a smaller step, or a mass matrix."
        )
    return Check("acceptance", lowest >= wanted, lowest, wanted, words)


def extreme(figures: np.ndarray, names: list[str], pick: Any, is_bad: np.ndarray) -> tuple[str, float, int]:
    """Name and figure of the worst, and how many are bad; a figure that is not a number is worst of all."""
    figures = np.asarray(figures, float)
    if np.isnan(figures).all():
        return names[0], float("nan"), len(names)
    at = int(pick(figures))
    return names[at], float(figures[at]), int(np.count_nonzero(is_bad | np.isnan(figures)))


def moment_checks(found: Effective, chains: int) -> list[Check]:
    """Agreement and error, from the spread of the means of the chains."""
    limit = thresholds.LARGEST_R_HAT
    worst, figure, count = extreme(found.r_hat, found.names, np.nanargmax, ~(found.r_hat < limit))
    words = f"The chains' means agree: their spread over that of the draws gives R-hat {figure:.4f} at most ({worst})."
    if count:
        words = (
            f"The chains' means do not agree: R-hat is {figure:.3f} for {worst} and not below {limit} for {count} of "
            f"{len(found.names):,} numbers. Run longer, drop more as warm-up, or look for several modes."
        )
    agreement = Check("R-hat of moments", not count, figure, limit, words, is_essential=True)
    limit = thresholds.LARGEST_ERROR
    worst, figure, count = extreme(found.error, found.names, np.nanargmax, ~(found.error <= limit))
    words = f"The error of means and sds, by the spread of {chains} chains, is {figure:.3f} sd at most ({worst}); "
    words += f"{limit} is allowed."
    if count:
        words += f" It is more for {count} of {len(found.names):,} numbers: {longer(figure, found, chains)}."
    return [agreement, Check("Monte Carlo error", not count, figure, limit, words, is_essential=True)]


def signs_of_large_steps(stats: Named, values: np.ndarray, good: np.ndarray) -> str | None:
    """Signs that steep gradients throw chains far out, in words; None where there are none.

    Only second halves are looked at: on the way from a far-off start gradients are large as well.
    """
    norms = stats.get("gradient_norm")
    if norms is not None and np.ndim(norms) == 2 and np.shape(norms)[1] >= thresholds.FEWEST_DRAWS:
        settled = second_half(np.asarray(norms, float)[good])
        middle, largest = float(np.median(settled)), float(np.max(settled))
        if middle > 0 and largest > thresholds.GRADIENT_SPIKE * middle:
            return f"gradients reach {largest / middle:.2g} times their median, too steep for this step"
    sds = second_half(values).std(axis=1)
    narrow, wide = sds.min(axis=0), sds.max(axis=0)
    with np.errstate(all="ignore"):
        ratio = float(np.max(np.where(narrow > 0, wide / narrow, 0), initial=0))
    is_wide = ratio > thresholds.UNEQUAL_WIDTHS
    return f"one chain is {ratio:.2g} times as wide as another, if that is not another mode" if is_wide else None
