"""What benchmarks/against_blackjax.py holds both sides against: each scheme's own law, not the other's."""

import jax
import numpy as np
import pytest

import ergodica as eg
from benchmarks.gaussian_twin import Moments, Twin, euler, splitting
from ergodica.integrators.base import Setting

PRECISION = np.array([[2.0, 0.5], [0.5, 1.0]])


def test_noise_of_windows_is_that_of_all_offsets():
    rows = np.random.default_rng(0).normal(size=(30, 2))
    twin = Twin(np.zeros(2), PRECISION, rows - rows.mean(0))
    wrapped = np.concatenate([twin.gradients, twin.gradients])
    sums = np.array([30 / 7 * wrapped[i : i + 7].sum(0) for i in range(30)])
    np.testing.assert_allclose(twin.windows(7), sums.T @ sums / 30, rtol=1e-10)
    # one order is not the mean over all of them, which is what gathered rows have
    assert np.max(np.abs(twin.windows(7) / twin.shuffled(7) - 1)) > 0.1


def test_splitting_is_the_step_of_the_library():
    h, friction = 0.05, 1.5
    kernel = eg.Kernel(eg.Density(lambda q: q @ (PRECISION @ q) / 2, init=np.zeros(2)), eg.sgnht(diffusion=friction))
    state = kernel.init(np.array([0.7, -0.4]), jax.random.key(0))
    moved, _ = kernel.step(state, jax.random.key(1), h)
    drawn = kernel.integrator.draw(kernel.recipe, state.phase, jax.random.key(1), Setting(h, 1.0))
    q, r, xi = (np.asarray(getattr(state.phase, slot)).reshape(1, -1) for slot in state.phase._fields[:3])
    normal = np.asarray(drawn["momentum"])[None]
    found = splitting(friction, h)(q, r, xi, lambda q: q @ PRECISION, normal)
    for slot, value in zip(state.phase._fields[:3], found, strict=True):
        np.testing.assert_allclose(np.asarray(getattr(moved.phase, slot)).ravel(), value.ravel(), rtol=1e-10)


@pytest.mark.parametrize("scheme", [splitting, euler])
def test_a_twin_without_noise_has_the_law_and_a_wrong_one_is_off(scheme):
    twin = Twin(np.zeros(2), np.eye(2), np.zeros((1, 2)))
    found = twin.sgnht(scheme(1.0, 0.1), 1e-12 * np.eye(2), 3000, seed=1)
    right = Moments(np.zeros(2), np.zeros(2), np.zeros(2), np.full(2, 0.02))  # of a step of 0.1
    assert found.off(right) < 5
    assert found.off(right._replace(deviation=np.log([1.0, 1.5]))) > 5
