"""The claimed law as an audit knows it: exact where it can be, by Metropolis-corrected leapfrog elsewhere.

Statistical bounds are 5 standard errors, false alarm 6e-7 each.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodica as eg
from ergodica.tree import Layout
from ergodica.verify.audit.features import features
from ergodica.verify.audit.laws import expectations
from ergodica.verify.audit.reference import reference

KEY = jax.random.key(5)
PRECISION = np.array([[2.0, 0.6], [0.6, 0.5]])


def quadratic(x):
    return 0.5 * (x - 1.0) @ jnp.asarray(PRECISION) @ (x - 1.0)


def quartic(x):
    """E[x dU/dx] = 4 E[x⁴] = T: at temperature T, x has the law of T^(1/4) times that at 1."""
    return jnp.sum(x**4)


def test_a_gaussian_is_recognised_and_drawn_at_any_temperature():
    law = reference(eg.Density(quadratic), jnp.zeros(2), 0.3, KEY, 20_000)
    truth = 0.3 * np.linalg.inv(PRECISION)
    np.testing.assert_allclose(law.mean, 1.0)
    np.testing.assert_allclose(law.deviation**2, np.diag(truth))
    x = law.draws.reshape(-1, 2)
    spread = np.einsum("ni,nj->nij", x - 1, x - 1)
    assert np.all(np.abs(spread.mean(0) - truth) < 5 * spread.std(0) / np.sqrt(len(x)))


def test_a_target_of_the_gallery_is_drawn_by_its_own_draw():
    target = eg.gallery.two_peaks()
    law = reference(target, target.init, 1.0, KEY, 8192)
    assert law.words == "exact draws of the target's own"
    assert law.deviation[0] ** 2 == pytest.approx(float(target.truth.variance[0]))
    assert np.mean(law.draws**2) == pytest.approx(float(target.truth.variance[0]), rel=0.05)


@pytest.fixture(scope="module")
def leapfrogged():
    target = eg.Density(quartic, init=jnp.array([2.0, -1.0]))
    return target, {t: reference(target, target.init, t, KEY, 0) for t in (1.0, 0.1)}


@pytest.mark.parametrize("temperature", [1.0, 0.1])
def test_any_other_law_is_drawn_by_leapfrog_at_its_temperature(leapfrogged, temperature):
    law = leapfrogged[1][temperature]
    assert law.rhat < 1.01
    fourth = 4 * (law.draws**4).mean(1)  # a row for each chain
    assert np.all(np.abs(fourth.mean(0) / temperature - 1) < 5 * fourth.std(0) / temperature / np.sqrt(len(fourth)))
    assert np.all(law.variance_error < 0.02)


def test_features_have_the_means_that_are_stated(leapfrogged):
    target, laws = leapfrogged
    law = laws[1.0]
    observe = features(target, Layout.of(target.init), law, 1.0)
    observed = np.asarray(jax.vmap(jax.vmap(observe.observe))(jnp.asarray(law.draws))).mean(1)
    expected, errors = expectations(observe, law, None)
    error = np.hypot(observed.std(0) / np.sqrt(len(observed)), errors)[:-1]
    assert np.all(np.abs(observed.mean(0) - expected)[:-1] < 5 * error)
    assert (errors[observe.equipartition] == 0).all()


def test_a_law_that_cannot_be_normalised_is_refused():
    with pytest.raises(eg.InputError, match="normalisable"):
        reference(eg.Density(lambda x: -jnp.sum(x**4)), jnp.ones(1), 1.0, KEY, 0)
