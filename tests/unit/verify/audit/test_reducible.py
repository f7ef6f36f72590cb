"""What did not relax is not decided, neither wrong nor passed; words of a Metropolis test and of walls."""

from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodica as eg
from ergodica.verify.audit.chains import Rung
from ergodica.verify.audit.culprits import harshness
from ergodica.verify.audit.ladder import allowed, stuck
from tests.selection import long_unless

TWO, THREE = eg.gallery.gaussian(2), eg.gallery.gaussian(3)
QUICK = {"effort": 0.01, "progress": False}


NEVER, RARELY, OFTEN = np.inf, 5.2, 0.84  # one in ten million steps, one in five: where a normal number is above it


def keeping(count, flips=NEVER):
    """Langevin that keeps the sign of the product of the first `count` coordinates, by reflecting the smallest of them:
    the law is left as it is, and so it is by reflecting the first now and then."""

    def step(key, x, h):
        noise = jax.random.normal(key, (len(x) + 1,), x.dtype)
        moved = x - h * x + jnp.sqrt(2 * h) * noise[:-1]
        side = jnp.sign(jnp.prod(moved[:count]) * jnp.prod(x[:count]))
        kept = moved.at[jnp.argmin(jnp.abs(moved[:count]))].multiply(side)
        return kept.at[0].multiply(jnp.where(noise[-1] > flips, -1, 1))

    return step


@pytest.mark.parametrize("flips", [NEVER, RARELY])
def test_a_coordinate_that_keeps_its_side_is_named_and_nothing_is_decided(flips):
    """An exact step whose flips are rarer than the budget was rejected: no chain can tell it from one without."""
    found = eg.audit(keeping(1, flips), TWO, **QUICK)
    assert found.verdict == "NOT DECIDED", str(found)
    assert found.p_value > found.false_alarm
    assert "position[0] is on one side of the mean for as long as chains were run" in found["decides"].explanation


NAMED = {2: "position[0] with position[1]", 3: "the product of position[0], position[1] and position[2]"}


@pytest.mark.parametrize("count", long_unless(NAMED, "3"))
def test_a_step_that_keeps_the_sign_of_a_product_is_not_decided(count):
    """It leaves the law invariant, and every coordinate relaxes; the one of three passed."""
    found = eg.audit(keeping(count), THREE, **QUICK)
    assert found.verdict == "NOT DECIDED", str(found)
    assert NAMED[count] in " ".join(found.notes)


def test_a_step_whose_flips_are_frequent_enough_passes():
    found = eg.audit(keeping(3, OFTEN), THREE, **QUICK)
    assert found.passed, str(found)


FEATURES: Any = SimpleNamespace(linear=slice(0, 2), crossed=slice(2, 3), triple=slice(3, 4))


def recorded(chains, kept, seed, length=4):
    """A rung whose halves are of `length` relaxations, and the last of its features keeps a share of its variance."""
    rng, parts = np.random.default_rng(seed), []
    fixed = np.sqrt(kept) * rng.normal(size=(chains, 1)) * np.array([0, 0, 0, 1])
    for _ in range(2):
        moving = rng.normal(size=(chains, length, 4)) * np.sqrt(1 - kept * np.array([0, 0, 0, 1]))
        parts.append((4 * length, 4 * (moving.sum(1) + length * fixed)))
    total = parts[0][1] + parts[1][1]
    return Rung(0.1, None, np.zeros(2), slice(0, 0), relaxation=4, blocks=8 * length, total=total, parts=parts)


@pytest.mark.parametrize("chains", [32, 256])
def test_halves_of_a_record_tell_what_is_stuck(chains):
    """A product that keeps a sign has 0.29 of its variance from it. False alarm 1e-4 for every seed, at the most."""
    for seed in range(20):
        assert not stuck([recorded(chains, 0.0, 3 * seed + k) for k in range(3)], FEATURES).which
        kept = stuck([recorded(chains, 0.29, 3 * seed + k, 16) for k in range(3)], FEATURES)
        assert kept.which == (3,)
        assert 0.6 < kept.correlation < 1


def test_a_record_that_is_short_may_be_correlated():
    lengths = [allowed(recorded(8, 0.0, 0, length)) for length in (1, 2, 4, 100)]
    assert np.allclose(lengths, [0.6655, 0.3975, 0.25, 0.25], atol=0.02)


def metropolis(drift, test, hastings):
    """A proposal with `drift` times Langevin's, and a test of exp(-`test` U), with Hastings' ratio or without."""

    def step(key, x, h):
        key_move, key_test = jax.random.split(key)
        moved = (1 - drift * h) * x + jnp.sqrt(2 * h) * jax.random.normal(key_move, x.shape, x.dtype)
        there, back = (jnp.sum((b - (1 - drift * h) * a) ** 2) / (4 * h) for a, b in ((x, moved), (moved, x)))
        gain = test * (jnp.sum(x**2) - jnp.sum(moved**2)) / 2 + hastings * (there - back)
        return jnp.where(jnp.log(jax.random.uniform(key_test)) < gain, moved, x)

    return step


SAID = {  # (drift, test, hastings): in the notes, not in the notes
    (0, 2.0, 1): ("a Metropolis test at temperature 0.5", "Hastings"),
    (0, 0.5, 1): ("a Metropolis test at temperature 2", "Hastings"),
    (2, 2.0, 1): ("drift is 2.0", "Hastings"),
    (1, 1.0, 0): ("Hastings' ratio; with a momentum, its kinetic energy), and what a test", "without a drift"),
    (1, 2.0, 1): ("at temperature 0.5, asked for 1: both fit", "without a drift"),
}


@pytest.mark.parametrize("case", long_unless(SAID, "(0, 2.0, 1)"))
def test_a_metropolis_test_is_described_by_what_it_refuses(case):
    found, (said, unsaid) = eg.audit(metropolis(*case), TWO, **QUICK), SAID[case]
    assert found.verdict == "NOT PASSED"
    notes = " ".join(found.notes)
    assert said in notes
    assert unsaid not in notes


@pytest.mark.parametrize("b", [0.0, 0.5, 1.0, 2.0])
def test_the_harshness_of_a_test_follows_from_what_it_refuses(b):
    """0.05: 10 standard errors."""
    rng = np.random.default_rng(0)
    climb = 0.3 * rng.normal(size=200_000)
    taken = rng.uniform(size=climb.shape) < np.exp(-b * climb)
    assert abs(harshness(np.where(taken, climb, np.nan)) - b) < 0.05


def test_diffusion_and_drift_of_one_step_are_left_out_at_a_wall():
    """exp(-x) on x > 0, reflected, beside a Gaussian: D = 1 and a slope of -1 for that one. 5 standard errors."""
    box = eg.Box(np.array([0.0, -np.inf]), np.array([np.inf, np.inf]))
    target = eg.Density(lambda x: x[0] + x[1] ** 2 / 2, init=np.ones(2), domain=box)

    def step(key, x, h):
        moved = x - h * jnp.array([1.0, x[1]]) + jnp.sqrt(2 * h) * jax.random.normal(key, x.shape, x.dtype)
        return moved.at[0].set(jnp.abs(moved[0]))

    found = eg.audit(step, target, **QUICK)
    one = {key: np.asarray(value) for key, value in found.figures["one step"].items()}
    for name, truth in (("diffusion", 1), ("drift", -1)):
        assert np.isnan(one[name]).tolist() == np.isnan(one[f"{name}_error"]).tolist() == [True, False]
        assert abs(one[name][1] - truth) < 5 * one[f"{name}_error"][1] + one["step_size"]
    assert np.isfinite(one["drift_over_noise"]).all()
    assert any(note.startswith("position[0] is bounded by a wall: diffusion and drift") for note in found.notes)
