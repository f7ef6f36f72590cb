"""Gradients of the potential on all data at some of the draws, for what only the target can tell."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from ergodica.compiling import sound_filter_jit
from ergodica.diagnostics.stein import MOST
from ergodica.errors import InputError
from ergodica.output.labelled import named, unnamed

NUMBERS = 4_000_000_000  # rows times numbers of the position times draws: about ten seconds
FEWEST = 100


def gradients_at_draws(posterior: Mapping[str, Any], target: Any, good: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions and gradients, (chain, draw, d), at draws spread evenly over the `good` chains."""
    example = _example(posterior, target)
    chains, draws = int(good.sum()), next(iter(posterior.values())).shape[1]
    size = sum(leaf.size for leaf in jax.tree.leaves(example))
    most = int(np.clip(NUMBERS // max(1, size * (target.size or 1)), FEWEST, MOST))
    at = np.unique(np.linspace(0, draws - 1, min(draws, max(1, most // chains))).astype(int))
    leaves = [
        np.asarray(np.asarray(posterior[name])[good][:, at]).reshape(chains * at.size, *leaf.shape)
        for name, leaf in named(example).items()
    ]
    positions = jax.tree.unflatten(jax.tree.structure(example), leaves)
    if getattr(target, "source", None) is not None:  # streams its rows, which cannot be traced
        each = [
            target.evaluate(jax.tree.map(lambda leaf, i=i: jnp.asarray(leaf[i]), positions))[1]
            for i in range(len(leaves[0]))
        ]
        gradients = jax.tree.map(lambda *parts: np.stack(parts), *each)
    else:
        gradients = _gradients(target, jax.tree.map(jnp.asarray, positions))
    return _flat(positions, chains), _flat(gradients, chains)


@sound_filter_jit
def _gradients(target: Any, positions: PyTree) -> PyTree:
    return jax.lax.map(lambda position: target.evaluate(position)[1], positions)


def _flat(tree: PyTree, chains: int) -> np.ndarray:
    leaves = [np.asarray(leaf, np.float64).reshape(len(leaf), -1) for leaf in jax.tree.leaves(tree)]
    return np.concatenate(leaves, axis=1).reshape(chains, len(leaves[0]) // chains, -1)


def _example(posterior: Mapping[str, Any], target: Any) -> PyTree:
    """One position as the target wants it, after a look at whether the draws are such positions."""
    got = {name: tuple(x.shape[2:]) for name, x in posterior.items()}
    if target.init is None:
        return unnamed({name: np.empty(shape) for name, shape in got.items()})
    expected = {name: tuple(np.shape(leaf)) for name, leaf in named(target.init).items()}
    if got != expected:
        raise InputError(
            f"the draws are {got}, but positions of this target are {expected}: give the target of this run"
        )
    return target.init
