"""PyMC models as targets, on all data, by PyMC's own translation to JAX: `bridge.target(model)`.

    from ergodica.interop import pymc as bridge
    run = eg.sample(bridge.target(model))

Chains move in PyMC's transformed variables; starts and draws are constrained, and named by variable.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ergodica import tree
from ergodica.errors import InputError
from ergodica.host.extras import require
from ergodica.targets.coordinates import Coordinates
from ergodica.targets.density import Density


def _part(name: str) -> Any:
    """A module of PyMC's, loaded when it is asked for: PyMC takes seconds to load, and may not be there."""
    return require(name, extra="pymc", by="ergodica.interop.pymc")


def translated(*arguments: Any, **named: Any) -> Any:
    return _part("pymc.sampling.jax").get_jaxified_graph(*arguments, **named)


def without_transforms(model: Any) -> Any:
    return _part("pymc.model.transform.conditioning").remove_value_transforms(model)


def target(model: Any) -> Density:
    """The target of a PyMC model: the density of its free variables, given all its data.

    Use it for a model that exists in PyMC. Every step looks at all data; for minibatches write the likelihood as a
    function of rows (`eg.Posterior`), or the model in NumPyro (`ergodica.interop.numpyro`).

    Args:
        model: a pymc.Model whose free variables are continuous.

    Returns:
        An `eg.Density`. Draws have the free variables, constrained, and the deterministic ones.

    Example:
        >>> import pymc as pm  # doctest: +SKIP
        >>> with pm.Model() as model:  # doctest: +SKIP
        ...     scale = pm.HalfNormal("scale")
        ...     pm.Normal("y", 0.0, scale, observed=np.ones(100))
        >>> eg.sample(bridge.target(model))  # doctest: +SKIP
    """
    if not isinstance(model, _part("pymc").Model):
        raise InputError(f"the model is a {type(model).__name__}: expected a pymc.Model")
    if not model.free_RVs:
        raise InputError("the model has no free variable: there is nothing to sample")
    for variable in model.free_RVs:
        if variable.dtype.startswith(("int", "uint", "bool")):
            raise InputError(
                f"variable {variable.name!r} is discrete, and there is no gradient along it: sum it out of the model "
                "(pm.Mixture, or pymc_extras.marginalize)"
            )
    plain = without_transforms(model)
    coordinates = VariableCoordinates(model, plain)
    start = coordinates.constrained(_initial_point(model))
    potential = PymcPotential(coordinates.names, _Translated(_values(plain, coordinates.names), [-plain.logp()]))
    return Density(potential, init=start, transform=coordinates)


def _initial_point(model: Any) -> dict[str, Array]:
    values = model.initial_point()
    return {variable.name: _float(values[model.rvs_to_values[variable].name]) for variable in model.free_RVs}


def _values(model: Any, names: tuple[str, ...]) -> list[Any]:
    """The inputs of its graphs: a copy of a model may have them in another order."""
    return [model.rvs_to_values[model[name]] for name in names]


def _float(value: Any) -> Array:
    return jnp.asarray(value, jnp.result_type(float))


class _Translated:
    """A graph of PyTensor as a function of JAX's arrays; compared by identity, as a static field has to be."""

    def __init__(self, inputs: list[Any], outputs: list[Any]):
        self._function = translated(inputs=inputs, outputs=outputs)

    def __call__(self, *values: Array) -> list[Array]:
        return [jnp.asarray(value) for value in self._function(*values)]


class PymcPotential(eqx.Module):
    """Minus the log density of the model at constrained values."""

    names: tuple[str, ...] = eqx.field(static=True)
    function: Callable = eqx.field(static=True)

    def __call__(self, x: dict[str, Array]) -> Array:
        return self.function(*(x[name] for name in self.names))[0]


class VariableCoordinates(Coordinates):
    """Between PyMC's transformed values of the free variables and the constrained ones."""

    names: tuple[str, ...] = eqx.field(static=True, kw_only=True)
    computed: tuple[str, ...] = eqx.field(static=True, kw_only=True)
    """Of deterministic variables."""
    is_transformed: bool = eqx.field(static=True, kw_only=True)
    forward: Callable = eqx.field(static=True, kw_only=True)
    backward: Callable = eqx.field(static=True, kw_only=True)
    jacobian: Callable = eqx.field(static=True, kw_only=True)

    def __init__(self, model: Any, plain: Any):
        """`plain` is the model without transforms."""
        self.names = tuple(variable.name for variable in model.free_RVs)
        self.computed = tuple(variable.name for variable in model.deterministics)
        transforms = {name: model.rvs_to_transforms[model[name]] for name in self.names}
        self.is_transformed = any(transform is not None for transform in transforms.values())
        values, constrained = _values(model, self.names), _values(plain, self.names)
        drawn = {value.name: value for value in model.unobserved_value_vars}
        self.forward = _Translated(values, [drawn[name] for name in (*self.names, *self.computed)])
        # what else a transform depends on, as the ends of an interval, are inputs of its variable
        jacobians = [
            transforms[name].log_jac_det(u, *model[name].owner.inputs).sum()
            for name, u in zip(self.names, values, strict=True)
            if transforms[name] is not None
        ]
        back = [
            x if transforms[name] is None else transforms[name].forward(x, *plain[name].owner.inputs)
            for name, x in zip(self.names, constrained, strict=True)
        ]
        self.jacobian = _Translated(values, model.replace_rvs_by_values(jacobians))
        self.backward = _Translated(constrained, plain.replace_rvs_by_values(back))

    @property
    def has_jacobian(self) -> bool:
        return self.is_transformed

    @property
    def is_drawn_as_sampled(self) -> bool:
        return not self.is_transformed and not self.computed

    def constrained(self, u: PyTree) -> PyTree:
        return {name: self.drawn(u)[name] for name in self.names}

    def unconstrained(self, x: PyTree) -> PyTree:
        return dict(zip(self.names, self.backward(*(x[name] for name in self.names)), strict=True))

    def log_jacobian(self, u: PyTree) -> Array:
        return jnp.sum(jnp.stack(self.jacobian(*(u[name] for name in self.names)))).astype(tree.common_dtype(u))

    def take_apart(self, position: PyTree) -> PyTree:
        """The free variables of a draw or a start by name; deterministic ones follow from them."""
        allowed = {*self.names, *self.computed}
        if not isinstance(position, dict) or not set(self.names) <= set(position) <= allowed:
            got = list(position) if isinstance(position, dict) else type(position).__name__
            raise InputError(f"the position is {got}: expected a dictionary with the variables {', '.join(self.names)}")
        return {name: jnp.asarray(position[name]) for name in self.names}

    def drawn(self, u: PyTree) -> PyTree:
        values = self.forward(*(u[name] for name in self.names))
        return dict(zip((*self.names, *self.computed), values, strict=True))

    def undrawn(self, draw: PyTree) -> PyTree:
        return self.unconstrained(self.take_apart(draw))

    def check(self, x: PyTree) -> None:
        for name, value in self.unconstrained(x).items():
            if not tree.is_traced(value) and not np.all(np.isfinite(value)):
                raise InputError(f"{name} = {x[name]} is outside its support, or on its edge: start inside it")

    def check_domain(self, domain: PyTree, u: PyTree) -> None:
        pass  # a model's target has no walls
