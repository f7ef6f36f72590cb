"""How much chains that share their batches resemble each other: their mean is worse than that of independent ones."""

from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

DRAWS = 2_000  # that are looked at, evenly spread


def chain_correlation(posterior: PyTree) -> float | None:
    """The largest over coordinates of rho in Var(mean of C chains) = s^2 / C (1 + (C - 1) rho), variances over draws.

    A Monte Carlo error as of independent chains is too small by the root of 1 + (C - 1) rho: with the largest it is
    too small for no coordinate (and of many the largest is a little too large by chance). Every chain is looked at
    about its own mean, so that only what chains do together counts.
    """
    ratios = [_ratios(np.asarray(leaf)) for leaf in jax.tree.leaves(posterior)]
    known = np.concatenate(ratios) if ratios else np.zeros(0)
    chains = _chains(posterior)
    if chains < 2 or known.size == 0:
        return None
    return float((np.max(known) - 1) / (chains - 1))


def _chains(posterior: Any) -> int:
    leaves = jax.tree.leaves(posterior)
    return leaves[0].shape[0] if leaves else 0


def _ratios(draws: np.ndarray) -> np.ndarray:
    """C Var(mean of chains) / mean of Var(chain), of each coordinate that moves."""
    chains, count = draws.shape[:2]
    if count < 2:
        return np.zeros(0)
    index = np.unique(np.linspace(0, count - 1, min(count, DRAWS)).astype(int))
    some = draws[:, index].reshape(chains, len(index), -1).astype(np.float64)
    each = some.var(axis=1, ddof=1).mean(axis=0)
    mean = some.mean(axis=0).var(axis=0, ddof=1)
    return chains * mean[each > 0] / each[each > 0]
