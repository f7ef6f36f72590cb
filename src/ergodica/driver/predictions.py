"""From draws to predictions: a function of the position and rows, for every draw, reduced over draws as they come.

    for each batch of rows              all of one length: the last is filled up, and its surplus cut
        for each block of draws         so many that what a call computes with stays within WORK_BYTES
            one compiled call           groups of at most GROUP_DRAWS draws at once, each group reduced on its own
            added up in float64         on the host

So the memory is that of the answer, of one batch and of one block, whatever the number of draws; what needs all draws
at once ("draws", quantiles) is refused with its size where it would not fit. Within a group sums are in the precision
of the predictions: of 32 numbers they are as exact as these are.
"""

import inspect
import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ergodica.compiling import sound_filter_jit, traceable
from ergodica.data.arrays import check_kind
from ergodica.data.source import Source, row_count, take_rows
from ergodica.driver.reductions import Extent, check_reduce, reduction
from ergodica.errors import InputError
from ergodica.host.progress import waiting
from ergodica.host.validate import kind_of, whole
from ergodica.targets import Posterior, Target
from ergodica.tree import is_array, named_leaves

if TYPE_CHECKING:
    from ergodica.driver.run import Run

WORK_BYTES = 2**26  # of a block's draws and all that one call computes from them
GROUP_DRAWS = 32  # evaluated at once, and summed in their own precision


def predict(
    run: "Run", fn: Callable, rows: PyTree, batch_size: int, reduce: Any, thin: int, progress: bool = True
) -> PyTree:
    """What `Run.predict` does."""
    reduce = check_reduce(reduce)
    draws = _draws(run, thin)
    table = _Table(rows, whole("batch_size", batch_size, 1))
    shapes, structure = jax.tree.flatten(_shapes(fn, draws, table))
    extent = Extent(len(draws.chains), len(draws.numbers), table.size, table.length)
    answer = reduction(reduce, shapes, extent)
    blocks, done = _blocks(extent.total, *_grouping(fn, draws, table)), 0
    with waiting("predictions", progress) as tell:
        for start in table.starts:
            batch = table.batch(start)
            answer.begin(start, min(start + table.length, table.size))
            for places, counted in blocks:
                parts = _compiled(answer.of_group, fn, draws.coordinates, draws.take(places), counted, batch)
                answer.add(parts, int(places[0, 0]), counted)
                done += 1
                tell(done / (len(table.starts) * len(blocks)))
            answer.end()
    return jax.tree.unflatten(structure, map(table.without_axis(answer.row_axis), answer.leaves))


def log_likelihood(run: "Run", target: Target, batch_size: int, thin: int, progress: bool = True) -> np.ndarray:
    """What `Run.log_likelihood` does."""
    if not isinstance(target, Posterior):
        raise InputError(f"target is {kind_of(target)}: expected the eg.Posterior of this run, which has rows")
    if target.data is None:
        raise InputError("this Posterior was made by without_data() and has no rows: give the one that has them")
    run = run if target.init is None else _in_terms_of(target, run)
    return predict(run, target.log_likelihood, target.data, batch_size, "draws", thin, progress)


def _in_terms_of(target: Posterior, run: "Run") -> "Run":
    """The run with its draws in the tree of the target's own: a file knows names only, and draws may hold more than
    the position."""
    from ergodica.output.labelled import as_tree_of, named

    if run.posterior is None:
        return run
    coordinates = target.coordinates
    like = target.init if coordinates is None else jax.eval_shape(coordinates.constrained, target.init)
    names, got = named(like), named(run.posterior)
    draws = as_tree_of({name: x for name, x in got.items() if name in names}, like, 2, "this run")
    return replace(run, posterior=draws, coordinates=coordinates)


def groups(run: "Run", posterior_predictive: Any, log_likelihood: Any, observed_data: Any, thin: int) -> dict[str, Any]:
    """What `Run.with_predictions` adds."""
    from ergodica.output.labelled import OBSERVED_GROUP, PREDICTED_GROUPS, observed_group, predicted_group

    numbers, chains = np.arange(0, count := extent_of(run)[1], whole("thin", thin, 1, count)), sound_chains(run)
    pairs = zip(PREDICTED_GROUPS, (posterior_predictive, log_likelihood), strict=True)
    found = {group: predicted_group(group, x, chains, numbers) for group, x in pairs if x is not None}
    if observed_data is not None:
        found[OBSERVED_GROUP] = observed_group(observed_data)
    if not found:
        raise InputError(
            f"with_predictions was given no group: expected {', '.join((*PREDICTED_GROUPS, OBSERVED_GROUP))}"
        )
    return found


# -- the draws ------------------------------------------------------------------------------------------


class _Draws(NamedTuple):
    """The draws that are used, by a number that runs through all chains."""

    leaves: PyTree
    coordinates: Any
    chains: np.ndarray
    numbers: np.ndarray

    @property
    def total(self) -> int:
        return len(self.chains) * len(self.numbers)

    def take(self, places: np.ndarray) -> PyTree:
        """Leaves (*places.shape, ...)."""
        chain, draw = self.chains[places // len(self.numbers)], self.numbers[places % len(self.numbers)]
        return jax.tree.map(lambda leaf: np.asarray(leaf[chain, draw]), self.leaves)

    def like(self) -> PyTree:
        """The shapes of one."""

        def shape(leaf: np.ndarray) -> jax.ShapeDtypeStruct:
            return jax.ShapeDtypeStruct(leaf.shape[2:], jax.dtypes.canonicalize_dtype(leaf.dtype))

        return jax.tree.map(shape, self.leaves)


def _draws(run: "Run", thin: int) -> _Draws:
    if run.posterior is None:
        raise InputError(
            "this run kept no draws to predict from: average as it goes, with keep={'test': eg.mean(fn)}, or keep draws"
        )
    chains, count = extent_of(run)
    if count == 0:
        raise InputError("this run has 0 draws: expected at least one to predict from")
    numbers = np.arange(0, count, whole("thin", thin, 1, count))
    left = sound_chains(run)
    if not left.size:
        raise InputError("every chain of this run is frozen (run.stats['diverging']): there is nothing to predict from")
    if len(left) < chains:
        lost = ", ".join(str(chain) for chain in range(chains) if chain not in left)
        warnings.warn(
            f"predictions are of {len(left)} of {chains} chains: frozen ones are left out (run.stats['diverging']: "
            f"chain {lost})",
            stacklevel=4,
        )
    return _Draws(run.posterior, run.drawn_coordinates, left, numbers)


def extent_of(run: "Run") -> tuple[int, int]:
    """How many chains, and how many draws of each."""
    arrays = run.stats.values() if run.posterior is None else jax.tree.leaves(run.posterior)
    chains, draws = next(iter(arrays)).shape[:2]
    return chains, draws


def sound_chains(run: "Run") -> np.ndarray:
    """The numbers of the chains that are not frozen."""
    is_frozen = np.zeros(extent_of(run)[0], bool)
    if "diverging" in run.stats:
        is_frozen |= np.asarray(run.stats["diverging"])[:, -1:].any(axis=1)
    for one in run.settings.get("frozen") or []:
        is_frozen[one["chain"]] = True
    return np.flatnonzero(~is_frozen)


def _blocks(count: int, groups: int, size: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """The draws of each block, (group, draw), and which of them count: the last one stands where there are no more."""
    places = (np.arange(groups * size) + start for start in range(0, count, groups * size))
    shaped = [block.reshape(groups, size) for block in places]
    return [(np.minimum(block, count - 1), block < count) for block in shaped]


# -- the rows -------------------------------------------------------------------------------------------


class _Table:
    """Rows in batches of one length; without rows one batch, and a row axis of length one that is taken off again."""

    def __init__(self, rows: PyTree, batch_size: int):
        self.rows, self.has_rows = rows, rows is not None
        self.size = _row_number(rows)
        self.length = min(batch_size, self.size)
        self.starts = range(0, self.size, self.length)
        self.first = self._read(0) if self.has_rows else None

    def batch(self, start: int) -> PyTree:
        return self._read(start) if start else self.first

    def _read(self, start: int) -> PyTree:
        """The rows from `start` on; the last of all stands where there are no more."""
        stop = min(start + self.length, self.size)
        found = jax.tree.map(np.asarray, take_rows(self.rows, slice(start, stop), self.size))
        missing = self.length - (stop - start)
        if not missing:
            return found
        return jax.tree.map(lambda leaf: np.concatenate([leaf, np.repeat(leaf[-1:], missing, axis=0)]), found)

    def without_axis(self, axis: int) -> Callable[[np.ndarray], np.ndarray]:
        return (lambda leaf: leaf) if self.has_rows else (lambda leaf: np.squeeze(leaf, axis))


def _row_number(rows: PyTree) -> int:
    if rows is None:
        return 1
    if isinstance(rows, Source):
        return rows.size
    for path, leaf in jax.tree_util.tree_leaves_with_path(rows):
        check_kind(f"rows{jax.tree_util.keystr(path)}", leaf)
    size = row_count(rows, "rows")
    if size == 0:
        raise InputError("rows has 0 rows: expected at least one to predict for")
    return size


# -- the function ---------------------------------------------------------------------------------------


def _call(fn: Callable, coordinates: Any, draw: PyTree, rows: PyTree) -> PyTree:
    """One draw's predictions, leaves (row, ...)."""
    position = draw if coordinates is None else coordinates.assemble(draw)
    values = fn(position) if rows is None else fn(position, rows)
    for name, leaf in named_leaves(values, "fn's value"):
        if not (is_array(leaf) or isinstance(leaf, bool | int | float | complex)):
            raise InputError(f"{name} is {kind_of(leaf)}: expected an array of predictions, or a pytree of them")
    return jax.tree.map(lambda leaf: jnp.asarray(leaf)[None] if rows is None else jnp.asarray(leaf), values)


@sound_filter_jit
def _compiled(of_group: Callable, fn: Callable, coordinates: Any, draws: PyTree, counted: Array, rows: PyTree) -> Any:
    """`draws`: leaves (group, draw, ...), of which those in `counted` count; of each leaf of the predictions what
    `of_group` makes of it, (group, ...)."""

    def group(arguments: tuple[PyTree, Array]) -> list[Any]:
        values = jax.vmap(lambda draw: _call(fn, coordinates, draw, rows))(arguments[0])
        return [of_group(leaf, arguments[1]) for leaf in jax.tree.leaves(values)]

    return jax.lax.map(group, (draws, counted))


def _shapes(fn: Callable, draws: _Draws, table: _Table) -> PyTree:
    """Of one draw's predictions for one batch; InputError where they are not one for each row."""
    if not callable(fn):
        raise InputError(f"fn is {kind_of(fn)}: expected a function, fn(position, rows)")
    found = _shapes_for(fn, draws, table.first)
    for name, leaf in named_leaves(found, "fn's value"):
        if not (jnp.issubdtype(leaf.dtype, np.floating) or leaf.dtype.kind in "biu"):
            raise InputError(f"{name} has dtype {leaf.dtype}: expected real numbers, whole numbers or booleans")
    if not jax.tree.leaves(found):
        raise InputError("fn returned no arrays: expected predictions, an array or a pytree of them")
    if table.has_rows:
        _check_rows(fn, draws, table.first, found)
    return found


def _check_rows(fn: Callable, draws: _Draws, batch: PyTree, found: PyTree) -> None:
    """That predictions are one for each row, also of a batch of another length: one may agree by accident."""
    length = row_count(batch, "rows")
    other = jax.tree.map(lambda leaf: np.concatenate([leaf, leaf[:1]]), batch)
    others = jax.tree.leaves(_shapes_for(fn, draws, other))
    for (name, leaf), longer in zip(named_leaves(found, "fn's value"), others, strict=True):
        if leaf.shape[:1] != (length,) or longer.shape != (length + 1, *leaf.shape[1:]):
            raise InputError(
                f"{name} has shape {leaf.shape} for {length} rows and {longer.shape} for {length + 1}: expected "
                f"({length}, ...) and ({length + 1}, ...), one prediction for each row, with a leading axis for them"
            )


def _shapes_for(fn: Callable, draws: _Draws, batch: PyTree) -> PyTree:
    arguments = () if batch is None else (batch,)
    _check_signature(fn, len(arguments))
    with traceable("fn", "does it fit the draws, run.posterior, and rows?"):
        return eqx.filter_eval_shape(_call, fn, draws.coordinates, draws.like(), batch)


def _check_signature(fn: Callable, rows: int) -> None:
    try:
        inspect.signature(fn).bind(*range(1 + rows))
    except ValueError:  # of a built-in function none is known
        return
    except TypeError as error:
        expected = "fn(position, rows)" if rows else "fn(position), as rows is None"
        raise InputError(f"fn cannot be called as it would be ({error}): expected {expected}") from None


def _grouping(fn: Callable, draws: _Draws, table: _Table) -> tuple[int, int]:
    """How many groups of how many draws one call takes."""
    traced, _, _ = eqx.filter_make_jaxpr(_call)(fn, draws.coordinates, draws.like(), table.first)
    each = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(draws.like())) + _computed(traced.jaxpr)
    most = min(draws.total, max(1, WORK_BYTES // max(1, each)))
    # equal blocks, and equal groups in a block, leave the fewest places to be filled up
    length = -(-draws.total // -(-draws.total // most))
    groups = -(-length // GROUP_DRAWS)
    return groups, -(-length // groups)


def _computed(jaxpr: Any) -> int:
    """Bytes of all that a traced function computes on its way: no less than it holds at a time."""
    total = 0
    for equation in jaxpr.eqns:
        inner = [part for part in jax.tree.leaves(list(equation.params.values())) if hasattr(part, "jaxpr")]
        outputs = sum(math.prod(x.aval.shape) * getattr(x.aval.dtype, "itemsize", 8) for x in equation.outvars)
        total += max(outputs, sum(_computed(part.jaxpr) for part in inner))
    return total
