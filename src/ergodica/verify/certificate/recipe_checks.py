"""What a recipe says of itself, held against the recipe at given phases.

D PSD, Q skew, `Elementwise` elementwise, fields that read the phase alone, Gamma equal to the divergence of D + Q, and
no probability through the faces of a domain where the sampler reflects. At a face q_i = b the normal current is c_i p,
c as in sde.py. Without momentum it must vanish. With momentum a path that leaves with r comes back with the reflected
r', so what must vanish is c_i(q, r) + c_i(q, r').
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ergodica import structure, tree
from ergodica.compiling import quick_filter_jit, traceable
from ergodica.errors import InputError
from ergodica.fields import Field, Root
from ergodica.integrators.reflection import bounds, check_reflection, inverse_mass_of
from ergodica.operators import is_entrywise
from ergodica.phase import Phase, Point
from ergodica.recipe import Recipe
from ergodica.report import Check
from ergodica.targets import Target
from ergodica.tree import Layout
from ergodica.verify.sde import RecipeSde, Sde
from ergodica.verify.stationarity import rounding

LEFT_BEHIND = "reads a value that another function has left in a variable outside"
MOST_FACES = 16
# Looked at from just inside, where the potential is finite; a flow that vanishes at the face is of this order there.
FACE_DISTANCE = 1e-9
FLUX_TOLERANCE = 1e-6


def check_structure(sde: RecipeSde, phases: list[Phase]) -> Check:
    """D PSD, Q skew, masses positive, `Elementwise` true to its name; in words what is not, and where."""
    name = "D PSD, Q skew"
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *phases)
    with traceable("a field or an energy of the recipe"):
        looks = jax.tree.map(np.asarray, _looks(sde, stacked))
    for i in range(len(phases)):
        try:
            structure.check_look(sde.recipe, jax.tree.map(lambda leaf, i=i: leaf[i], looks))
        except InputError as error:
            return Check(name, False, 1.0, 0.0, str(error).replace(" at the start", ""))
    return Check(name, True, 0.0, 0.0, f"and declared structure true, at {len(phases)} points where the law lives")


@quick_filter_jit
def _looks(sde: RecipeSde, phases: Phase) -> structure.Look:
    return jax.vmap(lambda phase: structure.look(sde.recipe, sde.point(phase)))(phases)


def check_reads(sde: RecipeSde, phases: list[Phase]) -> Check:
    """A field must be a function of the phase alone: whatever else it looks at has no derivative in the correction.

    Two ways round the phase are looked for: a function that keeps what another one was given (the position, put into a
    variable outside by the potential), and a field that reads no slot but holds an array equal to the position.
    """
    for what, key, field in blocks(sde.recipe):
        message = _captured(field, key, sde, phases[0])
        if message:
            return left_behind(f"{what} {message}")
    return Check("fields read the phase", True, 0.0, 0.0, "and nothing behind its back")


def left_behind(words: str) -> Check:
    """The check that fails where something is read past the phase."""
    why = "it has no derivative there, so the correction is wrong: read z.position"
    return Check("fields read the phase", False, 1.0, 0.0, f"{words}: {why}")


def blocks(recipe: Recipe) -> Iterator[tuple[str, tuple[str, str], Field]]:
    """(name for words, (row, column), field) of every block of D and Q."""
    for slot, field in recipe.diffusion.items():
        yield f"diffusion[{slot!r}]", (slot, slot), field
    for pair, field in recipe.curl.items():
        yield f"curl[{pair!r}]", pair, field


def _captured(field: Field, key: tuple[str, str], sde: RecipeSde, phase: Phase) -> str | None:
    """Words, if the field reads no position but its function holds an array equal to the target's starting position."""
    jax.eval_shape(sde.target.potential, phase.position)  # what it leaves behind is now a tracer
    with traceable("a field of the recipe"):
        read = field.reads(Point(phase, jnp.zeros((), sde.layout.dtype), None, sde.temperature), *key)
    function = getattr(field.inner if isinstance(field, Root) else field, "fn", None)
    held = [] if function is None else list(captured(function))
    if any(tree.is_traced(value) for _, value in held):
        return LEFT_BEHIND
    if sde.target.init is None or read & {"position", "potential"}:
        return None
    starts = [np.asarray(leaf) for leaf in jax.tree.leaves(sde.target.init)]
    for name, value in held:
        if any(np.size(start) and _is_same(value, start) for start in starts):
            return f"does not read z.position, but its function holds {name!r}, an array equal to the starting position"
    return None


def _is_same(value: Any, start: np.ndarray) -> bool:
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(value) if isinstance(leaf, np.ndarray | jax.Array)]
    return any(leaf.shape == start.shape and np.array_equal(leaf.astype(start.dtype), start) for leaf in leaves)


def captured(function: Callable, depth: int = 3) -> Iterator[tuple[str, Any]]:
    """(name, value) of what a Python function takes from outside: closure, globals it names, partial arguments."""
    if isinstance(function, functools.partial):
        yield from ((f"argument {i}", value) for i, value in enumerate(function.args))
        yield from function.keywords.items()
        function = function.func
    code = getattr(function, "__code__", None)
    if code is None or depth == 0:
        return
    cells = dict(zip(code.co_freevars, getattr(function, "__closure__", None) or (), strict=False))
    outside = {name: cell.cell_contents for name, cell in cells.items()}
    outside |= {name: function.__globals__[name] for name in code.co_names if name in function.__globals__}
    for name, value in outside.items():
        if callable(value) and hasattr(value, "__code__"):
            yield from captured(value, depth - 1)
        else:
            yield name, value


def check_correction(sde: RecipeSde, phases: list[Phase]) -> Check:
    """Gamma, as the fields give it, against sum_j d/dz_j (D_ij + Q_ij) of the dense matrices."""
    places = jnp.stack([sde.layout.ravel(phase) for phase in phases])
    gaps, scale = (np.asarray(x) for x in _gaps(sde, places))
    relative = gaps / np.maximum(scale, np.finfo(float).tiny)[:, None]
    figure, tolerance = float(np.max(relative)), rounding(np.float64)
    words = "Gamma equals the divergence of the dense D + Q"
    if not figure <= tolerance:
        point, i = np.unravel_index(np.argmax(relative), relative.shape)
        words = f"Gamma of {sde.name(int(i))} is off by {gaps[point, i]:.3g} from the divergence of the dense D + Q"
    return Check("correction", figure <= tolerance, figure, tolerance, words)


@quick_filter_jit
def _gaps(sde: RecipeSde, places: Array) -> tuple[Array, Array]:
    """|Gamma - div(D + Q)|, and the size of what adds up to it, at flat phases."""
    recipe, target, layout, temperature = sde.recipe, sde.target, sde.layout, sde.temperature

    def both(z: Array) -> Array:
        d, q = recipe.matrices(target, layout.unravel(z), temperature)
        return d + q

    def gap(z: Array) -> tuple[Array, Array]:
        turned = temperature * jnp.einsum("ijj->ij", jax.jacfwd(both)(z))
        given = layout.ravel(recipe.correction(target, layout.unravel(z), temperature=temperature))
        return jnp.abs(given - jnp.sum(turned, axis=1)), jnp.max(jnp.sum(jnp.abs(turned), axis=1))

    return jax.lax.map(gap, places)


def check_faces(sde: RecipeSde, phases: list[Phase]) -> list[Check]:
    """The normal flux at up to 16 faces, at each of the phases moved there, relative to what cancels in it."""
    if sde.target.domain is None:
        return []
    name = "flux at the faces"
    try:
        for phase in phases:
            check_reflection(sde.recipe, sde.target, sde.point(phase))
    except InputError as error:
        return [Check(name, False, 1.0, 0.0, str(error))]
    faces = _faces(sde.target, phases[0])
    if not faces:
        return [Check(name, True, 0.0, 0.0, "the domain has no face")]
    largest, where = 0.0, faces[0]
    for phase in phases:
        for i, place in faces:
            z, turned = _at_face(sde, phase, i, place)
            # relative to the density where the phase was: a face that the law never meets has no flux
            rise = float(sde.hamiltonian(z) - sde.hamiltonian(sde.layout.ravel(phase)))
            net, scale = (float(value[i]) for value in _flux(sde, z, turned))
            share = np.exp(min(0.0, -rise / sde.temperature)) * abs(net) / scale if scale > 0 else 0.0
            if not share <= largest:
                largest, where = share, (i, place)
    words = f"no probability flows through {len(faces)} faces"
    if not largest <= FLUX_TOLERANCE:
        words = f"probability flows through the face position[{where[0]}] = {where[1]:.4g}: the law is not kept"
    return [Check(name, largest <= FLUX_TOLERANCE, largest, FLUX_TOLERANCE, words)]


def _faces(target: Target, phase: Phase) -> list[tuple[int, float]]:
    """(flat index, a place just inside) of the finite faces, the lower ones first."""
    low, high = (np.asarray(bound) for bound in bounds(target.domain, phase.position))
    faces = [
        (int(i), float(bound[i] + sign * FACE_DISTANCE * (1 + abs(bound[i]))))
        for bound, sign in ((low, 1.0), (high, -1.0))
        for i in np.flatnonzero(np.isfinite(bound))
    ]
    return faces[:MOST_FACES]


def _at_face(sde: RecipeSde, phase: Phase, i: int, place: float) -> tuple[Array, Array]:
    """The phase moved to the face, and the same with the momentum reflected there."""
    recipe, layout, position = sde.recipe, sde.layout, Layout.of(phase.position)
    moved = phase._replace(position=position.unravel(position.ravel(phase.position).at[i].set(place)))
    if not recipe.momenta:
        return layout.ravel(moved), layout.ravel(moved)
    (name,) = recipe.momenta
    momentum = Layout.of(getattr(phase, name))
    r = momentum.ravel(getattr(phase, name))
    mass = inverse_mass_of(recipe, phase)
    curl = recipe.curl_block(recipe.curl_at(sde.point(moved)), name, "position")
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
