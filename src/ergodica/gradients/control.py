"""Gradients with less noise: a batch says how the gradient differs from the known one at a reference position.

    g~(q) = g(c) + (N/n) sum_i [h_i(q) - h_i(c)] + prior(q) - prior(c),   h_i the gradient of -log_likelihood of row i

g(c) is the gradient from all data at the reference c, so g~ is unbiased for any c, and its variance falls with
|q - c|^2 (Baker, Fearnhead, Fox and Nemeth, 2019: c a mode; Dubey et al., 2016: c moves along, SVRG).
"""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ergodica import tree
from ergodica.data.source import Source
from ergodica.errors import InputError
from ergodica.gradients.mode import Mode, find_mode
from ergodica.targets.base import Target, Truth
from ergodica.targets.position import check_position
from ergodica.targets.posterior import evaluate_all


class Referenced(Target):
    """A target with data whose batches are compared with the full gradient at a reference position."""

    has_potential: ClassVar[bool] = True

    target: Any
    centre: PyTree
    gradient: PyTree
    """From all data, at the centre."""
    centre_potential: Array

    def __init__(self, target: Any, centre: PyTree, gradient: PyTree, centre_potential: Array):
        self.target, self.centre, self.gradient, self.centre_potential = target, centre, gradient, centre_potential

    @property
    def init(self) -> PyTree:
        return self.target.init

    @property
    def domain(self) -> PyTree:
        return self.target.domain

    @property
    def truth(self) -> Truth | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.target.truth

    @property
    def size(self) -> int:
        return self.target.size

    @property
    def data(self) -> PyTree:
        return self.target.data

    @property
    def source(self) -> Source | None:
        return self.target.source

    def evaluate(self, position: PyTree, batch: PyTree = None) -> tuple[Array, PyTree]:
        """U~(q) - U~(c) + U(c) + [g(c) - g~(c)]·(q - c) from one batch, and its gradient; exact from all data.

        The last term has mean zero. With it the gradient of the value is the gradient given.
        """
        position = jax.tree.map(jnp.asarray, position)
        if batch is None:
            return self.target.evaluate(position)
        # Two products with the batch, which is in the cache after the first: a third less time than one product with
        # the pair of positions. Chains that share a batch share what it says at the centre.
        value, gradient = self.target.evaluate(position, batch)
        centre_value, centre_gradient = self.target.evaluate(self.centre, batch)
        change = tree.subtract(self.gradient, centre_gradient)
        linear = tree.dot(change, tree.subtract(position, self.centre))
        return value - centre_value + self.centre_potential + linear, tree.add(gradient, change)

    def potential(self, position: PyTree, batch: PyTree = None) -> Array:
        return self.target.potential(position) if batch is None else self.evaluate(position, batch)[0]

    def example_gradients(self, position: PyTree, batch: PyTree = None) -> PyTree:
        """What a row adds to the estimate, h_i(q) - h_i(c): V of the estimator is that of these."""
        here = self.target.example_gradients(position, batch)
        return tree.subtract(here, self.target.example_gradients(self.centre, batch))

    def prior_gradient(self, position: PyTree) -> PyTree:
        return self.target.prior_gradient(position)

    def rows(self, index: Any) -> PyTree:
        return self.target.rows(index)

    def loaded(self) -> "Referenced":
        return eqx.tree_at(lambda r: r.target, self, self.target.loaded())

    def check_batch_size(self, n: int) -> None:
        self.target.check_batch_size(n)

    def check(self, position: PyTree) -> None:
        self.target.check(position)

    def without_data(self) -> "Referenced":
        return eqx.tree_at(lambda r: r.target, self, self.target.without_data())


class NoReference(InputError):
    """The position has no finite potential or gradient to compare batches with."""


def referenced(target: Any, centre: PyTree) -> Referenced:
    """The target with `centre` as its reference: one pass over all data."""
    if isinstance(target, Referenced):
        target = target.target
    if getattr(target, "size", None) is None:
        raise InputError(
            "control variates and SVRG compare batches of data rows, and this target has none: they need an "
            "eg.Posterior; leave the estimator out"
        )
    # the dtype is named, so that it is not a weak one: a step compiled for this reference serves the next
    centre = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.asarray(leaf).dtype), centre)
    check_position(centre, target.init, target.domain)
    potential, gradient = evaluate_all(target, centre)
    if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((potential, gradient))):
        raise NoReference(
            "the potential or its gradient is not finite at the reference position: give a centre inside the support"
        )
    return Referenced(target, centre, gradient, potential)


class ControlVariates(eqx.Module):
    """Batches compared with the full gradient at a mode.

    Args:
        centre: the reference, a position or what `eg.find_mode` returns; None looks for a mode from the start of the
            run. The closer to the mode, the smaller the noise; the gradient is unbiased for any.

    Example:
        >>> mode = eg.find_mode(target)                                                    # doctest: +SKIP
        >>> eg.sample(target, eg.sgld(), mode.position, estimator=eg.ControlVariates(mode), ...)  # doctest: +SKIP
    """

    centre: PyTree
    whitening: Any = eqx.field(repr=False)
    refresh: ClassVar[None] = None

    def __init__(self, centre: PyTree = None):
        is_mode = isinstance(centre, Mode)
        self.centre = centre.position if is_mode else centre
        self.whitening = centre.whitening if is_mode and centre.is_converged else None

    def settled(self, target: Any, position: PyTree) -> "ControlVariates":
        """With its centre known: the mode near `position`, unless one was given."""
        return self if self.centre is not None else ControlVariates(find_mode(target, position))

    def prepare(self, target: Any, position: PyTree) -> Referenced:
        """The target as this estimator sees it; `position` is where the search for a mode begins."""
        return referenced(target, self.settled(target, position).centre)


class Svrg(eqx.Module):
    """Batches compared with the full gradient at a position of the chain itself, renewed every `refresh` steps.

    For laws without one mode to stay close to. A renewal is one pass over all data: with batches of n rows, `refresh`
    of N/n steps doubles the rows read.
    """

    refresh: int = eqx.field(static=True, default=1000)

    def __check_init__(self):
        is_count = isinstance(self.refresh, int | np.integer) and not isinstance(self.refresh, bool)
        if not is_count or self.refresh < 1:
            raise InputError(f"eg.Svrg: refresh is {self.refresh!r}: expected a whole number of steps, at least 1")

    def prepare(self, target: Any, position: PyTree) -> Referenced:
        """The target as this estimator sees it from `position` on."""
        return referenced(target, position)
