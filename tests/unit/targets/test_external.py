"""External: a gradient from outside JAX, called between compiled steps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ergodica.errors import InputError
from ergodica.targets import External, positive

position = {"w": jnp.array([1.0, 2.0], jnp.float32), "s": jnp.asarray(3.0)}


def gradient(position, batch, seed):
    assert all(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves(position))
    return {"w": batch * position["w"].astype(float), "s": float(position["s"]) + seed}


target = External(gradient, batches=[1.0, 2.0], init=position)


def test_numpy_in_and_the_dtypes_of_the_position_out():
    got = target.gradient_at(position, 2.0, seed=5)
    np.testing.assert_array_equal(got["w"], [2.0, 4.0])
    assert float(got["s"]) == 8.0
    assert got["w"].dtype == jnp.float32
    assert got["s"].dtype == jnp.float64


def test_what_it_says_of_itself():
    assert not target.has_potential
    assert target.size is target.truth is target.domain is None
    target.check(position)


def test_batches_are_any_iterable():
    for batches in ([1.0], (1.0, 2.0), iter([1.0]), (x for x in [1.0]), range(3), np.ones(3)):
        made = External(gradient, batches)
        assert made.batches is batches
        bare = made.without_data()
        assert bare.batches is None
        assert bare.without_data() is bare
        assert float(bare.gradient_at(position, 1.0, 0)["s"]) == 3.0


def test_no_potential():
    with pytest.raises(InputError, match=r"no potential: use a recipe that does not read the potential"):
        target.potential(position)
    with pytest.raises(InputError, match=r"not traceable: call gradient_at\(position, batch, seed\)"):
        target.evaluate(position)


def test_not_inside_jit():
    with pytest.raises(InputError, match="inside jit, vmap or grad"):
        jax.jit(lambda p: target.gradient_at(p, 1.0, 0))(position)


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        (lambda p, b, s: {"w": p["w"]}, "gradient returned structure.*expected that of the position"),
        (lambda p, b, s: {"w": p["w"][:1], "s": p["s"]}, r"gradient\['w'\] has shape \(1,\).*\(2,\)"),
        (lambda p, b, s: {"w": p["w"] * np.nan, "s": p["s"]}, r"gradient\['w'\]\[0\] = nan"),
        (lambda p, b, s: None, "gradient returned structure"),
    ],
)
def test_wrong_gradients(wrong, match):
    with pytest.raises(InputError, match=match):
        External(wrong, [1.0]).gradient_at(position, 1.0, 0)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ((None, [1.0]), "gradient is None: expected a function"),
        ((gradient, 3), "batches is 3: expected an iterable"),
        ((gradient, "file.txt"), "batches is 'file.txt': expected an iterable"),
        ((gradient, []), "batches is empty"),
        ((gradient, [1.0], jnp.arange(2)), "dtype int64"),
        ((gradient, [1.0], -jnp.ones(2), positive), "outside"),
    ],
)
def test_construction(arguments, match):
    with pytest.raises(InputError, match=match):
        External(*arguments)
