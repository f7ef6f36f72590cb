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
from ergodica.operators import DiagonalOperator, Operator
from ergodica.phase import BatchPair
from ergodica.tree import Layout

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
    def update(self, state: Any, target: Any, position: PyTree, batch: PyTree | None) -> Any:
        """The state after having seen this batch."""


class Known(GradientNoise):
    """A given constant V: scalar, vector shaped like the position, or matrix."""

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
    """The diagonal of V from the per-example gradients of each batch, smoothed over steps.

    A step uses what the batches before it have shown, so that the noise it injects does not depend on its own batch.

    Args:
        memory: how many batches the mean remembers.
        replacement: whether rows are drawn with replacement (then V has no finite-population factor).
    """

    memory: int = eqx.field(static=True, default=100)
    replacement: bool = eqx.field(static=True, default=False)

    def __check_init__(self):
        if self.memory < 1:
            raise InputError(f"eg.PerExample: memory must be at least 1 batch, got {self.memory}")

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


def batch_variance(target: Any, position: PyTree, batch: PyTree, replacement: bool = False) -> PyTree:
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


def example_variance(target: Any, position: PyTree, rows: PyTree) -> PyTree:
    """s^2 of the per-example gradients, divisor n - 1, merged over micro-batches (Chan, Golub and LeVeque, 1979)."""
    n = _rows(rows)
    micro = max(1, min(n, MICRO_BATCH_NUMBERS // max(tree.size(position), 1)))
    whole = n // micro

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
    blocks = jax.tree.map(lambda x: x[: whole * micro].reshape(whole, micro, *x.shape[1:]), rows)
    carry, _ = jax.lax.scan(merge, (jnp.zeros((), tree.common_dtype(position)), zeros, zeros), blocks)
    if whole * micro < n:
        carry, _ = merge(carry, jax.tree.map(lambda x: x[whole * micro :], rows))
    return tree.scale(1 / (n - 1), carry[2])


def gradient_noise(
    target: Any, position: PyTree, batch_size: int, *, replacement: bool = False, dense: bool = False, seed: int = 0
) -> PyTree:
    """V at `position` for batches of `batch_size`: diagonal, like the position, or a dense matrix.

    Estimated from up to 10,000 random rows of the data; for `eg.sgfs` and for `gradient_noise=` of a run.
    """
    if getattr(target, "size", None) is None:
        raise InputError("eg.gradient_noise needs a target with data (eg.Posterior); this one has none")
    target.check_batch_size(batch_size)
    index = np.random.default_rng(seed).permutation(target.size)[:10_000]
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
