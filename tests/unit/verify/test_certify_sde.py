"""Bad input to `certify_sde` gets one clear line; small cases by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ergodica.errors import InputError
from ergodica.verify.certificate.fault import smallest_error
from ergodica.verify.certificate.handwritten import certify_sde
from ergodica.verify.certificate.repairs import find_repairs
from ergodica.verify.certificate.terms import terms_at


def drift(z):
    return -z


def identity(z):
    return jnp.eye(z.size, dtype=z.dtype)


def energy(z):
    return jnp.sum(z**2) / 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"drift": lambda z: jnp.where(z[0] > 0, jnp.nan, -z)}, r"drift\[0\] is nan at z = \(.*of 512 points"),
        ({"drift": lambda z: -z[:1]}, r"drift returned shape \(1,\), expected an array of shape \(2,\)"),
        ({"drift": lambda z: [-z]}, "drift returned"),
        ({"drift": lambda z: np.sin(z)}, "drift hands its argument to NumPy: write it with jax.numpy"),
        ({"drift": 3.0}, "drift is 3.0: expected a jnp function of one flat vector"),
        ({"hamiltonian": lambda z: z}, r"hamiltonian returned shape \(2,\), expected an array of shape \(\)"),
        ({"hamiltonian": lambda z: jnp.sum(jnp.log(z - 50.0))}, "not finite around 0: give start="),
        ({"hamiltonian": lambda z: jnp.log(z[0]), "start": [-1.0, 0.0]}, "not finite at start: give one where it is"),
        ({"diffusion": lambda z: jnp.ones(2)}, r"diffusion returned shape \(2,\), expected an array of shape \(2, 2\)"),
        (
            {"diffusion": lambda z: jnp.array([[1.0, 0.5], [0.0, 1.0]])},
            r"diffusion is not symmetric: at z = .*D\[0, 1\]",
        ),
        ({"diffusion": lambda z: jnp.full((2, 2), jnp.inf)}, r"diffusion\[0, 0\] is inf"),
        ({"dim": 0}, "dim = 0: expected a whole number from 1 to 100"),
        ({"dim": 2.0}, "dim = 2.0: expected a whole number"),
        ({"dim": 1000}, "for more, write a Recipe: eg.certify"),
        ({"start": [1.0, 2.0, 3.0]}, "expected 2 finite numbers"),
        ({"temperature": -1.0}, "temperature"),
        ({"seed": -1}, "seed must be a whole number, 0 or more, got -1"),
    ],
)
def test_bad_input_is_one_clear_line(changes, message):
    given = {"drift": drift, "diffusion": identity, "hamiltonian": energy, "dim": 2} | changes
    with pytest.raises(InputError, match=message) as error:
        certify_sde(**given)
    assert "\n" not in str(error.value)


def test_a_negative_diffusion_does_not_pass():
    """exp(-H) solves the equation with D = -1 and f = +z, but there is no such noise."""
    report = certify_sde(lambda z: z, lambda z: -identity(z), energy, 2)
    assert not report.passed
    assert report["Fokker-Planck residual"].passed
    assert "eigenvalue -1" in report["diffusion is PSD"].explanation


def test_start_moves_the_walkers_into_a_domain_far_away():
    def far(z):  # Gamma(3), of z - 50
        return jnp.sum(z - 50.0 - 2 * jnp.log(z - 50.0))

    report = certify_sde(lambda z: -jax.grad(far)(z), identity, far, 2, start=[51.0, 52.0])
    assert report.passed, str(report)


def test_temperature_enters_noise_and_law():
    assert certify_sde(drift, identity, energy, 3, temperature=0.3).passed
    report = certify_sde(lambda z: -z / 0.3, identity, energy, 3, temperature=0.3)
    assert report.repairs[0].kind == "diffusion"
    assert report.repairs[0].factor == pytest.approx(1 / 0.3)
    assert [other.kind for other in report.repairs[1:]] == ["temperature", "friction"]
    assert report.other_law.words == "exp(-H/0.09)"


def test_one_coordinate():
    report = certify_sde(lambda z: -1.5 * z, identity, energy, 1)
    assert report.fault.coordinate == 0
    assert report.fault.relative == pytest.approx(1 / 3)
    assert report.figures["repair"] == "diffusion"


def test_a_flow_without_noise_passes_with_a_word_about_it():
    report = certify_sde(lambda z: jnp.stack([z[1], -z[0]]), lambda z: jnp.zeros((2, 2)), energy, 2)
    assert report.passed
    assert any("D = 0" in note for note in report.notes)


def test_noise_that_does_not_reach_a_coordinate():
    def noise(z):
        return jnp.diag(jnp.array([0.0, 1.0]))

    report = certify_sde(lambda z: -noise(z) @ z, noise, energy, 2)
    assert report["Fokker-Planck residual"].passed
    assert not report["noise reaches everything"].passed
    assert "z[0]" in report["noise reaches everything"].explanation


def test_float32_numbers_are_held_to_their_own_rounding():
    with jax.enable_x64(False), jax.numpy_dtype_promotion("standard"):
        stiffness = jnp.array([0.1, 0.7])
        root = jnp.sqrt(stiffness)

        def hamiltonian(z):
            return jnp.sum((root * z) ** 2) / 2

        right = certify_sde(lambda z: -stiffness * z, identity, hamiltonian, 2)
        wrong = certify_sde(lambda z: -2 * stiffness * z, identity, hamiltonian, 2)
    assert right.passed
    assert any("float32" in note for note in right.notes)
    assert not wrong.passed
    assert wrong.repairs[0].factor == 2.0


def test_more_coordinates_than_lines_are_looked_at():
    report = certify_sde(lambda z: -z.at[3].multiply(1.3), identity, energy, 14)
    assert report.repairs == ()
    assert report.fault.coordinate == 3
    assert report.fault.relative == pytest.approx(0.3 / 1.3, rel=0.2)
    assert report.other_law.factors[2 + 14 + 3] == pytest.approx(0.3)


def test_smallest_error_is_the_gradient_that_was_added():
    rng = np.random.default_rng(0)
    points = rng.standard_normal((4000, 2))

    def wrong(z):
        return -z + jax.grad(lambda z: 0.4 * z[0] * z[1] ** 2 + 0.3 * z[0])(z)

    with jax.enable_x64(True):
        terms = terms_at((wrong, identity, energy), points, 1.0)
    error = np.stack([0.4 * points[:, 1] ** 2 + 0.3, 0.8 * points[:, 0] * points[:, 1]], axis=1)
    assert np.sqrt(np.mean((smallest_error(terms) - error) ** 2)) < 0.1
    assert find_repairs(terms, 1e-12) == []
