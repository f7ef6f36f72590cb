"""Random recipes: the library's own as `build` makes them, and the same H, D and Q as dense NumPy for the oracle."""

from typing import Any

import jax
import numpy as np
from hypothesis import strategies as st
from jax.flatten_util import ravel_pytree

from ergodica_paper.random_recipes import (
    RecipePlan,
    build,
    curl_block,
    diffusion_block,
    draw_numbers,
    draw_plan,
    energy,
    potential,
)

__all__ = [
    "RecipePlan",
    "build",
    "dense_curl",
    "dense_diffusion",
    "dense_hamiltonian",
    "draw_numbers",
    "plans",
    "ravel",
]


def plans() -> st.SearchStrategy[RecipePlan]:
    return st.integers(0, 10**6).map(draw_plan)


def dense_hamiltonian(plan: RecipePlan, numbers: dict[str, Any], z: np.ndarray) -> float:
    return potential(numbers, plan, z, np) + sum(energy(numbers, plan, s, z, np) for s in list(plan.sizes)[1:])


def dense_diffusion(plan: RecipePlan, numbers: dict[str, Any], z: np.ndarray) -> np.ndarray:
    matrix = np.zeros((plan.dim, plan.dim))
    for slot, kind in plan.diffusion:
        block = diffusion_block(numbers, plan, slot, kind, z, np)
        matrix[plan.spans[slot], plan.spans[slot]] = block if kind == "dense" else block * np.eye(plan.sizes[slot])
    return matrix


def dense_curl(plan: RecipePlan, numbers: dict[str, Any], z: np.ndarray) -> np.ndarray:
    matrix = np.zeros((plan.dim, plan.dim))
    for (row, col), _ in plan.curl:
        block = curl_block(numbers, (row, col), z, np)
        matrix[plan.spans[row], plan.spans[col]] = block
        if row != col:
            matrix[plan.spans[col], plan.spans[row]] = -block.T
    return matrix


def ravel(phase: Any) -> jax.Array:
    return ravel_pytree(tuple(phase))[0]
