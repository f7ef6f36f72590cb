"""The Stein kernel against differences; the discrepancy on right and wrong draws."""

import numpy as np
import pytest

from ergodica.diagnostics.stein import kernel_stein_discrepancy, stein_kernel, whitened
from ergodica.errors import InputError
from tests.unit.diagnostics.chains import autoregressive


def test_the_kernel_is_its_definition():
    x, s, y, t = np.random.default_rng(0).normal(size=(4, 3))
    step, axes = 1e-4, np.eye(3)

    def k(a, b):
        return (1 + np.sum((a - b) ** 2) / 3) ** -0.5

    def slope(function, along):
        return (function(step * along) - function(-step * along)) / (2 * step)

    first = np.array([slope(lambda e: k(x + e, y), axis) for axis in axes])
    second = np.array([slope(lambda e: k(x, y + e), axis) for axis in axes])
    mixed = sum(slope(lambda e, n=axis: slope(lambda f: k(x + e, y + f), n), axis) for axis in axes)
    expected = s @ t * k(x, y) + s @ second + t @ first + mixed
    found = stein_kernel(x[None], s[None], y[None], t[None])
    np.testing.assert_allclose(found, [[expected]], rtol=1e-6)


def test_whitening_does_not_care_for_units():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(300, 3))
    mixing = np.array([[1e3, 2.0, 0.0], [0.0, 1e-2, 0.1], [0.0, 0.0, 5.0]])
    y = x @ mixing
    gradients = y @ np.linalg.inv(mixing.T @ mixing)
    plain, mixed = kernel_stein_discrepancy(x, x), kernel_stein_discrepancy(y, gradients)
    assert mixed.discrepancy == pytest.approx(plain.discrepancy, rel=0.1)
    white, _ = whitened(y, gradients)
    np.testing.assert_allclose(np.cov(white, rowvar=False), np.eye(3), atol=1e-3)


@pytest.mark.parametrize("a", [0.0, 0.9])
def test_right_draws_pass_and_wrong_ones_do_not(a):
    right = autoregressive(draws=250, a=a, seed=2)
    assert kernel_stein_discrepancy(right, right).p_value > 0.01
    for wrong in (2 * right, right + 1.5):
        found = kernel_stein_discrepancy(wrong, wrong)
        assert found.p_value < 0.005
        assert found.discrepancy > found.usual


def test_a_single_coordinate_a_stuck_one_and_bad_shapes():
    x = np.random.default_rng(3).normal(size=(200, 1))
    assert kernel_stein_discrepancy(x, 2 * x, temperature=2.0).p_value > 0.01
    still = np.concatenate([x, np.ones_like(x)], axis=1)
    assert np.isfinite(kernel_stein_discrepancy(still, still).discrepancy)
    with pytest.raises(InputError, match="expected \\(chain, draw, d\\)"):
        kernel_stein_discrepancy(x, x[1:])
    with pytest.raises(InputError, match="at most 2000"):
        kernel_stein_discrepancy(np.zeros((2001, 1)), np.zeros((2001, 1)))


def test_p_values_of_right_chains_are_not_too_small(monkeypatch):
    """Under uniform p-values 12 or more of 60 are below 0.05 with chance 1e-4; also for chains that share batches."""
    monkeypatch.setattr("ergodica.diagnostics.stein.BOOTSTRAP_COUNT", 199)
    own = [autoregressive(draws=60, size=2, a=0.5, seed=seed) for seed in range(60)]
    common = [np.repeat(autoregressive(1, 60, 2, 0.5, seed), 4, axis=0) for seed in range(60)]
    assert sum(kernel_stein_discrepancy(x, x).p_value < 0.05 for x in own) < 12
    nearly = [x + 1e-6 * y for x, y in zip(common, own, strict=True)]
    assert sum(kernel_stein_discrepancy(x, x, correlation=1.0).p_value < 0.05 for x in nearly) < 12
    assert sum(kernel_stein_discrepancy(x, x).p_value < 0.05 for x in nearly) > 20
