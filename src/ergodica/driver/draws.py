"""What is kept of a run: draws and statistics, in memory or in files that grow as they come; or only their moments.

Running moments (Welford, 1962; Chan, Golub and LeVeque, 1979) are for draws too many or too large to keep: in the
compiled loop a few hundred draws at a time in the precision of the position, then merged in float64. A mean of a
million draws in float32 would stand still, its next correction being below rounding.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ergodica import normals, tree
from ergodica.errors import InputError
from ergodica.host.memory import available_memory, readable
from ergodica.output.labelled import Temperatures, named

if TYPE_CHECKING:
    from ergodica.output.blocks import BlockFile

MEMORY_SHARE = 0.6  # of the memory available that draws may take
FEW_BYTES = 2**24  # of draws that fit anywhere: to find out what is available takes as long as many steps
STATISTICS = {  # by name, with its dtype; None: that of the position
    "step_size": np.float64,
    "potential": None,
    "gradient_norm": None,
    "kinetic_temperature": None,
    "diverging": np.bool_,
    "accepted": np.bool_,
}

WITHDRAWN_STATISTICS = {"diverging": True, "accepted": False}  # of a draw that does not stand; all else NaN


class KeptSteps(NamedTuple):
    """Which steps are kept: every `thin`-th after the warm-up; with a `period` only those of the last `tail` steps of
    each, from the first period on that begins after the warm-up."""

    warmup: int
    thin: int
    total: int
    period: int | None = None
    tail: int = 0

    @property
    def draws(self) -> int:
        return self.before(self.total)

    def before(self, step: int) -> int:
        """How many of the steps before `step` are kept."""
        if self.period is None:
            return max(0, step - self.warmup) // self.thin
        periods, rest = divmod(max(0, step - self._begin), self.period)
        return periods * (self.tail // self.thin) + max(0, rest - self.period + self.tail) // self.thin

    def between(self, first: int, stop: int) -> np.ndarray:
        """The numbers of those kept among first, ..., stop - 1."""
        draws = np.arange(self.before(first), self.before(stop))
        if self.period is None:
            return self.warmup + self.thin * (1 + draws) - 1
        periods, rest = np.divmod(draws, self.tail // self.thin)
        return self._begin + (periods + 1) * self.period - self.tail + self.thin * (1 + rest) - 1

    @property
    def _begin(self) -> int:
        assert self.period is not None
        return -(-self.warmup // self.period) * self.period


class DrawShape(NamedTuple):
    """What one draw of one chain is."""

    one: PyTree  # of ShapeDtypeStructs; None where only moments are kept
    chains: int
    dtype: np.dtype  # of statistics that are computed with the position

    def bytes(self) -> int:
        """Of one draw of all chains with its statistics."""
        draws = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(self.one))
        return self.chains * (draws + sum(kind.itemsize for kind in self.stats().values()))

    def stats(self) -> dict[str, np.dtype]:
        return {name: np.dtype(kind or self.dtype) for name, kind in STATISTICS.items()}


class MemoryColumn:
    """One array of all draws in memory, as a `BlockFile` holds one on disk: blocks (draw, chain, ...) are appended."""

    def __init__(self, count: int, chains: int, shape: tuple[int, ...], dtype: Any):
        self.array = np.empty((chains, count, *shape), dtype)
        self.dtype, self.count = self.array.dtype, 0

    def append(self, block: np.ndarray) -> None:
        self.array[:, self.count : self.count + len(block)] = np.swapaxes(block, 0, 1)
        self.count += len(block)

    def truncate(self, count: int) -> None:
        self.count = count

    def reserve(self, count: int) -> None:
        """Room for `count` draws in all."""
        before = self.array
        self.array = np.empty((before.shape[0], count, *before.shape[2:]), before.dtype)
        self.array[:, : self.count] = before[:, : self.count]

    def read(self) -> np.ndarray:
        return np.swapaxes(self.array[:, : self.count], 0, 1)


class Store:
    """The columns of a run. Blocks are added in step order, one draw of all chains at a time.

    Args:
        names: of the leaves of a draw.
        opened: makes a column, from its full name, its dtype and the shape of one draw of one chain.
    """

    def __init__(
        self,
        shape: DrawShape,
        names: Iterable[str],
        opened: "Callable[[str, Any, tuple[int, ...]], MemoryColumn | BlockFile]",
    ):
        self.shape = shape
        pairs = zip(names, jax.tree.leaves(shape.one), strict=True)
        self.leaves = {name: opened(f"posterior.{name}", leaf.dtype, leaf.shape) for name, leaf in pairs}
        self.stats = {name: opened(f"sample_stats.{name}", kind, ()) for name, kind in shape.stats().items()}

    def add(self, draws: list[PyTree], stats: dict[str, np.ndarray]) -> None:
        """`draws`: of each chain, leaves (draw, ...); `stats`: arrays (chain, draw)."""
        for column, *parts in zip(self.leaves.values(), *map(jax.tree.leaves, draws), strict=True):
            column.append(np.swapaxes(np.stack(parts), 0, 1))
        for name, column in self.stats.items():
            column.append(np.ascontiguousarray(stats[name].T, column.dtype))

    def withdraw(self, chain: int, draw: PyTree) -> None:
        """Put `draw`, where the chain stays, for its last one, which does not stand."""
        changes = list(zip(self.leaves.values(), jax.tree.leaves(draw), strict=True))
        for name, column in self.stats.items():
            if name != "step_size":
                changes.append((column, WITHDRAWN_STATISTICS.get(name, np.nan)))
        for column, value in changes:
            last = np.array(column.read()[-1:])
            last[0, chain] = value
            column.truncate(column.count - 1)
            column.append(last)

    def reserve(self, count: int) -> None:
        """Room for `count` draws in all; files grow by themselves."""
        for column in (*self.leaves.values(), *self.stats.values()):
            if isinstance(column, MemoryColumn):
                column.reserve(count)

    def posterior(self) -> PyTree:
        """Leaves (chain, draw, ...), as the statistics; those on disk memory-mapped."""
        if self.shape.one is None:
            return None
        structure = jax.tree.structure(self.shape.one)
        return jax.tree.unflatten(structure, [_by_chain(column) for column in self.leaves.values()])

    def statistics(self) -> dict[str, np.ndarray]:
        return {name: _by_chain(column) for name, column in self.stats.items()}


def _by_chain(column: "MemoryColumn | BlockFile") -> np.ndarray:
    return np.swapaxes(column.read(), 0, 1)


def check_room(shape: DrawShape, count: int) -> None:
    """Refuse `count` draws that would not fit in memory."""
    needed = shape.bytes() * count
    if needed > FEW_BYTES and needed > MEMORY_SHARE * (available := available_memory()):
        raise InputError(
            f"the draws need {readable(needed)} of memory and {readable(available)} are available: keep fewer "
            "(thin=), a function of the position (keep=function), only mean and variance (keep='moments'), or write "
            "them to disk as they come (out='run.nc')"
        )


def in_memory(shape: DrawShape, count: int) -> Store:
    """Columns for `count` draws."""
    names = map(str, range(len(jax.tree.leaves(shape.one))))
    return Store(shape, names, lambda _, dtype, one: MemoryColumn(count, shape.chains, one, dtype))


def on_disk(shape: DrawShape, folder: Path) -> Store:
    """Files in `folder`, begun or resumed."""
    from ergodica.output.blocks import BlockFile

    names = [] if shape.one is None else named(shape.one)
    return Store(shape, names, lambda name, dtype, one: BlockFile.open(folder, name, dtype, (shape.chains, *one)))


# -- moments ------------------------------------------------------------------------------------------

MERGED_AFTER_DRAWS = 1_000  # draws


class RunningMoments(NamedTuple):
    """How many draws, their mean, and the sum of squares about it; trees like the position."""

    number: Array | np.ndarray
    mean: PyTree
    spread: PyTree


def no_moments(position: PyTree) -> RunningMoments:
    zeros = jax.tree.map(jnp.zeros_like, position)
    return RunningMoments(jnp.zeros((), jnp.int32), zeros, zeros)


def add_draw(moments: RunningMoments, draw: PyTree, is_kept: Array) -> RunningMoments:
    """Welford's step; no change where `is_kept` is false."""
    count = moments.number + is_kept.astype(jnp.int32)
    divisor = jnp.maximum(count, 1)

    def mean_of(mean: Array, x: Array) -> Array:
        return mean + jnp.where(is_kept, (x - mean) / tree.cast(divisor, x), jnp.zeros_like(x))

    means = jax.tree.map(mean_of, moments.mean, draw)

    def spread_of(spread: Array, x: Array, old: Array, new: Array) -> Array:
        return spread + jnp.where(is_kept, (x - old) * (x - new), jnp.zeros_like(x))

    return RunningMoments(count, means, jax.tree.map(spread_of, moments.spread, draw, moments.mean, means))


def merged_moments(first: RunningMoments, second: RunningMoments) -> RunningMoments:
    """Of both together, in float64 on the host."""
    n, m = int(first.number), int(second.number)
    if m == 0:
        return first
    share = m / (n + m)

    def mean_of(a: np.ndarray, b: Array) -> np.ndarray:
        return a + share * (np.asarray(b, np.float64) - a)

    def spread_of(s: np.ndarray, t: Array, a: np.ndarray, b: Array) -> np.ndarray:
        return s + np.asarray(t, np.float64) + n * share * (np.asarray(b, np.float64) - a) ** 2

    means = jax.tree.map(mean_of, first.mean, second.mean)
    spreads = jax.tree.map(spread_of, first.spread, second.spread, first.mean, second.mean)
    return RunningMoments(np.asarray(n + m), means, spreads)


def no_moments_yet(position: PyTree) -> RunningMoments:
    """On the host, in float64."""
    zeros = jax.tree.map(lambda leaf: np.zeros(leaf.shape), position)
    return RunningMoments(np.asarray(0), zeros, zeros)


# -- the thermometer: squares of momenta by coordinate, summed over stretches of steps --------------------

MOST_COORDINATES = 10_000  # that are measured; of a larger position every N-th
FEWER_COORDINATES = 2_500  # of a position whose numbers no longer stay in the cache: each one read is a line of it
SUM_NUMBERS = 2**16  # held for a chain: rows times coordinates
FIRST_STRETCH = 16  # steps of a row at first; twice as many each time all rows are full


class Bath(NamedTuple):
    """What a splitting's mean momentum is compared with, in the order of `ravel_pytree`: mass and friction, each one
    number for all, one for each, or a matrix."""

    mass: np.ndarray
    friction: np.ndarray
    kind: str
    """What its coordinates are: those of "numbers", or "whitened" ones."""

    def squares(self, step: float) -> np.ndarray:
        """E of the squares without gradient noise at T = 1: the diagonal of (M + a M) / 2, a = exp(-h C M^-1).

        With M = F F^T and F^-1 C F^-T = V k V^T, a M is F V exp(-h k) (F V)^T.
        """
        rates, axes = self.rates()
        if axes is None:
            return self.mass * (1 + np.exp(-step * rates)) / 2
        return (np.sum(np.square(axes), axis=1) + np.square(axes) @ np.exp(-step * rates)) / 2

    def rates(self) -> tuple[np.ndarray, np.ndarray | None]:
        """k, friction over mass in directions of its own, and F V; None instead of that where these are coordinates."""
        if max(self.mass.ndim, self.friction.ndim) < 2:
            return self.friction / self.mass, None
        size = max(self.mass.shape[-1:] + self.friction.shape[-1:])
        mass, friction = (x if x.ndim == 2 else np.diag(np.broadcast_to(x, (size,))) for x in self[:2])
        root = np.linalg.cholesky(mass)
        values, vectors = np.linalg.eigh(np.linalg.solve(root, np.linalg.solve(root, friction).T))
        return values, root @ vectors


def every(size: int) -> int:
    """Which numbers of a position are measured: every N-th of each leaf."""
    return -(-size // (MOST_COORDINATES if size <= normals.LARGE else FEWER_COORDINATES))


def no_squares(position: PyTree) -> PyTree:
    """Leaves (row, coordinate)."""
    size = tree.size(position)
    rows = int(np.clip(SUM_NUMBERS // max(1, size // every(size)), 16, 64)) // 2 * 2

    def zeros(leaf: Any) -> Array:
        return jnp.asarray(np.zeros((rows, -(-leaf.size // every(size))), np.promote_types(leaf.dtype, np.float32)))

    return jax.tree.map(zeros, position)


def add_squares(sums: PyTree, momentum: PyTree, row: Array, is_counted: Array) -> PyTree:
    """In this row; no change where `is_counted` is false."""
    step = every(tree.size(momentum))

    def added(sums: Array, r: Array) -> Array:
        r = r.reshape(-1)[::step].astype(sums.dtype)
        new = jax.lax.dynamic_index_in_dim(sums, row, keepdims=False) + jnp.where(is_counted, r * r, jnp.zeros_like(r))
        return jax.lax.dynamic_update_index_in_dim(sums, new, row, 0)

    return jax.tree.map(added, sums, momentum)


def stretch_of(sums: PyTree, counted: int) -> int:
    """Steps of a row, where the rows must hold so many."""
    stretch = FIRST_STRETCH
    while stretch * len(jax.tree.leaves(sums)[0]) < counted:
        stretch *= 2
    return stretch


def halved_rows(sums: PyTree) -> PyTree:
    """Each two rows as one."""

    def leaf(sums: Any) -> Array:
        sums = np.asarray(sums)
        return jnp.asarray(np.concatenate([sums[::2] + sums[1::2], np.zeros_like(sums[::2])]))

    return jax.tree.map(leaf, sums)


def temperatures_of(
    chains: list[PyTree], counted: int, stretch: int, squares: np.ndarray, like: PyTree
) -> Temperatures:
    """From the sums of each chain over so many steps, and what they would be without gradient noise at T = 1."""
    size = tree.size(like)
    steps = np.full(-(-counted // stretch), stretch)
    steps[-1] = counted - stretch * (len(steps) - 1)
    parts = [np.concatenate([np.asarray(x, np.float64) for x in jax.tree.leaves(sums)], axis=1) for sums in chains]
    ends = np.cumsum([leaf.size for leaf in jax.tree.leaves(like)])
    places = np.concatenate([np.arange(*edges, every(size)) for edges in zip([0, *ends], ends, strict=False)])
    squares = np.broadcast_to(squares, (size,))[places]
    return Temperatures(np.stack(parts)[:, : len(steps)] / steps[:, None] / squares, steps, places)
