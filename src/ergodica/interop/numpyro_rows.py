"""How a NumPyro model splits into a prior and one term per row: found by calling it on batches of two lengths.

Nothing is computed for it: an axis that is as long as the batch both times is that of the rows, and what depends on
values of the rows is read off the traced program.
"""

from itertools import combinations
from numbers import Real
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ergodica.errors import InputError
from ergodica.interop.numpyro_sites import (
    Call,
    ModelError,
    any_start,
    constrained,
    dependent,
    is_constrained,
    is_latent,
    log_density,
    some_rows,
    unconstrained,
)
from ergodica.tree import is_array

LENGTHS = (5, 7, 11)  # of batches: two that are not the number of all rows
TRIES = 16  # sets of plates that may be those of the rows


class Split(NamedTuple):
    """What each site of a model is; hashable, so that it can be a static field."""

    latents: tuple[str, ...]
    shared: tuple[str, ...]
    """Sample sites whose log densities make the prior, latent or observed."""
    axes: tuple[tuple[str, int], ...]
    """Sample sites with one term per row, and the axis of the rows in their log densities."""
    computed: tuple[str, ...]
    """Deterministic sites that belong to a draw: they depend on no row."""
    has_jacobian: bool


class RowKind(NamedTuple):
    """What is known of a site without its numbers."""

    type: str
    is_latent: bool = False
    is_discrete: bool = False
    is_constrained: bool = False
    size: int = 0
    """Of a plate."""

    @staticmethod
    def of(site: dict[str, Any]) -> "RowKind":
        if site["type"] == "plate":
            return RowKind("plate", size=site["args"][0])
        if site["type"] == "param" and not any(map(_is_number, jax.tree.leaves(site["value"]))):
            return RowKind("none")  # the shapes of a random module, whose weights are sites of their own
        if not is_latent(site):
            return RowKind(site["type"])
        discrete = site["fn"].support.is_discrete
        return RowKind("sample", True, discrete, not discrete and is_constrained(site))


def _is_number(leaf: Any) -> bool:
    return is_array(leaf) or isinstance(leaf, Real)


class Outline(NamedTuple):
    """The sites of a model on a batch of some length, by shapes."""

    kinds: dict[str, RowKind]
    latents: dict[str, jax.ShapeDtypeStruct]
    densities: dict[str, jax.ShapeDtypeStruct]
    computed: dict[str, PyTree]


def split(call: Call, known: Call, data: dict[str, PyTree], size: int) -> tuple[Call, Split]:
    """The call with its arguments and plates as they have to be, and what its sites are.

    A model may look at values of its arguments, as in `int(group.max())`: it then has to have `known` ones.
    """
    try:
        return _with_plates(call, data, size)
    except ModelError:
        pass
    try:
        return _with_plates(known, data, size)
    except ModelError as error:
        if not data:
            raise
        raise InputError(f"on some of its rows {error}{_odd_plates(error.sizes, data, size)}") from error


def _with_plates(call: Call, data: dict[str, PyTree], size: int) -> tuple[Call, Split]:
    """A plate with as many places as there are rows is theirs, or happens to be as long: the fewest that fit are."""
    plates: dict[str, int] = {}
    tried: list[tuple[str, ...]] = []
    refused: list[Exception] = []
    while (chosen := _untried(plates, size, tried)) is not None:
        tried.append(chosen)
        attempt = Call(call.model, call.arguments, call.known, call.places, chosen)
        try:
            return attempt, _split(attempt, data, size, plates)
        except ModelError as error:
            plates.update(error.sizes)
            refused.append(error)
        except InputError as error:
            refused.append(error)
    raise next((error for error in reversed(refused) if not isinstance(error, ModelError)), refused[-1])


def _untried(plates: dict[str, int], size: int, tried: list[tuple[str, ...]]) -> tuple[str, ...] | None:
    names = [name for name, length in plates.items() if length == size]
    sets = (chosen for count in range(len(names) + 1) for chosen in combinations(names, count))
    return next((chosen for chosen in sets if chosen not in tried), None) if len(tried) < TRIES else None


def _odd_plates(plates: dict[str, int], data: dict[str, PyTree], size: int) -> str:
    odd = [f"plate {name!r} has size {length}" for name, length in plates.items() if length not in (size, *LENGTHS)]
    advice = f"the plate of the {size} rows has their number, as in numpyro.plate(name, {next(iter(data))}.shape[0])"
    return "; ".join(["", *odd, advice]) if odd else ""


def _split(call: Call, data: dict[str, PyTree], size: int, plates: dict[str, int]) -> Split:
    first, second = [length for length in LENGTHS if length != size][:2] if data else (0, 0)
    rows = some_rows(data, first)
    one = _outline(call, rows)
    plates.update({name: kind.size for name, kind in one.kinds.items() if kind.type == "plate"})
    other = _outline(call, some_rows(data, second)) if data else one
    x = one.latents
    by_rows = dependent(lambda rows, x: _read(call.sites(x, rows)), rows, x)
    by_key = dependent(lambda key, x: _read(call.sites(x, rows, key)), jax.random.key(0), x)
    by_imputed = {
        name: dependent(lambda moved, x: _read(call.sites(x | moved, rows)), {name: x[name]}, x)
        for name in _imputable(one.kinds)
    }
    # nothing but itself depends on it, so its integral is 1, and it is left out
    by_imputed = {name: by for name, by in by_imputed.items() if sum(by[0].values()) <= by[0][name]}
    latents = _latents(one, other, [name for name in one.latents if name not in by_imputed])
    _check_supports(call, {name: x[name] for name in latents}, rows)
    if any(by_key[0].values()):
        site = next(name for name, is_random in by_key[0].items() if is_random)
        raise InputError(
            f"site {site!r} depends on random numbers that are no latent site (drawn with a key, or hidden by "
            "handlers.block): draw them before, and give them as an argument"
        )
    axes = {
        name: _row_axis(name, (one.densities[name].shape, other.densities[name].shape), (first, second), by_rows[0])
        for name in one.densities
        if name not in by_imputed
    }
    if data and all(axis is None for axis in axes.values()):
        raise InputError(
            f"no site of the model has a term for each row of {', '.join(data)}: expected an observed site in a "
            "plate of the rows; leave rows out to use all data in every step"
        )
    left_out = [by[1] for by in (by_rows, by_key, *by_imputed.values())]
    return Split(
        latents=latents,
        shared=tuple(name for name, axis in axes.items() if axis is None),
        axes=tuple((name, axis) for name, axis in axes.items() if axis is not None),
        computed=tuple(
            name
            for name, value in one.computed.items()
            if value.shape == other.computed[name].shape and not any(names[name] for names in left_out)
        ),
        has_jacobian=any(one.kinds[name].is_constrained for name in latents),
    )


def _outline(call: Call, rows: dict[str, PyTree]) -> Outline:
    kinds: dict[str, RowKind] = {}

    def shapes(arguments: PyTree, rows: dict[str, PyTree]) -> Any:
        sites = Call(call.model, arguments, call.known, call.places, call.row_plates).sites(any_start, rows)
        kinds.update({name: RowKind.of(site) for name, site in sites.items()})
        return {name: site["value"] for name, site in sites.items() if is_latent(site)}, *_read(sites)

    return Outline(kinds, *eqx.filter_eval_shape(shapes, call.arguments, rows))


def _read(sites: dict[str, Any]) -> tuple[dict[str, Array], dict[str, Array]]:
    """Log densities of sample sites, and values of deterministic ones."""
    densities = {name: log_density(site) for name, site in sites.items() if site["type"] == "sample"}
    computed = {name: site["value"] for name, site in sites.items() if site["type"] == "deterministic"}
    return densities, jax.tree.map(jnp.asarray, computed)


def _imputable(kinds: dict[str, RowKind]) -> list[str]:
    """What `obs_mask` leaves open: NumPyro makes a latent site of it, with no density where there are observations."""
    ends = "_unobserved", "_observed"
    return [
        name
        for name, kind in kinds.items()
        if kind.is_latent and name.endswith(ends[0]) and name.removesuffix(ends[0]) + ends[1] in kinds
    ]


def _latents(one: Outline, other: Outline, names: list[str]) -> tuple[str, ...]:
    for name, kind in one.kinds.items():
        if kind.type == "param":
            raise InputError(
                f"site {name!r} is a numpyro.param, which has no prior and is not sampled: use numpyro.sample, "
                "numpyro.handlers.lift, or random_flax_module for the weights of a network"
            )
        if name in names and kind.is_discrete:
            raise InputError(
                f"site {name!r} is discrete, and there is no gradient along it: sum it out of the model "
                "(dist.MixtureSameFamily, or a logsumexp in numpyro.factor)"
            )
        if name in names and one.latents[name].shape != other.latents[name].shape:
            raise InputError(
                f"site {name!r} is a latent variable of each row (shape {one.latents[name].shape} on a batch of them), "
                "and a minibatch says nothing of the others: use all data (leave rows out), or integrate it out of "
                "the model"
            )
    if not names:
        raise InputError("the model has no latent site: there is nothing to sample")
    return tuple(names)


def _check_supports(call: Call, x: dict[str, Any], rows: dict[str, PyTree]) -> None:
    u = jax.eval_shape(lambda x, rows: unconstrained(call, x, rows), x, rows)
    found = dependent(lambda rows, u: {name: constrained(call, u, rows)[name]["value"] for name in u}, rows, u)
    for name, is_moved in found.items():
        if is_moved:
            raise InputError(f"the support of site {name!r} depends on the rows, and would change with the minibatch")


def _row_axis(
    name: str, shapes: tuple[tuple[int, ...], ...], lengths: tuple[int, int], by_rows: dict[str, bool]
) -> int | None:
    """The axis of the rows in a log density of these shapes, counted from the end; None for a site without rows."""
    one, other = shapes
    changed = [axis - len(one) for axis in range(len(one)) if len(one) != len(other) or one[axis] != other[axis]]
    if len(changed) == 1 and (one[changed[0]], other[changed[0]]) == lengths:
        return changed[0]
    if changed or by_rows[name]:
        raise InputError(
            f"site {name!r} depends on the rows, but its log density has shape {one} for {lengths[0]} rows, expected "
            "one axis as long: put it into the plate of the rows, with a term of its own for each (no .to_event, no "
            "sum over them), or leave rows out"
        )
    return None
