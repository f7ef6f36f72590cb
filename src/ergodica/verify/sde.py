"""A sampler as a stochastic differential equation on flat vectors: what every certificate looks at.

dz = f(z) dt + sqrt(2 T D(z)) dW,  claimed to leave exp(-H/T) invariant
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ergodica.phase import Evaluation
from ergodica.recipe import Recipe
from ergodica.tree import Layout

# A certificate's functions are compiled once and run once, so optimising the code costs more than it saves.
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


def quick_jit(function: Callable) -> Callable:
    """jax.jit for what runs once: it compiles in a half to a fifth of the time."""
    return jax.jit(function, compiler_options=QUICK)


@dataclass(frozen=True)
class Sde:
    """f, D, H as functions of one flat vector. D is given by what it does, so that no d x d matrix is needed.

    Args:
        drift: f(z). `key`: for a recipe above fields.EXACT_LIMIT numbers, whose correction takes a random probe.
        diffuse: (z, v) -> D(z) v.
        spread: z -> div D, (div D)_i = sum_j d/dz_j D_ij(z); with a key an unbiased probe of it, one derivative.
        hamiltonian: H(z).
        slots: how many numbers each slot of the phase has; one slot for a hand-written SDE.
        names: of the coordinates, for words.
    """

    dim: int
    drift: Callable[..., Array]
    diffuse: Callable[[Array, Array], Array]
    spread: Callable[..., Array]
    hamiltonian: Callable[[Array], Array]
    temperature: float
    slots: tuple[int, ...]
    names: tuple[str, ...] = ()

    def diffusion(self, z: Array) -> Array:
        """D(z) as a matrix."""
        return jax.vmap(lambda e: self.diffuse(z, e), out_axes=1)(jnp.eye(self.dim, dtype=z.dtype))

    def current(self, z: Array, key: Array | None = None) -> Array:
        """c = f + D grad H - T div D: the probability current over p = exp(-H/T).

        J = f p - T div(D p) = c p. Theorem 1 is c = -Q grad H + T div Q with a skew Q.
        """
        return jnp.sum(self.parts(z, key), axis=0)

    def parts(self, z: Array, key: Array | None = None) -> Array:
        """The three terms of the current, (3, dim): they cancel where there is no curl."""
        slope = jax.grad(self.hamiltonian)(z)
        return jnp.stack([self.drift(z, key), self.diffuse(z, slope), -self.temperature * self.spread(z, key)])

    def name(self, i: int) -> str:
        return self.names[i] if self.names else f"z[{i}]"


def from_functions(
    drift: Callable, diffusion: Callable, hamiltonian: Callable, dim: int, temperature: float = 1.0
) -> Sde:
    """The SDE of hand-written functions of one vector; D(z) is a matrix."""
    return Sde(
        dim,
        drift=lambda z, key=None: drift(z),
        diffuse=lambda z, v: diffusion(z) @ v,
        spread=lambda z, key=None: jnp.einsum("ijj->i", jax.jacfwd(diffusion)(z)),
        hamiltonian=hamiltonian,
        temperature=temperature,
        slots=(dim,),
    )


def from_recipe(recipe: Recipe, target: Any, phase: Any, temperature: float = 1.0) -> Sde:
    """The SDE of a recipe, on phases like `phase` made flat."""
    layout = Layout.of(phase)

    def drift(z, key=None):
        at = layout.unravel(z)
        potential, gradient = target.evaluate(at.position, None)
        moves = recipe.moves(at, (Evaluation(gradient, potential, gradient),), temperature, 1.0, key)
        return layout.ravel(_filled(at, moves))

    def diffuse(z, v):
        operators = recipe.diffusion_at(recipe.point_at(target, layout.unravel(z), temperature))
        vectors = layout.unravel(v)._asdict()
        applied = {slot: operator.apply(vectors[slot]) for slot, operator in operators.items()}
        return layout.ravel(jax.tree.map(jnp.zeros_like, layout.unravel(v))._replace(**applied))

    def spread(z, key=None):
        # From D alone, not by the fields' own divergence: a Gamma that is wrong in the drift must not cancel here.
        def along(v):
            return jax.jvp(lambda point: diffuse(point, v), (z,), (v,))[1]

        if key is None:
            return jnp.sum(jax.vmap(along)(jnp.eye(layout.size, dtype=z.dtype)), axis=0)
        return along(jax.random.rademacher(jax.random.fold_in(key, 1), z.shape, z.dtype))

    return Sde(
        layout.size,
        drift,
        diffuse,
        spread,
        hamiltonian=lambda z: recipe.hamiltonian(target, layout.unravel(z), temperature=temperature),
        temperature=temperature,
        slots=tuple(Layout.of(slot).size for slot in phase),
        names=coordinate_names(phase),
    )


def _filled(phase: Any, slots: dict[str, Any]) -> Any:
    """Combinations by slot as a phase, zero elsewhere."""
    return jax.tree.map(jnp.zeros_like, phase)._replace(**{slot: value.value() for slot, value in slots.items()})


def coordinate_names(phase: Any, limit: int = 1000) -> tuple[str, ...]:
    """position[0], momentum['w'][1, 2], ...: the coordinates of the flat phase by the names that users gave."""
    names: list[str] = []
    for path, leaf in jax.tree_util.tree_leaves_with_path(phase):
        stem = jax.tree_util.keystr(path).removeprefix(".")
        if leaf.size + len(names) > limit:
            return ()
        indices = np.ndindex(leaf.shape) if leaf.shape else [()]
        names += [stem + (f"[{', '.join(str(i) for i in index)}]" if index else "") for index in indices]
    return tuple(names)
