"""A target whose gradient is computed outside JAX, and that has no potential."""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, NoReturn

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, PyTree

from ergodica.errors import InputError
from ergodica.targets.base import Target, Truth
from ergodica.targets.coordinates import Coordinates, begin, check_start
from ergodica.tree import first_non_finite, is_traced, named_leaves


class OpaqueLeaf:
    """An object that JAX must not look into: it takes an iterator in a pytree for a mistake."""

    def __init__(self, value: Any):
        self.value = value


class External(Target):
    """A law known by a stochastic gradient that JAX cannot trace, such as an expectation from a Gibbs sampler.

    Use it where the gradient comes from another library. Recipes that read the potential (gsgrhmc, hmc with its
    Metropolis test) refuse it. A run calls the function between two compiled halves of a step.

    Args:
        gradient: gradient(position, batch, seed) takes the position as NumPy arrays (a network with such arrays in it),
            one item of `batches`, and an integer for its own randomness; it returns an unbiased estimate of the
            gradient of U, like the position.
        batches: an iterable of batches, each handed to `gradient` as it is.
        init: an example of the position; a run that is given no start begins here.
        domain: `eg.positive`, `eg.Box(low, high)`, or a pytree of them like the position; None: unbounded.

    Example:
        >>> import ergodica as eg
        >>> import numpy as np
        >>> target = eg.External(lambda x, batch, seed: batch * x, batches=[1.0, 3.0], init=np.ones(2))
        >>> target.gradient_at(np.ones(2), batch=3.0, seed=0)
        array([3., 3.])
    """

    has_potential: ClassVar[bool] = False

    gradient: Callable[[PyTree, Any, int], PyTree]
    init: PyTree
    domain: PyTree
    truth: Truth | None
    coordinates: Coordinates | None
    _batches: OpaqueLeaf | None
    data: None = None

    def __init__(
        self,
        gradient: Callable[[PyTree, Any, int], PyTree],
        batches: Iterable[Any],
        init: PyTree = None,
        domain: PyTree = None,
        transform: None = None,
    ):
        if not callable(gradient):
            raise InputError(f"gradient is {gradient!r}: expected a function gradient(position, batch, seed)")
        if not isinstance(batches, Iterable) or isinstance(batches, str | bytes):
            raise InputError(
                f"batches is {batches!r}: expected an iterable of batches, each handed to gradient as it is"
            )
        if isinstance(batches, list | tuple) and not batches:
            raise InputError("batches is empty: expected at least one batch")
        if transform is not None:
            raise InputError(
                "an External target has no potential to correct by the Jacobian of a transform: change the variable in "
                "your gradient, or give the potential with eg.Density or eg.Posterior"
            )
        self.init, self.coordinates = begin(init, domain, None)
        self.gradient, self._batches = gradient, OpaqueLeaf(batches)
        self.domain, self.truth = domain, None

    @property
    def size(self) -> None:
        return None

    @property
    def batches(self) -> Iterable[Any] | None:
        """The batches as given; None after `without_data`."""
        return None if self._batches is None else self._batches.value

    def gradient_at(self, position: PyTree, batch: Any, seed: int, is_finite: bool = True) -> PyTree:
        """The gradient from one batch: NumPy arrays of the position's shapes and dtypes.

        All finite, unless the caller says `is_finite=False` and checks it: far away a gradient may overflow.
        """
        if is_traced(position):
            raise InputError(
                "the gradient of an External target was requested inside jit, vmap or grad: it is computed outside "
                "JAX, so call gradient_at between compiled steps"
            )
        seen = jax.tree.map(np.asarray, position)
        if self.coordinates is None:
            gradient = self.gradient(seen, batch, seed)
        else:
            gradient = self.coordinates.take_apart(self.gradient(self.coordinates.assemble(seen), batch, seed))
        got, expected = jax.tree.structure(gradient), jax.tree.structure(position)
        if got != expected:
            raise InputError(f"gradient returned structure {got}, expected that of the position, {expected}")
        for (name, leaf), like in zip(named_leaves(gradient, "gradient"), jax.tree.leaves(position), strict=True):
            if np.shape(leaf) != like.shape:
                raise InputError(f"{name} has shape {np.shape(leaf)}, expected that of the position, {like.shape}")
        bad = first_non_finite(gradient, "gradient") if is_finite else None
        if bad is not None:
            raise InputError(f"the function gradient returned {bad}: every number of a gradient must be finite")
        return jax.tree.map(lambda leaf, like: np.asarray(leaf, like.dtype), gradient, position)

    def potential(self, position: PyTree, batch: PyTree = None) -> NoReturn:
        raise InputError(
            "an External target has a gradient and no potential: use a recipe that does not read the potential "
            "(not gsgrhmc, nor hmc with its Metropolis test), or give the potential with eg.Density or eg.Posterior"
        )

    def evaluate(self, position: PyTree, batch: PyTree = None) -> tuple[Array, PyTree]:
        raise InputError(
            "an External target cannot be evaluated in JAX, it has no potential and its gradient is not traceable: "
            "call gradient_at(position, batch, seed) between compiled steps"
        )

    def check(self, position: PyTree) -> None:
        # The gradient is not tried: `batches` may be a stream that cannot be rewound.
        check_start(self, position)

    def tempered(self, temperature: Any) -> "External":
        return self

    def without_data(self) -> "External":
        return self if self._batches is None else eqx.tree_at(lambda target: target._batches, self, None)
