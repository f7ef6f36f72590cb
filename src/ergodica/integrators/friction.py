"""The friction part of a splitting: dr = -D grad g(r) dt + sqrt(2 T D) dW over a time t, D fixed.

It keeps exp(-g/T) whatever D is. For a Gaussian g it is an Ornstein-Uhlenbeck process, solved in closed form, so that
strong friction (t D large) needs no small step. A thermostat is friction too, but without noise: `coupling_decay`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ergodica import tree
from ergodica.energy import Gaussian
from ergodica.fields import EXACT_LIMIT
from ergodica.operators import DenseOperator, Operator, act, apply_scaled, entrywise, is_entrywise, root
from ergodica.tree import Combination, Layout


class Decay(NamedTuple):
    """Ornstein-Uhlenbeck over a time t: r -> a r + N(0, S), a = exp(-t D M^-1), S = T (M - a M a^T).

    a is the solution of dr = -D M^-1 r dt. S follows without an integral: the process keeps the law N(0, T M), so
    a (T M) a^T + S = T M.
    """

    factor: Operator
    variance: Operator


def decay(diffusion: Operator, energy: Gaussian, layout: Layout, time: Any, temperature: Any) -> Decay:
    """The exact law of friction for a Gaussian energy, entry by entry or as matrices."""
    mass, inverse = energy.mass_operator(layout), energy.inverse_operator(layout)
    time, heat = jnp.asarray(time, layout.dtype), jnp.asarray(temperature, layout.dtype)
    if is_entrywise(diffusion, mass):
        # 1 - a^2 from the same exponential: with x = e^-tk - 1 it is -x (2 + x), without loss where t k is small
        lost = entrywise(lambda d, i: jnp.expm1(-time.astype(d.dtype) * i * d), diffusion, inverse)
        factor = entrywise(lambda x: 1 + x, lost)
        variance = entrywise(lambda x, m: -heat.astype(m.dtype) * m * (x * (2 + x)), lost, mass)
        return Decay(factor, variance)
    half, back, rate = _unit_friction(diffusion, mass, inverse)
    kept, fresh = relaxation(time * rate)
    factor, spread = half @ kept @ back, jnp.sqrt(heat) * (half @ fresh)
    return Decay(DenseOperator(factor, layout, layout), DenseOperator(spread @ spread.T, layout, layout, spread))


def exact_friction(
    diffusion: Operator,
    energy: Gaussian,
    layout: Layout,
    time: Any,
    temperature: Any,
    momentum: Combination,
    normal: PyTree,
) -> Combination:
    """a r + N(0, S), see `Decay`; matrices are not multiplied, only applied."""
    mass, inverse = energy.mass_operator(layout), energy.inverse_operator(layout)
    if is_entrywise(diffusion, mass):
        law = decay(diffusion, energy, layout, time, temperature)
        return act(law.factor, momentum) + act(root(law.variance), Combination.of(normal))
    half, back, rate = _unit_friction(diffusion, mass, inverse)
    time, heat = jnp.asarray(time, layout.dtype), jnp.asarray(temperature, layout.dtype)
    kept, fresh = relaxed(time, rate, back @ layout.ravel(momentum.value()), layout.ravel(normal))
    return Combination.of(layout.unravel(half @ (kept + jnp.sqrt(heat) * fresh)))


def _unit_friction(diffusion: Operator, mass: Operator, inverse: Operator) -> tuple[Array, Array, Array]:
    """F, F^-1 and K = F^-1 D F^-T, for M = F F^T.

    In r = F s friction is ds = -K s dt + sqrt(2 T K) dW, so that a = F e^(-t K) F^-1 and S = T F (1 - e^(-2 t K)) F^T.
    """
    half = root(mass).to_dense()
    back = half.T @ inverse.to_dense()
    return half, back, back @ diffusion.to_dense() @ back.T


@jax.custom_jvp
def relaxed(time: Array, rate: Array, vector: Array, normal: Array) -> tuple[Array, Array]:
    """e^-tK s and sqrt(1 - e^-2tK) xi, in the eigenbasis of K, where a loop over steps with one K finds it once."""
    values, vectors = _spectrum(rate)
    kept, fresh = jnp.exp(-time * values), jnp.sqrt(-jnp.expm1(-2 * time * values))
    return vectors @ (kept * (vectors.T @ vector)), vectors @ (fresh * (vectors.T @ normal))


@relaxed.defjvp
def _relaxed_jvp(primals, tangents):
    def densely(time, rate, vector, normal):
        kept, fresh = relaxation(time * rate)
        return kept @ vector, fresh @ normal

    return jax.jvp(densely, primals, tangents)


@jax.custom_jvp
def relaxation(matrix: Array) -> tuple[Array, Array]:
    """e^-X and the symmetric root of 1 - e^-2X for a PSD matrix X; NaN where an eigenvalue is negative beyond rounding.

    A root by eigenvectors alone would be a factor of the same variance, but one that jumps with their signs: with the
    same normals, two nearby states would take different noise.
    """
    values, vectors = _spectrum(matrix)
    kept, fresh = jnp.exp(-values), jnp.sqrt(-jnp.expm1(-2 * values))
    return (vectors * kept[None, :]) @ vectors.T, (vectors * fresh[None, :]) @ vectors.T


@relaxation.defjvp
def _relaxation_jvp(primals, tangents):
    # In the eigenbasis a function f changes by its divided differences, [f(x_i) - f(x_j)] / (x_i - x_j) dX_ij, smooth
    # where eigenvalues meet; and S S = P gives dS_ij = dP_ij / (s_i + s_j).
    (matrix,), (change,) = primals, tangents
    values, vectors = _spectrum(matrix)
    inner = vectors.T @ change @ vectors
    least = jnp.minimum(values[:, None], values[None, :])
    gap = jnp.abs(values[:, None] - values[None, :])
    fresh = jnp.sqrt(-jnp.expm1(-2 * values))
    sums = fresh[:, None] + fresh[None, :]
    kept_change = -jnp.exp(-least) * _phi(gap) * inner
    fresh_change = 2 * jnp.exp(-2 * least) * _phi(2 * gap) * inner / jnp.where(sums > 0, sums, jnp.ones_like(sums))
    return relaxation(matrix), tuple(vectors @ x @ vectors.T for x in (kept_change, fresh_change))


def _spectrum(matrix: Array) -> tuple[Array, Array]:
    values, vectors = jnp.linalg.eigh(matrix)
    rounding = 10 * len(matrix) * jnp.finfo(matrix.dtype).eps * jnp.max(jnp.abs(values))
    return jnp.where(values < -rounding, jnp.nan, jnp.maximum(values, 0)), vectors


def symmetric_friction(
    diffusion: Operator, velocity: Callable[[PyTree], PyTree], momentum: PyTree, normal: PyTree, time: Any, heat: Any
) -> PyTree:
    """Half the drag, all the noise, half the drag: order 2 for an energy whose friction has no closed form.

    The drag dr/dt = -D v(r) is taken by a midpoint step, whose error of third order keeps the composition's second.
    """

    def drag(r: PyTree) -> PyTree:
        middle = tree.subtract(r, apply_scaled(diffusion, time / 4, velocity(r)))
        return tree.subtract(r, apply_scaled(diffusion, time / 2, velocity(middle)))

    noise = apply_scaled(root(diffusion), jnp.sqrt(2 * time * heat), normal)
    return drag(tree.add(drag(momentum), noise))


def coupling_decay(
    coupling: Callable[[PyTree], Combination], momentum: Combination, time: Any, is_elementwise: bool
) -> Combination:
    """dr/dt = -c(r) over a time t: the thermostat's part of the friction, the thermostat fixed.

    An exponential step r - t phi(t J) c, J = dc/dr, phi(x) = (1 - e^-x) / x: exact for c linear in r (all thermostats
    here), order 2 otherwise, and stable however far the thermostat swings.
    """
    like = momentum.terms[0][1]
    rate = _rate(coupling(like), like)
    if rate is not None:  # a number times r, whatever r is: no need to add it up yet
        return momentum.scaled(jnp.exp(-jnp.asarray(time, rate.dtype) * rate))
    start = momentum.value()

    def force(r: PyTree) -> PyTree:
        return coupling(r).value()

    if not is_elementwise:
        return Combination.of(_mixing_decay(force, start, time))
    value, slope = jax.jvp(force, (start,), (tree.ones_like(start),))

    def exponential(r, c, j):
        return r - tree.cast(time, r) * _phi(tree.cast(time, r) * j) * c

    return Combination.of(jax.tree.map(exponential, start, value, slope))


def _rate(force: Combination, momentum: PyTree) -> Any:
    """The number c where the force is c times the momentum itself, else None."""
    is_multiple = all(c is not None and x is momentum for c, x in force.terms)
    return sum(c for c, _ in force.terms) if is_multiple else None


def _mixing_decay(coupling: Callable[[PyTree], PyTree], momentum: PyTree, time: Any) -> PyTree:
    """The same for a coupling that mixes coordinates; above EXACT_LIMIT numbers by a midpoint step."""
    layout = Layout.of(momentum)
    if layout.size > EXACT_LIMIT:
        middle = tree.add_scaled(momentum, -time / 2, coupling(momentum))
        return tree.add_scaled(momentum, -time, coupling(middle))

    def flat_coupling(r: Array) -> Array:
        return layout.ravel(coupling(layout.unravel(r)))

    flat, time = layout.ravel(momentum), jnp.asarray(time, layout.dtype)
    slope, value = jax.jacfwd(flat_coupling)(flat), flat_coupling(flat)
    # the last column of exp [[-t J, -t c], [0, 0]] is -t phi(t J) c, with a 1 below
    generator = jnp.pad(-time * jnp.concatenate([slope, value[:, None]], axis=1), ((0, 1), (0, 0)))
    return layout.unravel(flat + jax.scipy.linalg.expm(generator)[:-1, -1])


def _phi(x: Array) -> Array:
    """(1 - e^-x) / x."""
    is_small = jnp.abs(x) < 1e-4
    safe = jnp.where(is_small, jnp.ones_like(x), x)
    return jnp.where(is_small, 1 - x / 2 + x * x / 6, -jnp.expm1(-safe) / safe)
