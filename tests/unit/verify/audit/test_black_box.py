"""What a user may hand over as a step, and how what is refused is explained."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodica as eg
from ergodica.errors import InputError
from ergodica.verify.audit.black_box import as_step, work

X = jnp.ones(3)


def langevin(key, x, h):
    return x - h * x + jnp.sqrt(2 * h) * jax.random.normal(key, x.shape, x.dtype)


def numpy_langevin(key, x, h):
    return x - h * x + np.sqrt(2 * h) * key.standard_normal(x.shape)


def numpy_seeded(key, x, h):
    return x - h * x + np.sqrt(2 * h) * np.random.default_rng(key).standard_normal(x.shape)


def numpy_global(key, x, h):
    """NumPy's own generator passes through JAX's tracing, as a constant."""
    return x - h * x + (2 * h) ** 0.5 * np.random.standard_normal(x.shape)  # noqa: NPY002


def test_a_jax_step_is_traced_and_a_numpy_step_is_called():
    assert as_step(langevin, None, None, X, 0.1).is_jax
    for step in (numpy_langevin, numpy_seeded, numpy_global):
        assert not as_step(step, None, None, X, 0.1).is_jax


def test_a_deterministic_jax_step_is_still_a_jax_step():
    assert as_step(lambda key, x, h: x - h * jnp.sin(x), None, None, X, 0.1).is_jax


def test_positions_are_pytrees_and_states_may_hold_more():
    position = {"w": jnp.ones((2, 2)), "b": jnp.zeros(())}

    def init(key, x):
        return {"position": x, "count": 0, "key": key}

    def step(key, state, h):
        moved = jax.tree.map(lambda x: x + h, state["position"])
        return state | {"position": moved, "count": state["count"] + 1}

    black_box = as_step(step, init, lambda s: s["position"], position, 0.1)
    assert not black_box.is_bare
    vector = jnp.arange(5.0)
    state = black_box.move(jax.random.key(0), black_box.start(jax.random.key(1), vector), 0.5)
    np.testing.assert_allclose(black_box.place(state), vector + 0.5)


def test_init_may_do_without_a_key_and_a_position_attribute_is_found():
    class State(dict):
        position = property(lambda self: self["x"])

    jax.tree_util.register_pytree_node(State, lambda s: (tuple(s.values()), tuple(s)), lambda k, v: State(zip(k, v)))  # noqa: B905
    black_box = as_step(lambda key, s, h: State(x=s["x"] * h), lambda x: State(x=x), None, X, 0.1)
    assert black_box.is_jax


def test_a_numpy_state_may_be_changed_in_place():
    def step(rng, state, h):
        state["x"] += h * rng.standard_normal(3)
        state["count"] += 1

    black_box = as_step(step, lambda x: {"x": x, "count": 0}, lambda s: s["x"], X, 0.1)
    assert not black_box.is_jax
    begin = np.zeros(3)
    state = black_box.start(np.random.default_rng(0), begin)
    places = [black_box.place(black_box.move(np.random.default_rng(1), state, 0.1)) for _ in range(2)]
    np.testing.assert_allclose(places[1], 2 * places[0])
    assert (begin == 0).all()


def test_a_float32_step_is_run_in_its_own_dtype():
    def step(key, x, h):
        return x + jnp.ones(3, jnp.float32) * h  # strict promotion refuses float64 here

    assert as_step(step, None, None, jnp.ones(3, jnp.float32), 0.1).layout.dtype == jnp.float32


def test_a_step_is_compiled_once_for_as_long_as_it_does_the_same():
    class Sampler:
        temperature, scales = 1.0, np.ones(3)

        def step(self, key, x, h):
            return (
                x
                - h * jnp.asarray(self.scales) * x
                + jnp.sqrt(2 * h * self.temperature) * jax.random.normal(key, x.shape)
            )

    sampler, found = Sampler(), []
    for changed in ({}, {}, {"temperature": 3.0}, {"scales": np.asarray([1.0, 1.0, 2.0])}, {}):
        vars(sampler).update(changed)
        found.append(as_step(sampler.step, None, None, X, 0.1))
    assert [b is a for a, b in pairwise(found)] == [True, False, False, True]


def test_a_temperature_that_was_changed_between_two_audits_is_seen():
    class Sampler:
        temperature = 1.0

        def step(self, key, x, h):
            return x - h * x + jnp.sqrt(2 * h * self.temperature) * jax.random.normal(key, x.shape, x.dtype)

    sampler, law = Sampler(), eg.gallery.gaussian(2)
    assert eg.audit(sampler.step, law, effort=0.02).passed
    sampler.temperature = 3.0
    assert "temperature" in eg.audit(sampler.step, law, effort=0.02).notes[0]


def test_init_may_take_the_key_last():
    def init(position, rng_key):
        return {"position": position, "momentum": jax.random.normal(rng_key, position.shape, position.dtype)}

    def by_keyword(position, *, key):
        return init(position, key)

    for begin in (init, by_keyword):
        black_box = as_step(lambda key, s, h: s, begin, lambda s: s["position"], X, 0.1)
        np.testing.assert_array_equal(black_box.start(jax.random.key(0), X)["position"], X)


def test_a_numpy_step_that_raises_later_says_when():
    calls = []

    def step(rng, x, h):
        calls.append(h)
        if len(calls) == 100:
            raise ZeroDivisionError("a rare branch")
        return numpy_langevin(rng, x, h)

    with pytest.raises(
        InputError, match=r"step raised at call \d+, at step size \S+: ZeroDivisionError: a rare branch"
    ):
        eg.audit(step, eg.gallery.gaussian(2), effort=0.01)


@pytest.mark.parametrize(
    ("step", "init", "read", "message"),
    [
        (lambda key, x, h: x[:2], None, None, r"shape \(2,\), expected \(3,\)"),
        (lambda key, x, h: (x, {"accepted": True}), None, None, r"step\(key, state, h\)\[0\]"),
        (lambda key, x, h: x / undefined, None, None, "NameError"),
        (lambda key, s, h: s, lambda x: (x, x), None, "Give read="),
        (lambda key, s, h: s, lambda a, b, c: a, None, "init needs 3 arguments"),
        (lambda key, s, h: s, lambda x: (x, x), lambda s: s[0][:1], r"shapes \(\(1,\),\), expected \(\(3,\),\)"),
        (3, None, None, "step is 3: expected a function"),
        (lambda key, s, h: s._replace(position=s.position), None, None, "Then give init= and read="),
        (lambda key, s, h: s["x"], None, None, "Then give init= and read="),
        (lambda key, x, h: None, None, None, "step returned nothing, expected the position"),
        (lambda key, x, h: x * 1j, None, None, "complex numbers"),
        (lambda key, x, h: x * key.standard_normal() * 1j, None, None, "complex numbers"),
    ],
)
def test_bad_steps_are_told_in_one_line(step, init, read, message):
    with pytest.raises(InputError, match=message) as caught:
        as_step(step, init, read, X, 0.1)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": 0.0}, "temperature is 0.0: expected a number above 0"),
        ({"step_size": float("nan")}, "step_size is nan"),
        ({"effort": -1}, "effort is -1"),
        ({"effort": "much"}, "effort is 'much'"),
        ({"temperature": jnp.ones(2)}, "temperature is .*: expected a number above 0"),
        ({"seed": -1}, "seed is -1: expected a whole number of at least 0"),
        ({"seed": 1.5}, "seed is 1.5: expected a whole number"),
        ({"position": jnp.full(2, jnp.nan)}, "nan"),
    ],
)
def test_bad_settings_are_told_in_one_line(settings, message):
    with pytest.raises(InputError, match=message):
        eg.audit(langevin, eg.gallery.gaussian(2), **settings)


def test_a_target_without_a_potential_and_one_without_a_position_are_refused():
    with pytest.raises(InputError, match="needs a target with a potential"):
        eg.audit(langevin, lambda x: x)
    with pytest.raises(InputError, match="no position"):
        eg.audit(langevin, eg.Density(lambda x: jnp.sum(x**2)))


def test_work_counts_loops_and_what_is_shared_by_all_chains_once():
    def ten(key, x, h):
        return jax.lax.scan(lambda x, k: (langevin(k, x, h), None), x, jax.random.split(key, 10))[0]

    def shared(key, x, h):
        root = jnp.linalg.cholesky(jnp.eye(3) * (1 + h))
        return x + root @ langevin(key, x, h)

    one, many, once = (work(as_step(step, None, None, X, 0.1)) for step in (langevin, ten, shared))
    assert 8 < many / one < 12
    assert once / one < 1.5
