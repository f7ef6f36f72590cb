"""Euler's step, as in the paper: z + eps [-(D + Q) grad H + T Gamma] + N(0, eps (2 T D - eps B)). Order 1."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ergodica import tree
from ergodica.fields import Constant, Field
from ergodica.integrators import compensation
from ergodica.integrators.base import Integrator
from ergodica.integrators.compensation import StepReport
from ergodica.integrators.reflection import inverse_mass_of, reflect
from ergodica.operators import Operator, act, plus, root, scaled
from ergodica.phase import Phase
from ergodica.recipe import Recipe, mean_operators
from ergodica.tree import Combination


class Euler(Integrator):
    """The Euler-Maruyama step, the paper's: it takes any recipe that has noise.

    Use it to reproduce the paper, and where `eg.Splitting` does not apply; `eg.sample` chooses it there by itself. For
    recipes with a momentum `eg.Splitting` costs the same and has a bias of order 2, not 1.

        z <- z + eps [-(D + Q) grad H + T Gamma] + N(0, eps (2 T D - eps B)),  B = (D + Q) V (D + Q)^T

    Leaves invariant: exp(-H/T) up to an error of order eps.

    Example:
        >>> import ergodica as eg
        >>> settings = dict(steps=10, step_size=0.1, chains=2, integrator=eg.Euler())
        >>> eg.sample(eg.gallery.gaussian(2), eg.sghmc(), **settings).posterior.shape
        (2, 10, 2)

    Reference:
        Ma, Chen and Fox (2015), Eqs. 7 and 8, https://arxiv.org/abs/1506.04696, with the signs of docs/paper/errata.md.
    """

    def refusal(self, recipe, phase):
        if not all(_is_zero(field) for field in recipe.diffusion.values()):
            return None
        return (
            "Euler with D = 0 has no stationary law: its energy grows at every step. Give the recipe a diffusion "
            "(eg.sghmc), or use eg.Leapfrog, which corrects the error by a Metropolis test"
        )

    def draw(self, recipe, phase, key, setting):
        return draw_normals(recipe, phase, key)

    def probe(self, recipe, phase, draws, setting):
        return phase

    def finish(self, recipe, phase, evaluations, draws, setting, noise):
        step_size, temperature, domain, _ = setting
        points = [recipe.point(phase, e, temperature) for e in evaluations]
        diffusion = mean_operators([recipe.diffusion_at(p) for p in points])
        moves = recipe.moves(phase, evaluations, temperature, step_size, draws.get("probe"))
        increments, report = _noise(recipe, points, diffusion, draws, setting, noise)
        new = {}
        for slot, value in phase._asdict().items():
            shares = [x for x in (moves.get(slot), increments.get(slot)) if x is not None]
            new[slot] = sum(shares, start=Combination.of(value)).value()
        return _reflected(recipe, phase._replace(**new), points, diffusion, domain), report


def _is_zero(field: Field) -> bool:
    if not isinstance(field, Constant) or tree.is_traced(field.entries):
        return False
    return not any(np.any(np.asarray(leaf)) for leaf in jax.tree.leaves(field.entries))


def draw_normals(recipe: Recipe, phase: Phase, key: Array) -> dict[str, Any]:
    """Standard normals for every slot with noise, and a key for the correction where it is probed."""
    names = list(recipe.diffusion) + (["probe"] if recipe.is_probed(phase) else [])
    keys = [key] if len(names) == 1 else list(jax.random.split(key, len(names)))
    return {
        name: k if name == "probe" else tree.normal_like(k, getattr(phase, name))
        for name, k in zip(names, keys, strict=True)
    }


def _noise(recipe, points, diffusion, draws, setting, noise) -> tuple[dict[str, Combination], StepReport]:
    """The injected noise by slot: N(0, eps (2 T D - eps B))."""
    step_size, temperature, *_ = setting
    spread = jnp.sqrt(2 * step_size * temperature)
    dtype = tree.common_dtype(points[0].slot("position"))

    def full(slot: str) -> Combination:
        return act(root(diffusion[slot]), Combination.of(draws[slot])).scaled(spread)

    if noise is None:
        return {slot: full(slot) for slot in diffusion}, compensation.no_cuts(dtype)
    through = _through(recipe, points, diffusion)
    covered = {slot: column for slot, column in through.items() if slot in diffusion}
    plain = {slot: full(slot) for slot in diffusion if slot not in covered}
    if len(covered) == 1:
        ((slot, column),) = covered.items()
        d, time = diffusion[slot], jnp.asarray(step_size, dtype)
        variance = scaled(2 * step_size * temperature, d)
        increment, cuts = compensation.inject(variance, scaled(time, column), noise, draws[slot])
        report = StepReport(cuts, compensation.largest_step(d, column, noise, temperature))
        plain = {**plain, slot: Combination.of(increment)}
    elif covered:
        joint, report = _joint_noise(points[0], diffusion, covered, draws, setting, noise)
        plain |= {slot: Combination.of(increment) for slot, increment in joint.items()}
    else:
        report = compensation.no_cuts(dtype)
    # a slot with gradient noise and no D has nothing to subtract it from: no step is small enough
    bare = sum(tree.size(points[0].slot(slot)) for slot in through if slot not in covered)
    return plain, StepReport(report.cuts + bare, jnp.zeros((), dtype)) if bare else report


def _through(recipe, points, diffusion) -> dict[str, Operator]:
    """(D + Q)[:, position]: the slots that gradient noise enters, and how."""
    curl = mean_operators([recipe.curl_at(p) for p in points])
    columns = {slot: recipe.curl_block(curl, slot, "position") for slot in recipe.momenta}
    on_position = plus(diffusion.get("position"), curl.get(("position", "position")))
    return columns if on_position is None else {"position": on_position, **columns}


def _joint_noise(point, diffusion, through, draws, setting, noise):
    """Gradient noise that enters several slots is correlated between them: one matrix over all of them."""
    step_size, temperature, *_ = setting
    parts = {slot: point.slot(slot) for slot in sorted(through)}
    layout = compensation.joint_layout(parts)
    d = jax.scipy.linalg.block_diag(*(diffusion[s].to_dense() for s in parts))
    column = jnp.concatenate([through[s].to_dense() for s in parts])
    b = column @ noise.to_dense() @ column.T
    step, heat = (jnp.asarray(x, d.dtype) for x in (step_size, temperature))
    spread, cuts = compensation.cut_root(2 * step * heat * d - step**2 * b)
    normal = layout.ravel({s: draws[s] for s in parts})
    return layout.unravel(spread @ normal), StepReport(cuts, compensation.largest_step_dense(d, b, temperature))


def _reflected(recipe, phase, points, diffusion, domain) -> Phase:
    if domain is None:
        return phase
    if not recipe.momenta:
        position, _ = reflect(domain, phase.position, diffusion=diffusion.get("position"))
        return phase._replace(position=position)
    (momentum,) = recipe.momenta
    curl = recipe.curl_block(mean_operators([recipe.curl_at(p) for p in points]), momentum, "position")
    inverse_mass = inverse_mass_of(recipe, phase)
    position, turned = reflect(domain, phase.position, getattr(phase, momentum), curl, inverse_mass)
    return phase._replace(position=position, **{momentum: turned})
