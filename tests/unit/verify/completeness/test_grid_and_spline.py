"""The box that holds a law, wherever it is and whatever its scale; splines that are exact on what they can hold."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ergodica.verify.completeness.grid import holding, mass_outside
from ergodica.verify.completeness.rebuilt_curl import Spline, coefficients, refined


@pytest.mark.parametrize("dim", [2, 3])
def test_box_fits_a_law_far_off_and_badly_scaled(dim):
    centre, scale = np.array([50.0, -7e3, 0.0])[:dim], np.array([1e-3, 1e3, 1.0])[:dim]

    def energies(points):
        return 0.5 * np.sum(((points - centre) / scale) ** 2, axis=1)

    box, lowest = holding(energies, dim, np.log(1e16))
    reach = np.sqrt(2 * np.log(1e16))
    for (low, high), middle, width in zip(box, centre, scale, strict=True):
        assert 1 <= (middle - low) / width / reach < 1.1
        assert 1 <= (high - middle) / width / reach < 1.1
    assert lowest < 0.1


def test_both_of_two_distant_peaks_are_held():
    def energies(points):
        return -np.logaddexp(*(-0.5 * np.sum((points - m) ** 2, axis=1) for m in (-6.0, 6.0)))

    box, _ = holding(energies, 2, np.log(1e4))
    assert all(low < -9 and high > 9 for low, high in box)


def test_no_box_for_what_is_no_law():
    assert holding(lambda points: -np.sum(points**2, axis=1), 2, 9.0) is None
    assert holding(lambda points: np.full(len(points), np.nan), 2, 9.0) is None


def test_mass_outside_a_box():
    def normal(points):
        return 0.5 * np.sum(points**2, axis=1)

    def cauchy(points):
        return 1.5 * np.log1p(np.sum(points**2, axis=1))

    whole, _ = holding(normal, 2, np.log(1e16))
    assert abs(mass_outside(normal, ((-3, 3),) * 2, whole) - 0.0053925) < 1e-6
    assert mass_outside(normal, ((20, 30),) * 2, whole) == 1
    # the plane's Cauchy law: P(|x| < a and |y| < a) = (2/pi) atan(a^2 / sqrt(1 + 2 a^2))
    wide, _ = holding(cauchy, 2, np.log(1e16))
    inside = 2 / np.pi * np.arctan(50**2 / np.sqrt(1 + 2 * 50**2))
    assert abs(mass_outside(cauchy, ((-50, 50),) * 2, wide) - (1 - inside)) < 2e-4


@pytest.mark.parametrize(("degree", "shape"), [(11, (32, 40)), (7, (16, 16, 24))])
def test_spline_through_a_trigonometric_polynomial(degree, shape):
    waves = np.array([2, -1, 1])[: len(shape)]
    axes = np.meshgrid(*(np.arange(n) / n for n in shape), indexing="ij")
    values = np.cos(2 * np.pi * sum(k * x for k, x in zip(waves, axes, strict=True)))
    fine = tuple(2 * n for n in shape)
    table = coefficients(degree, refined(np.fft.rfftn(values), shape, 2), fine)
    spline = Spline(table[None], np.zeros(len(shape)), 1 / np.array(fine), degree)
    points = jnp.asarray(np.random.default_rng(5).uniform(size=(50, len(shape))))
    found, slopes = jax.jit(jax.vmap(jax.value_and_grad(lambda z: spline(z)[0])))(points)
    angle = 2 * np.pi * points @ jnp.asarray(waves, float)
    tolerance = {11: 1e-12, 7: 1e-8}[degree]
    np.testing.assert_allclose(found, jnp.cos(angle), atol=tolerance)
    np.testing.assert_allclose(
        slopes, -2 * np.pi * jnp.outer(jnp.sin(angle), jnp.asarray(waves, float)), atol=100 * tolerance
    )
