"""Gradients with less noise: a batch says how the gradient differs from the known one at a reference position.

    g~(q) = g(c) + (N/n) sum_i [h_i(q) - h_i(c)] + prior(q) - prior(c),   h_i the gradient of -log_likelihood of row i

g(c) is the gradient from all data at the reference c, so g~ is unbiased for any c, and its variance falls with
|q - c|^2 (Baker, Fearnhead, Fox and Nemeth, 2019: c a mode; Dubey et al., 2016: c moves along, SVRG).
"""

from typing import Any, ClassVar, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ergodica import tree
from ergodica.errors import InputError
from ergodica.host.validate import whole
from ergodica.targets import DataTarget, Posterior, Target, Truth
from ergodica.targets.coordinates import Coordinates, check_start, sampled
from ergodica.targets.posterior import evaluate_all

KernelOnTarget = TypeVar("KernelOnTarget", bound=eqx.Module)  # an integrators.Kernel, a layer above


class Referenced(DataTarget):
    """A target with data whose batches are compared with the full gradient at a reference position."""

    has_potential: ClassVar[bool] = True

    target: Posterior
    centre: PyTree
    gradient: PyTree
    """From all data, at the centre."""
    centre_potential: Array

    def __init__(self, target: Posterior, centre: PyTree, gradient: PyTree, centre_potential: Array):
        self.target, self.centre, self.gradient, self.centre_potential = target, centre, gradient, centre_potential

    @property
    def init(self) -> PyTree:
        return self.target.init

    @property
    def domain(self) -> PyTree:
        return self.target.domain

    @property
    def coordinates(self) -> Coordinates | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.target.coordinates

    @property
    def truth(self) -> Truth | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.target.truth

    @property
    def size(self) -> int:
        return self.target.size

    @property
    def data(self) -> PyTree:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.target.data

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

    def rows(self, index: Any) -> PyTree:
        return self.target.rows(index)

    def loaded(self) -> "Referenced":
        return eqx.tree_at(lambda r: r.target, self, self.target.loaded())

    def check_batch_size(self, n: int) -> None:
        self.target.check_batch_size(n)

    def check(self, position: PyTree) -> None:
        self.target.check(position)

    def tempered(self, temperature: Any) -> "Referenced":
        return self  # the gradient at the centre has the temperature of the target that it was taken of

    def without_data(self) -> "Referenced":
        return eqx.tree_at(lambda r: r.target, self, self.target.without_data())


class NoReferenceError(InputError):
    """The position has no finite potential or gradient to compare batches with."""


def referenced(target: Target, centre: PyTree) -> Referenced:
    """The target with `centre` as its reference: one pass over all data."""
    target = target.target if isinstance(target, Referenced) else target
    if not isinstance(target, Posterior):
        raise InputError(
            "control variates and SVRG compare batches of data rows, and this target has none: they need an "
            "eg.Posterior; leave the estimator out"
        )
    # the dtype is named, so that it is not a weak one: a step compiled for this reference serves the next
    centre = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.asarray(leaf).dtype), centre)
    check_start(target, centre)
    potential, gradient = evaluate_all(target, centre)
    if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((potential, gradient))):
        raise NoReferenceError(
            "the potential or its gradient is not finite at the reference position: give a centre inside the support"
        )
    return Referenced(target, centre, gradient, potential)


class ControlVariates(eqx.Module):
    """Gradients from batches that are compared with the full gradient at a mode.

    Use it where the posterior has one mode and much data: near the mode the noise of gradients falls by orders of
    magnitude, and step sizes can grow. It needs rows that can be read as a whole.

    Args:
        centre: the reference, a position or what `eg.find_mode` returns; None looks for a mode from the start of the
            run. The closer to the mode, the smaller the noise; the gradient is unbiased for any.

    Example:
        >>> import ergodica as eg
        >>> target = eg.gallery.logistic_regression(rows=200, features=2)
        >>> estimator = eg.ControlVariates(eg.find_mode(target))
        >>> run = eg.sample(target, eg.sgld(), steps=10, step_size=1e-3, batch_size=20, estimator=estimator)

    Baker, Fearnhead, Fox and Nemeth (2019), https://doi.org/10.1007/s11222-018-9826-2.
    """

    centre: PyTree
    whitening: Any = eqx.field(repr=False)
    is_sampled: bool = eqx.field(static=True, repr=False)
    """Whether the centre is as chains hold it, and not as a user gives it."""
    refresh: ClassVar[None] = None

    def __init__(self, centre: PyTree = None, *, is_sampled: bool = False):
        from ergodica.gradients.mode import Mode  # loaded where it is needed: most runs have no use for it

        is_mode = isinstance(centre, Mode)
        self.centre = centre.unconstrained if is_mode else centre
        self.is_sampled = is_mode or is_sampled
        self.whitening = centre.whitening if is_mode and centre.is_converged else None

    def settled(self, target: Target, position: PyTree) -> "ControlVariates":
        """With its centre known: the mode near `position`, unless one was given."""
        from ergodica.gradients.mode import found_mode

        if self.centre is None:
            return ControlVariates(found_mode(target, position))
        return self if self.is_sampled else ControlVariates(sampled(target, self.centre), is_sampled=True)

    def prepare(self, target: Target, position: PyTree) -> Referenced:
        """The target as this estimator sees it; `position` is where the search for a mode begins."""
        return referenced(target, self.settled(target, position).centre)


class Svrg(eqx.Module):
    """Gradients from batches that are compared with the full gradient at a position of the chain itself.

    Use it for laws without one mode to stay close to. A renewal of the reference is one pass over all data: with
    batches of n rows, `refresh` of N/n steps doubles the rows read.

    Args:
        refresh: how many steps a reference is used for.

    Example:
        >>> import ergodica as eg
        >>> target = eg.gallery.logistic_regression(rows=200, features=2)
        >>> run = eg.sample(target, eg.sgld(), steps=10, step_size=1e-3, batch_size=20, estimator=eg.Svrg(5))

    Dubey et al. (2016), https://arxiv.org/abs/1611.02226 (variance reduction for Langevin dynamics).
    """

    refresh: int = eqx.field(static=True, default=1000)
    whitening: ClassVar[None] = None

    def __check_init__(self):
        whole("eg.Svrg: refresh", self.refresh, 1, of="steps")

    def settled(self, target: Target, position: PyTree) -> "Svrg":
        return self

    def prepare(self, target: Target, position: PyTree) -> Referenced:
        """The target as this estimator sees it from `position` on."""
        return referenced(target, position)


class References:
    """What an estimator needs during a run: nothing (`estimator=None`), one reference for all chains, or one for each.

    A reference is a centre, and the gradient and potential of all data there.
    """

    def __init__(self, estimator: ControlVariates | Svrg | None, target: Target):
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
        assert self.estimator is not None
        found = self.estimator.prepare(self.target, position)
        return found.centre, found.gradient, found.centre_potential

    def renewed(self, position: PyTree, old: PyTree) -> PyTree:
        """As `at`; the old one where there is none: behind a wall, as the chain's next step will find."""
        try:
            return self.at(position)
        except NoReferenceError:
            return old

    def begin(self, positions: list[PyTree]) -> list[PyTree]:
        """The reference of each chain; None where they share one."""
        if self.is_each:
            return [self.at(position) for position in positions]
        if self.estimator is not None:
            self.estimator = self.estimator.settled(self.target, positions[0])
            self.shared, self.whitening = self.at(positions[0]), self.estimator.whitening
        return [None] * len(positions)

    def blank(self, positions: list[PyTree]) -> list[PyTree]:
        """As `begin`, without values: a checkpoint has them."""
        zeros = jax.tree.map(jnp.zeros_like, positions[0])
        empty = None if self.estimator is None else (zeros, zeros, jnp.zeros((), tree.common_dtype(zeros)))
        self.shared = None if self.is_each else empty
        return [empty if self.is_each else None] * len(positions)

    def kernel(self, kernel: KernelOnTarget, own: list[PyTree]) -> KernelOnTarget:
        """The kernel on the target as the estimator sees it."""
        if self.estimator is None:
            return kernel
        assert isinstance(self.target, Posterior)
        return eqx.tree_at(lambda k: k.target, kernel, Referenced(self.target, *(own[0] or self.shared)))
