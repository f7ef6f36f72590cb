"""Bayesian logistic regression as the benchmarks use it: data, the likelihood written in two ways, a reference."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import ergodica as eg

FEATURES = 54
PRIOR_VARIANCE = 10.0


class Data(NamedTuple):
    """Features (n, 54) and labels 0 or 1, float32."""

    x: np.ndarray
    y: np.ndarray


def data(rows: int, spread: float = 1.0, seed: int = 0) -> Data:
    """Gaussian features; `spread` is the ratio of the largest to the smallest eigenvalue of their covariance."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.standard_normal((FEATURES, FEATURES)))[0]
    scales = np.geomspace(1.0, spread, FEATURES) ** -0.5
    root = (turn * scales * np.sqrt(FEATURES / np.sum(scales**2))) @ turn.T
    weights = rng.standard_normal(FEATURES) / np.sqrt(FEATURES)
    x = rng.standard_normal((rows, FEATURES)).astype(np.float32) @ root.astype(np.float32)
    y = (rng.random(rows) < 1 / (1 + np.exp(-x @ weights))).astype(np.float32)
    return Data(x, y)


def log_prior(weights: Any) -> Any:
    return -jnp.sum(weights**2) / (2 * PRIOR_VARIANCE)


def one_product(weights: Any, batch: Data) -> Any:
    logits = batch.x @ weights
    return batch.y * logits - jax.nn.softplus(logits)


def two_products(weights: Any, batch: Data) -> Any:
    """The same numbers, as people also write it; the gradient then takes two products with the features."""
    return batch.y * (batch.x @ weights) - jax.nn.softplus(batch.x @ weights)


def target(rows: Data, log_likelihood: Any = one_product) -> eg.Posterior:
    return eg.Posterior(log_prior, log_likelihood, rows, init=np.zeros(FEATURES, np.float32))


def reference(rows: Data, mode: np.ndarray, covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard deviations by importance sampling from Laplace's Gaussian, in pairs mode + z, mode - z.

    With so much data the posterior is close to it, so the weights are nearly even (their effective number is checked),
    and what they change is estimated alone: the draws' own error in mean and variance is known, and taken off.
    """
    rng = np.random.default_rng(1)
    count = 10_000 if len(rows.y) <= 200_000 else 4_000
    half = rng.standard_normal((count // 2, FEATURES))
    z = np.concatenate([half, -half])
    root = np.linalg.cholesky(covariance)
    log_weights = log_posterior(rows, mode + z @ root.T) + np.sum(z**2, 1) / 2
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    if 1 / np.sum(weights**2) < 0.5 * count:
        raise SystemExit(f"the reference has only {1 / np.sum(weights**2):.0f} effective draws of {count}")
    shift = weights @ z
    change = (z * (weights - 1 / count)[:, None]).T @ z - np.outer(shift, shift)
    return mode + root @ shift, np.sqrt(np.diag(root @ (np.eye(FEATURES) + change) @ root.T))


def log_posterior(rows: Data, draws: np.ndarray) -> np.ndarray:
    """At each of the draws, added up in float64: the sum over a million rows needs it."""

    @jax.jit
    def terms(x, y, weights):
        logits = x @ weights.T
        return jnp.sum((y[:, None] * logits - jax.nn.softplus(logits)).reshape(-1, 50, logits.shape[1]), axis=1)

    centre = draws.mean(0)
    total = -np.sum(draws**2, 1) / (2 * PRIOR_VARIANCE)
    for start in range(0, len(rows.y), 10_000):
        x, y = (leaf[start : start + 10_000] for leaf in rows)
        # differences to the centre: what all draws have in common would eat up the digits of float32
        common = np.asarray(terms(x, y, centre[None].astype(np.float32)), np.float64)
        for some in range(0, len(draws), 1_000):
            weights = draws[some : some + 1_000].astype(np.float32)
            total[some : some + 1_000] += (np.asarray(terms(x, y, weights), np.float64) - common).sum(0)
    return total
