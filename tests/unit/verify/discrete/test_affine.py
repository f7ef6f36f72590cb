"""The stationary covariance by doubling, with and without noise that grows with the covariance."""

import math

import numpy as np
import pytest

import ergodica as eg
from ergodica.verify.discrete.affine import Doubling, solve_with_feedback


def test_doubling_solves_its_equation():
    rng = np.random.default_rng(0)
    a = rng.normal(size=(6, 6))
    a *= 0.9999 / np.max(np.abs(np.linalg.eigvals(a)))
    noise = 0.9 * np.eye(6) + np.outer(np.arange(6.0), np.arange(6.0))
    sigma = Doubling(a).solve(noise)
    np.testing.assert_allclose(a @ sigma @ a.T + noise, sigma, rtol=1e-10)
    with pytest.raises(eg.InputError, match="too close to 1"):
        Doubling(np.eye(2))


def test_feedback_below_and_above_its_limit():
    half = Doubling(np.full((1, 1), math.sqrt(0.5)))
    sigma = solve_with_feedback(half, np.eye(1), lambda x: 0.49 * x)
    assert sigma is not None
    np.testing.assert_allclose(sigma, [[100.0]], rtol=1e-12)
    assert solve_with_feedback(half, np.eye(1), lambda x: 0.51 * x) is None
