"""Have the chains settled? The first half, tenth and hundredth of each against its own second half."""

from typing import Any, NamedTuple

import numpy as np

from ergodica.diagnostics.columns import Columns, second_half, size_of_mean, widening
from ergodica.diagnostics.thresholds import FEWEST_EFFECTIVE, LARGEST_DRIFT, largest_z
from ergodica.report import Check

EARLY_PARTS = {"half": 2, "tenth": 10, "hundredth": 100}


class Drift(NamedTuple):
    """For each number, in units of its sd in the second halves of the chains."""

    names: list[str]
    mean_change: np.ndarray
    """From first to second halves."""
    sd_excess: np.ndarray
    """Of the sd of all draws over that of the second halves."""
    away: np.ndarray
    """(part, chain, k): how far a chain's early part lies from its second half."""
    z: np.ndarray
    """(part, chain and all chains together, k): the same in standard errors."""
    worth: np.ndarray
    """Independent draws in the second halves."""

    @property
    def limit(self) -> float:
        return largest_z(self.z.size)

    @property
    def is_drifting(self) -> np.ndarray:
        """More than noise, and enough to matter."""
        matters = (np.abs(self.mean_change) > LARGEST_DRIFT) | (np.abs(self.sd_excess) > LARGEST_DRIFT)
        return matters & (np.nanmax(self.z, axis=(0, 1)) > self.limit)


def drift(columns: Columns, correlation: float) -> Drift:
    """sd and correlation time come from the second halves, so that a transient does not hide itself.

    The mean of m draws with correlation time t has variance s^2 t / m, and never more than s^2. That t is itself known
    from few independent draws, n say, so errors are widened by 1 + 10 / n: about what Student's law asks for far out.
    """
    values = columns.values
    chains, draws = values.shape[:2]
    last = second_half(values)
    means = last.mean(axis=1)
    with np.errstate(all="ignore"):
        worth = size_of_mean(last)
        time = np.maximum(last.shape[1] * chains / worth, 1)
        within = np.sqrt(np.mean(last.var(axis=1), axis=0))
        sd = last.std(axis=(0, 1))
        away, z = [], []
        for part in EARLY_PARTS.values():
            length = max(1, draws // part)
            change = values[:, :length].mean(axis=1) - means
            error = within * np.sqrt(np.minimum(1, time / length) + np.minimum(1, time / last.shape[1]))
            error *= 1 + 10 / worth
            together = change.mean(axis=0) / error * np.sqrt(chains / widening(chains, correlation))
            away.append(change / sd)
            z.append(np.abs(np.concatenate([change / error, together[None]])))
        mean_change = (means - values[:, : draws // 2].mean(axis=1)).mean(axis=0) / sd
        sd_excess = values.std(axis=(0, 1)) / sd - 1
    return Drift(columns.names, _known(mean_change), _known(sd_excess), _known(away), _known(z), worth)


def _known(figures: Any) -> np.ndarray:
    """Zero where a number that never changes leaves nothing to compare; the check of that names it."""
    return np.nan_to_num(np.asarray(figures), nan=0, posinf=0, neginf=0)


def settled(columns: Columns, correlation: float) -> Check:
    """Fails where an early part differs from the rest by more than noise, and mean or sd by more than LARGEST_DRIFT."""
    found, chains = drift(columns, correlation), columns.values.shape[0]
    drifting = found.is_drifting
    sizes = np.where(drifting, np.maximum(np.abs(found.mean_change), np.abs(found.sd_excess)), 0)
    at = int(np.argmax(sizes))
    if drifting.any():
        words = (
            f"{found.names[at]} had not settled at first: {_where(found, at)}. So the mean of the first halves of the "
            f"chains is {abs(found.mean_change[at]):.2f} sd off that of the second, and the sd of all draws "
            f"{abs(found.sd_excess[at]):.0%} {'above' if found.sd_excess[at] > 0 else 'below'} theirs ({LARGEST_DRIFT} "
            f"sd and {LARGEST_DRIFT:.0%} are allowed; {np.count_nonzero(drifting)} of {len(found.names)} numbers). "
            "Drop the first part as warm-up (warmup=), or start from the mode."
        )
        return Check("settled", False, float(sizes[at]), LARGEST_DRIFT, words)
    worth = float(np.nanmin(found.worth, initial=np.inf))
    if worth < FEWEST_EFFECTIVE * chains:
        slowest = found.names[int(np.nanargmin(found.worth))]
        words = (
            f"The second halves of the chains are worth {worth:.0f} independent draws of {slowest}: too few to tell a "
            "drift from slow mixing."
        )
        return Check("settled", True, 0.0, LARGEST_DRIFT, words, is_undecided=True)
    words = (
        "Settled: the first half, tenth and hundredth of every chain agree with its second half, within "
        f"{found.limit:.1f} standard errors, or their differences change means and sds by less than {LARGEST_DRIFT} sd."
    )
    return Check("settled", True, 0.0, LARGEST_DRIFT, words)


def _where(found: Drift, at: int) -> str:
    part, row = np.unravel_index(int(np.argmax(found.z[:, :, at])), found.z.shape[:2])
    name, z = list(EARLY_PARTS)[part], found.z[part, row, at]
    if row == found.away.shape[1]:
        far = np.abs(found.away[part, :, at].mean())
        return f"the first {name} of the chains lies {far:.2g} sd, {z:.1f} standard errors, from their second halves"
    far = np.abs(found.away[part, row, at])
    return f"the first {name} of a chain lies {far:.2g} sd, {z:.1f} standard errors, from its second half"
