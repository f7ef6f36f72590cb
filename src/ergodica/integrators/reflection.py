"""Reflection at the faces of the target's domain, specular in the metric of the motion.

A path that leaves through the face q_i = b by delta is sent back along w, the direction that the noise or the velocity
takes at that face: q - 2 delta w / w_i. With momentum, w = R^T M^-1 m with m = R e_i, and r - 2 m (m.M^-1 r)/(m.M^-1 m)
keeps the kinetic energy and turns the normal velocity round; without, w = D e_i keeps the flux at the face at zero.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ergodica.energy import Gaussian
from ergodica.errors import InputError
from ergodica.operators import Operator, is_entrywise
from ergodica.phase import Phase, Point
from ergodica.recipe import Recipe
from ergodica.targets.base import Target
from ergodica.targets.domain import fold, leaf_boxes
from ergodica.tree import Layout

CHECKED_FACES = 64
SPARE_BOUNCES = 8  # beyond one for each coordinate, in a move that meets many faces


def fold_position(domain: PyTree, position: PyTree) -> tuple[PyTree, PyTree]:
    """Every leaf folded into its box, and the signs by which the normal velocity turns."""
    leaves, treedef = jax.tree.flatten(position)
    pairs = [fold(box, leaf) for box, leaf in zip(leaf_boxes(domain, position), leaves, strict=True)]
    return jax.tree.unflatten(treedef, [p[0] for p in pairs]), jax.tree.unflatten(treedef, [p[1] for p in pairs])


def is_positive(domain: PyTree, position: PyTree) -> bool:
    """Whether every leaf lives on the half-line x >= 0, or anywhere."""
    boxes = [box for box in leaf_boxes(domain, position) if box is not None]
    return all(isinstance(box.low, float) and box.low == 0 and box.high == np.inf for box in boxes)


def reflect(
    domain: PyTree,
    position: PyTree,
    momentum: PyTree | None = None,
    curl: Operator | None = None,
    inverse_mass: Operator | None = None,
    diffusion: Operator | None = None,
) -> tuple[PyTree, PyTree | None]:
    """Position and momentum after reflection; as they were where the target has no domain.

    Args:
        curl: R = Q_(momentum, position). inverse_mass: M^-1. diffusion: D on the position, without momentum.
    """
    if domain is None:
        return position, momentum
    if not is_entrywise(curl, inverse_mass, diffusion):
        position, momentum = _reflect_dense(domain, position, momentum, curl, inverse_mass, diffusion)
    # entrywise, or what is still outside after all bounces
    folded, signs = fold_position(domain, position)
    turned = None if momentum is None else jax.tree.map(jnp.multiply, signs, momentum)
    return folded, turned


def _reflect_dense(domain, position, momentum, curl, inverse_mass, diffusion):
    layout = Layout.of(position)
    low, high = bounds(domain, position)
    flat = layout.ravel(position)
    if momentum is None:
        directions = diffusion.to_dense()
        flat = jax.lax.fori_loop(0, layout.size, lambda i, q: _mirror(q, i, _overshoot(q, low, high), directions), flat)
        return layout.unravel(flat), None
    weight, normals = inverse_mass.to_dense(), curl.to_dense()
    directions = normals.T @ weight @ normals

    def bounce(_, carry):
        # The face left through first is the one crossed longest ago, over_i / v_i. In any other order a trajectory
        # that meets two faces would not go back the way it came.
        q, r = carry
        over = _overshoot(q, low, high)
        velocity = normals.T @ (weight @ r)
        since = jnp.where(over == 0, -jnp.inf, over / jnp.where(over == 0, jnp.ones_like(over), velocity))
        i = jnp.argmax(since)
        m = normals[:, i]
        turned = r - 2 * m * velocity[i] / directions[i, i]
        return _mirror(q, i, over, directions), jnp.where(over[i] == 0, r, turned)

    bounces = layout.size + SPARE_BOUNCES
    flat, speed = jax.lax.fori_loop(0, bounces, bounce, (flat, layout.ravel(momentum)))
    return layout.unravel(flat), layout.unravel(speed)


def _overshoot(q: Array, low: Array, high: Array) -> Array:
    """By how much each coordinate is outside, signed; 0 inside."""
    return jnp.minimum(q - low, 0) + jnp.maximum(q - high, 0)


def _mirror(q: Array, i: Any, over: Array, directions: Array) -> Array:
    """q sent back through face i along w = directions e_i; as it is where it has not left through that face."""
    is_inside = over[i] == 0
    slope = directions[:, i] / jnp.where(is_inside, jnp.ones_like(q[i]), directions[i, i])
    return jnp.where(is_inside, q, q - 2 * over[i] * slope)


def bounds(domain: PyTree, position: PyTree) -> tuple[Array, Array]:
    """The lower and the upper bound of every number of the position, flat; infinite where it is open."""
    layout = Layout.of(position)
    lows, highs = [], []
    for box, leaf in zip(leaf_boxes(domain, position), jax.tree.leaves(position), strict=True):
        low, high = (-np.inf, np.inf) if box is None else (box.low, box.high)
        lows.append(jnp.broadcast_to(jnp.asarray(low, layout.dtype), leaf.shape).reshape(-1))
        highs.append(jnp.broadcast_to(jnp.asarray(high, layout.dtype), leaf.shape).reshape(-1))
    return jnp.concatenate(lows), jnp.concatenate(highs)


def inverse_mass_of(recipe: Recipe, phase: Phase) -> Operator | None:
    """M^-1 of a Gaussian momentum; None for other energies, which must not change when one coordinate turns round."""
    (momentum,) = recipe.momenta
    energy = recipe.energy[momentum]
    return energy.inverse_operator(Layout.of(getattr(phase, momentum))) if isinstance(energy, Gaussian) else None


def check_reflection(recipe: Recipe, target: Target, point: Point) -> None:
    """Refuse what reflection would not keep the law of: flow of Q through a face, a momentum that cannot turn round."""
    if target.domain is None:
        return
    if len(recipe.momenta) > 1:
        raise InputError(f"reflection needs one momentum, but {' and '.join(recipe.momenta)} both move the position")
    low, high = (np.asarray(bound) for bound in bounds(target.domain, point.slot("position")))
    faces = [(i, bound[i]) for bound in (low, high) for i in np.flatnonzero(np.isfinite(bound))[:CHECKED_FACES]]
    _check_flow(recipe, point, faces)
    _check_turning(recipe, point, sorted({int(i) for i, _ in faces}))


def _check_flow(recipe: Recipe, point: Point, faces: list[tuple[Any, Any]]) -> None:
    """A position-position Q: reflection is right only where Q e_i vanishes at the face i."""
    field = recipe.curl.get(("position", "position"))
    if field is None:
        return
    layout = Layout.of(point.slot("position"))
    flat = layout.ravel(point.slot("position"))
    for i, face in faces:
        moved = point.phase._replace(position=layout.unravel(flat.at[i].set(face)))
        flow = float(jnp.max(jnp.abs(field.at(point._replace(phase=moved), "position", "position").to_dense()[:, i])))
        if flow > 0:
            raise InputError(
                f"curl[('position', 'position')] does not vanish at the domain's face position[{i}] = {face:g} "
                f"(its column there reaches {flow:g}): reflection would not keep the law. Drop the domain, or let Q go "
                "to 0 at its faces"
            )


def _check_turning(recipe: Recipe, point: Point, coordinates: list[int]) -> None:
    """An energy without a mass matrix: it must not change when the momentum turns round in one coordinate."""
    for name in recipe.momenta:
        energy = recipe.energy[name]
        if isinstance(energy, Gaussian):
            return
        kind = type(energy).__name__
        if not is_entrywise(recipe.curl_block(recipe.curl_at(point), name, "position")):
            raise InputError(
                f"reflection with a dense curl needs a momentum with eg.Gaussian energy, whose mass says how it turns "
                f"round; energy[{name!r}] is eg.{kind}"
            )
        layout = Layout.of(point.slot(name))
        flat = layout.ravel(point.slot(name))
        before = float(energy.value(point, name))
        for i in coordinates:
            turned = point.phase._replace(**{name: layout.unravel(flat.at[i].multiply(-1))})
            change = float(energy.value(point._replace(phase=turned), name)) - before
            if abs(change) > 1e3 * float(jnp.finfo(layout.dtype).eps) * (1 + abs(before)):
                raise InputError(
                    f"energy[{name!r}] changes by {change:g} when coordinate {i} turns round, so reflection at a face "
                    "would not keep the law: use an energy that is even in each coordinate, or drop the domain"
                )
