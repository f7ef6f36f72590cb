"""A diagonal metric that is learned before the first draw and then stays: for every sampler with constant blocks."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from ergodica.errors import InputError
from ergodica.fields import Constant, Field
from ergodica.recipe import Recipe

WIDEST_SCALE = 100.0  # times the median of s^2, up and down: a dead unit of a network has no gradient at all


def preconditioned(recipe: Recipe) -> Recipe:
    """The recipe, in steps that fit each coordinate: a scale s for each is learned in the warm-up, and then frozen.

    Use it where coordinates have very different scales, as the layers of a network have. In the variable q / s the
    sampler is what it was, and so is its law: a constant scale needs no correction. RMSprop-SGLD and scale-adapted
    SGHMC go on learning while they sample, without one, and sample another law.

        H = that of the recipe,  D_qq = s D s,  Q_rq = Q s
        s^2 = 1 / sqrt(v), v the mean squared gradient of each number; the geometric mean of s is 1

    Leaves invariant: exp(-H/T), as the recipe does.

    v is averaged over the second half of `warmup=eg.Optimise(...)`, over all chains; without an optimiser over 200
    batches at the starts. It is for minibatches, whose noise keeps gradients going: those of all data vanish where an
    optimiser arrives, and say nothing of widths. Without `batch_size` give `scale=` to `eg.sghmc` or `eg.hmc`.

    Args:
        recipe: `eg.sgld()`, `eg.sghmc(...)`, `eg.sgnht(...)`, ...: one whose blocks of D and Q with the position are
            constant, and no matrices.

    Example:
        >>> import jax.numpy as jnp, ergodica as eg
        >>> target = eg.Density(lambda q: 5000 * q[0] ** 2 + q[1] ** 2 / 2, init=jnp.array([0.01, 1.0]))
        >>> run = eg.sample(target, eg.preconditioned(eg.sghmc()), steps=100, step_size=0.02, chains=2)
        >>> run.posterior.shape
        (2, 100, 2)

    Reference:
        After Li, Chen, Carlson and Carin (2016), https://arxiv.org/abs/1512.07666, and Springenberg, Klein, Falkner and
        Hutter (2016), https://papers.nips.cc/paper/6117-bayesian-optimization-with-robust-bayesian-neural-networks.
    """
    if not isinstance(recipe, Recipe):
        raise InputError("eg.preconditioned takes a recipe, as eg.preconditioned(eg.sghmc())")
    for block, field in _blocks(recipe).items():
        if not isinstance(field, Constant) or any(np.ndim(leaf) == 2 for leaf in _leaves(field)):
            raise InputError(
                f"eg.preconditioned: the block {block} of this recipe is {type(field).__name__}, a metric of its own: "
                "expected constant numbers or vectors there, as in eg.sgld(), eg.sghmc(), eg.sgnht()"
            )
        if block == ("position", "position"):
            raise InputError("eg.preconditioned: a curl between the position and itself has directions of its own")
    return Recipe(recipe.energy, recipe.diffusion, recipe.curl, recipe.gradient_noise, learns_scale=True)


def _blocks(recipe: Recipe) -> dict[Any, Field]:
    """Those with the position."""
    found: dict[Any, Field] = {pair: field for pair, field in recipe.curl.items() if "position" in pair}
    return found | {slot: field for slot, field in recipe.diffusion.items() if slot == "position"}


def _leaves(field: Field) -> list[Any]:
    return jax.tree.leaves(getattr(field, "entries", None))


def scaled_recipe(recipe: Recipe, scale: PyTree) -> Recipe:
    """In the variable q / s; `scale` is like the position."""

    def times(field: Field, power: int) -> Field:
        assert isinstance(field, Constant)
        entries = field.entries
        if jax.tree.structure(entries) == jax.tree.structure(scale):
            return Constant(jax.tree.map(lambda e, s: e * s**power, entries, scale))
        (number,) = jax.tree.leaves(entries)
        return Constant(jax.tree.map(lambda s: jnp.asarray(number, s.dtype) * s**power, scale))

    diffusion = {slot: times(one, 2) if slot == "position" else one for slot, one in recipe.diffusion.items()}
    curl = {pair: times(one, 1) if "position" in pair else one for pair, one in recipe.curl.items()}
    return Recipe(recipe.energy, diffusion, curl, recipe.gradient_noise)


def scale_of(second_moment: PyTree) -> PyTree:
    """s from the mean squared gradient v of each number: s^2 = 1 / sqrt(v), with geometric mean 1."""
    leaves, structure = jax.tree.flatten(jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), second_moment))
    roots = np.concatenate([np.sqrt(leaf).reshape(-1) for leaf in leaves])
    middle = np.median(roots[roots > 0]) if (roots > 0).any() else 1.0
    logs = -0.5 * np.log(np.clip(roots, middle / WIDEST_SCALE, middle * WIDEST_SCALE))
    scales = np.exp(logs - logs.mean())
    parts = np.split(scales, np.cumsum([leaf.size for leaf in leaves])[:-1])
    dtypes = [leaf.dtype for leaf in jax.tree.leaves(second_moment)]
    shaped = [
        jnp.asarray(part.reshape(leaf.shape), dtype) for part, leaf, dtype in zip(parts, leaves, dtypes, strict=True)
    ]
    return jax.tree.unflatten(structure, shaped)
