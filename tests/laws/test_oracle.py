"""The oracle against closed forms, and its power: it must reject the slips that it is there to find."""

import ast
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.oracle import correction, drift, fokker_planck, gradient, observables, weak_form

POINTS = np.random.default_rng(11).normal(size=(20, 2))
BOX = [(-11.0, 11.0), (-11.0, 11.0)]
TEMPERATURES = [0.5, 1.0, 2.0]


def energy(z):
    """1.05 x^2 / 2 - 0.4 x y + 0.8 y^2 / 2 + cos(x + 0.3) / 2, so that all derivatives fit in a line."""
    x, y = z[0], z[1]
    return 0.525 * x**2 - 0.4 * x * y + 0.4 * y**2 + 0.5 * jnp.cos(x + 0.3)


def energy_gradient(z):
    x, y = z[0], z[1]
    return jnp.stack([1.05 * x - 0.4 * y - 0.5 * jnp.sin(x + 0.3), -0.4 * x + 0.8 * y])


def diffusion(z):
    x, y = z[0], z[1]
    mixed = 0.3 * jnp.sin(x - y)
    return jnp.stack([jnp.stack([1.0 + 0.5 * jnp.cos(x), mixed]), jnp.stack([mixed, 1.2 + 0.4 * jnp.sin(x + y)])])


def curl(z):
    entry = 0.7 * jnp.sin(z[0]) + 0.5 * jnp.cos(z[1] + 0.2)
    return jnp.stack([jnp.stack([0.0 * entry, -entry]), jnp.stack([entry, 0.0 * entry])])


def both(z):
    return diffusion(z) + curl(z)


def gamma_of_diffusion(z):
    x, y = z[0], z[1]
    slope = 0.3 * jnp.cos(x - y)
    return jnp.stack([-0.5 * jnp.sin(x) - slope, slope + 0.4 * jnp.cos(x + y)])


def gamma_of_curl(z):
    return jnp.stack([0.5 * jnp.sin(z[1] + 0.2), 0.7 * jnp.cos(z[0])])


def sde(of_diffusion, of_curl, temperature=1.0):
    """The drift with Gamma's two parts multiplied by the given factors: (1, 1) is right."""

    def f(z):
        gamma = of_diffusion * gamma_of_diffusion(z) + of_curl * gamma_of_curl(z)
        return -both(z) @ energy_gradient(z) + temperature * gamma

    return f


def test_gradient_agrees_with_the_closed_form():
    for z in POINTS:
        np.testing.assert_allclose(gradient(energy, z), energy_gradient(z), rtol=1e-9, atol=1e-10)


def test_correction_agrees_with_the_closed_form():
    for z in POINTS:
        expected = gamma_of_diffusion(z) + gamma_of_curl(z)
        np.testing.assert_allclose(correction(both, z), expected, rtol=1e-9, atol=1e-10)


def test_correction_sums_over_the_second_index():
    def only_first_row(z):
        return np.array([[z[0] ** 2, np.exp(z[1])], [0.0, 0.0]])

    np.testing.assert_allclose(correction(only_first_row, np.array([1.5, 0.2])), [3.0 + np.exp(0.2), 0.0], rtol=1e-10)


@pytest.mark.parametrize("scale", [1e-2, 1.0, 1e3])
def test_differences_hold_at_other_scales_of_position_and_value(scale):
    z = scale * np.array([0.8, -1.3])
    got = gradient(lambda z: 1e4 * np.sin(z[0] / scale) * np.exp(z[1] / scale), z)
    expected = 1e4 / scale * np.exp(-1.3) * np.array([np.cos(0.8), np.sin(0.8)])
    np.testing.assert_allclose(got, expected, rtol=1e-9)


def test_float32_answers_are_refused():
    with pytest.raises(TypeError, match="expected float64"):
        gradient(lambda z: np.float32(z @ z), np.ones(2))


@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_drift_is_the_theorem(temperature):
    right = sde(1, 1, temperature)
    for z in POINTS[:5]:
        got = drift(energy, diffusion, curl, z, temperature)
        np.testing.assert_allclose(got, right(z), rtol=1e-9, atol=1e-9)


def test_fokker_planck_is_the_equation_in_p():
    f = sde(-1, 1)

    def direct(z):
        p = lambda z: jnp.exp(-energy(z))  # noqa: E731
        flow = jnp.trace(jax.jacfwd(lambda z: f(z) * p(z))(z))
        spread = jnp.einsum("ijij->", jax.jacfwd(jax.jacfwd(lambda z: diffusion(z) * p(z)))(z))
        return (-flow + spread) / p(z)

    residual, _ = fokker_planck(f, diffusion, energy, POINTS)
    np.testing.assert_allclose(residual, jax.jit(jax.vmap(direct))(jnp.asarray(POINTS)), rtol=1e-11, atol=1e-12)


def test_fokker_planck_takes_one_point_or_many():
    residual, scale = fokker_planck(sde(1, 1), diffusion, energy, POINTS[0])
    assert residual.shape == scale.shape == ()
    residual, scale = fokker_planck(sde(1, 1), diffusion, energy, POINTS)
    assert residual.shape == scale.shape == (len(POINTS),)


@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_a_right_sde_passes(temperature):
    right = sde(1, 1, temperature)
    residual, scale = fokker_planck(right, diffusion, energy, POINTS, temperature)
    assert np.max(np.abs(residual) / scale) < 1e-12
    box = np.array(BOX) * np.sqrt(temperature)
    assert np.max(np.abs(weak_form(right, diffusion, energy, box, temperature=temperature))) < 1e-10


FACTORS = {"sign": (-1, -1), "index": (1, -1), "missing": (0, 0), "of the curl missing": (1, 0)}


@pytest.mark.parametrize("factors", FACTORS.values(), ids=FACTORS.keys())
def test_a_wrong_gamma_fails_by_orders_of_magnitude(factors):
    residual, scale = fokker_planck(sde(*factors), diffusion, energy, POINTS)
    assert np.max(np.abs(residual) / scale) > 1e-2
    assert np.max(np.abs(weak_form(sde(*factors), diffusion, energy, BOX))) > 1e-3


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_gamma_without_the_temperature_fails(temperature):
    residual, scale = fokker_planck(sde(1, 1), diffusion, energy, POINTS, temperature)
    assert np.max(np.abs(residual) / scale) > 1e-2


def test_there_are_five_test_functions_and_the_caller_may_bring_others():
    assert len(observables(2)) == len(observables(3)) == 5
    ratios = weak_form(sde(1, 1), diffusion, energy, BOX, [lambda z: z[0] ** 3, lambda z: jnp.sin(2 * z[1])])
    assert ratios.shape == (2,)
    assert np.max(np.abs(ratios)) < 1e-8


def test_a_box_that_cuts_the_law_shows():
    ratios = weak_form(sde(1, 1), diffusion, energy, [(-1.0, 1.0), (-1.0, 1.0)])
    assert np.max(np.abs(ratios)) > 1e-2


def test_nothing_here_imports_the_package():
    """Neither the oracle nor the samplers that are wrong on purpose: what is compared shares no code."""
    root = Path(__file__).resolve().parents[2]
    folders = [root / "tests/oracle", *(root / "paper/src/ergodica_paper" / name for name in ("printed", "wrong"))]
    paths = [path for folder in folders for path in folder.glob("*.py") if path.name != "step.py"]  # it asks for audits
    assert len({path.parent for path in paths}) == len(folders)
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in getattr(node, "names", [])] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                assert node.level <= 1, path
                names.append(node.module or "")
            ours = [name for name in names if name.split(".")[0] in ("ergodica", "ergodica_paper")]
            assert all(name.startswith("ergodica_paper.printed") for name in ours), path
