"""Standard normals for positions of many numbers: threefry, and a transformation of its bits that vectorises.

In a step of a network the normals would cost more than the gradient if they were `jax.random.normal`: XLA computes its
rounds array by array, puts its inverse error function into a loop that does not vectorise well, and computes normals
again wherever they are read. Here bits, normals and what is made of them are three loops
(docs/decisions/0014-normals-of-large-positions.md).
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

LARGE = 100_000  # numbers of a slot; below, what is gained is not worth a second kind of normals
NAME = "threefry bits, Giles' inverse error function"

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))

# Of erfinv(x) / x, as polynomials in w - 5/2 for w < 5 and in sqrt(w) - 3 beyond, w = -log(1 - x^2), highest power
# first: Giles (2012), "Approximating the erfinv function", GPU Computing Gems, Jade edition, chapter 10, Table 10.2.
CENTRE = (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503,
          -0.00417768164, 0.246640727, 1.50140941)  # fmt: skip
TAIL = (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047,
        1.00167406, 2.83297682)  # fmt: skip


def large_normals(key: Array, count: int) -> Array:
    """`count` independent standard normals in float32."""
    first, second = jax.random.key_data(key)
    bits = _by_itself(lambda: threefry_bits(first, second, count), first)
    return _by_itself(lambda: normal_of_bits(bits), first)


def threefry_bits(first: Array, second: Array, count: int) -> Array:
    """The words of `jax.random.bits` for the key with these two words: threefry-2x32 of 20 rounds at 0, 1, 2, ...

    Salmon, Moraes, Dror and Shaw (2011), https://doi.org/10.1145/2063384.2063405. Written out, so that XLA makes one
    loop of it.
    """
    keys = (first, second, first ^ second ^ np.uint32(0x1BD11BDA))
    x, y = jnp.full((count,), keys[0]), jax.lax.iota(jnp.uint32, count) + keys[1]
    for group in range(5):
        for turn in ROTATIONS[group % 2]:
            x = x + y
            y = x ^ ((y << np.uint32(turn)) | (y >> np.uint32(32 - turn)))
        x, y = x + keys[(group + 1) % 3], y + keys[(group + 2) % 3] + np.uint32(group + 1)
    return x ^ y


def normal_of_bits(bits: Array) -> Array:
    """sqrt(2) erfinv(x) for x = (2 k + 1) / 2^23 - 1, k the upper 22 bits of a word: symmetric, never 0 or 1.

    With x a multiple of 2^-23 both 1 - x and 1 + x are exact, so that w has a small relative error near the ends, where
    it matters; near 0, where it does not, the polynomial is flat.
    """
    number = (bits >> np.uint32(10)).astype(jnp.int32).astype(jnp.float32)
    x = number * np.float32(2**-21) + np.float32(2**-22 - 1)
    w = -jnp.log((np.float32(1) - x) * (np.float32(1) + x))
    centre, tail = _polynomial(CENTRE, w - np.float32(2.5)), _polynomial(TAIL, jnp.sqrt(w) - np.float32(3))
    return np.float32(np.sqrt(2)) * x * jnp.where(w < np.float32(5), centre, tail)


def _polynomial(coefficients: tuple[float, ...], x: Array) -> Array:
    value = jnp.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        value = value * x + np.float32(coefficient)
    return value


def _by_itself(function: Callable[[], Array], word: Array) -> Array:
    """Its value, computed in a loop of its own: XLA fuses nothing into or out of a conditional whose branch is not
    known before it runs. (`optimization_barrier` is gone by the time that it fuses.)"""
    return jax.lax.cond(word < np.uint32(2**31), function, function)
