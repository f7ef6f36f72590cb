"""What a run kept under names: draws of functions, averages with their errors, scores of held-out rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree
from scipy.special import logsumexp

from ergodica.output.labelled import Moments


@dataclass(frozen=True, eq=False)
class Average:
    """The mean of a function over the draws of all chains, taken as the run went; trees like its value.

    Attributes:
        mean: over all draws.
        sd: of the function under the law.
        error: the standard error of `mean`, by batch means.
        r_hat: of the chains' means; above 1.01 they have not mixed; NaN of a single chain.
        by_chain: the mean of each chain, leaves (chain, ...).
    """

    mean: PyTree
    sd: PyTree
    error: PyTree
    r_hat: PyTree
    by_chain: PyTree


@dataclass(frozen=True, eq=False)
class HeldOutScore:
    """The log predictive density of rows that were held out.

    Attributes:
        log_density: of each row: the log of its density, averaged over the draws of all chains.
        score: its mean over the rows.
        error: the standard error of `score` by the choice of rows.
        evaluations: (steps made, score of all draws up to there), as the run went.
    """

    log_density: np.ndarray
    score: float
    error: float
    evaluations: np.ndarray


def kept_by_name(posterior: PyTree, values: dict[str, Any] | None, moments: Any, settings: Mapping[str, Any]) -> dict:
    """By the names of keep; of keep="draws", "moments" or a function under the name "position"."""
    keep = settings.get("keep", "draws")
    if not isinstance(keep, Mapping):
        averages = {} if moments is None else {"position": _average(moments, moments.mean, moments.variance, None)}
        return averages or {"position": posterior}
    found: dict[str, Any] = {}
    for name, what in keep.items():
        if what == "draws":
            found[name] = posterior
        elif values is not None and name in values:
            found[name] = values[name]
        elif isinstance(moments.score, Mapping) and name in moments.score:
            found[name] = _score(moments, name, settings)
        else:
            parts = (moments.mean, moments.variance, moments.error)
            found[name] = _average(moments, *(_named_part(part, name) for part in parts))
    return found


def _named_part(part: Any, name: str) -> PyTree:
    """A file gives back a single array without its name where that is `position`."""
    return part[name] if isinstance(part, Mapping) and name in part else part


def split_draws(stored: PyTree, keep: Any) -> tuple[PyTree, dict[str, Any] | None]:
    """What is stored of the draws as `run.posterior`, and by name what else was kept of them."""
    if not isinstance(keep, Mapping):
        return stored, None
    position = [name for name, what in keep.items() if isinstance(what, str) and what == "draws"]
    if not isinstance(stored, Mapping):
        stored = {} if stored is None else {"position": stored}  # see `_named_part`
    values = {name: value for name, value in stored.items() if name not in position}
    return (stored[position[0]] if position else None), values


def stored_draws(posterior: PyTree, values: dict[str, Any] | None, keep: Any) -> PyTree:
    """What `split_draws` was given."""
    if values is None:
        return posterior
    position = {} if posterior is None else {
        name: posterior for name, what in keep.items() if isinstance(what, str) and what == "draws"
    }  # fmt: skip
    return (position | values) or None


def _average(moments: Moments, means: PyTree, variances: PyTree, errors: PyTree) -> Average:
    counts = np.asarray(moments.count, float)
    weights = counts / counts.sum()

    def pooled(leaf: Any) -> np.ndarray:
        return np.tensordot(weights, np.asarray(leaf), 1)

    def spread(mean: Any, variance: Any) -> np.ndarray:
        return np.sqrt(pooled(variance) + pooled((np.asarray(mean) - pooled(mean)) ** 2))

    def r_hat(mean: Any, variance: Any) -> np.ndarray:
        within = pooled(variance)
        if len(counts) < 2:
            return np.full_like(within, np.nan)
        with np.errstate(all="ignore"):
            return np.sqrt(1 - 1 / counts.mean() + np.var(np.asarray(mean), axis=0, ddof=1) / within)

    def error(leaf: Any) -> np.ndarray:
        return np.sqrt(np.tensordot(weights**2, np.asarray(leaf) ** 2, 1))

    return Average(
        jax.tree.map(pooled, means), jax.tree.map(spread, means, variances),
        None if errors is None else jax.tree.map(error, errors), jax.tree.map(r_hat, means, variances), means,
    )  # fmt: skip


def _score(moments: Moments, name: str, settings: Mapping[str, Any]) -> HeldOutScore:
    assert moments.score is not None
    rows = pooled_log_density(np.asarray(moments.score[name]), moments.count)
    steps = settings.get("evaluations", {}).get(name, [])
    error = float(np.std(rows, ddof=1) / np.sqrt(len(rows))) if len(rows) > 1 else float("nan")
    return HeldOutScore(rows, float(rows.mean()), error, np.asarray(steps, float).reshape(-1, 2))


def pooled_log_density(by_chain: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The log of the mean density over the draws of all chains, (row,), from that of each chain, (chain, row)."""
    weights = np.asarray(counts, float) / np.sum(counts)
    return np.asarray(logsumexp(np.where(weights[:, None] > 0, by_chain, -np.inf), axis=0, b=weights[:, None]))
