"""No probability may flow through the faces of a domain where the sampler reflects.

At a face q_i = b the normal current is c_i p, c as in sde.py. Without momentum it must vanish. With momentum a path
that leaves with r comes back with the reflected r', so what must vanish is c_i(q, r) + c_i(q, r').
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ergodica.compiling import quick_filter_jit
from ergodica.errors import InputError
from ergodica.integrators.reflection import bounds, check_reflection, inverse_mass_of
from ergodica.operators import is_entrywise
from ergodica.phase import Phase
from ergodica.recipe import Recipe
from ergodica.report import Check
from ergodica.targets import Target
from ergodica.tree import Layout
from ergodica.verify.sde import Sde

MOST_FACES = 16
# Looked at from just inside, where the potential is finite; a flow that vanishes at the face is of this order there.
FACE_DISTANCE = 1e-9
FLUX_TOLERANCE = 1e-6


def check_faces(recipe: Recipe, target: Target, sde: Sde, phases: list[Phase], temperature: float) -> Check:
    """The normal flux at up to 16 faces, at each of the phases moved there, relative to what cancels in it."""
    name = "flux at the faces"
    try:
        for phase in phases:
            check_reflection(recipe, target, recipe.point_at(target, phase, temperature))
    except InputError as error:
        return Check(name, False, 1.0, 0.0, str(error))
    faces = _faces(target, phases[0])
    if not faces:
        return Check(name, True, 0.0, 0.0, "the domain has no face")
    largest, where = 0.0, faces[0]
    for phase in phases:
        for i, place in faces:
            z, turned = _at_face(recipe, target, phase, i, place, temperature)
            # relative to the density where the phase was: a face that the law never meets has no flux
            rise = float(sde.hamiltonian(z) - sde.hamiltonian(Layout.of(phase).ravel(phase)))
            net, scale = (float(value[i]) for value in _flux(sde, z, turned))
            share = np.exp(min(0.0, -rise / temperature)) * abs(net) / scale if scale > 0 else 0.0
            if not share <= largest:
                largest, where = share, (i, place)
    words = f"no probability flows through {len(faces)} faces"
    if not largest <= FLUX_TOLERANCE:
        words = f"probability flows through the face position[{where[0]}] = {where[1]:.4g}: the law is not kept"
    return Check(name, largest <= FLUX_TOLERANCE, largest, FLUX_TOLERANCE, words)


def _faces(target: Target, phase: Phase) -> list[tuple[int, float]]:
    """(flat index, a place just inside) of the finite faces, the lower ones first."""
    low, high = (np.asarray(bound) for bound in bounds(target.domain, phase.position))
    faces = [
        (int(i), float(bound[i] + sign * FACE_DISTANCE * (1 + abs(bound[i]))))
        for bound, sign in ((low, 1.0), (high, -1.0))
        for i in np.flatnonzero(np.isfinite(bound))
    ]
    return faces[:MOST_FACES]


def _at_face(
    recipe: Recipe, target: Target, phase: Phase, i: int, place: float, temperature: float
) -> tuple[Array, Array]:
    """The phase moved to the face, and the same with the momentum reflected there."""
    layout, position = Layout.of(phase), Layout.of(phase.position)
    moved = phase._replace(position=position.unravel(position.ravel(phase.position).at[i].set(place)))
    if not recipe.momenta:
        return layout.ravel(moved), layout.ravel(moved)
    (name,) = recipe.momenta
    momentum = Layout.of(getattr(phase, name))
    r = momentum.ravel(getattr(phase, name))
    mass = inverse_mass_of(recipe, phase)
    curl = recipe.curl_block(recipe.curl_at(recipe.point_at(target, moved, temperature)), name, "position")
    if mass is None or is_entrywise(mass, curl):
        back = r.at[i].multiply(-1)
    else:
        m, weight = curl.to_dense()[:, i], mass.to_dense()
        back = r - 2 * m * (m @ weight @ r) / (m @ weight @ m)
    return layout.ravel(moved), layout.ravel(moved._replace(**{name: momentum.unravel(back)}))


@quick_filter_jit
def _flux(sde: Sde, z: Array, turned: Array) -> tuple[Array, Array]:
    """c(z) + c(turned), and the size of what cancels in it, for every coordinate."""
    both = jnp.stack([sde.parts(z), sde.parts(turned)])
    return jnp.sum(both, axis=(0, 1)), jnp.sum(jnp.abs(both), axis=(0, 1)) + 1e-12 * jnp.max(jnp.abs(both))
