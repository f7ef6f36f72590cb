"""A target given by a prior and a likelihood over data rows, which can be evaluated on minibatches."""

from collections.abc import Callable
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ergodica.compiling import quick_filter_jit, traceable
from ergodica.errors import InputError
from ergodica.targets.base import Target, Truth
from ergodica.targets.position import check_position
from ergodica.targets.rows import as_data, row_count, take_rows
from ergodica.targets.source import Source
from ergodica.targets.values import check_evaluation, position_dtype, real_array, real_scalar
from ergodica.targets.whole import evaluate_all
from ergodica.tree import is_staged, is_traced

CHECKED_ROWS = 1000


class Posterior(Target):
    """The posterior of a prior and independent data rows, with unbiased minibatch estimates (paper, Eq. `eqn:tildeU`).

        U~(position) = -(N/n) sum_i log_likelihood(position, batch)_i - log_prior(position),   n rows of N

    `log_prior(position)` returns a scalar; `log_likelihood(position, batch)` one number per row, shape (n,).
    `data` is a pytree of arrays with one leading axis (NumPy, JAX), kept as given, or a source that reads its rows
    from disk (`eg.data.npy`, `eg.data.parquet`; memory-mapped arrays become one). A batch is such a pytree of rows.

    >>> def log_likelihood(mean, batch):
    ...     return -((batch - mean) ** 2) / 2
    >>> target = Posterior(lambda mean: -(mean**2) / 2, log_likelihood, np.array([1.0, 2.0, 3.0]))
    >>> float(target.potential(jnp.asarray(0.0)))
    7.0
    """

    has_potential: ClassVar[bool] = True

    log_prior: Callable[[PyTree], Array]
    log_likelihood: Callable[[PyTree, PyTree], Array]
    data: PyTree
    init: PyTree
    domain: PyTree
    truth: Truth | None
    _size: int = eqx.field(static=True)

    def __init__(
        self,
        log_prior: Callable[[PyTree], Array],
        log_likelihood: Callable[[PyTree, PyTree], Array],
        data: PyTree,
        init: PyTree = None,
        domain: PyTree = None,
        truth: Truth | None = None,
    ):
        for name, function in (("log_prior", log_prior), ("log_likelihood", log_likelihood)):
            if not callable(function):
                raise InputError(
                    f"{name} is {function!r}: expected a function, as in eg.Posterior(log_prior, log_likelihood, data)"
                )
        if init is not None:
            check_position(init, None, domain)
        self.log_prior = log_prior
        self.log_likelihood = log_likelihood
        self.init = init
        self.domain = domain
        self.truth = truth
        self.data, self._size = as_data(data)

    @property
    def size(self) -> int:
        return self._size

    @property
    def source(self) -> Source | None:
        """What reads the rows from disk; None where they are in memory, or none are held."""
        return self.data if isinstance(self.data, Source) else None

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
        """The gradient of -log_likelihood of each row of `batch`: like the position, with a leading axis of n."""

        def one(position: PyTree, row: PyTree) -> Array:
            return -self._terms(position, jax.tree.map(lambda leaf: leaf[None], row))[0]

        return jax.vmap(jax.grad(one), in_axes=(None, 0))(position, self._rows_or_all(batch))

    def prior_gradient(self, position: PyTree) -> PyTree:
        """The gradient of -log_prior."""
        return jax.grad(self.minus_log_prior)(position)

    def minus_log_prior(self, position: PyTree) -> Array:
        return -self._log_prior(position)

    def share(self, position: PyTree, rows: PyTree, weights: Array, prior_weight: Array) -> Array:
        """A share of the potential: -sum_i weights_i log_likelihood(position, rows)_i - prior_weight log_prior."""
        terms = self._terms(position, jax.tree.map(jnp.asarray, rows))
        misfit = -jnp.sum(terms * jnp.asarray(weights, terms.dtype)).astype(position_dtype(position))
        return misfit + jnp.asarray(prior_weight, misfit.dtype) * self.minus_log_prior(position)

    def rows(self, index: Any) -> PyTree:
        """The batch of the rows at `index`: a slice, or a 1-D array of integers."""
        return take_rows(self._all(), index, self.size)

    def loaded(self) -> "Posterior":
        """The same target with the rows of its source in memory."""
        if self.source is None:
            return self
        return eqx.tree_at(lambda target: target.data, self, self.source.read(0, self.size))

    def check_batch_size(self, n: int) -> None:
        """Raise InputError unless 1 <= n <= N."""
        if not isinstance(n, int | np.integer) or isinstance(n, bool) or not 1 <= n <= self.size:
            raise InputError(
                f"batch_size is {n!r}: expected a whole number from 1 to {self.size}, the number of data rows "
                "(leave it out to use all of them in every step)"
            )

    def check(self, position: PyTree) -> None:
        # Of a large data set an even spread of rows is looked at: it costs no pass over the data.
        check_position(position, self.init, self.domain)
        if self.data is None:
            _check_prior(self._log_prior(position))
            return
        index = np.unique(np.linspace(0, self.size - 1, min(self.size, CHECKED_ROWS)).astype(int))
        batch = self.rows(index) if self.source is None else self.source.glance(index)
        index = index[: row_count(batch, "data")]
        # A second size, by shapes alone: a wrong shape can agree with one batch size by accident.
        self._check_shapes(position, jax.tree.map(lambda leaf: leaf[: max(1, index.size - 1)], batch))
        prior, terms, evaluation = _look_at(self.without_data(), position, batch)
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
            known = _fitting.setdefault(self.log_likelihood, set())
        except TypeError:  # a module that has no hash
            known = set()
        if kind not in known:
            jax.eval_shape(self._terms, position, batch)
            known.add(kind)

    def without_data(self) -> "Posterior":
        return self if self.data is None else eqx.tree_at(lambda target: target.data, self, None)

    def _all(self) -> PyTree:
        if self.data is None:
            raise InputError("this Posterior was made by without_data() and has no rows: give it a batch")
        return self.data

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
        value = self.log_prior(jax.tree.map(jnp.asarray, position))
        return real_scalar(value, "log_prior", position_dtype(position))

    def _terms(self, position: PyTree, batch: PyTree) -> Array:
        n = row_count(batch, "batch")
        if n == 0:
            raise InputError("the batch has 0 rows: expected at least one")
        terms = real_array(self.log_likelihood(jax.tree.map(jnp.asarray, position), batch), "log_likelihood")
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


_fitting: WeakKeyDictionary[Any, set[Any]] = WeakKeyDictionary()
"""Likelihoods, and the shapes of positions and batches at which theirs were looked at."""


def _check_prior(prior: Array) -> None:
    if not is_traced(prior) and not np.isfinite(prior):
        raise InputError(f"log_prior is {prior} at this position: start where the prior density is not zero")


def _look_at(target: Posterior, position: PyTree, batch: PyTree) -> tuple[Array, Array, tuple[Array, PyTree]]:
    """Prior, terms and evaluation, compiled together: operation by operation it takes half a second and more."""
    if is_traced((target, position, batch)) or is_staged():
        return _looked_at(target, position, batch)
    with traceable("the target's function"):
        return _compiled_look(target, position, batch)


def _looked_at(target: Posterior, position: PyTree, batch: PyTree) -> tuple[Array, Array, tuple[Array, PyTree]]:
    return target._log_prior(position), target._terms(position, batch), target.evaluate(position, batch)


_compiled_look = quick_filter_jit(_looked_at)
