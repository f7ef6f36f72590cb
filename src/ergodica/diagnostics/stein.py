"""Kernel Stein discrepancy: how far draws are from exp(-U/T), from its gradients alone.

For the Langevin Stein operator and a kernel k, every h(x, .) below has mean zero under the law with score s:

    h(x, y) = s(x).s(y) k + s(x).grad_y k + s(y).grad_x k + sum_i d^2 k / dx_i dy_i        (Gorham and Mackey 2017)

and KSD^2 is the mean of h over all pairs. k(x, y) = (1 + |x - y|^2 / d)^(-1/2), the inverse multiquadric, of whitened
positions. What it would be for right draws comes from a wild bootstrap (Chwialkowski et al. 2016): each draw gets a
random sign, and signs stay the same along a chain for as long as its draws depend on each other.
"""

from typing import Any, NamedTuple

import numpy as np

from ergodica.diagnostics.effective import size_of_mean, widening
from ergodica.errors import InputError

MOST = 2000  # draws
BLOCK = 256  # rows of h at a time
BOOTSTRAPS = 1999
DENSE = 200  # numbers; larger positions are whitened by their sds alone


class Stein(NamedTuple):
    """The discrepancy, the one that right draws exceed once in 20 times, and the p-value of the draws being right."""

    discrepancy: float
    usual: float
    p_value: float
    worth: float
    """How many independent draws these are, for the mean of the slowest number."""


def kernel_stein_discrepancy(
    draws: np.ndarray, gradients: np.ndarray, temperature: float = 1.0, seed: int = 0, correlation: float = 0.0
) -> Stein:
    """Of draws (chain, draw, d), or (draw, d), with the gradients of U there; at most MOST draws.

    `correlation` is that between chains which share batches.

    >>> x = np.random.default_rng(0).normal(size=(500, 2))
    >>> kernel_stein_discrepancy(x, x).p_value > 0.01  # U = |x|^2 / 2
    True
    """
    draws, gradients = np.asarray(draws, np.float64), np.asarray(gradients, np.float64)
    if draws.ndim == 2:
        draws, gradients = draws[None], gradients[None]
    if draws.ndim != 3 or draws.shape != gradients.shape:
        raise InputError(f"draws are {draws.shape} and gradients {gradients.shape}: expected (chain, draw, d) for both")
    chains, length, size = draws.shape
    if chains * length > MOST:
        raise InputError(f"got {chains * length} draws, expected at most {MOST}: thin them first, as draws[:, ::10]")
    x, s = whitened(draws.reshape(-1, size), -gradients.reshape(-1, size) / temperature)
    worth = _worth(draws, rng := np.random.default_rng(seed))
    weights = _weights(chains, length, chains * length / worth, correlation, rng)
    products = np.zeros((len(weights), len(x)))
    total = 0.0
    for start in range(0, len(x), BLOCK):
        rows = stein_kernel(x[start : start + BLOCK], s[start : start + BLOCK], x, s)
        total += float(rows.sum())
        products += weights[:, start : start + BLOCK] @ rows
    null = np.maximum(np.sum(products * weights, axis=1), 0)
    p_value = (1 + int(np.count_nonzero(null >= total))) / (1 + len(null))
    usual = float(np.sqrt(np.quantile(null, 0.95))) / len(x)
    return Stein(float(np.sqrt(max(total, 0))) / len(x), usual, p_value, worth / widening(chains, correlation))


def whitened(x: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions L^-1 x with unit covariance, and scores L^T s in their coordinates; only by sds where d is large."""
    size = x.shape[1]
    if size > DENSE or len(x) < 5 * size:
        sd = x.std(axis=0)
        sd = np.where(sd > 0, sd, 1)
        return (x - x.mean(axis=0)) / sd, s * sd
    # a little of the diagonal: coordinates may be the same up to rounding
    covariance = np.cov(x, rowvar=False).reshape(size, size)
    root = np.linalg.cholesky(covariance + np.diag(1e-9 * np.diag(covariance) + 1e-300))
    return np.linalg.solve(root, (x - x.mean(axis=0)).T).T, s @ root


def stein_kernel(x: np.ndarray, s: np.ndarray, y: np.ndarray, t: np.ndarray) -> np.ndarray:
    """h for all pairs, (len(x), len(y)); s and t are the scores at x and y.

    With w = 1 + |x - y|^2 / d and k = w^(-1/2): grad_x k = -(x - y) w^(-3/2) / d = -grad_y k, and
    sum_i d^2 k / dx_i dy_i = w^(-3/2) - 3 |x - y|^2 w^(-5/2) / d^2.
    """
    d = x.shape[1]
    square = np.maximum(np.sum(x**2, 1)[:, None] + np.sum(y**2, 1)[None] - 2 * x @ y.T, 0)
    w = 1 + square / d
    along = (np.sum(s * x, 1)[:, None] - s @ y.T) - (x @ t.T - np.sum(y * t, 1)[None])  # (s - t).(x - y)
    return (s @ t.T) * w**-0.5 + along * w**-1.5 / d + w**-1.5 - 3 * square * w**-2.5 / d**2


def _worth(draws: np.ndarray, rng: Any) -> float:
    """How many independent draws these are, for the slowest of 20 numbers."""
    chains, length, size = draws.shape
    if length < 4:
        return chains * length
    some = draws[:, :, rng.choice(size, min(size, 20), replace=False)]
    return float(np.clip(np.nanmin(size_of_mean(some), initial=chains * length), 1, chains * length))


def _weights(chains: int, length: int, time: float, correlation: float, rng: Any) -> np.ndarray:
    """(BOOTSTRAPS, chain * draw) random signs, which flip along a chain about once in four correlation times.

    Signs that flip more often lose the correlation of slow functions of the draws, and right draws look wrong; signs
    that flip less often are so few that wrong draws look right. Chains that correlate by c get sqrt(c) times common
    signs and sqrt(1 - c) times their own.
    """
    chance = 0.5 if time < 1.5 else 0.25 / time
    shared = float(np.clip(correlation, 0, 1)) if chains > 1 else 0.0
    signs = np.sqrt(1 - shared) * _signs(chains, length, chance, rng)
    if shared > 0:
        signs = signs + np.sqrt(shared) * _signs(1, length, chance, rng)
    return signs.reshape(BOOTSTRAPS, -1)


def _signs(chains: int, length: int, chance: float, rng: Any) -> np.ndarray:
    """(BOOTSTRAPS, chain, draw) signs that flip along a chain with this chance."""
    flips = np.where(rng.random((BOOTSTRAPS, chains, length)) < chance, -1, 1).astype(np.int8)
    flips[:, :, 0] = rng.choice(np.array([-1, 1], np.int8), (BOOTSTRAPS, chains))
    return np.cumprod(flips, axis=2, dtype=np.int8).astype(np.float64)
