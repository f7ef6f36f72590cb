"""Between the numbers that chains move and what the user's functions see: transforms of leaves, networks put together.

u   what is sampled: a pytree of floating arrays without constraints; phases hold it
x   the same leaf by leaf, constrained: x = transform(u); draws are x
and the object that users gave and their functions get: x itself, or a network around it (targets/networks.py).
"""

from collections.abc import Iterator
from numbers import Real
from typing import TYPE_CHECKING, Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ergodica import tree
from ergodica.errors import InputError
from ergodica.host.validate import kind_of
from ergodica.targets.domain import leaf_boxes
from ergodica.targets.networks import Network, network_of
from ergodica.targets.position import check_arrays, check_position
from ergodica.transforms import Transform

if TYPE_CHECKING:
    from ergodica.targets.base import Target

AnyTarget = TypeVar("AnyTarget", bound="Target")


class Coordinates(eqx.Module):
    """What lies between the tree that is sampled and what the user's functions see.

    Args:
        network: how arrays are put together to the user's object; None: the tree of arrays is the object.
        transform: a pytree prefix of the position, made of `eg.transforms` and None.

    Example:
        >>> import ergodica as eg
        >>> import jax.numpy as jnp
        >>> coordinates = Coordinates(transform={"sigma": eg.transforms.log})
        >>> float(coordinates.unconstrained({"sigma": jnp.asarray(1.0)})["sigma"])
        0.0
    """

    network: Network | None = None
    transform: PyTree = None

    @classmethod
    def of(cls, example: PyTree, transform: "PyTree | Coordinates" = None) -> "Coordinates | None":
        """Those of a position like `example`; None where users see what is sampled."""
        if isinstance(transform, Coordinates):
            return transform
        network = None if example is None else network_of(example)
        _check_kinds(transform)
        return cls(network, transform) if network is not None or _has_transform(transform) else None

    @property
    def has_jacobian(self) -> bool:
        """Whether some leaf is transformed."""
        return _has_transform(self.transform)

    def constrained(self, u: PyTree) -> PyTree:
        if not self.has_jacobian:
            return u
        leaves = [leaf if t is None else t.forward(leaf) for t, leaf in self._pairs(u)]
        return jax.tree.unflatten(jax.tree.structure(u), leaves)

    def unconstrained(self, x: PyTree) -> PyTree:
        if not self.has_jacobian:
            return x
        leaves = [leaf if t is None else t.inverse(jnp.asarray(leaf)) for t, leaf in self._pairs(x)]
        return jax.tree.unflatten(jax.tree.structure(x), leaves)

    def log_jacobian(self, u: PyTree) -> Array:
        """log |det dx/du|, in the widest dtype of u."""
        dtype = tree.common_dtype(u)
        parts = [t.log_jacobian(leaf).astype(dtype) for t, leaf in self._pairs(u) if t is not None]
        return sum(parts, start=jnp.zeros((), dtype))

    def assemble(self, x: PyTree) -> PyTree:
        """The user's object around these arrays."""
        return x if self.network is None else self.network.assemble(x)

    def take_apart(self, position: PyTree) -> PyTree:
        """The arrays of the user's object; InputError for what cannot be sampled."""
        return position if self.network is None else self.network.take_apart(position)

    def drawn(self, u: PyTree) -> PyTree:
        """What `keep="draws"` stores of u."""
        return self.constrained(u)

    def undrawn(self, draw: PyTree) -> PyTree:
        """u of what `drawn` gave."""
        return self.unconstrained(draw)

    @property
    def is_drawn_as_sampled(self) -> bool:
        """Whether `drawn` is the identity."""
        return not self.has_jacobian

    # -- both ways at once ----------------------------------------------------------------------------

    def seen(self, u: PyTree) -> PyTree:
        """What the user's functions get."""
        return self.assemble(self.constrained(u))

    def sampled(self, position: PyTree) -> PyTree:
        """u of what the user gave, after a look at whether it is in the image of the transforms."""
        x = self.take_apart(position)
        if self.has_jacobian:
            self.check(x)
        return self.unconstrained(x)

    def check(self, x: PyTree) -> None:
        """Raise InputError for a leaf that is no value of its transform; without values say nothing."""
        check_arrays(x)
        names = [name for name, _ in tree.named_leaves(x, "position")]
        for name, (transform, leaf) in zip(names, self._pairs(x), strict=True):
            found = None if transform is None or tree.is_traced(leaf) else transform.outside(np.asarray(leaf))
            if found is not None:
                index, words = found
                value = np.asarray(leaf)[index]
                number = f" = {value}" if value.size <= 8 else ""
                raise InputError(f"{tree.entry(name, index)}{number} {words}: give a start that its transform can have")

    def check_domain(self, domain: PyTree, u: PyTree) -> None:
        """Refuse a leaf with both walls and a transform."""
        if domain is None or not self.has_jacobian:
            return
        names = [name for name, _ in tree.named_leaves(u, "position")]
        for name, box, (transform, _) in zip(names, leaf_boxes(domain, u), self._pairs(u), strict=True):
            if box is not None and transform is not None:
                raise InputError(
                    f"{name} has a domain and a transform: a transform leaves no walls to reflect at; give one of them"
                )

    def _pairs(self, position: PyTree) -> Iterator[tuple[Transform | None, Any]]:
        places = leaf_transforms(self.transform, position)
        return zip(places, jax.tree.leaves(position), strict=True)


def _is_place(node: Any) -> bool:
    return node is None or isinstance(node, Transform)


def _has_transform(transform: PyTree) -> bool:
    return any(isinstance(node, Transform) for node in jax.tree.leaves(transform, is_leaf=_is_place))


def _check_kinds(transform: PyTree) -> None:
    for place in jax.tree.leaves(transform, is_leaf=_is_place):
        if not _is_place(place):
            raise InputError(
                f"transform holds {kind_of(place)}: expected one of eg.transforms, as eg.transforms.log, None for a "
                "part that is not transformed, or a pytree of them"
            )


def leaf_transforms(transform: PyTree, position: PyTree) -> list[Transform | None]:
    """Of each leaf of the position. One transform holds for all leaves below its place; a dictionary may leave out keys
    whose leaves are not transformed."""
    places, structure = jax.tree.flatten(_filled(transform, position), is_leaf=_is_place)
    try:
        subtrees = structure.flatten_up_to(position)
    except ValueError as error:
        raise InputError(
            f"transform does not match the position: transform is {transform}, position is "
            f"{jax.tree.structure(position)} ({error}); give one for all, or the same keys with None where a part is "
            "not transformed"
        ) from None
    return [place for place, part in zip(places, subtrees, strict=True) for _ in jax.tree.leaves(part)]


def _filled(transform: PyTree, position: PyTree) -> PyTree:
    if type(transform) is not dict or type(position) is not dict:
        return transform
    unknown = [key for key in transform if key not in position]
    if unknown:
        raise InputError(f"transform has {unknown[0]!r}, which the position has not: its keys are {list(position)}")
    return {key: _filled(transform.get(key), value) for key, value in position.items()}


# -- what targets do with them ------------------------------------------------------------------------


def begin(init: PyTree, domain: PyTree, transform: PyTree, truth: Any = None) -> tuple[PyTree, Coordinates | None]:
    """The `init` of a target as it is sampled, and its coordinates; InputError where sampling cannot start there."""
    coordinates = Coordinates.of(init, transform)
    if truth is not None and coordinates is not None:
        raise InputError("truth is of what is sampled, and transform= or a network lies between: leave truth out")
    if init is None:
        return None, coordinates
    u = init if coordinates is None else coordinates.sampled(init)
    if coordinates is not None:
        coordinates.check_domain(domain, u)
    check_position(u, None, domain)
    return u, coordinates


def seen(coordinates: Coordinates | None, u: PyTree) -> PyTree:
    """What the user's functions get at u, as JAX's arrays."""
    u = jax.tree.map(jnp.asarray, u)
    return u if coordinates is None else coordinates.seen(u)


def sampled(target: "Target", position: PyTree) -> PyTree:
    """u of a position that the user gave."""
    return position if target.coordinates is None else target.coordinates.sampled(position)


def check_start(target: "Target", u: PyTree) -> None:
    """Raise InputError unless u can be sampled (`check_position`), with walls or a transform on each leaf, not both."""
    if target.coordinates is not None:
        target.coordinates.check_domain(target.domain, u)
    check_position(u, target.init, target.domain)


def jacobian_share(coordinates: Coordinates | None, temperature: Any, u: PyTree) -> Array | None:
    """T log|J(u)|, to be taken from the potential; None where there is no Jacobian."""
    if coordinates is None or not coordinates.has_jacobian:
        return None
    value = coordinates.log_jacobian(jax.tree.map(jnp.asarray, u))
    return jnp.asarray(temperature, value.dtype) * value


def at_temperature(target: AnyTarget, temperature: Any) -> AnyTarget:
    """The target with T for its -T log|J|; itself where there is no Jacobian."""
    if target.coordinates is None or not target.coordinates.has_jacobian:
        return target
    if isinstance(temperature, Real):  # an array, so that what is compiled serves every temperature; NumPy's is exact
        temperature = np.asarray(float(temperature))
    return eqx.tree_at(lambda t: t.temperature, target, temperature)


def begun_at(target: AnyTarget, position: PyTree) -> AnyTarget:
    """The target with the coordinates of a start, where it has no `init` of its own to have them from."""
    known = target.coordinates
    if target.init is not None or position is None or not (known is None or type(known) is Coordinates):
        return target  # also where a bridge has coordinates of its own kind
    transform = None if known is None else known.transform
    return in_coordinates(target, Coordinates.of(position, transform))


def in_coordinates(target: AnyTarget, coordinates: Coordinates | None) -> AnyTarget:
    return eqx.tree_at(lambda t: t.coordinates, target, coordinates, is_leaf=lambda node: node is None)
