"""What a user may hand over as a step, and how he is told what he may not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodica as eg
from ergodica.errors import InputError
from ergodica.verify.audit.cost import work
from ergodica.verify.audit.steps import as_step

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
        ({"position": jnp.full(2, jnp.nan)}, "nan"),
    ],
)
def test_bad_settings_are_told_in_one_line(settings, message):
    with pytest.raises(InputError, match=message):
        eg.audit(langevin, eg.gallery.gaussian(2), **settings)


def test_a_target_without_a_potential_and_one_without_a_position_are_refused():
    with pytest.raises(InputError, match="needs a potential"):
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
