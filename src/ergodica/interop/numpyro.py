"""NumPyro models as targets: `bridge.target(model, ..., rows=("x", "y"))`, in minibatches or on all data.

    from ergodica.interop import numpyro as bridge
    run = eg.sample(bridge.target(model, rows=("x", "y"), x=x, y=y))

Chains move in the unconstrained values of the latent sites; starts and draws are constrained, and named by site.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ergodica import tree
from ergodica.data.source import row_count
from ergodica.errors import InputError
from ergodica.host.extras import require
from ergodica.targets.coordinates import Coordinates
from ergodica.targets.density import Density
from ergodica.targets.position import run_once
from ergodica.targets.posterior import Posterior

require("numpyro", extra="numpyro", by="ergodica.interop.numpyro")

from ergodica.interop import numpyro_sites as sites  # noqa: E402
from ergodica.interop.numpyro_rows import Split, split  # noqa: E402

RADIUS, STARTS = 2.0, 100  # NumPyro's own: uniform in (-2, 2), tried so many times until all is finite
LOOKED_AT = 16  # rows that the model is tried on
ROUNDING = 1e-3  # of the largest term, in float32 and after sums in another order


def target(model: Callable, *args: Any, rows: Sequence[str] = (), seed: int = 0, **kwargs: Any) -> Posterior | Density:
    """The target of a NumPyro model, called with these arguments.

    With `rows` a step may look at a minibatch: the model is then called on some of the rows, and each observed or
    factor site has to give one log density per row, in the order of the rows; sites without rows count to the prior.
    Plates of the rows may have the size of all data or of the batch, with or without `subsample_size`. Values that
    `obs_mask` leaves open are integrated out, unless something depends on them.

    Args:
        model: a function with NumPyro's primitives, in any handlers (`reparam`, `mask`, `scale`, `condition`, ...).
        args: what it is called with.
        rows: names of arguments that are minibatched along their first axis: NumPy or JAX arrays, memory-mapped ones
            too, or pytrees of them. None of them: a density on all data.
        seed: of the start, uniform in (-2, 2) for each unconstrained number.
        kwargs: what it is called with, by name.

    Returns:
        An `eg.Posterior` of the rows, or an `eg.Density` without. Draws have the latent sites, constrained, and the
        deterministic sites; those that depend on rows are left out of minibatch runs: get them by `run.predict`.

    Example:
        >>> import numpyro
        >>> import numpyro.distributions as dist
        >>> import numpy as np
        >>> from ergodica.interop import numpyro as bridge
        >>> def model(y):
        ...     scale = numpyro.sample("scale", dist.HalfNormal(1.0))
        ...     with numpyro.plate("rows", y.shape[0]):
        ...         numpyro.sample("y", dist.Normal(0.0, scale), obs=y)
        >>> target = bridge.target(model, rows=("y",), y=np.ones(100))
        >>> target.size, list(target.init)
        (100, ['scale'])
    """
    names = (rows,) if isinstance(rows, str) else tuple(rows)
    call, known, data = sites.bind(model, args, kwargs, names)
    size = row_count(data, "rows") if data else 0
    call, found = split(call, known, data, size)
    coordinates = SiteCoordinates(call, sites.some_rows(data, 2), found)
    prior = Prior(coordinates)
    if not data:
        potential = ModelPotential(prior)
        return Density(potential, init=_start(coordinates, potential, seed), transform=coordinates)
    index = np.unique(np.linspace(0, size - 1, LOOKED_AT).astype(int))
    looked_at = jax.tree.map(lambda leaf: np.asarray(leaf[index]), data)
    terms = RowTerms(call, found.axes)
    init = _start(coordinates, ModelPotential(prior, terms, looked_at), seed)
    other = SiteCoordinates(call, sites.some_rows(data, 3), found)
    if size > 1:
        _check_apart(*run_once(_twice, terms, (coordinates, other), looked_at, init))
    return Posterior(prior, terms, data, init=init, transform=coordinates)


class SiteCoordinates(Coordinates):
    """Between the unconstrained values of a model's latent sites and the constrained ones, by NumPyro's bijections.

    Supports may depend on other sites, so that each way is a call of the model.
    """

    call: sites.Call = eqx.field(kw_only=True)
    rows: dict[str, PyTree] = eqx.field(kw_only=True)
    """Some that stand for any: nothing here depends on their values."""
    split: Split = eqx.field(static=True, kw_only=True)

    def __init__(self, call: sites.Call, rows: dict[str, PyTree], split: Split):
        self.call, self.rows, self.split = call, rows, split

    @property
    def has_jacobian(self) -> bool:
        return self.split.has_jacobian

    @property
    def is_drawn_as_sampled(self) -> bool:
        return not self.has_jacobian and not self.split.computed

    def constrained(self, u: PyTree) -> PyTree:
        if not self.has_jacobian:
            return u
        found = sites.constrained(self.call, u, self.rows)
        return {name: found[name]["value"] for name in u}

    def unconstrained(self, x: PyTree) -> PyTree:
        return sites.unconstrained(self.call, x, self.rows) if self.has_jacobian else x

    def log_jacobian(self, u: PyTree) -> Array:
        return sites.log_jacobian(self.call, u, self.rows).astype(tree.common_dtype(u))

    def take_apart(self, position: PyTree) -> PyTree:
        """The latent sites of a draw or a start by name; deterministic ones follow from them."""
        names = self.split.latents
        if not isinstance(position, dict) or not set(names) <= set(position):
            got = list(position) if isinstance(position, dict) else type(position).__name__
            raise InputError(f"the position is {got}: expected a dictionary with the sites {', '.join(names)}")
        unknown = set(position) - set(names) - set(self.split.computed)
        if unknown:
            raise InputError(
                f"the position has {unknown.pop()!r}, which is no latent site: expected {', '.join(names)}"
            )
        return {name: jnp.asarray(position[name]) for name in names}

    def drawn(self, u: PyTree) -> PyTree:
        if self.is_drawn_as_sampled:
            return u
        found = sites.constrained(self.call, u, self.rows)
        return {name: jnp.asarray(found[name]["value"]) for name in (*self.split.latents, *self.split.computed)}

    def undrawn(self, draw: PyTree) -> PyTree:
        return self.unconstrained(self.take_apart(draw))

    def sampled(self, position: PyTree) -> PyTree:
        x = self.take_apart(position)
        if not self.has_jacobian:
            return x
        u, is_inside = run_once(_entered, self, x)
        for name, inside in is_inside.items():
            if not tree.is_traced(inside) and not inside:
                raise InputError(f"{name} = {x[name]} is outside the support of its site: start inside it")
        return u

    def check_domain(self, domain: PyTree, u: PyTree) -> None:
        pass  # a model's target has no walls


def _entered(coordinates: SiteCoordinates, x: dict[str, Array]) -> tuple[dict[str, Array], dict[str, Array]]:
    """u(x), and for each site whether x is inside."""
    found = coordinates.call.sites(x, coordinates.rows)
    is_inside = {name: jnp.all(found[name]["fn"].support(value)) for name, value in x.items()}
    return coordinates.unconstrained(x), is_inside


class Prior(eqx.Module):
    """The log density of all sites without rows, latent and observed, at constrained values."""

    coordinates: SiteCoordinates

    def __call__(self, x: dict[str, Array]) -> Array:
        found = self.coordinates.call.sites(x, self.coordinates.rows)
        return _sum(jnp.sum(sites.log_density(found[name])) for name in self.coordinates.split.shared)


class RowTerms(eqx.Module):
    """The log density of each row of a batch, over all sites that have rows."""

    call: sites.Call
    axes: tuple[tuple[str, int], ...] = eqx.field(static=True)

    def __call__(self, x: dict[str, Array], batch: dict[str, PyTree]) -> Array:
        found = self.call.sites(x, batch)
        return _sum(_by_row(sites.log_density(found[name]), axis) for name, axis in self.axes)


def _sum(parts: Iterable[Array]) -> Array:
    return reduce(jnp.add, parts)


def _by_row(terms: Array, axis: int) -> Array:
    """Summed over all axes but that of the rows."""
    kept = terms.ndim + axis
    return jnp.sum(terms, axis=tuple(other for other in range(terms.ndim) if other != kept))


class ModelPotential(eqx.Module):
    """Minus the log density at constrained values; of some rows, not scaled up, where there are any."""

    prior: Prior
    terms: RowTerms | None = None
    rows: PyTree = None

    def __call__(self, x: dict[str, Array]) -> Array:
        value = -self.prior(x)
        return value if self.terms is None else value - jnp.sum(self.terms(x, self.rows))


def _start(coordinates: SiteCoordinates, potential: ModelPotential, seed: int) -> dict[str, Array]:
    """Constrained values at which potential and gradient are finite."""
    shapes = eqx.filter_eval_shape(_any_unconstrained, coordinates)
    rng = np.random.default_rng(seed)
    for _ in range(STARTS):
        u = {name: jnp.asarray(rng.uniform(-RADIUS, RADIUS, of.shape), of.dtype) for name, of in shapes.items()}
        x, is_finite = run_once(_tried, coordinates, potential, u)
        if is_finite:
            return x
    raise InputError(
        f"none of {STARTS} random starts has a finite potential and gradient: is an observation outside the support of "
        "its distribution?"
    )


def _any_unconstrained(coordinates: SiteCoordinates) -> dict[str, Array]:
    found = coordinates.call.sites(sites.any_start, coordinates.rows)
    x = {name: found[name]["value"] for name in coordinates.split.latents}
    return sites.unconstrained(coordinates.call, x, coordinates.rows)


def _tried(
    coordinates: SiteCoordinates, potential: ModelPotential, u: dict[str, Array]
) -> tuple[dict[str, Array], Array]:
    def value(u: dict[str, Array]) -> Array:
        found = potential(coordinates.constrained(u))
        return found - coordinates.log_jacobian(u) if coordinates.has_jacobian else found

    found = jax.tree.leaves(jax.value_and_grad(value)(u))
    return coordinates.constrained(u), jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in found]))


def _twice(terms: RowTerms, coordinates: Any, rows: PyTree, x: dict[str, Array]) -> list[dict[str, Array]]:
    """What must be the same both times: terms of rows, the second time backwards and without the first row, and the
    prior and what belongs to a draw, on 2 rows and on 3."""
    found: list[dict[str, Array]] = []
    back = jax.tree.map(lambda leaf: leaf[:0:-1], rows)
    for some, by_row in zip(coordinates, (terms(x, rows)[:0:-1], terms(x, back)), strict=True):
        prior = {"log density without rows": Prior(some)(x)}
        found.append({"log density of a row": by_row} | prior | some.drawn(coordinates[0].unconstrained(x)))
    return found


def _check_apart(first: dict[str, Array], second: dict[str, Array]) -> None:
    for name, value in first.items():
        atol = ROUNDING * np.max(np.abs(value), initial=1.0)
        if not np.allclose(value, second[name], rtol=0.0, atol=atol, equal_nan=True):
            raise InputError(
                f"the model's {name} changes with the other rows of a batch or with their number: compute what it uses "
                "of all rows (a mean, a sum, their number) outside the model, and give it as an argument"
            )
