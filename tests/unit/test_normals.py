"""Normals of large positions: the words of jax.random, and the right law to rounding."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import ndtri

from ergodica import normals, tree


def test_the_words_are_those_of_jax():
    key = jax.random.wrap_key_data(jnp.asarray([7, 2**31 + 5], jnp.uint32), impl="threefry2x32")
    words = normals.threefry_bits(*jax.random.key_data(key), 1_001)
    np.testing.assert_array_equal(words, jax.random.bits(key, (1_001,), np.uint32))


def test_every_normal_is_the_quantile_of_its_place():
    places = np.arange(2**22, dtype=np.uint64)
    found = np.asarray(jax.jit(normals.normal_of_bits)(jnp.asarray((places << 10).astype(np.uint32))), np.float64)
    expected = ndtri((2 * places.astype(np.float64) + 1) / 2**23)
    np.testing.assert_allclose(found, expected, rtol=4e-7)
    np.testing.assert_array_equal(found, -found[::-1])  # so that odd moments vanish exactly


@pytest.mark.parametrize("coefficient", range(9))
def test_a_coefficient_with_a_wrong_digit_is_seen(coefficient, monkeypatch):
    wrong = list(normals.CENTRE)
    wrong[coefficient] *= 1.1
    monkeypatch.setattr(normals, "CENTRE", tuple(wrong))
    places = np.arange(0, 2**22, 1_001, dtype=np.uint64)
    found = np.asarray(normals.normal_of_bits(jnp.asarray((places << 10).astype(np.uint32))), np.float64)
    expected = ndtri((2 * places.astype(np.float64) + 1) / 2**23)
    assert np.max(np.abs(found / expected - 1)) > 4e-7


def test_large_float32_positions_have_them_and_no_others():
    key = jax.random.wrap_key_data(jnp.asarray([1, 2], jnp.uint32), impl="threefry2x32")
    shapes = {"a": (400, 200), "b": (30_001,)}
    like = {name: jax.ShapeDtypeStruct(shape, np.float32) for name, shape in shapes.items()}
    found = tree.normal_like(key, like)
    whole = np.concatenate([np.asarray(leaf).reshape(-1) for leaf in found.values()])
    np.testing.assert_array_equal(whole, normals.large_normals(key, 110_001))
    small = {"a": jax.ShapeDtypeStruct((3,), np.float32)}
    np.testing.assert_array_equal(tree.normal_like(key, small)["a"], jax.random.normal(key, (3,), np.float32))
    wide = jax.ShapeDtypeStruct((110_001,), np.float64)
    np.testing.assert_array_equal(tree.normal_like(key, wide), jax.random.normal(key, (110_001,), np.float64))
