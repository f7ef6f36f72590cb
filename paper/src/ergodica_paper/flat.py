"""A recipe on flat vectors of float64: as an SDE, and its D and Q as matrices at drawn phases."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ergodica.compiling import quick_filter_jit
from ergodica.recipe import Recipe
from ergodica.targets import Target
from ergodica.tree import Layout
from ergodica.verify.sde import RecipeSde, from_recipe, widened

# What certificates of flat SDEs are judged and drawn by, in every item that shows them.
RESIDUAL = "Fokker-Planck residual"  # the name of the check
FLOOR = 1e-18  # a residual of exactly zero is drawn here, on a logarithmic axis


class Matrices(NamedTuple):
    """D and Q at some phases (n, dim), each (n, dim, dim), and the span of each slot in them."""

    phases: np.ndarray
    diffusion: np.ndarray
    curl: np.ndarray
    spans: dict[str, slice]


def flat_sde(recipe: Recipe, target: Target) -> RecipeSde:
    """drift, diffusion and hamiltonian as functions of one vector, for `eg.certify_sde` and `eg.rebuild_curl`."""
    with jax.enable_x64(True):
        recipe, target = widened((recipe, target))
        return from_recipe(recipe, target, phase_like(recipe, target))


def phase_like(recipe: Recipe, target: Target) -> Any:
    """A phase of zeros in float64, of the shapes of this recipe on this target. Needs x64 mode."""
    start = jnp.asarray(target.init, jnp.float64)
    shapes = jax.eval_shape(lambda: recipe.draw_auxiliaries(start, jax.random.key(0), 1.0))
    return jax.tree.map(lambda leaf: np.zeros(leaf.shape), shapes)


def start_of(recipe: Recipe, target: Target) -> np.ndarray:
    """A flat phase where the law lives: the target's `init`, auxiliaries at zero."""
    with jax.enable_x64(True):
        phase = phase_like(recipe, target)._replace(position=jnp.asarray(target.init, jnp.float64))
        return np.asarray(Layout.of(phase).ravel(phase))


def matrices_at(recipe: Recipe, target: Target, count: int, seed: int) -> Matrices:
    """At positions around `target.init`, positive where the domain is; auxiliaries of order one."""
    rng = np.random.default_rng([seed, 17])
    with jax.enable_x64(True):
        recipe, target = widened((recipe, target))
        like = phase_like(recipe, target)
        sizes = [sum(np.size(leaf) for leaf in jax.tree.leaves(slot)) for slot in like]
        phases, start = rng.normal(size=(count, sum(sizes))), np.asarray(target.init, np.float64).reshape(-1)
        shift = 0.6 * phases[:, : sizes[0]]
        phases[:, : sizes[0]] = start + shift if target.domain is None else start * np.exp(shift)
        d, q = _matrices(recipe, target, Layout.of(like), jnp.asarray(phases))
    ends = np.cumsum([0, *sizes]).tolist()
    spans = {slot: slice(a, b) for slot, a, b in zip(recipe.slots, ends[:-1], ends[1:], strict=True)}
    return Matrices(phases, np.asarray(d), np.asarray(q), spans)


@quick_filter_jit
def _matrices(recipe: Recipe, target: Target, layout: Layout, phases: Any) -> Any:
    return jax.vmap(lambda z: recipe.matrices(target, layout.unravel(z)))(phases)
