"""A target given by its potential."""

from collections.abc import Callable
from typing import Any, ClassVar

import jax
from jaxtyping import Array, PyTree

from ergodica.errors import InputError
from ergodica.targets.base import Target, Truth
from ergodica.targets.coordinates import (
    Coordinates,
    at_temperature,
    begin,
    check_start,
    jacobian_share,
    seen,
)
from ergodica.targets.position import check_evaluation, position_dtype, real_scalar, run_once


class Density(Target):
    """The law exp(-U(position)), known up to a constant.

    Use it for a law without data, or with so few that every step can look at all of them; `eg.Posterior` takes
    minibatches.

    Args:
        potential: a function of the position that returns the scalar U, minus the log density.
        init: an example of the position, any pytree of floating arrays or a network (an Equinox module, a Flax NNX
            module or state: the function gets one of its kind); a run that is given no start begins here.
        domain: `eg.positive`, `eg.Box(low, high)`, or a pytree of them like the position; None: unbounded.
        truth: what is known of the law, for tests of samplers.
        transform: one of `eg.transforms`, or a pytree of them like the position, None where a part has none: chains
            move in the unconstrained variable, and `potential`, `init`, `keep` and draws see the constrained one.

    Example:
        >>> import ergodica as eg
        >>> import jax.numpy as jnp
        >>> target = eg.Density(lambda x: jnp.sum(x**2) / 2, init=jnp.ones(3))
        >>> float(target.potential(jnp.ones(3)))
        1.5
    """

    has_potential: ClassVar[bool] = True

    function: Callable[[PyTree], Array]
    init: PyTree
    domain: PyTree
    truth: Truth | None
    coordinates: Coordinates | None
    temperature: Any
    data: None = None

    def __init__(
        self,
        potential: Callable[[PyTree], Array],
        init: PyTree = None,
        domain: PyTree = None,
        truth: Truth | None = None,
        transform: PyTree = None,
    ):
        if not callable(potential):
            raise InputError(
                f"potential is {potential!r}: expected a function of the position that returns the scalar U"
            )
        self.init, self.coordinates = begin(init, domain, transform, truth)
        self.function, self.domain, self.truth, self.temperature = potential, domain, truth, 1.0

    @property
    def size(self) -> None:
        return None

    def potential(self, position: PyTree, batch: PyTree = None) -> Array:
        if batch is not None:
            raise InputError(
                "a batch was given to a Density, which has no data: leave batch_size out, or use "
                "eg.Posterior(log_prior, log_likelihood, data)"
            )
        value = real_scalar(self.function, "potential", seen(self.coordinates, position), position_dtype(position))
        share = jacobian_share(self.coordinates, self.temperature, position)
        return value if share is None else value - share

    def evaluate(self, position: PyTree, batch: PyTree = None) -> tuple[Array, PyTree]:
        return jax.value_and_grad(self.potential)(position, batch)

    def check(self, position: PyTree) -> None:
        check_start(self, position)
        check_evaluation(*run_once(Density.evaluate, self, position))

    def tempered(self, temperature: Any) -> "Density":
        return at_temperature(self, temperature)

    def without_data(self) -> "Density":
        return self
