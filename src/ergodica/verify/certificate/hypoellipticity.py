"""Does the noise reach every direction? Hormander's condition where D is singular.

The generator T sum_ij d_i(D_ij d_j) + (f - T div D) . grad is hypoelliptic where the Lie algebra made of the columns of
D^1/2, and of their brackets with them and with the Stratonovich drift, has full rank (Hormander, 1967, the form for
transition densities: the drift alone does not count, its brackets do). [phi s, v] = phi [s, v] - (v . grad phi) s, so
fields may be multiplied by smooth functions and added up without changing that rank. Two simplifications follow, which
spare the derivatives of a root:

- the columns of D serve instead of those of D^1/2;
- the Stratonovich drift, f - T div D + a combination of the columns, may be replaced by the current
  c = f - T div D + D grad H.

For a linear drift this is Kalman's rank test. For SGNHT that test is short by one at every point, since the bracket
that reaches the thermostat is [s, [c, s]]: drift linear in r for fixed xi, quadratic together.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ergodica.compiling import quick_filter_jit
from ergodica.report import Check
from ergodica.verify.sde import Sde
from ergodica.verify.stationarity import Currents, currents

CHECK_NAME = "noise reaches everything"
SMOOTH_IS_NOT_ERGODIC = (
    "Full rank of the brackets gives a smooth law from any start; it does not prove that the chain finds every region."
)
MOST_DEPTH = 4
MOST_NUMBERS = 300
RANK_TOLERANCE = 1e-9  # singular values below this, of vectors of length one, are rounding
# relative: a bracket that changes altogether when its point does so little is rounding, its value is 0
NUDGE_SHARE = 1e-9


class Reach(NamedTuple):
    """How many directions the noise reaches at the worst of the points, of how many, and at which depth of brackets."""

    rank: int
    dim: int
    depth: int
    missed: int | None  # the coordinate that is least in the span

    @property
    def is_full(self) -> bool:
        return self.rank == self.dim


def check_reach(
    sde: Sde, points: np.ndarray, seed: int, is_resampled: bool = False, known: Currents | None = None
) -> tuple[Check, list[str]]:
    """Hormander's condition, and notes on what it does not say; arguments as of `reach`."""
    found = reach(sde, points, seed, is_resampled, known)
    if found.is_full:
        words = "D has full rank" if found.depth == 1 else f"brackets of depth {found.depth} have full rank"
        words = f"with the momentum resampled, {words}" if is_resampled else words
    else:
        words = (
            f"brackets to depth {MOST_DEPTH} span {found.rank} of {found.dim} directions; least of all "
            f"{sde.name(found.missed or 0)}: it is not moved by noise, so its law depends on the start"
        )
    notes = [SMOOTH_IS_NOT_ERGODIC] if found.is_full and found.depth > 1 else []
    return Check(CHECK_NAME, found.is_full, found.rank, found.dim, words), notes


def reach(
    sde: Sde, points: np.ndarray, seed: int = 0, is_resampled: bool = False, known: Currents | None = None
) -> Reach:
    """The rank of the brackets at points (n, dim), to depth 4, stopping at the depth where it is full.

    Brackets are multilinear, so brackets of random combinations of the fields span, almost surely, what all brackets
    of that depth span.

    Args:
        is_resampled: the auxiliary slots are drawn again from time to time, which counts as noise in each of them.
        known: the currents at `nudged(points)`, where they are at hand.
    """
    rng = np.random.default_rng([seed, 4])
    places = nudged(points)
    known = currents(sde, places) if known is None else known
    columns, words = _first_brackets(sde, places, known, _letters(rng, sde.dim, 2), is_resampled)
    found = _unit(np.swapaxes(np.asarray(columns)[: len(points)], 1, 2))
    ranks = np.linalg.matrix_rank(found, rtol=RANK_TOLERANCE).tolist()
    if min(ranks) == sde.dim or max(ranks) == 0:  # brackets of nothing are nothing
        return Reach(min(ranks), sde.dim, 1, None if min(ranks) else 0)
    for depth in range(2, MOST_DEPTH + 1):
        if depth > 2:
            words = _brackets(sde, jnp.asarray(places), _letters(rng, sde.dim, depth), is_resampled)
        found = np.concatenate([found, _unit(_without_rounding(np.asarray(words)))], axis=1)
        ranks = np.linalg.matrix_rank(found, rtol=RANK_TOLERANCE).tolist()
        if min(ranks) == sde.dim:
            return Reach(sde.dim, sde.dim, depth, None)
    worst = int(np.argmin(ranks))
    return Reach(ranks[worst], sde.dim, MOST_DEPTH, _least_reached(found[worst], ranks[worst]))


def _letters(rng: np.random.Generator, dim: int, depth: int) -> np.ndarray:
    """Coefficients of brackets of this depth: of each field in it, that of the current and those of the noises."""
    return rng.standard_normal((2 * dim + 4, depth, dim + 1))


def noise_at(sde: Sde, z: Array, is_resampled: bool) -> Array:
    """The matrix whose columns are the directions of the noise."""
    if not is_resampled:
        return sde.diffusion(z)
    return jnp.diag(jnp.asarray(np.arange(sde.dim) >= sde.slots[0], z.dtype))


@quick_filter_jit
def _first_brackets(
    sde: Sde, points: Array, known: Currents, coefficients: Array, is_resampled: bool
) -> tuple[Array, Array]:
    """The columns of the noise at points, and [x, s] from the derivatives of the current that are known."""

    def at(z, parts, slopes):
        current, turned, columns = parts.sum(0), slopes.sum(0), noise_at(sde, z, is_resampled)

        def slope(weights, direction):
            return jax.jvp(lambda z: noise_at(sde, z, is_resampled) @ weights, (z,), (direction,))[1]

        def word(letters):
            first, last = letters
            x, s = first[0] * current + columns @ first[1:], columns @ last[1:]
            return slope(last[1:], x) - first[0] * turned @ s - slope(first[1:], s)

        return columns, jax.vmap(word)(coefficients)

    return jax.vmap(at)(points, known.parts, known.slopes)


@quick_filter_jit
def _brackets(sde: Sde, points: Array, coefficients: Array, is_resampled: bool) -> Array:
    """[x_1, [x_2, ... [x_(k-1), s_k]]] at points: every x mixes drift and noise, s is noise alone."""

    # jit: each derivative of them is traced once for all brackets, which takes most of the time otherwise
    current = jax.jit(lambda z: sde.current(z))
    columns = jax.jit(lambda z: noise_at(sde, z, is_resampled))

    def noise(coefficients):
        return lambda z: columns(z) @ coefficients[1:]

    def mixed(coefficients):
        return lambda z: coefficients[0] * current(z) + columns(z) @ coefficients[1:]

    def word(z, letters):
        field = noise(letters[-1])
        for letter in letters[-2::-1]:
            field = bracket(mixed(letter), field)
        return field(z)

    # loops, not vmap: batching these derivatives takes longer to trace than the brackets take to run
    return jax.lax.map(lambda z: jax.lax.map(partial(word, z), coefficients), points)


def bracket(u: Callable, v: Callable) -> Callable:
    """[u, v] = (dv/dz) u - (du/dz) v."""
    return lambda z: jax.jvp(v, (z,), (u(z),))[1] - jax.jvp(u, (z,), (v(z),))[1]


def nudged(points: np.ndarray) -> np.ndarray:
    """The points, and after them the same moved a little."""
    signs = np.random.default_rng(0).choice([-1.0, 1.0], points.shape)
    return np.concatenate([points, points * (1 + NUDGE_SHARE * signs)])


def _without_rounding(words: np.ndarray) -> np.ndarray:
    """The brackets at the points, zero where those at the nudged ones are others: they cancel but for rounding."""
    here, there = np.split(words, 2)
    change = np.linalg.norm(here - there, axis=-1, keepdims=True)
    return np.where(change > 1e-2 * np.linalg.norm(here, axis=-1, keepdims=True), 0.0, here)


def _unit(vectors: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.where(lengths == 0, 1, lengths)


def _least_reached(vectors: np.ndarray, rank: int) -> int:
    """The coordinate with the smallest share in the span."""
    directions = np.linalg.svd(vectors)[2][:rank]
    return int(np.argmin(np.sum(directions**2, axis=0)))
