"""Networks as positions: their arrays are sampled, and what else they hold is put around these again.

Equinox modules   floating arrays are sampled; functions and Python's numbers stay as they are; arrays of whole numbers
                  or keys are refused
Flax NNX          modules and `nnx.State`: variables of type `nnx.Param` are sampled; others (BatchStat, RngState, ...)
                  stay as they are, so a normalisation uses the statistics it came with, and dropout one mask
Haiku             dictionaries of arrays: a plain tree, without a network here

They may be parts of a plain tree, as {"network": module, "sigma": array}.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, TypeGuard

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from ergodica.errors import InputError
from ergodica.tree import is_array, named_leaves

Shapes = tuple[tuple[str, tuple[int, ...]], ...]
"""The name and shape of each array."""


class Network(eqx.Module):
    """How a tree of arrays and the user's object become each other."""

    @abstractmethod
    def assemble(self, x: PyTree) -> PyTree:
        """The user's object around these arrays; traceable."""

    @abstractmethod
    def take_apart(self, network: PyTree) -> PyTree:
        """The arrays that are sampled, in the structure of the example; InputError if it is another object."""


def network_of(position: PyTree) -> Network | None:
    """How this is put together; None for a plain tree of arrays."""
    nodes, structure = jax.tree_util.tree_flatten_with_path(position, is_leaf=_is_network)
    parts = tuple(_part_of(node, "position" + jax.tree_util.keystr(path)) for path, node in nodes)
    return None if all(part is None for part in parts) else NestedNetworks(parts, structure)


def is_start_function(init: Any) -> TypeGuard[Callable[[Any], PyTree]]:
    """Whether `init` is a function of a key: callable, and no network, which holds floating arrays."""
    if isinstance(init, jax.tree_util.Partial | eqx.Partial):
        return True
    return callable(init) and not _is_nnx(init) and not any(map(_is_floating, jax.tree.leaves(init)))


class NestedNetworks(Network):
    """Networks in a plain tree; one by itself too."""

    parts: tuple[Network | None, ...]
    structure: Any = eqx.field(static=True)

    def assemble(self, x: PyTree) -> PyTree:
        subtrees = self.structure.flatten_up_to(x)
        pairs = zip(self.parts, subtrees, strict=True)
        return jax.tree.unflatten(self.structure, [x if part is None else part.assemble(x) for part, x in pairs])

    def take_apart(self, network: PyTree) -> PyTree:
        try:
            nodes = self.structure.flatten_up_to(network)
        except ValueError as error:
            raise InputError(f"the position is another tree than the target's init: {error}") from None
        pairs = zip(self.parts, nodes, strict=True)
        return jax.tree.unflatten(self.structure, [x if part is None else part.take_apart(x) for part, x in pairs])


class EquinoxNetwork(Network):
    """An Equinox module, or one of its kind: floating arrays, and what is fixed between them."""

    fixed: PyTree
    name: str = eqx.field(static=True)
    structure: Any = eqx.field(static=True)
    shapes: Shapes = eqx.field(static=True)

    @classmethod
    def of(cls, module: eqx.Module, name: str) -> "EquinoxNetwork | None":
        arrays, fixed = _partitioned(module, name)
        if not jax.tree.leaves(fixed):  # a plain tree, whatever its nodes are called
            return None
        return cls(fixed, name, jax.tree.structure(arrays), _shapes(arrays, name))

    def assemble(self, x: PyTree) -> PyTree:
        return eqx.combine(x, self.fixed)

    def take_apart(self, network: PyTree) -> PyTree:
        _check_same(_shapes(eqx.filter(network, _is_floating), self.name), self.shapes)
        arrays, _ = _partitioned(network, self.name)
        # the example's own structure: that of another object may differ in functions it holds
        return jax.tree.unflatten(self.structure, jax.tree.leaves(arrays))


def _partitioned(module: PyTree, root: str) -> tuple[PyTree, PyTree]:
    for name, leaf in named_leaves(module, root):
        if is_array(leaf) and not _is_floating(leaf):
            raise InputError(
                f"{name} is an array of {leaf.dtype} in a network, which cannot be sampled: keep such parts out of the "
                "position (eqx.partition(network, eqx.is_inexact_array)), or make the field static"
            )
    return eqx.partition(module, _is_floating)


class NnxNetwork(Network):
    """A Flax NNX module or `nnx.State`: variables of type Param, and all else as it was."""

    name: str = eqx.field(static=True)
    graph: Any = eqx.field(static=True)
    """How a module is put together; None of a state."""
    state: Any = eqx.field(static=True)
    """The structure of the sampled variables."""
    shapes: Shapes = eqx.field(static=True)
    fixed: PyTree
    """Arrays of the other variables."""
    fixed_state: Any = eqx.field(static=True)

    @classmethod
    def of(cls, network: Any, name: str) -> "NnxNetwork":
        graph, sampled, fixed = _split(network)
        leaves, structure = jax.tree.flatten(fixed)
        return cls(name, graph, jax.tree.structure(sampled), _shapes(_pure(sampled), name), leaves, structure)

    def assemble(self, x: PyTree) -> PyTree:
        from flax import nnx

        sampled = jax.tree.unflatten(self.state, jax.tree.leaves(x))
        fixed = jax.tree.unflatten(self.fixed_state, self.fixed)
        return nnx.merge_state(sampled, fixed) if self.graph is None else nnx.merge(self.graph, sampled, fixed)

    def take_apart(self, network: PyTree) -> PyTree:
        x = _pure(_split(network)[1]) if _is_nnx(network) else network
        _check_same(_shapes(x, self.name), self.shapes)
        return x


def _split(network: Any) -> tuple[Any, Any, Any]:
    """How a module is put together (None of a state), the variables that are sampled, and the others."""
    from flax import nnx

    if isinstance(network, nnx.State):
        sampled, others = nnx.split_state(network, nnx.Param, ...)
        return None, sampled, others
    graph, sampled, others = nnx.split(network, nnx.Param, ...)
    return graph, sampled, others


def _pure(state: Any) -> PyTree:
    """The arrays by name, without Flax's variables around them."""
    from flax import nnx

    return nnx.to_pure_dict(state)


# -- kinds and shapes ---------------------------------------------------------------------------------


def _is_network(node: Any) -> bool:
    return isinstance(node, eqx.Module) or _is_nnx(node)


def _is_nnx(node: Any) -> bool:
    """By the names of its classes: Flax is not loaded by those who do not use it."""
    return any(kind.__module__.startswith("flax.nnx") for kind in type(node).__mro__)


def _part_of(node: Any, name: str) -> Network | None:
    if _is_nnx(node):
        return NnxNetwork.of(node, name)
    return EquinoxNetwork.of(node, name) if isinstance(node, eqx.Module) else None


def _is_floating(leaf: Any) -> bool:
    return is_array(leaf) and jnp.issubdtype(leaf.dtype, np.floating)


def _shapes(arrays: PyTree, root: str) -> Shapes:
    return tuple((name, tuple(np.shape(leaf))) for name, leaf in named_leaves(arrays, root))


def _check_same(got: Shapes, expected: Shapes) -> None:
    if got == expected:
        return
    known = dict(expected)
    for name, shape in got:
        if name not in known:
            raise InputError(f"{name} is not in the target's init: give a network of the same layers")
        if shape != known[name]:
            raise InputError(f"{name} has shape {shape}, but in the target's init it is {known[name]}")
    raise InputError(f"{next(name for name in known if name not in dict(got))} is missing: it is in the target's init")
