"""`eg.exact_law` against laws derived by hand, against every batch counted out, and on what it must refuse."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodica as eg
from ergodica.integrators import Setting
from ergodica.tree import Layout
from ergodica.verify.discrete.exact import exact_law
from ergodica.verify.discrete.law import DiscreteLaw
from tests.statistical import linear_cases
from tests.statistical.discrete_law import aboba, boa, euler
from tests.statistical.linear_cases import CENTRE, NOISE, PRECISION, Case, as_entries, as_tree, posterior

GAUSSIAN = eg.gallery.gaussian(2)
START = jnp.array([0.3, -0.2, 0.9])
TARGET = posterior()


def gap(law, oracle) -> float:
    """The largest error of mean and covariance, in units of the covariance's size."""
    pairs = ((law.phase_mean, oracle.mean), (law.phase_covariance, oracle.covariance))
    return max(float(np.max(np.abs(a - b))) for a, b in pairs) / float(np.max(np.abs(oracle.covariance)))


def law_of(case: Case, compensate, temperature=1.0, shaped=lambda x: x, target=TARGET, position=START):
    noise = None if compensate is None else as_entries(case.gradient_noise, shaped)
    return exact_law(
        case.recipe,
        target,
        case.step_size,
        case.integrator(),
        noise,
        temperature,
        compensate=compensate,
        position=position,
    )


def named(cases):
    return [pytest.param(case, id=case.name) for case in cases]


# every builder, and every structure of D and mass with either integrator; test_linear.py has each step of them all
NAMES = (
    "sgld scalar", "sgld vector", "sgld dense", "sgrld vector", "sgfs vector", "sgfs dense", "irreversible dense",
    "sghmc scalar Euler", "sghmc dense Euler", "sghmc scalar Splitting", "sghmc vector Splitting",
    "sghmc dense Splitting", "sgrhmc vector Euler", "sgrhmc dense Splitting",
)  # fmt: skip
MAIN = [c for c in linear_cases.position_cases() + linear_cases.momentum_cases() if c.name in NAMES]
assert len(MAIN) == len(NAMES)
PLAIN = [
    case for case in MAIN if case.name in ("sgld vector", "sgfs dense", "sghmc scalar Euler", "sghmc vector Splitting")
]


# -- the law ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", named(MAIN))
def test_compensated_law_is_that_derived_by_hand(case):
    for temperature in (0.5, 1.0, 2.0):
        assert gap(law_of(case, True, temperature), case.law(temperature, True)) < 1e-12


@pytest.mark.parametrize("case", named(PLAIN))
def test_law_with_exact_gradients_and_with_noise_left_alone(case):
    for compensate in (None, False):
        law = law_of(case, compensate, 2.0)
        assert gap(law, case.law(2.0, compensate)) < 1e-12
        np.testing.assert_allclose(law.radius, case.law(2.0, compensate).radius, rtol=1e-12)


def test_position_with_two_leaves():
    (case,) = (case for case in linear_cases.momentum_cases(as_tree) if case.name == "sghmc vector Splitting")
    position = jax.tree.map(jnp.asarray, as_tree(np.asarray(START)))
    law = law_of(case, True, 2.0, as_tree, position=position)
    assert gap(law, case.law(2.0, True)) < 1e-12
    assert law.mean.shape == (3,)
    np.testing.assert_allclose(law.target_mean, CENTRE, rtol=1e-12)
    np.testing.assert_allclose(law.target_covariance, 2 * np.linalg.inv(PRECISION), rtol=1e-12)


def test_kick_friction_move_where_the_curl_reads_the_potential():
    metric = eg.Scaled(lambda z: 1.6 + 0 * z.potential)
    law = exact_law(eg.sgrhmc(metric), TARGET, 0.5, gradient_noise=NOISE, compensate=False, position=START)
    oracle = boa(PRECISION, CENTRE, diffusion=1.6, eps=0.5, R=math.sqrt(1.6), V=NOISE, compensate=False)
    assert gap(law, oracle) < 1e-12


def test_the_splitting_has_the_position_exact_at_every_stable_step():
    target = eg.gallery.gaussian(covariance=np.array([[2.0, 0.9], [0.9, 1.0]]))
    laws = exact_law(eg.sghmc(0.7, np.array([1.5, 0.8])), target, [0.01, 0.3, 1.0])
    assert np.max(np.abs(laws.bias)) < 1e-12
    for (law,) in laws.laws:
        momentum = law.phase_covariance[2:, 2:] - law.target_phase_covariance[2:, 2:]
        assert np.max(np.abs(momentum)) > 1e-6  # all of the bias is there


def test_euler_by_a_formula():
    """SGLD: variance 2 eps T D / (1 - (1 - eps D k)^2)."""
    law = exact_law(eg.sgld(0.5), eg.gallery.gaussian(2, covariance=4.0), 0.3, temperature=2.0)
    k, eps, d, heat = 0.25, 0.3, 0.5, 2.0
    variance = 2 * eps * heat * d / (1 - (1 - eps * d * k) ** 2)
    np.testing.assert_allclose(law.covariance, variance * np.eye(2), rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(law.bias, variance / (heat * 4) - 1, rtol=1e-11)
    np.testing.assert_allclose(law.largest_bias, law.bias[0], rtol=1e-11)
    np.testing.assert_allclose(law.relaxation, -1 / math.log(1 - eps * d * k), rtol=1e-11)


class Half(eg.Euler):
    """Euler with half the noise, as where the 2 of 2 eps D is forgotten."""

    def finish(self, recipe, phase, evaluations, draws, setting, noise):
        return super().finish(
            recipe, phase, evaluations, jax.tree.map(lambda w: w / math.sqrt(2), draws), setting, noise
        )


def test_a_wrong_step_shows_its_own_law():
    law = exact_law(eg.sgld(), GAUSSIAN, 0.1, Half())
    np.testing.assert_allclose(law.bias, 0.5 / 0.95 - 1, rtol=1e-12)


def test_badly_scaled_coordinates_keep_their_digits():
    deviations = np.array([1e-5, 1.0, 1e5])
    target = eg.gallery.gaussian(covariance=deviations**2)
    law = exact_law(eg.sgld(deviations**2), target, 0.1)
    np.testing.assert_allclose(law.bias, 1 / (1 - 0.05) - 1, rtol=1e-10)


# -- batches ------------------------------------------------------------------------------------------


def mean_model() -> eg.Posterior:
    """The mean of rows: every row's gradient has the same derivative, so V is the same everywhere."""
    rows = np.random.default_rng(3).normal(size=(50, 2)) * np.array([1.0, 2.0])
    return eg.Posterior(
        lambda q: -0.5 * jnp.sum(q**2), lambda q, x: -0.5 * jnp.sum((x - q[None]) ** 2, axis=1), rows, init=jnp.zeros(2)
    )


def regression() -> eg.Posterior:
    """Linear regression on 4 rows: V grows with the distance from the mean."""
    rng = np.random.default_rng(4)
    data = {"x": rng.normal(size=(4, 2)), "y": rng.normal(size=4)}
    return eg.Posterior(
        lambda q: -jnp.sum(q**2), lambda q, row: -0.5 * (row["y"] - row["x"] @ q) ** 2, data, init=jnp.zeros(2)
    )


@pytest.mark.parametrize("compensate", [False, True])
def test_batch_of_a_mean_model(compensate):
    target = mean_model()
    rows = np.asarray(target.data)
    noise = 50**2 / 10 * (1 - 10 / 50) * np.cov(rows, rowvar=False)
    law = exact_law(eg.sghmc(60.0), target, 0.02, batch_size=10, compensate=compensate)
    oracle = aboba(51 * np.eye(2), rows.sum(0) / 51, diffusion=60.0, eps=0.02, V=noise, compensate=compensate)
    assert law.cuts == 0
    assert gap(law, oracle) < 1e-12
    given = exact_law(eg.sghmc(60.0), target, 0.02, gradient_noise=noise, compensate=compensate)
    np.testing.assert_allclose(given.phase_covariance, law.phase_covariance, rtol=1e-11, atol=1e-15)


def test_per_example_subtracts_the_diagonal():
    target = mean_model()
    diagonal = jnp.asarray(50**2 / 10 * (1 - 10 / 50) * np.asarray(target.data).var(axis=0, ddof=1))
    laws = [
        exact_law(eg.sgld(0.01), target, 0.1, gradient_noise=noise, batch_size=10)
        for noise in (eg.PerExample(), diagonal, None)
    ]
    np.testing.assert_allclose(laws[0].covariance, laws[1].covariance, rtol=1e-12)
    assert np.all(laws[2].bias > laws[0].bias + 0.1)


def counted_out(kernel: eg.Kernel, batch_size: int, step_size: float) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance from the affine map of the kernel's step with each batch there is, all equally likely.

    With E over batches and normals, E[z z^T] solves X = E[A X A^T + A m b^T + b m^T A^T + b b^T] + B B^T.
    """
    target = kernel.target
    state = kernel.init(target.init, jax.random.key(0))
    draws = kernel.integrator.draw(kernel.recipe, state.phase, jax.random.key(0), Setting(step_size, 1.0))
    phase, normals = Layout.of(state.phase), Layout.of(draws)

    def one(x, batch):
        z, w = phase.unravel(x[: phase.size]), normals.unravel(x[phase.size :])
        return phase.ravel(kernel.step_with(state._replace(phase=z), w, step_size, batch)[0].phase)

    step, maps = jax.jit(jax.vmap(one, in_axes=(0, None))), []
    for rows in itertools.combinations(range(target.size), batch_size):
        batch = jax.tree.map(jnp.asarray, target.rows(np.array(rows)))
        corners = jnp.eye(phase.size + normals.size + 1)[:, 1:]
        values = np.asarray(step(corners, batch))
        columns = (values[1:] - values[0]).T
        maps.append((columns[:, : phase.size], values[0], columns[:, phase.size :]))
    n = phase.size
    mean = np.linalg.solve(
        np.eye(n) - np.mean([a for a, _, _ in maps], axis=0), np.mean([b for _, b, _ in maps], axis=0)
    )
    parts = [
        np.outer(a @ mean, b) + np.outer(b, a @ mean) + np.outer(b, b) + spread @ spread.T for a, b, spread in maps
    ]
    carried = np.mean([np.kron(a, a) for a, _, _ in maps], axis=0)
    second = np.linalg.solve(np.eye(n * n) - carried, np.mean(parts, axis=0).reshape(-1)).reshape(n, n)
    return mean, second - np.outer(mean, mean)


@pytest.mark.parametrize("recipe", [eg.sgld(0.3), eg.sghmc(1.5, 0.7)], ids=["sgld", "sghmc"])
def test_regression_with_every_batch_counted_out(recipe):
    target = regression()
    mean, covariance = counted_out(eg.Kernel(target, recipe), 2, 0.1)
    law = exact_law(recipe, target, 0.1, batch_size=2)
    np.testing.assert_allclose(law.phase_mean, mean, atol=1e-12)
    np.testing.assert_allclose(law.phase_covariance, covariance, rtol=1e-10, atol=1e-12)
    noise = eg.gradient_noise(target, jnp.asarray(law.mean), 2, dense=True)
    fixed = exact_law(recipe, target, 0.1, gradient_noise=noise, compensate=False)
    assert np.max(np.abs(fixed.phase_covariance - covariance)) > 1e-3  # V at the mean alone would not do


def test_noise_that_outgrows_the_steps_has_no_law():
    target = regression()
    recipe = eg.sgld(1.0)
    with pytest.raises(eg.InputError, match="grows faster with the distance") as caught:
        exact_law(recipe, target, 0.195, batch_size=1)
    limit = float(str(caught.value).split()[-1])
    assert exact_law(recipe, target, 0.999 * limit, batch_size=1).largest_bias > 10
    assert exact_law(recipe, target, 0.195).radius < 1


# -- stability ----------------------------------------------------------------------------------------


def test_unstable_step_names_the_largest_stable_one():
    target = eg.gallery.gaussian(covariance=[1.0, 0.25])
    for recipe, limit in ((eg.sgld(), 2 / 4), (eg.sghmc(0.5), 2 / 2)):
        with pytest.raises(eg.InputError, match="no stationary law") as caught:
            exact_law(recipe, target, 3.0)
        message = str(caught.value)
        assert "spectral radius" in message
        assert "\n" not in message
        assert abs(float(message.split()[-1]) / limit - 1) < 1e-3
        assert exact_law(recipe, target, 0.999 * limit).radius < 1
        assert exact_law(recipe, target, [1.001 * limit]).laws == ((None,),)


def test_a_direction_without_drift_has_no_stable_step():
    recipe = eg.Recipe(
        energy={"momentum": eg.Gaussian(), "idle": eg.Gaussian()},
        diffusion={"momentum": eg.Constant(1.0)},
        curl={("momentum", "position"): eg.Constant(1.0)},
    )
    with pytest.raises(eg.InputError, match="no smaller step has one"):
        exact_law(recipe, eg.gallery.gaussian(1), 0.1, eg.Euler())


def test_cut_noise_is_counted():
    law = exact_law(eg.sgld(), GAUSSIAN, 0.1, gradient_noise=30.0)
    assert law.cuts == 2
    np.testing.assert_allclose(law.largest_step, 2 / 30)
    assert "cut at zero" in str(law)
    assert gap(law, euler(np.eye(2), np.zeros(2), diffusion=(1.0,), eps=0.1, V=30.0, compensate=True)) < 1e-12


# -- tables -------------------------------------------------------------------------------------------


def test_table_and_picture(tmp_path):
    target = mean_model()
    laws = exact_law(eg.sghmc(60.0), target, [0.004, 0.008, 0.016, 0.5], batch_size=[None, 25, 10])
    assert laws.bias.shape == (4, 3)
    assert np.all(np.abs(laws.bias[:3, 0]) < 1e-11)
    assert np.all(laws.bias[:3, 2] > 1.5 * laws.bias[:3, 1])
    assert np.all(np.isnan(laws.bias[3]))
    assert math.isnan(laws.orders[0])
    np.testing.assert_allclose(laws.orders[1:], 1.0, atol=0.1)  # order 1 with uncompensated noise
    np.testing.assert_allclose(laws.stable_below, 2 / math.sqrt(51), rtol=1e-4)
    compensated = exact_law(eg.sghmc(60.0), target, [0.008], batch_size=[None, 25], compensate=True)
    assert np.max(np.abs(compensated.bias)) < 1e-11
    single = exact_law(eg.sghmc(60.0), target, 0.008, batch_size=10)
    np.testing.assert_allclose(laws.bias[1, 2], single.largest_bias, rtol=1e-12)
    text = str(laws)
    assert all(word in text for word in ("unstable", "batch of 10", "order", "stable below", "none"))
    laws.plot(tmp_path / "bias.png")
    assert (tmp_path / "bias.png").read_bytes()[:4] == b"\x89PNG"
    with pytest.raises(eg.InputError, match="two step sizes"):
        exact_law(eg.sghmc(60.0), target, 0.008, batch_size=[10, 25]).plot(tmp_path / "one.png")


def test_order_of_euler_is_one():
    laws = exact_law(eg.sgld(), GAUSSIAN, [1e-3, 2e-3])
    np.testing.assert_allclose(laws.orders, [1.0], atol=0.01)


def test_printed_law():
    one, zero = np.eye(20), np.zeros(20)
    law = DiscreteLaw(0.1, 1.0, "all data", 20, zero, one / 0.95, zero, one, 0.9 * one, 0.9, 0, math.inf)
    assert "+5.26 %" in str(law)
    assert "and 8 more" in str(law)


# -- exact chains, and what is refused ----------------------------------------------------------------


def test_leapfrog_has_the_law_of_the_target():
    law = exact_law(eg.hmc(2.0), eg.gallery.gaussian(covariance=[4.0, 1.0]), 10.0, temperature=3.0)
    np.testing.assert_allclose(law.phase_covariance, np.diag([12.0, 3.0, 6.0, 6.0]), rtol=1e-12)
    assert law.transition is None
    assert "exact at every step size" in str(law)


def quartic(q):
    return jnp.sum(q**4) / 4


POSITIVE = eg.Density(lambda q: jnp.sum(q**2) / 2, init=jnp.ones(2), domain=eg.positive)
STEEP = eg.Recipe(
    energy={"momentum": eg.Energy(lambda z: jnp.sum(jnp.cosh(z.momentum)), lambda key, z: jnp.ones(2))},
    diffusion={"momentum": eg.Constant(1.0)},
    curl={("momentum", "position"): eg.Constant(1.0)},
)
FLAT = eg.Density(lambda q: q[0] ** 2, init=jnp.ones(2))
NEARLY = eg.Density(lambda q: jnp.sum(q**2) / 2 + 1e-6 * jnp.sum(jnp.sin(q)), init=jnp.ones(2))
NO_INIT = eg.Density(quartic)
GRADIENTS = eg.External(lambda q, batch, seed: q, [0], init=np.zeros(2))

REFUSED = {
    "a quartic": ((eg.sgld(), eg.Density(quartic, init=jnp.ones(2)), 0.1), {}, "not Gaussian"),
    "almost Gaussian": ((eg.sgld(), NEARLY, 0.1), {}, "not Gaussian"),
    "an improper law": ((eg.sgld(), FLAT, 0.1), {}, "normalised"),
    "a thermostat": ((eg.sgnht(), GAUSSIAN, 0.1), {}, r"not linear.*depends on z\.momentum.*eg\.audit"),
    "a field": ((eg.sgrld(eg.Scaled(lambda z: 1 + z.position[0] ** 2)), GAUSSIAN, 0.1), {}, r"depends on z\.position"),
    "an energy": ((STEEP, GAUSSIAN, 0.1), {}, r"energy eg\.Energy .*not quadratic"),
    "a domain": ((eg.sgld(), POSITIVE, 0.1), {}, "domain"),
    "no potential": ((eg.sgld(), GRADIENTS, 0.1), {}, "potential"),
    "no position": ((eg.sgld(), NO_INIT, 0.1), {}, "position="),
    "swapped": ((GAUSSIAN, eg.sgld(), 0.1), {}, "recipe first"),
    "an empty list": ((eg.sgld(), GAUSSIAN, []), {}, "empty"),
    "a negative step": ((eg.sgld(), GAUSSIAN, [0.1, -0.1]), {}, "positive number"),
    "a word": ((eg.sgld(), GAUSSIAN, ["small"]), {}, "must be a number"),
    "temperature 0": ((eg.sgld(), GAUSSIAN, 0.1), {"temperature": 0.0}, "temperature"),
    "a batch of a density": ((eg.sgld(), GAUSSIAN, 0.1), {"batch_size": 3}, "gradient_noise=V"),
    "too large a batch": ((eg.sgld(), mean_model(), 0.1), {"batch_size": 51}, "from 1 to 50"),
    "PerExample without batches": ((eg.sgld(), GAUSSIAN, 0.1), {"gradient_noise": eg.PerExample()}, "batch_size"),
    "nothing to compensate": ((eg.sgld(), GAUSSIAN, 0.1), {"compensate": True}, "no gradient noise"),
    "a negative V": ((eg.sgld(), GAUSSIAN, 0.1), {"gradient_noise": np.diag([1.0, -1.0])}, "positive semidefinite"),
    "a trajectory with noise": ((eg.hmc(), GAUSSIAN, 0.1), {"gradient_noise": 1.0}, "needs all data"),
    "Euler without noise": ((eg.hmc(), GAUSSIAN, 0.1), {"integrator": eg.Euler()}, "D = 0"),
    "steps in turn": ((eg.sghmc(), GAUSSIAN, 0.1), {"integrator": eg.Resampled(eg.Splitting(), 3)}, "eg.Resampled"),
    "too many numbers": ((eg.sghmc(), eg.gallery.gaussian(501), 0.1), {}, "1,002 numbers"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_one_line(name):
    arguments, options, words = REFUSED[name]
    with pytest.raises(eg.InputError, match=words) as caught:
        exact_law(*arguments, **options)
    assert "\n" not in str(caught.value)


def test_row_that_is_not_quadratic_while_their_sum_is():
    signs = np.array([1.0, -1.0, 1.0, -1.0])
    target = eg.Posterior(
        lambda q: -jnp.sum(q**2), lambda q, s: s * jnp.sin(q[0]) - 0.1 * s**2 * q[1] ** 2, signs, init=jnp.ones(2)
    )
    assert exact_law(eg.sgld(), target, 0.1).radius < 1
    with pytest.raises(eg.InputError, match="single row"):
        exact_law(eg.sgld(), target, 0.1, batch_size=2)


# -- float32 -----------------------------------------------------------------------------------------


def test_float64_for_a_user_in_float32_mode():
    with jax.enable_x64(False):
        precision = jnp.array([[1.5, 0.5], [0.5, 0.75]])
        target = eg.Density(lambda q: q @ (precision @ q) / 2, init=jnp.zeros(2))
        friction, mass = np.array([[2.0, 0.5], [0.5, 1.25]]), np.array([[0.5, 0.25], [0.25, 1.5]])
        recipe = eg.sghmc(friction, mass)
        assert target.init.dtype == recipe.energy["momentum"].mass.root_entries.dtype == jnp.float32
        law = exact_law(recipe, target, 0.25)
    assert law.covariance.dtype == np.float64
    assert gap(law, aboba(precision, np.zeros(2), diffusion=friction, eps=0.25, M=mass)) < 1e-13
