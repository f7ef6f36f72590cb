"""A target given by its potential."""

from collections.abc import Callable
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ergodica.errors import InputError
from ergodica.targets.base import Target, Truth
from ergodica.targets.position import check_position
from ergodica.targets.values import check_evaluation, evaluate_once, position_dtype, real_scalar


class Density(Target):
    """The law exp(-U(position)), up to a constant.

    `potential(position)` returns the scalar U, minus the log density.

    >>> target = Density(lambda x: jnp.sum(x**2) / 2, init=jnp.ones(3))
    >>> float(target.potential(jnp.ones(3)))
    1.5
    """

    has_potential: ClassVar[bool] = True

    function: Callable[[PyTree], Array]
    init: PyTree
    domain: PyTree
    truth: Truth | None

    def __init__(
        self,
        potential: Callable[[PyTree], Array],
        init: PyTree = None,
        domain: PyTree = None,
        truth: Truth | None = None,
    ):
        if not callable(potential):
            raise InputError(
                f"potential is {potential!r}: expected a function of the position that returns the scalar U"
            )
        if init is not None:
            check_position(init, None, domain)
        self.function = potential
        self.init = init
        self.domain = domain
        self.truth = truth

    @property
    def size(self) -> None:
        return None

    def potential(self, position: PyTree, batch: PyTree = None) -> Array:
        if batch is not None:
            raise InputError(
                "a batch was given to a Density, which has no data: leave batch_size out, or use "
                "eg.Posterior(log_prior, log_likelihood, data)"
            )
        value = self.function(jax.tree.map(jnp.asarray, position))
        return real_scalar(value, "potential", position_dtype(position))

    def evaluate(self, position: PyTree, batch: PyTree = None) -> tuple[Array, PyTree]:
        return jax.value_and_grad(self.potential)(position, batch)

    def check(self, position: PyTree) -> None:
        check_position(position, self.init, self.domain)
        check_evaluation(*evaluate_once(self, position, None))

    def without_data(self) -> "Density":
        return self
