"""V, the covariance of the stochastic gradient: given, or estimated from the per-example gradients of batches.

    V = (N^2 / n) (1 - n/N) s^2, s^2 with divisor n - 1   (without replacement; no finite-population factor with it)

(docs/explanation/mathematics.md.) No n x d array is held at large d: examples go through in micro-batches.
"""

from abc import abstractmethod
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ergodica import tree
from ergodica.errors import InputError
from ergodica.fields import Constant
from ergodica.host.validate import whole
from ergodica.operators import DiagonalOperator, Operator
from ergodica.phase import BatchPair
from ergodica.targets import DataTarget, Target
from ergodica.tree import Layout

LOOKED_AT_ROWS = 10_000
MICRO_BATCH_NUMBERS = 2**22  # numbers of per-example gradients held at a time


class GradientNoise(eqx.Module):
    """How V is known during a run: a state that flows along the chain, and the operator it stands for."""

    @abstractmethod
    def init(self, position: PyTree) -> Any:
        """The state before the first step."""

    @abstractmethod
    def operator(self, state: Any, layout: Layout) -> Operator | None:
        """V on the position, from the steps before this one."""

    @abstractmethod
    def update(self, state: Any, target: DataTarget, position: PyTree, batch: PyTree | None) -> Any:
        """The state after having seen this batch."""


class Known(GradientNoise):
    """A gradient noise V that is known and constant.

    Use it as `gradient_noise=` of a run, to have the noise of minibatches subtracted from what is injected, where V was
    measured before (`eg.gradient_noise`). A plain number or array given as `gradient_noise=` becomes one.

    Args:
        covariance: a scalar, a vector shaped like the position, or a matrix.

    Example:
        >>> import ergodica as eg
        >>> eg.Known(0.5).covariance.entries.shape
        ()
    """

    covariance: Constant

    def __init__(self, covariance: Any):
        self.covariance = Constant(covariance)
        for leaf in jax.tree.leaves(self.covariance.entries):
            is_vector = leaf.ndim != 2 or leaf.shape[0] != leaf.shape[1]
            if not is_vector or tree.is_traced(leaf):
                continue
            least = np.asarray(leaf).min()  # not leaf.min(): inside jit that has no value
            if not least >= 0:
                raise InputError(f"the gradient noise V is a covariance, at least 0, got {float(least):g}")

    def init(self, position):
        return ()

    def operator(self, state, layout):
        return self.covariance.operator(self.covariance.entries, layout, layout)

    def update(self, state, target, position, batch):
        return state


class RunningVariance(NamedTuple):
    """A smoothed diagonal of V and the number of batches in it."""

    variance: PyTree
    batches: Array


class PerExample(GradientNoise):
    """The gradient noise V estimated during a run: its diagonal, from the per-example gradients of each batch.

    Use it as `gradient_noise=` of a run, where V is not known or changes along the chain. It is smoothed over steps; a
    step uses what the batches before it have shown, so that the noise it injects does not depend on its own batch.

    Args:
        memory: how many batches the mean remembers.
        replacement: whether rows are drawn with replacement (then V has no finite-population factor).

    Example:
        >>> import ergodica as eg
        >>> target = eg.gallery.logistic_regression(rows=200, features=2)
        >>> noise = eg.PerExample(memory=50)
        >>> run = eg.sample(target, eg.sgld(), steps=10, step_size=1e-3, batch_size=20, gradient_noise=noise)
    """

    memory: int = eqx.field(static=True, default=100)
    replacement: bool = eqx.field(static=True, default=False)

    def __check_init__(self):
        whole("eg.PerExample: memory", self.memory, 1, of="batches")

    def init(self, position):
        return RunningVariance(jax.tree.map(jnp.zeros_like, position), jnp.zeros((), jnp.int32))

    def operator(self, state, layout):
        return DiagonalOperator(state.variance, layout)

    def update(self, state, target, position, batch):
        if batch is None:
            raise InputError("eg.PerExample estimates V from batches of an eg.Posterior, and this step has none")
        seen = batch_variance(target, position, batch, self.replacement)
        batches = state.batches + 1
        weight = 1 / jnp.minimum(batches, self.memory)
        variance = jax.tree.map(lambda old, new: old + tree.cast(weight, old) * (new - old), state.variance, seen)
        return RunningVariance(variance, batches)


def as_gradient_noise(given: Any) -> GradientNoise | None:
    """None, a GradientNoise as it is, or a constant."""
    return given if given is None or isinstance(given, GradientNoise) else Known(given)


def batch_variance(target: DataTarget, position: PyTree, batch: PyTree, replacement: bool = False) -> PyTree:
    """The diagonal of V for gradients of one batch like this one, estimated from it."""
    if isinstance(batch, BatchPair):
        # the drift takes the mean of two independent gradients, each of half the rows: a quarter of either's, twice
        first, second = (batch_variance(target, position, part, replacement) for part in batch)
        return jax.tree.map(lambda a, b: (a + b) / 4, first, second)
    n = _rows(batch)
    factor = _population_factor(target.size, n, replacement)
    return tree.scale(factor, example_variance(target, position, batch))


def _rows(batch: PyTree) -> int:
    n = jax.tree.leaves(batch)[0].shape[0]
    if n < 2:
        raise InputError("the gradient noise of a batch of 1 example cannot be estimated: use batches of 2 or more")
    return n


def _population_factor(total: int, n: int, replacement: bool) -> float:
    return total**2 / n * (1.0 if replacement else 1 - n / total)


def example_variance(target: DataTarget, position: PyTree, rows: PyTree) -> PyTree:
    """s^2 of the per-example gradients, divisor n - 1, merged over micro-batches (Chan, Golub and LeVeque, 1979)."""
    n = _rows(rows)
    micro = max(1, min(n, MICRO_BATCH_NUMBERS // max(tree.size(position), 1)))
    full = n // micro

    def moments(part):
        gradients = target.example_gradients(position, part)
        mean = jax.tree.map(lambda g: jnp.mean(g, axis=0), gradients)
        spread = jax.tree.map(lambda g, m: jnp.sum((g - m[None]) ** 2, axis=0), gradients, mean)
        return mean, spread

    def merge(carry, part):
        (count, mean, spread), (new_mean, new_spread) = carry, moments(part)
        size = jax.tree.leaves(part)[0].shape[0]
        total = count + size

        def together(m, s, nm, ns):
            share = tree.cast(size / total, m)
            return m + (nm - m) * share, s + ns + (nm - m) ** 2 * tree.cast(count, m) * share

        pairs = jax.tree.map(together, mean, spread, new_mean, new_spread)
        mean, spread = jax.tree.transpose(jax.tree.structure(position), jax.tree.structure((0, 0)), pairs)
        return (total, mean, spread), None

    zeros = jax.tree.map(jnp.zeros_like, position)
    blocks = jax.tree.map(lambda x: x[: full * micro].reshape(full, micro, *x.shape[1:]), rows)
    carry, _ = jax.lax.scan(merge, (jnp.zeros((), tree.common_dtype(position)), zeros, zeros), blocks)
    if full * micro < n:
        carry, _ = merge(carry, jax.tree.map(lambda x: x[full * micro :], rows))
    return tree.scale(1 / (n - 1), carry[2])


def gradient_noise(
    target: Target, position: PyTree, batch_size: int, *, replacement: bool = False, dense: bool = False, seed: int = 0
) -> PyTree:
    """V, the covariance of the stochastic gradient at `position`, for batches of `batch_size`.

    Use it for `eg.sgfs` and for `gradient_noise=` of a run. It is estimated from up to 10,000 random rows of the data.

    Args:
        target: an eg.Posterior.
        position: where the gradient is taken: near the mode.
        batch_size: rows of a batch.
        replacement: whether batches are drawn with replacement (then V has no finite-population factor).
        dense: a (d, d) matrix in the order of `ravel_pytree`; else the diagonal, like the position.
        seed: of the choice of rows.

    Example:
        >>> import ergodica as eg
        >>> target = eg.gallery.logistic_regression(rows=200, features=2)
        >>> eg.gradient_noise(target, target.init, batch_size=20).shape
        (2,)
    """
    if not isinstance(target, DataTarget):
        raise InputError("eg.gradient_noise needs a target with data (eg.Posterior); this one has none")
    target.check_batch_size(batch_size)
    index = np.random.default_rng(seed).permutation(target.size)[:LOOKED_AT_ROWS]
    rows = jax.tree.map(jnp.asarray, target.rows(np.sort(index)))
    position = jax.tree.map(jnp.asarray, position)
    factor = _population_factor(target.size, batch_size, replacement)
    if not dense:
        return tree.scale(factor, eqx.filter_jit(example_variance)(target.without_data(), position, rows))
    layout = Layout.of(position)
    gradients = eqx.filter_jit(lambda q, r: jax.vmap(layout.ravel)(target.without_data().example_gradients(q, r)))
    centred = gradients(position, rows)
    centred = centred - jnp.mean(centred, axis=0, keepdims=True)
    return tree.cast(factor / (len(centred) - 1), centred) * (centred.T @ centred)
