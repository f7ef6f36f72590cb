"""`eg.audit` passes what is right, rejects what is wrong by 5 %, and says what it is. False alarm 1e-4 for each audit.

Effort is low here: the size and the power at full effort are measured by `make calibrate`.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodica as eg
from ergodica_paper.wrong import RIGHT_STEPS, WRONG_STEPS
from tests.builders import BUILDERS
from tests.selection import long_unless

TEN = eg.gallery.gaussian(10)
# One of each builder, and every kind of target; all variants, on 20 seeds, are audited by `make calibrate`.
ONE_OF_EACH = (
    "sgld/dense", "sgfs/vector", "sgrld/expanded_mean", "psgld/mixed", "irreversible_langevin/dense", "hmc/dense",
    "sghmc/tree", "preconditioned/frozen", "relativistic_sghmc/scalar", "sgnht/vector", "coordinate_sgnht/scalar",
    "riemannian_sgnht/elementwise", "sgrhmc/scaled", "gsgrhmc/bent",
)  # fmt: skip


def test_no_builder_is_left_out():
    assert [name.split("/")[0] for name in ONE_OF_EACH] == list(dict.fromkeys(name.split("/")[0] for name in BUILDERS))


@pytest.mark.parametrize("name", long_unless(ONE_OF_EACH, "sgld/dense", "hmc/dense", "sgnht/vector", "sgrhmc/scaled"))
def test_every_builder_passes(name):
    builder = BUILDERS[name]
    kernel = eg.Kernel(builder.target, builder.recipe)
    found = eg.audit(
        lambda key, state, h: kernel.step(state, key, h)[0],
        builder.target,
        init=lambda key, position: kernel.init(position, key),
        read=lambda state: state.phase.position,
        effort=0.04,
    )
    assert found.passed, str(found)


@pytest.mark.parametrize("defect", long_unless(["temperature", "variance", "drift"], "temperature"))
def test_five_percent_is_seen_in_ten_dimensions(defect):
    found = WRONG_STEPS[f"sgld_step_{defect}_off"].audit(10, effort=0.15)
    assert not found.passed, str(found)
    assert not found["one step"].passed
    ratio = np.asarray(found.figures["one step"]["drift_over_noise"])
    error = np.asarray(found.figures["one step"]["drift_over_noise_error"])
    truth = {"temperature": np.full(10, 1 / 1.05), "variance": np.r_[1 / 1.05, np.ones(9)]}
    assert np.all(np.abs(ratio - truth.get(defect, np.r_[1.05, np.ones(9)])) < 5 * error)


LANGEVIN = RIGHT_STEPS["sgld_step"].build(TEN.function, 1.0)


@pytest.fixture(scope="module")
def langevin():
    return eg.audit(LANGEVIN, TEN, effort=0.05, step_size=0.1)


def test_a_bias_is_reported_with_its_order_and_does_not_reject(langevin):
    """Euler's variance is 1/(1 - h/2), at every step size of the table. 5 standard errors."""
    assert langevin.passed, str(langevin)
    assert langevin.order is not None
    assert 0.7 < langevin.order.value < 1.5
    assert 0.1 in [row.step_size for row in langevin.bias]
    for row in langevin.bias:
        error = (row.variance.high - row.variance.value) / 1.96
        assert abs(row.variance.value - 1 / (1 - row.step_size / 2)) < 5 * error


def test_drift_and_diffusion_come_from_one_step(langevin):
    """b = -x and D = 1, but for the step itself. 5 standard errors."""
    found = {key: np.asarray(value) for key, value in langevin.figures["one step"].items()}
    assert np.all(np.abs(found["diffusion"] - 1) < 5 * found["diffusion_error"] + found["step_size"])
    assert np.all(np.abs(found["drift"] + 1) < 5 * found["drift_error"] + found["step_size"])


def test_a_report_reads_well_and_goes_to_json(langevin):
    text = str(langevin)
    assert "samples at temperature" in text
    assert "step size  temperature" in text
    assert max(map(len, text.splitlines())) <= 120
    figures = langevin.to_dict()["figures"]
    assert figures["temperature"] == list(langevin.temperature)
    assert figures["p_value"] == langevin.p_value > langevin.false_alarm == 1e-4


def test_a_report_states_the_sizes_that_it_would_have_seen(langevin):
    said = next(note for note in langevin.notes if note.startswith("would have seen"))
    for what in ("temperature", "one coordinate", "a mean", "correlation", "skewness", "kurtosis", "three coordinates"):
        assert what in said
    assert langevin.figures["seen"]["triples"] > 0


def test_the_same_seed_gives_the_same_report(langevin):
    assert str(eg.audit(LANGEVIN, TEN, effort=0.05, step_size=0.1)) == str(langevin)
    assert str(eg.audit(LANGEVIN, TEN, effort=0.05, step_size=0.1, seed=1)) != str(langevin)


def test_words_for_what_stands_still():
    assert eg.audit(lambda key, x, h: x, TEN, effort=0.02).notes[0].startswith("position never moves")
    assert "key is ignored" in eg.audit(lambda key, x, h: x - h * jnp.sin(x), TEN, effort=0.02).notes[0]
    assert "non-finite at every step size" in eg.audit(lambda key, x, h: x * jnp.nan, TEN, effort=0.02).notes[0]

    def half(key, x, h):
        moved = x - h * x + jnp.sqrt(2 * h) * jax.random.normal(key, x.shape, x.dtype)
        return jnp.concatenate([x[:1], moved[1:]])

    found = eg.audit(half, TEN, effort=0.02)
    assert "position[0] never moves" in found["moves"].explanation
    assert not found.passed


def test_words_name_the_temperature_that_is_sampled():
    found = WRONG_STEPS["sgnht_step_temperature_is_dimension"].audit(3, effort=0.05)
    assert not found["temperature"].passed
    assert found.temperature.low < 3 < found.temperature.high
    assert "that is the dimension, 3" in found.notes[0]


def test_a_numpy_step_that_counts_its_calls_where_nobody_sees_it():
    held = {"calls": 0, "noise": None}

    def step(rng, x, h):
        if held["calls"] % 3 == 0:
            held["noise"] = rng.standard_normal(x.shape)
        held["calls"] += 1
        return x - h * x + np.sqrt(2 * h) * held["noise"]

    found = eg.audit(step, eg.gallery.gaussian(2), effort=0.05)
    assert "a key or a batch used for 3 steps" in found["noise"].explanation


def test_a_numpy_step_is_audited_and_says_what_it_would_have_seen():
    right = RIGHT_STEPS["sgld_numpy"].audit(effort=0.05)
    assert right.passed, str(right)
    assert "in NumPy" in right.title
    assert any("would have seen" in note for note in right.notes)


def test_too_little_effort_does_not_pass():
    found = RIGHT_STEPS["sghmc_step"].audit(effort=1e-4)
    assert not found.passed
    assert "undecided" in found["decides"].explanation
    assert found.p_value > 1e-4


def test_positions_are_pytrees_in_float32_mode():
    """As users run it: float32, and a target whose position is a dictionary."""

    def potential(x):
        return 0.5 * jnp.sum(x["w"] ** 2) + 2.0 * x["b"] ** 2

    def step(key, x, h):
        noise = jax.random.normal(key, (3,), x["b"].dtype)
        force = jax.grad(potential)(x)
        root = jnp.sqrt(2 * h)
        return {"w": x["w"] - h * force["w"] + root * noise[:2], "b": x["b"] - h * force["b"] + root * noise[2]}

    with jax.enable_x64(False):
        target = eg.Density(potential, init={"w": jnp.ones(2), "b": jnp.ones(())})
        found = eg.audit(step, target, effort=0.02)
    assert found.passed, str(found)
    assert "position['w'][1]" in str(found) or "position['b']" in str(found)
