"""References of gradient estimators during a run: one for all chains, or one for each, renewed every so often."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from ergodica import tree
from ergodica.integrators import Kernel


class References:
    """What an estimator needs: nothing (`estimator=None`), one reference for all chains, or one for each of them.

    A reference is a centre, and the gradient and potential of all data there.
    """

    def __init__(self, estimator: Any, target: Any):
        self.estimator, self.target = estimator, target
        self.refresh: int | None = None if estimator is None else estimator.refresh
        self.shared: PyTree = None
        self.whitening: Any = None
        """Laplace's at the mode, where there is one."""

    @property
    def is_each(self) -> bool:
        return self.refresh is not None

    def is_due(self, step: int) -> bool:
        return self.refresh is not None and step > 0 and step % self.refresh == 0

    def at(self, position: PyTree) -> PyTree:
        """A pass over all data, after a search for the mode where the estimator wants that."""
        found = self.estimator.prepare(self.target, position)
        return found.centre, found.gradient, found.centre_potential

    def renewed(self, position: PyTree, old: PyTree) -> PyTree:
        """As `at`; the old one where there is none: behind a wall, as the chain's next step will find."""
        from ergodica.gradients.control import NoReference

        try:
            return self.at(position)
        except NoReference:
            return old

    def begin(self, positions: list[PyTree]) -> list[PyTree]:
        """The reference of each chain; None where they share one."""
        if self.is_each:
            return [self.at(position) for position in positions]
        if self.estimator is not None:
            if hasattr(self.estimator, "settled"):
                self.estimator = self.estimator.settled(self.target, positions[0])
            self.shared, self.whitening = self.at(positions[0]), getattr(self.estimator, "whitening", None)
        return [None] * len(positions)

    def blank(self, positions: list[PyTree]) -> list[PyTree]:
        """As `begin`, without values: a checkpoint has them."""
        zeros = jax.tree.map(jnp.zeros_like, positions[0])
        empty = None if self.estimator is None else (zeros, zeros, jnp.zeros((), tree.common_dtype(zeros)))
        self.shared = None if self.is_each else empty
        return [empty if self.is_each else None] * len(positions)

    def kernel(self, kernel: Kernel, own: list[PyTree]) -> Kernel:
        """The kernel on the target as the estimator sees it."""
        if self.estimator is None:
            return kernel
        from ergodica.gradients.control import Referenced

        return eqx.tree_at(lambda k: k.target, kernel, Referenced(self.target, *(own[0] or self.shared)))
