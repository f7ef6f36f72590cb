"""Symmetric splittings for recipes with momentum: each part of the dynamics solved on its own.

    A  dq = R^T grad_r g dt                          B  dr = (-R grad U + T Gamma_r) dt
    O  dr = -D grad_r g dt + sqrt(2 T D) dW          and, with thermostats s,
    S  ds = (Q_rs^T grad_r g + T Gamma_s) dt         C  dr = -Q_rs grad_s g dt

with R = Q_(momentum, position). One gradient at the half-drifted position serves both half kicks (ABOBA; Leimkuhler and
Matthews, 2013). Order 2 with exact gradients or compensated noise, 1 with uncompensated noise
(docs/explanation/mathematics.md).
"""

import jax
import jax.numpy as jnp

from ergodica import tree
from ergodica.energy import Energy, Gaussian
from ergodica.fields import Coupling, Elementwise
from ergodica.integrators import compensation
from ergodica.integrators.base import Integrator, Setting
from ergodica.integrators.compensation import Compensation
from ergodica.integrators.euler import draw_normals
from ergodica.integrators.friction import Decay, coupling_decay, decay, symmetric_friction
from ergodica.integrators.reflection import fold_position, inverse_mass_of, reflect
from ergodica.operators import (
    DenseOperator,
    Operator,
    apply_scaled,
    entrywise,
    is_entrywise,
    product,
    root,
    row_layout,
    scaled,
)
from ergodica.phase import Evaluation, Phase, Point
from ergodica.recipe import Recipe, mean_operators
from ergodica.tree import Layout


class Splitting(Integrator):
    """ABOBA, with exact friction; kick, friction, move (order 1) where the curl reads z.potential."""

    def refusal(self, recipe, phase):
        return _refusal(recipe, phase)

    def draw(self, recipe, phase, key, setting):
        return draw_normals(recipe, phase, key)

    def probe(self, recipe, phase, draws, setting):
        if recipe.reads_potential(phase):
            return phase
        return _move(recipe, phase, (), setting, setting.step_size / 2)

    def finish(self, recipe, phase, evaluations, draws, setting, noise):
        if recipe.reads_potential(phase):
            kicked = _kick(recipe, phase, evaluations, setting, setting.step_size, draws)
            rubbed, met = _friction(recipe, kicked, evaluations, draws, setting, noise, is_whole_kick=True)
            return _move(recipe, rubbed, evaluations, setting, setting.step_size), met
        half = setting.step_size / 2
        kicked = _kick(recipe, phase, evaluations, setting, half, draws)
        rubbed, met = _friction(recipe, kicked, evaluations, draws, setting, noise, is_whole_kick=False)
        kicked = _kick(recipe, rubbed, evaluations, setting, half, draws)
        return _move(recipe, kicked, (), setting, half), met


def _move(recipe: Recipe, phase: Phase, evaluations: tuple[Evaluation, ...], setting: Setting, time) -> Phase:
    """A: the position along its velocity, reflected at the domain's faces."""
    (name,) = recipe.momenta
    points = [recipe.point(phase, e, setting.temperature) for e in evaluations] or [
        Point(phase, temperature=setting.temperature)
    ]
    momentum, velocity = getattr(phase, name), recipe.energy[name].gradient(points[0], name)[name]
    curl = _curl(recipe, points)
    reads_position = "position" in _curl_reads(recipe, points[0])
    flow = getattr(recipe.curl.get((name, "position")), "flow", None)
    if reads_position and flow is not None:
        position, signs = flow(phase.position, velocity, time)
        momentum = tree.multiply(signs, momentum)
    elif reads_position:
        # a midpoint step: with R taken at the start alone the order would fall to 1
        middle = tree.add(phase.position, apply_scaled(curl.transpose(), time / 2, velocity))
        if setting.domain is not None:
            middle, _ = fold_position(setting.domain, middle)
        curl = _curl(recipe, [p._replace(phase=phase._replace(position=middle)) for p in points])
        position = tree.add(phase.position, apply_scaled(curl.transpose(), time, velocity))
    else:
        position = tree.add(phase.position, apply_scaled(curl.transpose(), time, velocity))
    if setting.domain is not None:
        position, momentum = reflect(setting.domain, position, momentum, curl, inverse_mass_of(recipe, phase))
    return phase._replace(position=position, **{name: momentum})


def _kick(recipe, phase, evaluations, setting, time, draws) -> Phase:
    """B: the momentum by the force -R grad U + T Gamma_r; each potential's R meets the other batch's gradient."""
    (name,) = recipe.momenta
    points = [recipe.point(phase, e, setting.temperature) for e in evaluations]
    momentum = getattr(phase, name)
    for point, e in zip(points, evaluations, strict=True):
        share = time if len(points) == 1 else time / len(points)
        momentum = tree.subtract(momentum, apply_scaled(_curl(recipe, [point]), share, e.gradient))
        gamma = recipe.gamma(point, draws.get("probe")).get(name)
        if gamma is not None:
            momentum = tree.add_scaled(momentum, share * setting.temperature, gamma)
    return phase._replace(**{name: momentum})


def _friction(recipe, phase, evaluations, draws, setting, noise, is_whole_kick) -> tuple[Phase, Compensation]:
    """S C O C S: the friction between half steps of the thermostats; without thermostats O alone."""
    (name,) = recipe.momenta
    points = [recipe.point(phase, e, setting.temperature) for e in evaluations]
    diffusion = mean_operators([recipe.diffusion_at(p) for p in points])[name]
    curl = _curl(recipe, points)
    half = setting.step_size / 2
    phase = _thermostat_step(recipe, phase, points[0], half, "S")
    phase = _thermostat_step(recipe, phase, points[0], half, "C")
    momentum, met = _rub(recipe, phase, diffusion, curl, draws[name], setting, noise, is_whole_kick)
    phase = phase._replace(**{name: momentum})
    phase = _thermostat_step(recipe, phase, points[0], half, "C")
    return _thermostat_step(recipe, phase, points[0], half, "S"), met


def _rub(recipe, phase, diffusion, curl, normal, setting, noise, is_whole_kick):
    """O: exact for a Gaussian momentum, symmetric otherwise; less the gradient noise where V is known."""
    (name,) = recipe.momenta
    energy, momentum = recipe.energy[name], getattr(phase, name)
    layout, (step_size, temperature, *_) = Layout.of(momentum), setting
    if not isinstance(energy, Gaussian):
        met = compensation.nothing(layout.dtype)

        def velocity(r):
            return energy.gradient(Point(phase._replace(**{name: r}), temperature=temperature), name)[name]

        return symmetric_friction(diffusion, velocity, momentum, normal, step_size, temperature), met
    law = decay(diffusion, energy, layout, step_size)
    if noise is None:
        increment = apply_scaled(root(law.variance), jnp.sqrt(temperature), normal)
        met = compensation.nothing(layout.dtype)
    else:
        through = _noise_through(law, curl, step_size, is_whole_kick)
        increment, cuts = compensation.inject(scaled(temperature, law.variance), through, noise, normal)
        met = Compensation(cuts, compensation.largest_step(diffusion, curl, noise, temperature))
    return tree.add(law.factor.apply(momentum), increment), met


def _noise_through(law: Decay, curl: Operator, step_size, is_whole_kick: bool) -> Operator:
    """How gradient noise arrives in the momentum: two half kicks, one of them rubbed, (eps/2)(1 + a) R; or eps a R."""
    time = jnp.asarray(step_size, row_layout(curl).dtype)
    if is_whole_kick:
        return product(scaled(time, law.factor), curl)
    if is_entrywise(law.factor):
        return product(entrywise(lambda a: time.astype(a.dtype) / 2 * (1 + a), law.factor), curl)
    layout = law.factor.rows  # pyright: ignore[reportAttributeAccessIssue]
    both = time / 2 * (jnp.eye(layout.size, dtype=layout.dtype) + law.factor.to_dense())
    return product(DenseOperator(both, layout, layout), curl)


def _thermostat_step(recipe: Recipe, phase: Phase, at: Point, time, part: str) -> Phase:
    """S moves every thermostat by the momentum, C the momentum by every thermostat."""
    (name,) = recipe.momenta
    for slot in _thermostats(recipe):
        point = at._replace(phase=phase)
        if part == "S":
            velocity = recipe.energy[name].gradient(point, name)[name]
            block = recipe.curl_block(recipe.curl_at(point), name, slot)
            moved = tree.add(getattr(phase, slot), apply_scaled(block.transpose(), time, velocity))
            gamma = recipe.gamma(point).get(slot)
            if gamma is not None:
                moved = tree.add_scaled(moved, time * at.temperature, gamma)
            phase = phase._replace(**{slot: moved})
        else:
            force = recipe.energy[slot].gradient(point, slot)[slot]

            def coupling(r, point=point, force=force, slot=slot):
                moved = point._replace(phase=point.phase._replace(**{name: r}))
                return recipe.curl_block(recipe.curl_at(moved), name, slot).apply(force)

            momentum = coupling_decay(coupling, getattr(phase, name), time, _is_elementwise(recipe, name, slot))
            phase = phase._replace(**{name: momentum})
    return phase


def _thermostats(recipe: Recipe) -> list[str]:
    (name,) = recipe.momenta
    return [s for s in recipe.slots[1:] if (name, s) in recipe.curl or (s, name) in recipe.curl]


def _is_elementwise(recipe: Recipe, name: str, slot: str) -> bool:
    field = recipe.curl.get((name, slot), recipe.curl.get((slot, name)))
    return isinstance(field, Elementwise) or (isinstance(field, Coupling) and field.elementwise)


def _curl(recipe: Recipe, points: list[Point]) -> Operator:
    """R = Q_(momentum, position), the mean over a cross-fitted pair."""
    (name,) = recipe.momenta
    key = (name, "position") if (name, "position") in recipe.curl else ("position", name)
    each = [{key: recipe.curl[key].at(p, *key)} for p in points]
    return recipe.curl_block(mean_operators(each), name, "position")


def _curl_reads(recipe: Recipe, point: Point) -> set[str]:
    (name,) = recipe.momenta
    return recipe.reads(point, (name, "position") if (name, "position") in recipe.curl else ("position", name))


def _refusal(recipe: Recipe, phase: Phase) -> str | None:
    point = Point(phase, jax.ShapeDtypeStruct((), tree.common_dtype(phase.position)))
    advice = "use eg.Euler()"
    if len(recipe.momenta) != 1:
        return f"the splitting needs one slot with a block of Q to the position, got {len(recipe.momenta)}: {advice}"
    (name,) = recipe.momenta
    if set(recipe.diffusion) != {name}:
        got = ", ".join(recipe.diffusion) or "nothing"
        return f"the splitting needs D on {name!r} alone, got D on {got}: {advice}" + (
            "" if recipe.diffusion else " with a diffusion, or eg.Leapfrog()"
        )
    if not recipe.reads(point, name) <= {"position", "potential"}:
        return f"the splitting needs a D that depends on the position alone, got one that reads the momentum: {advice}"
    if not _curl_reads(recipe, point) <= {"position", "potential"}:
        return f"the splitting needs Q_(momentum, position) to depend on the position alone: {advice}"
    allowed = {frozenset((name, "position"))} | {frozenset((name, slot)) for slot in _thermostats(recipe)}
    if not {frozenset(pair) for pair in recipe.curl} <= allowed:
        return f"the splitting knows blocks of Q between momentum and position or thermostats only: {advice}"
    for slot in _thermostats(recipe):
        key = (name, slot) if (name, slot) in recipe.curl else (slot, name)
        if slot in recipe.reads(point, key):
            return f"the splitting needs a coupling that does not read z.{slot} itself: {advice}"
    for slot, energy in recipe.energy.items():
        if isinstance(energy, Energy) and set(energy.gradient(point, slot)) - {slot}:
            return f"the splitting needs energies of one slot each, got one of {slot!r} that reads others: {advice}"
    return None
