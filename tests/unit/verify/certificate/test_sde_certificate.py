"""Bad input to `certify_sde` gets one clear line; small cases by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ergodica.errors import InputError
from ergodica.verify.certificate.fault import smallest_error
from ergodica.verify.certificate.points import descend
from ergodica.verify.certificate.repairs import find_repairs, terms_at
from ergodica.verify.certificate.sde_certificate import certify_sde
from ergodica.verify.hand_written import hand_written


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
        ({"drift": 3.0}, "drift is of type float: expected a jnp function of one flat vector"),
        ({"hamiltonian": lambda z: z}, r"hamiltonian returned shape \(2,\), expected an array of shape \(\)"),
        ({"hamiltonian": lambda z: jnp.sum(jnp.log(z - 50.0))}, "not finite around 0: give start="),
        ({"hamiltonian": lambda z: jnp.log(z[0]), "start": [-1.0, 0.0]}, "not finite at start: give one where it is"),
        ({"diffusion": lambda z: jnp.ones(2)}, r"diffusion returned shape \(2,\), expected an array of shape \(2, 2\)"),
        (
            {"diffusion": lambda z: jnp.array([[1.0, 0.5], [0.0, 1.0]])},
            r"diffusion is not symmetric: at z = .*D\[0, 1\]",
        ),
        ({"diffusion": lambda z: jnp.full((2, 2), jnp.inf)}, r"diffusion\[0, 0\] is inf"),
        ({"dim": 0}, "dim is 0: expected a whole number of at least 1"),
        ({"dim": 2.0}, "dim is 2.0: expected a whole number"),
        ({"dim": 1000}, "for more, write a Recipe: eg.certify"),
        ({"start": [1.0, 2.0, 3.0]}, "expected 2 finite numbers"),
        ({"temperature": -1.0}, "temperature"),
        ({"seed": -1}, "seed is -1: expected a whole number of at least 0"),
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
        terms = terms_at(hand_written(wrong, identity, energy, 2), points)
    error = np.stack([0.4 * points[:, 1] ** 2 + 0.3, 0.8 * points[:, 0] * points[:, 1]], axis=1)
    assert np.sqrt(np.mean((smallest_error(terms) - error) ** 2)) < 0.1
    assert find_repairs(terms, 1e-12) == []


def cauchy(z):
    return jnp.sum(jnp.log1p(z**2))


def test_a_drift_that_cancels_everywhere_is_no_jump():
    """D grad H = 2 z = div D for the Cauchy density and D = 1 + z^2: the drift is rounding, as are its slopes."""

    def diffusion(z):
        return jnp.diag(1 + z**2)

    def cancelled(z):
        return -(1 + z**2) * jax.grad(cauchy)(z) + 2 * z

    right = certify_sde(cancelled, diffusion, cauchy, 1)
    assert right.passed, str(right)
    assert "zero up to rounding" in right["Fokker-Planck residual"].explanation
    # a derivative that is hidden is still seen, however small the drift is that is left
    hidden = certify_sde(lambda z: cancelled(z) - 1e-3 * jax.lax.stop_gradient(z) * cauchy(z), diffusion, cauchy, 1)
    assert not hidden.passed


def two_modes(z):
    return -jnp.logaddexp(-jnp.sum(z**2) / 2, -jnp.sum((z - 9) ** 2) / 2)


def test_a_mode_far_away_is_found_and_looked_at():
    def halved_there(z):
        return -jax.grad(two_modes)(z) * jnp.where(jnp.sum(z) > 18, 0.5, 1.0)

    wrong = certify_sde(halved_there, identity, two_modes, 4)
    assert not wrong["Fokker-Planck residual"].passed
    assert any("vanishes at 1 of 2 modes" in note for note in wrong.notes)
    right = certify_sde(lambda z: -jax.grad(two_modes)(z), identity, two_modes, 4)
    assert right.passed, str(right)
    assert any(note.startswith("The points lie at 2 modes, z[0] from -") for note in right.notes)


def test_every_report_says_what_was_not_looked_at():
    """A well so narrow that no descent finds it."""

    def with_needle(z):
        return -jnp.logaddexp(-energy(z), 9 - jnp.sum((z - 20) ** 2) / 2e-4)

    def drift(z):
        return -jax.grad(energy)(z)

    for report in (certify_sde(drift, identity, with_needle, 2), certify_sde(lambda z: -z / 2, identity, energy, 2)):
        assert any("at one mode" in note and note.endswith("was not looked at.") for note in report.notes)


def test_the_coordinate_that_forgot_its_coupling_is_named_first():
    """A Nose-Hoover chain whose second thermostat does not act back on the first, with noise at its end."""

    def chain(z):
        q, p, first, second = z
        return jnp.stack([p, -q - first * p, p**2 - 1, first**2 - 1 - second])

    fault = certify_sde(chain, lambda z: jnp.diag(jnp.array([0, 0, 0, 1.0])), energy, 4).fault
    assert [k for k, _ in fault.alone] == [2, 3]
    assert fault.coordinate == 2


def test_descents_end_at_both_modes_or_are_not_settled():
    starts = np.random.default_rng(0).normal(4.5, 10, (40, 3))
    with jax.enable_x64(True):
        ends = descend(two_modes, 1.0, starts, np.ones(3), 40)
        falling = descend(lambda z: jnp.sum(z), 1.0, starts, np.ones(3), 40)
    assert np.all(ends.is_settled)
    np.testing.assert_allclose(ends.points, np.where(ends.points > 4.5, 9.0, 0.0), atol=0.05)
    assert {0, 9} == set(np.round(ends.points[:, 0]).astype(int).tolist())
    assert not np.any(falling.is_settled)
