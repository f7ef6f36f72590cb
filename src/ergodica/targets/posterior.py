"""A target given by a prior and a likelihood over data rows: estimated from minibatches, or summed over all data.

Sums over all data go block by block and are added up in float64 on the host. One compiled function serves every block:
all have the same length, and the last one overlaps the one before it, with weight 0 for the rows counted there.
"""

from collections.abc import Callable, Iterator
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ergodica.compiling import sound_filter_jit, traceable
from ergodica.data.arrays import as_data
from ergodica.data.source import row_count, take_rows
from ergodica.errors import InputError
from ergodica.host.validate import whole
from ergodica.targets.base import DataTarget, Target, Truth
from ergodica.targets.coordinates import (
    Coordinates,
    at_temperature,
    begin,
    check_start,
    jacobian_share,
    seen,
)
from ergodica.targets.position import (
    check_evaluation,
    position_dtype,
    real_array,
    real_scalar,
    run_once,
)
from ergodica.tree import Layout, is_staged, is_traced

CHECKED_ROWS = 1000
BLOCK_BYTES = 1 << 25
HESSIAN_NUMBERS = 1 << 24  # of a block's rows times the position: what forward over reverse holds at a time


class Posterior(DataTarget):
    """The posterior of a prior and independent data rows, with unbiased minibatch estimates (paper, Eq. `eqn:tildeU`).

        U~(position) = -(N/n) sum_i log_likelihood(position, batch)_i - log_prior(position),   n rows of N

    Use it where there are more data than a step should look at: a run with `batch_size=n` estimates U and its gradient
    from n rows at a time. Without `batch_size` every step uses all of them.

    Args:
        log_prior: log_prior(position) returns a scalar.
        log_likelihood: log_likelihood(position, batch) returns one number per row of the batch, shape (n,); the sum
            and the factor N/n are applied here.
        data: a pytree of arrays with one leading axis (NumPy, JAX), kept as given, or a source that reads its rows
            from disk (`eg.data.npy`, `eg.data.parquet`; memory-mapped arrays become one). A batch is such a pytree.
        init: an example of the position, any pytree of floating arrays or a network (an Equinox module, a Flax NNX
            module or state: the functions get one of its kind); a run that is given no start begins here.
        domain: `eg.positive`, `eg.Box(low, high)`, or a pytree of them like the position; None: unbounded.
        truth: what is known of the law, for tests of samplers.
        transform: one of `eg.transforms`, or a pytree of them like the position, None where a part has none: chains
            move in the unconstrained variable; your functions, `init`, `keep` and draws see the constrained one.

    Example:
        >>> import ergodica as eg
        >>> import jax.numpy as jnp
        >>> import numpy as np
        >>> def log_likelihood(mean, batch):
        ...     return -((batch - mean) ** 2) / 2
        >>> target = eg.Posterior(lambda mean: -(mean**2) / 2, log_likelihood, np.array([1.0, 2.0, 3.0]))
        >>> float(target.potential(jnp.asarray(0.0)))
        7.0

    Minibatch estimates: Welling and Teh (2011), https://icml.cc/2011/papers/398_icmlpaper.pdf.
    """

    has_potential: ClassVar[bool] = True

    log_prior: Callable[[PyTree], Array]
    log_likelihood: Callable[[PyTree, PyTree], Array]
    data: PyTree
    init: PyTree
    domain: PyTree
    truth: Truth | None
    coordinates: Coordinates | None
    temperature: Any
    _size: int = eqx.field(static=True)

    def __init__(
        self,
        log_prior: Callable[[PyTree], Array],
        log_likelihood: Callable[[PyTree, PyTree], Array],
        data: PyTree,
        init: PyTree = None,
        domain: PyTree = None,
        truth: Truth | None = None,
        transform: PyTree = None,
    ):
        for name, function in (("log_prior", log_prior), ("log_likelihood", log_likelihood)):
            if not callable(function):
                raise InputError(
                    f"{name} is {function!r}: expected a function, as in eg.Posterior(log_prior, log_likelihood, data)"
                )
        self.init, self.coordinates = begin(init, domain, transform, truth)
        self.log_prior, self.log_likelihood = log_prior, log_likelihood
        self.domain, self.truth, self.temperature = domain, truth, 1.0
        self.data, self._size = as_data(data)

    @property
    def size(self) -> int:
        return self._size

    def potential(self, position: PyTree, batch: PyTree = None) -> Array:
        if batch is None and self.source is not None:
            return self._evaluate_source(position)[0]
        dtype = position_dtype(position)
        terms = self._terms(position, self._rows_or_all(batch))
        if terms.size > self.size:
            raise InputError(
                f"the batch has {terms.size} rows, but the data has only {self.size}: expected a batch of some of them "
                "(leave it out to use all data)"
            )
        # N / n is a Python number, so it takes the dtype of the terms.
        return (-(self.size / terms.size) * jnp.sum(terms)).astype(dtype) - self._log_prior(position)

    def evaluate(self, position: PyTree, batch: PyTree = None) -> tuple[Array, PyTree]:
        if batch is None and self.source is not None:
            return self._evaluate_source(position)
        return jax.value_and_grad(self.potential)(position, batch)

    def example_gradients(self, position: PyTree, batch: PyTree = None) -> PyTree:
        """The gradient of -log_likelihood of each row of `batch`."""

        def one(position: PyTree, row: PyTree) -> Array:
            return -self._terms(position, jax.tree.map(lambda leaf: leaf[None], row))[0]

        return jax.vmap(jax.grad(one), in_axes=(None, 0))(position, self._rows_or_all(batch))

    def prior_gradient(self, position: PyTree) -> PyTree:
        """The gradient of -log_prior, with the Jacobian's share."""
        return jax.grad(lambda q: -self._log_prior(q))(position)

    def share(self, position: PyTree, rows: PyTree, weights: Array, prior_weight: Array) -> Array:
        """A share of the potential: -sum_i weights_i log_likelihood(position, rows)_i - prior_weight log_prior."""
        terms = self._terms(position, jax.tree.map(jnp.asarray, rows))
        misfit = -jnp.sum(terms * jnp.asarray(weights, terms.dtype)).astype(position_dtype(position))
        return misfit + jnp.asarray(prior_weight, misfit.dtype) * -self._log_prior(position)

    def rows(self, index: Any) -> PyTree:
        if self.data is None:
            raise InputError("this Posterior was made by without_data() and has no rows: give it a batch")
        return take_rows(self.data, index, self.size)

    def loaded(self) -> "Posterior":
        if self.source is None:
            return self
        return eqx.tree_at(lambda target: target.data, self, self.source.read(0, self.size))

    def check_batch_size(self, n: int) -> None:
        whole("batch_size", n, 1, self.size, of="data rows (leave batch_size out to use all of them in every step)")

    def check(self, position: PyTree) -> None:
        # Of a large data set an even spread of rows is looked at: it costs no pass over the data.
        check_start(self, position)
        if self.data is None:
            _check_prior(self._log_prior(position))
            return
        count = min(self.size, CHECKED_ROWS)
        index = np.arange(count) * (self.size - 1) // max(1, count - 1)
        batch = self.rows(index) if self.source is None else self.source.glance(index)
        index = index[: row_count(batch, "data")]
        # A second size, by shapes alone: a wrong shape can agree with one batch size by accident.
        with traceable("log_likelihood"):
            self._check_shapes(position, jax.tree.map(lambda leaf: leaf[: max(1, index.size - 1)], batch))
        prior, terms, evaluation = run_once(_prior_terms_evaluation, self.without_data(), position, batch)
        _check_prior(prior)
        if not is_traced(terms) and not np.isfinite(terms).all():
            bad = int(np.argmin(np.isfinite(terms)))
            raise InputError(
                f"log_likelihood is {terms[bad]} for data row {index[bad]} at this position, expected a finite "
                "number: the row may be impossible under the model there, or the function overflows"
            )
        check_evaluation(*evaluation)

    def _check_shapes(self, position: PyTree, batch: PyTree) -> None:
        """That the terms of this batch have the shape they must have; once for a function and shapes."""
        leaves, structure = jax.tree.flatten((position, batch))
        # not as JAX's arrays: to make these takes as long as many steps
        kind = (structure, *((np.shape(leaf), str(jax.dtypes.canonicalize_dtype(leaf.dtype))) for leaf in leaves))
        try:
            known = _known_shapes.setdefault(self.log_likelihood, set())
        except TypeError:  # a module that has no hash
            known = set()
        if kind not in known:
            jax.eval_shape(self._terms, position, batch)
            known.add(kind)

    def tempered(self, temperature: Any) -> "Posterior":
        return at_temperature(self, temperature)

    def without_data(self) -> "Posterior":
        return self if self.data is None else eqx.tree_at(lambda target: target.data, self, None)

    def _rows_or_all(self, batch: PyTree) -> PyTree:
        return jax.tree.map(jnp.asarray, self.rows(slice(None)) if batch is None else batch)

    def _evaluate_source(self, position: PyTree) -> tuple[Array, PyTree]:
        if is_traced(position) or is_staged():
            raise InputError(
                "the data of this target stay on disk, so a compiled step cannot go through all of them: give "
                "batch_size, or target.loaded() if they fit in memory"
            )
        return evaluate_all(self, jax.tree.map(jnp.asarray, position))

    def _log_prior(self, position: PyTree) -> Array:
        """With T log|J|: what is not multiplied by N/n."""
        value = real_scalar(self.log_prior, "log_prior", seen(self.coordinates, position), position_dtype(position))
        share = jacobian_share(self.coordinates, self.temperature, position)
        return value if share is None else value + share

    def _terms(self, position: PyTree, batch: PyTree) -> Array:
        n = row_count(batch, "batch")
        if n == 0:
            raise InputError("the batch has 0 rows: expected at least one")
        terms = real_array(self.log_likelihood(seen(self.coordinates, position), batch), "log_likelihood")
        if terms.shape == (n,):
            return terms
        if terms.shape == ():
            advice = "a scalar is most likely their sum: return the terms, the sum and N/n are applied here"
        else:
            advice = "sum over all axes but the first, and look for a broadcast of (n,) against (n, 1)"
        raise InputError(
            f"log_likelihood returned shape {terms.shape} for a batch of {n} rows, expected ({n},), one number per "
            f"row; {advice}"
        )


_known_shapes: WeakKeyDictionary[Any, set[Any]] = WeakKeyDictionary()
"""Likelihoods, and the shapes of positions and batches at which theirs were looked at."""


def _check_prior(prior: Array) -> None:
    if not is_traced(prior) and not np.isfinite(prior):
        raise InputError(f"log_prior is {prior} at this position: start where the prior density is not zero")


def _prior_terms_evaluation(target: Posterior, position: PyTree, batch: PyTree) -> tuple[Any, ...]:
    return target._log_prior(position), target._terms(position, batch), target.evaluate(position, batch)


def blocks(target: Posterior, longest: int | None = None) -> Iterator[tuple[PyTree, np.ndarray, np.ndarray]]:
    """(rows, weights, weight of the prior) of equal shapes that cover all data and the prior once."""
    size = target.size
    row_bytes = max(1, sum(leaf.nbytes for leaf in jax.tree.leaves(target.rows(slice(0, 1)))))
    length = max(1, min(size, BLOCK_BYTES // row_bytes, longest or size))
    length = -(-size // -(-size // length))
    for start in range(0, size, length):
        first = min(start, size - length)
        weights = (np.arange(first, first + length) >= start).astype(np.float32)
        yield target.rows(slice(first, first + length)), weights, np.asarray(start == 0, np.float32)


def evaluate_all(target: Posterior, position: PyTree) -> tuple[Array, PyTree]:
    """The potential and its gradient from all data, outside `jit`."""
    bare, parts = target.without_data(), []
    for rows, weights, prior_weight in blocks(target):
        part = _block(bare, position, rows, weights, prior_weight)
        parts.append(jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), part))
    value, gradient = jax.tree.map(lambda *leaves: sum(leaves), *parts)
    return (
        jnp.asarray(value, position_dtype(position)),
        jax.tree.map(lambda leaf, like: jnp.asarray(leaf, like.dtype), gradient, position),
    )


def hessian_all(target: Target, position: PyTree) -> np.ndarray:
    """The matrix of second derivatives of the potential from all data, in the order of `ravel_pytree`."""
    position = jax.tree.map(jnp.asarray, position)
    layout = Layout.of(position)
    bare, total = target.without_data(), np.zeros((layout.size, layout.size))
    if not isinstance(target, Posterior):
        return np.asarray(hessian(bare, position, None, layout), np.float64)
    for rows, weights, prior_weight in blocks(target, max(1, HESSIAN_NUMBERS // layout.size)):
        total += np.asarray(_block_hessian(bare, position, rows, weights, prior_weight, layout), np.float64)
    return total


@sound_filter_jit
def _block(target: Posterior, position: PyTree, rows: PyTree, weights: Any, prior_weight: Any) -> tuple[Array, PyTree]:
    return jax.value_and_grad(target.share)(position, rows, weights, prior_weight)


@sound_filter_jit
def hessian(target: Target, position: PyTree, rows: PyTree, layout: Layout) -> Array:
    """The matrix of second derivatives of the potential, estimated from `rows`."""
    return jax.hessian(lambda vector: target.potential(layout.unravel(vector), rows))(layout.ravel(position))


@sound_filter_jit
def _block_hessian(
    target: Posterior, position: PyTree, rows: PyTree, weights: Any, prior_weight: Any, layout: Layout
) -> Array:
    def share(vector: Array) -> Array:
        return target.share(layout.unravel(vector), rows, weights, prior_weight)

    return jax.hessian(share)(layout.ravel(position))
