"""What NumPyro does when a model is called: its sites, whole or on a batch of rows, and which of them depend on what.

`ergodica.interop.numpyro` makes targets of it. Here a *site* is a named statement of a model, a *latent* one is sampled
and not observed, and its value x is constrained to the support of its distribution, while u is not.
"""

import inspect
from collections.abc import Callable, Iterator
from functools import reduce
from threading import RLock
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal
from jaxtyping import Array, PyTree
from numpyro import handlers
from numpyro.distributions import constraints
from numpyro.distributions.transforms import biject_to
from numpyro.infer import init_to_uniform
from numpyro.primitives import Messenger

from ergodica.data.source import row_count
from ergodica.errors import InputError
from ergodica.tree import is_array

Sites = dict[str, dict[str, Any]]
ONE_AT_A_TIME = RLock()  # NumPyro has one stack of handlers for all threads, and chains may be traced on theirs


class Call(eqx.Module):
    """A model with the arguments of its call, all but the rows: those come as a dictionary, by their names."""

    model: Callable = eqx.field(static=True)
    arguments: PyTree
    """(args, kwargs), with None for what the rows fill; arrays are arguments of compiled programs."""
    known: "KnownSites | None" = eqx.field(static=True)
    """The same for a model that looks at their values, and so cannot have them as arguments of programs."""
    places: tuple[tuple[str, int | str], ...] = eqx.field(static=True)
    row_plates: tuple[str, ...] = eqx.field(static=True, default=())
    """Those of the size of all data, whatever the batch: they are taken at the length of the batch."""

    def sites(self, substitute: dict[str, Array] | Callable, rows: dict[str, PyTree] | None, key: Any = 0) -> Sites:
        """All sites of one call, with latent values `substitute`: a dictionary, or a function of the site.

        Nothing that is used depends on the key: that is checked where the sites are split.
        """
        args, kwargs = self.arguments if self.known is None else self.known.arguments
        args, kwargs = list(args), dict(kwargs)
        rows = jax.tree.map(jnp.asarray, rows)  # what NumPy has cannot be indexed by what is traced
        for name, place in self.places:
            (kwargs if isinstance(place, str) else args)[place] = rows[name]  # type: ignore[index,call-overload]
        way: Any = {"substitute_fn": substitute} if callable(substitute) else {"data": substitute}
        length = row_count(rows, "batch") if rows else 0
        # seed is innermost, so that it has given a key to those latent sites that a function substitutes
        model = handlers.substitute(handlers.seed(self.model, key), **way)
        with ONE_AT_A_TIME:
            return handlers.trace(WholePlates(model, self.row_plates, length)).get_trace(*args, **kwargs)


class KnownSites:
    """Arguments that are part of a program; two of them are the same only if they are one object."""

    def __init__(self, arguments: PyTree):
        self.arguments = arguments


class WholePlates(Messenger):
    """Takes every plate whole, whatever its subsample_size; those of the rows at the batch's length, and not scaled."""

    def __init__(self, fn: Callable, row_plates: tuple[str, ...], length: int):
        self.row_plates, self.length = row_plates, length
        self.sizes: dict[str, int] = {}
        super().__init__(fn)

    def process_message(self, msg: Any) -> None:
        if msg["type"] == "plate":
            size = self.sizes[msg["name"]] = msg["args"][0]
            length = self.length if msg["name"] in self.row_plates else size
            msg["args"], msg["value"] = (size, length), jnp.arange(length)
        elif msg["type"] == "subsample":
            msg["kwargs"]["event_dim"] = None  # nothing is left to select
        elif msg["type"] == "sample":
            for frame in msg["cond_indep_stack"]:
                size = self.sizes.get(frame.name, frame.size)
                if frame.size != size:  # a plate of the rows, which multiplied by size / length: the target does that
                    msg["scale"] = msg["scale"] * (frame.size / size)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().__call__(*args, **kwargs)
        except InputError:
            raise
        except Exception as error:
            raise ModelError(error, self.sizes) from error


class ModelError(InputError):
    """A model that failed, with the sizes of the plates that it had met."""

    def __init__(self, cause: Exception, sizes: dict[str, int]):
        words = " ".join(str(cause).split())
        super().__init__(f"the model cannot be called ({type(cause).__name__}: {words[:200]})")
        self.sizes = sizes


def bind(
    model: Callable, args: tuple, kwargs: dict[str, Any], rows: tuple[str, ...]
) -> tuple[Call, Call, dict[str, PyTree]]:
    """The call with arrays as arguments of programs, the same with known ones, and the arguments named in `rows`."""
    try:
        signature = inspect.signature(model)
        positional = list(signature.bind(*args, **kwargs).arguments)[: len(args)]
    except TypeError as error:
        raise InputError(f"the model cannot be called with these arguments: {error}") from None
    left, named = list(args), dict(kwargs)
    data, places = {}, []
    for name in rows:
        if name not in named and name not in positional:
            asked = "is no argument of the model" if name not in signature.parameters else "was not given"
            given = ", ".join([*positional, *named]) or "no arguments"
            raise InputError(f"rows names {name!r}, which {asked}: it was given {given}")
        place = name if name in named else positional.index(name)
        holder: Any = named if isinstance(place, str) else left
        data[name], holder[place] = holder[place], None
        places.append((name, place))
    arguments = jax.tree.map(lambda leaf: jnp.asarray(leaf) if is_array(leaf) else leaf, (left, named))
    return (
        Call(model, arguments, None, tuple(places)),
        Call(model, None, KnownSites((left, named)), tuple(places)),
        data,
    )


def log_density(site: dict[str, Any]) -> Array:
    """Of a sample site at its value, by the axes of its batch shape; with its mask and its scale."""
    try:
        found = site["fn"].log_prob(site["value"])
    except Exception as error:
        raise ModelError(error, {frame.name: frame.size for frame in site["cond_indep_stack"]}) from error
    return found if site["scale"] is None else site["scale"] * found


def is_latent(site: dict[str, Any]) -> bool:
    return site["type"] == "sample" and not site["is_observed"]


def is_constrained(site: dict[str, Any]) -> bool:
    support = site["fn"].support
    while isinstance(support, constraints.independent):
        support = support.base_constraint
    return support is not constraints.real


def constrained(call: Call, u: dict[str, Array], rows: dict[str, PyTree] | None) -> Sites:
    """The sites at x(u). A support may depend on values before it, so that the model itself has to be run."""

    def value(site: dict[str, Any]) -> Array | None:
        return biject_to(site["fn"].support)(u[site["name"]]) if site["name"] in u and is_latent(site) else None

    return call.sites(value, rows)


def unconstrained(call: Call, x: dict[str, Array], rows: dict[str, PyTree] | None) -> dict[str, Array]:
    """u(x)."""
    sites = call.sites(x, rows)
    return {name: biject_to(sites[name]["fn"].support).inv(value) for name, value in x.items()}


def log_jacobian(call: Call, u: dict[str, Array], rows: dict[str, PyTree] | None) -> Array:
    """log |det dx/du|: the matrix is triangular in the order of the sites, whatever their supports depend on."""
    sites = constrained(call, u, rows)
    parts = []
    for name, value in u.items():
        bijection = biject_to(sites[name]["fn"].support)
        parts.append(jnp.sum(bijection.log_abs_det_jacobian(value, sites[name]["value"])))
    return reduce(jnp.add, parts)


def any_start(site: dict[str, Any]) -> Any:
    """NumPyro's own start of a latent site, for its shape; none for discrete ones, which are drawn, nor where the model
    has a handler that gives a value."""
    is_free = is_latent(site) and site["value"] is None and not site["fn"].support.is_discrete
    return init_to_uniform(site) if is_free else None


def dependent(function: Callable, first: PyTree, second: PyTree) -> PyTree:
    """function(first, second), with the truth of "depends on a value of `first`" in place of each leaf."""
    closed, shapes = jax.make_jaxpr(function, return_shape=True)(first, second)
    count = len(jax.tree.leaves(first))
    inputs = [number < count for number in range(len(closed.jaxpr.invars))]
    return jax.tree.unflatten(jax.tree.structure(shapes), list(_followed(closed.jaxpr, inputs)))


def _followed(jaxpr: Any, inputs: list[bool]) -> Iterator[bool]:
    """Which outputs depend on the inputs marked; too many where a while loop or a branch is in between."""
    marked = {var for var, mark in zip(jaxpr.invars, inputs, strict=True) if mark}

    def is_marked(var: Any) -> bool:
        return not isinstance(var, Literal) and var in marked

    for equation in jaxpr.eqns:
        marks = [is_marked(var) for var in equation.invars]
        if any(marks):
            outputs = _through(equation, marks)
            marked.update(var for var, mark in zip(equation.outvars, outputs, strict=True) if mark)
    return (is_marked(var) for var in jaxpr.outvars)


def _through(equation: Any, marks: list[bool]) -> list[bool]:
    inner = [getattr(part, "jaxpr", part) for part in equation.params.values() if hasattr(part, "eqns")]
    if len(inner) != 1 or len(inner[0].invars) != len(marks):
        return [True] * len(equation.outvars)
    outputs = list(_followed(inner[0], marks))
    if equation.primitive.name != "scan":
        return outputs
    # what a step carries out is carried into the next
    first, count = equation.params["num_consts"], equation.params["num_carry"]
    carried = [into or out for into, out in zip(marks[first : first + count], outputs[:count], strict=True)]
    again = [*marks[:first], *carried, *marks[first + count :]]
    return outputs if again == marks else _through(equation, again)


def some_rows(data: dict[str, PyTree], length: int) -> dict[str, PyTree]:
    """The first rows, so many, for what depends on their shapes alone; there may be fewer."""
    return jax.tree.map(lambda leaf: np.asarray(leaf[np.arange(length) % len(leaf)]), data)
