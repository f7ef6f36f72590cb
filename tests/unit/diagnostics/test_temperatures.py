"""Thermometers."""

import numpy as np
import pytest

from ergodica.diagnostics.temperatures import configurational, kinetic
from tests.unit.diagnostics.chains import autoregressive, statistics

ALL = np.ones(4, bool)


@pytest.mark.parametrize("chains", [1, 4])
def test_the_mean_does_not_matter(chains):
    x = autoregressive(chains=chains, draws=4000 // chains, seed=4)
    check, each = configurational(x + 1e4, x, {"temperature": 1.0})
    assert check.passed
    assert check.figure < 0.05
    assert each.passed
    assert not any(one.passed for one in configurational(x + 1e4, 1.3 * x, {"temperature": 1.0}))


def test_small_deviations_are_allowed_and_large_ones_counted_in_errors():
    stats = statistics(draws=20_000, temperature=1.015)
    check = kinetic(stats, {"temperature": 1.0}, ALL)
    assert check.passed  # 1.5 %, though many standard errors
    assert check.p_value < 1e-6
    assert not kinetic(statistics(temperature=1.015 * 2), {"temperature": 1.0}, ALL).passed
    assert kinetic(statistics(temperature=2.0), {"temperature": 2.0}, ALL).passed


def test_without_momentum_there_is_nothing_to_check():
    assert kinetic({}, {}, ALL) is None
    assert kinetic({"kinetic_temperature": np.full((4, 50), np.nan)}, {}, ALL) is None


def test_a_transient_does_not_hide_behind_its_own_error():
    stats = statistics()
    stats["kinetic_temperature"][:, :100] *= np.geomspace(2000, 1, 100)
    check = kinetic(stats, {"temperature": 1.0, "warmup": 0}, ALL)
    assert not check.passed
    assert "longer warmup= (it was 0)" in check.explanation
    assert "step is too large" not in check.explanation


def test_too_few_draws_cannot_tell():
    check = kinetic({"kinetic_temperature": autoregressive(draws=40, size=1, a=0.8)[..., 0] + 1}, {}, ALL)
    assert check.passed
    assert check.is_undecided
    assert "Too few draws to tell" in check.explanation


@pytest.mark.parametrize(
    ("settings", "there", "not_there"),
    [
        ({}, ["the step is too large"], ["batches", "ControlVariates", "PerExample"]),
        ({"integrator": "Euler()"}, ["Euler's steps heat"], ["batches"]),
        ({"batch_size": 10, "estimator": "minibatch"}, ["larger batches", "ControlVariates", "PerExample"], []),
        ({"batch_size": 10, "estimator": "ControlVariates()"}, ["larger batches", "PerExample"], ["ControlVariates"]),
        ({"batch_size": 10, "gradient_noise": "PerExample()"}, ["larger batches", "ControlVar"], ["PerExample"]),
    ],
)
def test_advice_follows_the_settings(settings, there, not_there):
    words = kinetic(statistics(temperature=1.5), settings, ALL).explanation
    assert all(word in words for word in there), words
    assert not any(word in words for word in not_there), words
