"""Nothing essential passes that nobody looked at: starts and the width of the law are ok, or the run is undecided."""

import math

import numpy as np
import pytest

from ergodica.diagnostics import diagnose
from tests.unit.diagnostics.chains import SETTINGS, a_run, autoregressive, statistics

NO_MOMENTUM = statistics() | {"kinetic_temperature": np.full((4, 2000), np.nan)}
LANGEVIN = SETTINGS | {"integrator": "Euler()", "friction": None, "estimator": "minibatch", "gradient_noise": None}
HALVED = a_run({"w": autoregressive(draws=4000, seed=7)}, statistics(draws=4000, step_size=0.05))


def unsure(diagnosis):
    return {check.name for check in diagnosis.checks if check.is_undecided}


@pytest.mark.parametrize("changes", [{}, {"estimator": "ControlVariates()"}, {"batch_size": None}])
def test_a_law_whose_width_nobody_looked_at_does_not_pass(changes):
    """Plain minibatches without momentum, 40 % too wide: no line of it said more than "ok"."""
    diagnosis = diagnose({"w": autoregressive(sd=1.4)}, NO_MOMENTUM, LANGEVIN | changes)
    assert unsure(diagnosis) == {"width of the law"}
    assert (diagnosis.passed, diagnosis.undecided, diagnosis.verdict) == (False, True, "NOT DECIDED")
    assert not any(line.startswith("  ok     width") for line in str(diagnosis).splitlines())
    assert "run.halve()" in diagnosis["width of the law"].explanation
    assert str(diagnosis).splitlines()[-1].startswith("NOT DECIDED: nothing is wrong, but 1 check could not tell")
    assert diagnosis.to_dict()["undecided"]


def test_halving_decides_the_width():
    right = diagnose({"w": autoregressive()}, NO_MOMENTUM, LANGEVIN, halved=HALVED)
    assert right.passed, str(right)
    wide = diagnose({"w": autoregressive(sd=1.4)}, NO_MOMENTUM, LANGEVIN, halved=HALVED)
    assert (wide.passed, wide.undecided) == (False, False)
    assert "width of the law" not in [check.name for check in wide.checks]  # "bias of sds" says more


def test_a_metropolis_test_decides_the_width():
    changes = {"integrator": "Leapfrog(steps=10)", "batch_size": None, "friction": None}
    assert diagnose({"w": autoregressive()}, statistics(), SETTINGS | changes).passed


@pytest.mark.parametrize(
    ("changes", "is_seen"),
    [
        ({}, True),
        ({"friction": 20.0}, False),  # friction times step is 2: of an excess of variances 3 % are seen
        ({"friction": None}, False),  # a thermostat
        ({"resample_every": 1}, False),
        ({"friction": 20.0, "integrator": "Euler()"}, True),
    ],
)
def test_the_thermometer_decides_where_it_sees_the_heat(changes, is_seen):
    diagnosis = diagnose({"w": autoregressive()}, statistics(), SETTINGS | changes)
    assert diagnosis.passed == is_seen
    assert diagnosis.undecided != is_seen


@pytest.mark.parametrize(("step", "friction", "noise"), [(0.2, 2.0, 0.5), (0.7, 1.0, 0.1), (0.5, 4.0, 0.3)])
def test_the_thermometer_shows_the_stated_part_of_the_excess(step, friction, noise):
    """One coordinate of curvature 1 with gradient noise, by the splitting: 2 a^2 / (1 + a), from its covariance."""
    from ergodica.diagnostics.verdict import thermometer_sensitivity

    a, half = math.exp(-friction * step), step / 2
    drift, kick = np.array([[1, half], [0, 1]]), np.array([[1, 0], [-half, 1]])
    rub, push = np.diag([1, a]), np.array([0, half])
    before = rub @ kick @ drift
    heat, cold = rub @ push, np.array([0, math.sqrt(1 - a * a)])
    whole = drift @ kick @ before
    entering = drift @ (kick @ heat + push), drift @ kick @ cold
    spread = noise * np.outer(entering[0], entering[0]) + np.outer(entering[1], entering[1])
    law = np.linalg.solve(np.eye(4) - np.kron(whole, whole), spread.ravel()).reshape(2, 2)
    rubbed = before @ law @ before.T + noise * np.outer(heat, heat) + np.outer(cold, cold)
    expected = (rubbed[1, 1] - 1) / (law[0, 0] - 1)
    settings = {"friction": friction, "integrator": "Splitting()"}
    assert thermometer_sensitivity({"step_size": np.full((2, 3), step)}, settings) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("changes", "chains", "is_seen"),
    [
        ({"starts": "one"}, 4, False),
        ({"starts": None}, 4, False),
        ({"starts": "dispersed"}, 4, True),
        ({"starts": "dispersed"}, 1, False),
        ({"starts": "dispersed by a jitter", "start_widths": {"w": 0.7}}, 4, True),
        ({"starts": "dispersed by a jitter", "start_widths": {"w": 0.01}}, 4, False),
    ],
)
def test_chains_that_began_at_one_place_do_not_pass(changes, chains, is_seen):
    diagnosis = diagnose({"w": autoregressive(chains, draws=4000)}, statistics(chains, 4000), SETTINGS | changes)
    assert diagnosis["dispersed starts"].is_undecided != is_seen
    assert (diagnosis.passed, diagnosis.undecided) == (is_seen, not is_seen), str(diagnosis)
