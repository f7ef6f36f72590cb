"""What attacks from outside found in the audit: slow is not wrong, reducible does not pass, rough is not biased."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodica as eg
from ergodica.verify.audit.chains import Rung
from ergodica.verify.audit.checks import decision_check, resolution_check
from ergodica.verify.audit.culprits import _gamma
from ergodica.verify.audit.features import _triples
from ergodica.verify.audit.ladder import Ladder
from ergodica.verify.audit.law_tests import Laws, LawTest, Limit, is_rough, limit
from ergodica.verify.audit.one_step import Interior
from ergodica.verify.audit.report import temperature_words
from ergodica.verify.audit.trials import Trial, _significant_bits
from ergodica.verify.tails import Estimate

TWO, THREE = eg.gallery.gaussian(2), eg.gallery.gaussian(3)
QUICK = {"effort": 0.01, "progress": False}


def langevin(key, x, h, noise=lambda h: 2 * h):
    return x - h * x + jnp.sqrt(noise(h)) * jax.random.normal(key, x.shape, x.dtype)


def test_a_walk_that_is_too_slow_for_the_budget_is_not_decided_and_not_non_finite():
    """Exact at every step size, which it ignores; it was "non-finite at every step size tried"."""

    def walk(key, x, h):
        key_move, key_test = jax.random.split(key)
        moved = x + 0.01 * jax.random.normal(key_move, x.shape, x.dtype)
        gain = 0.5 * (jnp.sum(x**2) - jnp.sum(moved**2))
        return jnp.where(jnp.log(jax.random.uniform(key_test, (), x.dtype)) < gain, moved, x)

    found = eg.audit(walk, TWO, **QUICK)
    assert found.undecided, str(found)
    assert found.verdict == "NOT DECIDED"
    assert found["finite"].passed
    assert "had the chains forgotten their start" in found["decides"].explanation
    assert not any("non-finite" in note for note in found.notes)


class Slow:
    """Chains of standard normals, drawn at once, but for a coordinate that keeps its sign, or all of its value."""

    def __init__(self, keep):
        self.keep, self.rng = keep, np.random.default_rng(0)
        self.first = np.abs(self.rng.normal(size=(64, 1)))

    def start(self, x, word):
        return None

    def observe(self, x):
        return self.run(None, None, 0, 0.1, 1, 1)[1]

    def run(self, states, word, first, step_size, blocks, thin):
        x = self.rng.normal(size=(64, 2))
        x[:, :1] = {"sign": np.abs(x[:, :1]), "value": self.first, "nothing": x[:, :1]}[self.keep]
        return states, blocks * np.concatenate([x, x**2, (x**2).sum(1, keepdims=True)], axis=1)


@pytest.mark.parametrize(
    ("keep", "sides", "relaxed"), [("sign", (0,), True), ("value", (), False), ("nothing", (), True)]
)
def test_a_rung_knows_which_coordinates_stay_on_one_side(keep, sides, relaxed):
    """A coordinate that stands still is slow; one that moves about on one side is not, for so few chains."""
    chains = Slow(keep)
    rung = Rung(0.1, None, np.zeros(2), slice(2, 4))
    rung.relax(chains, chains.observe(None), 4096)
    assert rung.one_sided == sides
    assert rung.is_relaxed == relaxed


class NoFeatures:
    square, equipartition, triple = slice(2, 4), slice(2, 4), slice(0, 0)
    scales = np.array([[0.0], [0.0], [0.5], [0.5], [0.0]])


def test_a_search_that_runs_out_of_budget_takes_the_best_of_what_was_finite():
    features: Any = NoFeatures()
    ladder = Ladder(Slow("value"), features, lambda place: np.zeros((64, 2)), 1.0, 0, 64, 0.01, lambda share: None)
    assert ladder.climb()
    assert not ladder.is_relaxed
    assert ladder.is_finite
    assert all(rung.is_finite for rung in ladder.three)


def rungs(law, spread=1e-3, chains=400):
    """Three rungs whose averages have these means exactly and this standard error."""
    made = []
    for k, h in enumerate((0.04, 0.02, 0.01)):
        noise = np.random.default_rng(k).normal(size=(chains, 1))
        noise = (noise - noise.mean()) / noise.std(ddof=1)
        total = law(h) + spread * np.sqrt(chains) * noise
        made.append(Rung(h, None, np.zeros(2), slice(0, 1), blocks=1, total=total))
    return made


@pytest.mark.parametrize("law", [
    lambda h: 1 + 0.5 * h**0.5,
    lambda h: 1 - 0.5 * h**0.5,
    lambda h: (1 + 0.5 * h**0.5) / (1 - h / 2),
    lambda h: 1 + 0.3 * h**0.5 + h,
    lambda h: 1 + 0.4 * h**0.5 + h**1.5,
    lambda h: 1 + 4 * h**1.5,
])  # fmt: skip
def test_what_a_bias_of_any_order_from_one_half_leaves_is_allowed_for(law):
    found = limit(rungs(law), np.eye(1))
    assert abs(found.beyond(np.ones(1))[0]) < 2 * found.error[0]


@pytest.mark.parametrize("law", [lambda h: 1.05 + 0 * h, lambda h: 1.05 + h**2, lambda h: 0.95 + h, lambda h: 1.05 - h])
def test_a_constant_error_of_five_percent_is_beyond_what_is_allowed_for(law):
    found = limit(rungs(law), np.eye(1))
    assert abs(found.beyond(np.ones(1))[0]) > 5 * found.error[0]


def test_a_bias_of_order_one_half_is_allowed_for_on_its_own_side_only():
    found = limit(rungs(lambda h: 1 + h**0.5), np.eye(1))
    assert found.half[0] > 0
    interval = found.estimate(0)
    assert interval.value - interval.low > interval.high - interval.value
    assert found.beyond(np.array([1.2]))[0] < -0.1


def test_a_large_bias_of_order_one_half_is_rough_and_one_of_order_one_is_not():
    assert is_rough(rungs(lambda h: 1 + 1.5 * h**0.5), np.eye(1))
    assert not is_rough(rungs(lambda h: 1 + 0.2 * h**0.5), np.eye(1))
    assert not is_rough(rungs(lambda h: 1 + 5 * h), np.eye(1))


def test_starts_near_a_wall_are_left_out_and_the_rest_is_judged():
    """exp(-x) on x > 0 by dx = -h + sqrt(2h) xi, projected at the wall: a right step; one with 1.5 times the drift is
    seen. False alarm 1e-6."""
    rng, h, inside = np.random.default_rng(0), 0.002, Interior(np.array([0]), np.array([0.32]), np.array([np.inf]))
    scores = {}
    for drift in (1.0, 1.5):
        x, y = rng.exponential(size=(2, 64, 4000, 1))
        steps = [np.maximum(z - drift * h + np.sqrt(2 * h) * rng.normal(size=z.shape), 0) - z for z in (x, y)]
        n, q = np.moveaxis(inside.products([x, y, *steps], 64), 1, 0)
        left = (2 * n + q) / q.mean()
        scores[drift] = left.mean() / (left.std(ddof=1) / 8)
    assert abs(scores[1.0]) < 4.9
    assert scores[1.5] < -4.9


def test_independent_draws_with_a_positive_product_are_seen():
    """No pair of coordinates depends on each other; the three do."""

    def step(key, x, h):
        y = jax.random.normal(key, x.shape, x.dtype)
        return y.at[2].multiply(jnp.sign(y[0] * y[1] * y[2]))

    found = eg.audit(step, THREE, **QUICK)
    assert [check.name for check in found.checks if not check.passed] == ["triples"]
    assert "the product of position[0], position[1] and position[2]" in found.notes[0]


def test_triples_are_all_or_some():
    assert _triples(3).T.tolist() == [[0, 1, 2]]
    assert _triples(2).shape == (3, 0)
    assert _triples(8).shape == (3, 56)
    many = _triples(100)
    assert np.all(many[0] < many[1])
    assert np.all(many[1] < many[2])
    assert 60 <= many.shape[1] <= 64
    assert len(set(map(tuple, many.T.tolist()))) == many.shape[1]


def test_a_position_kept_in_few_bits_is_found():
    x = np.random.default_rng(0).normal(size=(50, 3))
    x[:, 1] = np.asarray(jnp.asarray(x[:, 1]).astype(jnp.bfloat16).astype(float))
    x[:, 2] = x[:, 2].astype(np.float16)
    assert _significant_bits(x)[0] > 40
    assert _significant_bits(x)[1:].tolist() == [8, 11]
    check = resolution_check(Trial(0.1, coarse=(1,), bits=8), ("a", "b"))
    assert not check.passed
    assert check.explanation.startswith("b is kept with 8 significant bits, as bfloat16 has: moves below 0.39 %")


def test_a_temperature_that_equals_the_dimension_may_be_chance():
    words = temperature_words(Estimate.of(10.0, 0.1), 1.0, 10)
    assert "that is the dimension, 10, or a factor of 10 from elsewhere (a momentum that keeps 0.9 of itself)" in words
    assert "eg.audit_family, in other dimensions, tells which" in words


@pytest.mark.parametrize(
    ("missing", "said"), [(1.0, "Gamma is left out"), (2.0, "Gamma has the wrong sign"), (0.0, None)]
)
def test_a_missing_gamma_is_named_by_the_factor_it_is_missed_by(missing, said):
    rng, gamma = np.random.default_rng(0), np.array([0.3, -0.2, 0.1])
    m = gamma + 0.05 * rng.normal(size=(128, 3))
    r = -missing * gamma + 0.1 * rng.normal(size=(128, 3))
    words = _gamma(np.stack([r, m], axis=1))
    assert words is None if said is None else said in words
    assert _gamma(np.stack([r, m - gamma], axis=1)) is None


def test_an_error_that_stays_is_not_taken_for_a_bias_that_falls_slowly():
    """A constant error beside a large bias of order one looks like order one half at three step sizes."""
    found = np.array([1.0, 0.9, 0.85])[:, None]
    rough = Limit(found[2], np.full(1, 0.01), np.full(1, 0.2), np.zeros(1), forgiven=np.full(1, 0.2))
    lenient = LawTest("temperature", rough, np.full(1, 0.7), np.zeros(1), np.zeros(1, int), 100)
    strict = replace(lenient, limit=rough.strict())
    assert lenient.p_value > 0.1 > 1e-6 > strict.p_value
    assert Laws((lenient,), np.ones(1), (strict,)).is_open(1e-3)
    assert not Laws((lenient,), np.ones(1)).is_open(1e-3)
    assert not decision_check({"temperature": 0.1, "by": "temperature"}, None, True).passed
