"""What every target offers, and what may be known of its law."""

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
from jaxtyping import Array, PyTree

from ergodica.data.source import Source
from ergodica.targets.coordinates import Coordinates

if TYPE_CHECKING:  # as Equinox advises: type checkers do not follow its own AbstractClassVar
    from typing import ClassVar as AbstractClassVar
else:
    from equinox import AbstractClassVar


class Truth(NamedTuple):
    """What is known of a target's law at temperature 1; None for what is not known."""

    mean: PyTree | None = None
    """Like the position."""
    covariance: Array | None = None
    """(d, d), in the order of `ravel_pytree`; None as well where d is too large to hold it."""
    draw: Callable[[Array], PyTree] | None = None
    """One exact draw of the position from a key; `jit` and `vmap` go through it."""
    variance: PyTree | None = None
    """Like the position: the diagonal of the covariance, at any d."""


class Target(eqx.Module):
    """A law exp(-U) over positions, given by its potential U and gradient, or by a gradient alone."""

    has_potential: AbstractClassVar[bool]
    """False if only gradients can be had."""
    init: eqx.AbstractVar[PyTree]
    """An example of the position, or None; as it is sampled, as all positions that a target is asked about."""
    domain: eqx.AbstractVar[PyTree]
    """None, a Box, or a pytree prefix of the position made of them."""
    coordinates: eqx.AbstractVar[Coordinates | None]
    """Between positions and what the user's functions see of them; None where that is the same."""
    truth: eqx.AbstractVar[Truth | None]
    """What is known of the law, or None."""
    data: eqx.AbstractVar[PyTree]
    """The rows, or the source that reads them; None for a target that is not a sum over rows, or holds none."""

    @property
    def source(self) -> Source | None:
        """What reads the rows from disk; None where they are in memory, or none are held."""
        return self.data if isinstance(self.data, Source) else None

    @property
    @abstractmethod
    def size(self) -> int | None:
        """The number N of data rows; None for a target that is not a sum over data."""

    @abstractmethod
    def evaluate(self, position: PyTree, batch: PyTree = None) -> tuple[Array, PyTree]:
        """The potential and its gradient, estimated from `batch`; from all data if that is None."""

    @abstractmethod
    def potential(self, position: PyTree, batch: PyTree = None) -> Array:
        """U, a scalar in the widest dtype of the position; estimated from `batch`, or from all data if that is None."""

    @abstractmethod
    def check(self, position: PyTree) -> None:
        """Raise InputError if sampling cannot start at `position`. Call it outside `jit`: it looks at values."""

    @abstractmethod
    def tempered(self, temperature: Any) -> "Target":
        """The target whose potential is U(x(u)) - T log|J(u)| for this T; itself where there is no Jacobian."""

    @abstractmethod
    def without_data(self) -> "Target":
        """The same target without its rows, for a compiled step that is given batches."""


class DataTarget(Target):
    """A target whose potential is a sum over data rows, so that it can be estimated from some of them."""

    @property
    @abstractmethod
    def size(self) -> int: ...

    @abstractmethod
    def rows(self, index: Any) -> PyTree:
        """The batch of the rows at `index`: a slice, or a 1-D array of integers."""

    @abstractmethod
    def example_gradients(self, position: PyTree, batch: PyTree = None) -> PyTree:
        """What each row of `batch` adds to the gradient: like the position, with a leading axis of n."""

    @abstractmethod
    def check_batch_size(self, n: int) -> None:
        """Raise InputError unless 1 <= n <= N."""

    @abstractmethod
    def without_data(self) -> "DataTarget": ...

    @abstractmethod
    def loaded(self) -> "DataTarget":
        """The same target with the rows of its source in memory."""
