"""Symmetric splittings for recipes with momentum: each part of the dynamics solved on its own.

    A  dq = R^T grad_r g dt                          B  dr = (-R grad U + T Gamma_r) dt
    O  dr = -D grad_r g dt + sqrt(2 T D) dW          and, with thermostats s,
    S  ds = (Q_rs^T grad_r g + T Gamma_s) dt         C  dr = -Q_rs grad_s g dt

with R = Q_(momentum, position). The parts add up to the recipe's drift and noise, and each one alone is easy to solve.
Done in the order A B [S C O C S] B A, with half steps around O, the step reads the same backwards: errors of odd order
cancel. One gradient at the half-drifted position serves both half kicks (ABOBA; Leimkuhler and Matthews, 2013). Order 2
with exact gradients or compensated noise, 1 with uncompensated noise (docs/explanation/mathematics.md).
"""

import jax
import jax.numpy as jnp

from ergodica import tree
from ergodica.energy import Energy, Gaussian
from ergodica.fields import Coupling, Elementwise
from ergodica.integrators import compensation
from ergodica.integrators.base import Integrator, Setting
from ergodica.integrators.compensation import StepReport
from ergodica.integrators.euler import draw_normals
from ergodica.integrators.friction import Decay, coupling_decay, decay, exact_friction, symmetric_friction
from ergodica.integrators.reflection import fold_position, inverse_mass_of, is_positive, reflect
from ergodica.operators import (
    DenseOperator,
    Operator,
    ScalarOperator,
    act,
    entrywise,
    is_entrywise,
    product,
    row_layout,
    scaled,
)
from ergodica.phase import Phase, Point
from ergodica.recipe import Recipe, mean_operators
from ergodica.tree import Combination, Layout


class Splitting(Integrator):
    """A symmetric splitting with exact friction, for recipes with one momentum: order 2 at the price of Euler.

    Use it for everything from `eg.sghmc` to `eg.riemannian_sgnht`; `eg.sample` chooses it by itself for a Gaussian
    momentum. Recipes that move the position by noise of its own (`eg.sgld`) need `eg.Euler`. Where the curl reads
    `z.potential` the order is 1: kick, friction, move.

        move eps/2, kick eps/2, friction eps, kick eps/2, move eps/2, with one gradient, at the half-moved position

    Leaves invariant: exp(-H/T) up to an error of order eps^2. On a Gaussian target with constant mass and friction the
    law of the position is exact at every stable step.

    Example:
        >>> import jax, ergodica as eg
        >>> kernel = eg.Kernel(eg.gallery.gaussian(2), eg.sghmc(), integrator=eg.Splitting())
        >>> state = kernel.init(kernel.target.init, jax.random.key(0))
        >>> state, info = kernel.step(state, jax.random.key(1), step_size=0.1)

    Reference:
        Leimkuhler and Matthews (2013), https://arxiv.org/abs/1203.5428; with thermostats Leimkuhler and Shang (2016),
        https://arxiv.org/abs/1505.06889.
    """

    def refusal(self, recipe, phase):
        return _refusal(recipe, phase)

    def draw(self, recipe, phase, key, setting):
        return draw_normals(recipe, phase, key)

    def probe(self, recipe, phase, draws, setting):
        if recipe.reads_potential(phase):
            return phase
        (name,) = recipe.momenta
        momentum = Combination.of(getattr(phase, name))
        return _move(recipe, phase, momentum, (), setting, setting.step_size / 2)

    def finish(self, recipe, phase, evaluations, draws, setting, noise):
        (name,) = recipe.momenta
        is_whole_kick = recipe.reads_potential(phase)
        kick = _force(recipe, phase, evaluations, setting, draws)
        kick = kick.scaled(setting.step_size if is_whole_kick else setting.step_size / 2)
        points = [recipe.point(phase, e, setting.temperature) for e in evaluations]
        diffusion = mean_operators([recipe.diffusion_at(p) for p in points])[name]
        if not isinstance(diffusion, ScalarOperator):
            kick = Combination.of(kick.value())  # added up once, for both half kicks
        momentum = Combination.of(getattr(phase, name)) + kick
        phase, momentum = _thermostats_before(recipe, phase, momentum, points[0], setting)
        before = momentum
        momentum, report = _friction(
            recipe, phase, momentum, diffusion, points, draws[name], setting, noise, is_whole_kick
        )
        report = report._replace(after_friction=phase._replace(**{name: momentum.value()}))
        if not is_whole_kick:
            report = report._replace(mean_momentum=(before + momentum).scaled(0.5).value())
        phase, momentum = _thermostats_after(recipe, phase, momentum, points[0], setting)
        if is_whole_kick:
            return _move(recipe, phase, momentum, evaluations, setting, setting.step_size), report
        return _move(recipe, phase, momentum + kick, (), setting, setting.step_size / 2), report


def _move(recipe, phase, momentum: Combination, evaluations, setting: Setting, time) -> Phase:
    """A: the position along its velocity, reflected at the domain's faces."""
    (name,) = recipe.momenta
    phase = phase._replace(**{name: momentum.value()})
    points = [recipe.point(phase, e, setting.temperature) for e in evaluations] or [
        Point(phase, temperature=setting.temperature)
    ]
    velocity = recipe.energy[name].slope(points[0], name)[name]
    reads_position = "position" in _curl_reads(recipe, points[0])
    flow = getattr(recipe.curl.get((name, "position")), "flow", None)
    if reads_position and flow is not None:
        position, signs = flow(phase.position, velocity.value(), time)
        phase = phase._replace(position=position, **{name: tree.multiply(signs, getattr(phase, name))})
        return phase if is_positive(setting.domain, position) else _reflected(recipe, phase, points, setting)
    curl = _curl(recipe, points)
    start = Combination.of(phase.position)
    if reads_position:
        # a midpoint step: with R taken at the start alone the order would fall to 1
        middle = (start + act(curl.transpose(), velocity).scaled(time / 2)).value()
        if setting.domain is not None:
            middle, _ = fold_position(setting.domain, middle)
        points = [p._replace(phase=phase._replace(position=middle)) for p in points]
        curl = _curl(recipe, points)
    moved = (start + act(curl.transpose(), velocity).scaled(time)).value()
    return _reflected(recipe, phase._replace(position=moved), points, setting)


def _reflected(recipe, phase: Phase, points: list[Point], setting: Setting) -> Phase:
    if setting.domain is None:
        return phase
    (name,) = recipe.momenta
    curl, inverse_mass = _curl(recipe, points), inverse_mass_of(recipe, phase)
    position, momentum = reflect(setting.domain, phase.position, getattr(phase, name), curl, inverse_mass)
    return phase._replace(position=position, **{name: momentum})


def _force(recipe, phase, evaluations, setting, draws) -> Combination:
    """B: -R grad U + T Gamma_r; each potential's R meets the other batch's gradient."""
    (name,) = recipe.momenta
    total = None
    for e in evaluations:
        point = recipe.point(phase, e, setting.temperature)
        force = act(_curl(recipe, [point]), Combination.of(e.gradient)).scaled(-1 / len(evaluations))
        gamma = recipe.gamma(point, draws.get("probe")).get(name)
        if gamma is not None:
            force = force + gamma.scaled(setting.temperature / len(evaluations))
        total = force if total is None else total + force
    assert total is not None
    return total


def _friction(recipe, phase, momentum: Combination, diffusion, points, normal, setting, noise, is_whole_kick):
    """O: exact for a Gaussian momentum, symmetric otherwise; less the gradient noise where V is known."""
    (name,) = recipe.momenta
    energy, layout = recipe.energy[name], Layout.of(getattr(phase, name))
    step_size, temperature, *_ = setting
    report = compensation.no_cuts(layout.dtype)
    if not isinstance(energy, Gaussian):

        def velocity(r):
            return energy.gradient(Point(phase._replace(**{name: r}), temperature=temperature), name)[name]

        slowed = symmetric_friction(diffusion, velocity, momentum.value(), normal, step_size, temperature)
        return Combination.of(slowed), report
    if noise is None:
        return exact_friction(diffusion, energy, layout, step_size, temperature, momentum, normal), report
    law, curl = decay(diffusion, energy, layout, step_size, temperature), _curl(recipe, points)
    through = _noise_through(law, curl, step_size, is_whole_kick)
    increment, cuts = compensation.inject(law.variance, through, noise, normal)
    report = StepReport(cuts, compensation.largest_step(diffusion, curl, noise, temperature))
    return act(law.factor, momentum) + Combination.of(increment), report


def _noise_through(law: Decay, curl: Operator, step_size, is_whole_kick: bool) -> Operator:
    """How an error n of the gradient arrives in the momentum: as (eps/2)(1 + a) R n, or eps a R n for a whole kick.

    Both half kicks use one gradient, so both carry the same n: -(eps/2) R n before friction and -(eps/2) R n after it.
    Friction multiplies the first by a. They add up before they are squared: the covariance is
    (eps^2/4) (1 + a) R V R^T (1 + a)^T, and not that of two independent kicks, (eps^2/4) (a R V R^T a^T + R V R^T).
    The noise of friction is injected after a has acted, and so the two can be subtracted as they are.
    """
    time = jnp.asarray(step_size, row_layout(curl).dtype)
    if is_whole_kick:
        return product(scaled(time, law.factor), curl)
    if is_entrywise(law.factor):
        return product(entrywise(lambda a: time.astype(a.dtype) / 2 * (1 + a), law.factor), curl)
    layout = law.factor.rows  # pyright: ignore[reportAttributeAccessIssue]
    both = time / 2 * (jnp.eye(layout.size, dtype=layout.dtype) + law.factor.to_dense())
    return product(DenseOperator(both, layout, layout), curl)


def _thermostats_before(recipe, phase, momentum: Combination, at: Point, setting: Setting):
    """Half steps S and C of every thermostat, ahead of the friction."""
    (name,) = recipe.momenta
    for slot in _thermostats(recipe):
        phase = _heat(recipe, phase._replace(**{name: momentum.value()}), at, setting.step_size / 2, slot)
        momentum = _couple(recipe, phase, Combination.of(getattr(phase, name)), at, setting.step_size / 2, slot)
    return phase, momentum


def _thermostats_after(recipe, phase, momentum: Combination, at: Point, setting: Setting):
    """The same half steps in the opposite order."""
    (name,) = recipe.momenta
    for slot in reversed(_thermostats(recipe)):
        momentum = _couple(recipe, phase, momentum, at, setting.step_size / 2, slot)
        phase = _heat(recipe, phase._replace(**{name: momentum.value()}), at, setting.step_size / 2, slot)
        momentum = Combination.of(getattr(phase, name))
    return phase, momentum


def _heat(recipe: Recipe, phase: Phase, at: Point, time, slot: str) -> Phase:
    """S: ds = (Q_rs^T grad_r g + T Gamma_s) dt."""
    (name,) = recipe.momenta
    point = at._replace(phase=phase)
    velocity = recipe.energy[name].slope(point, name)[name]
    block = recipe.curl_block(recipe.curl_at(point), name, slot)
    moved = Combination.of(getattr(phase, slot)) + act(block.transpose(), velocity).scaled(time)
    gamma = recipe.gamma(point).get(slot)
    if gamma is not None:
        moved = moved + gamma.scaled(time * at.temperature)
    return phase._replace(**{slot: moved.value()})


def _couple(recipe: Recipe, phase: Phase, momentum: Combination, at: Point, time, slot: str) -> Combination:
    """C: dr = -Q_rs grad_s g dt, the thermostat being fixed."""
    (name,) = recipe.momenta
    point = at._replace(phase=phase)
    force = recipe.energy[slot].slope(point, slot)[slot]

    def coupling(r):
        moved = point._replace(phase=phase._replace(**{name: r}))
        return act(recipe.curl_block(recipe.curl_at(moved), name, slot), force)

    return coupling_decay(coupling, momentum, time, _is_elementwise(recipe, name, slot))


def _thermostats(recipe: Recipe) -> list[str]:
    (name,) = recipe.momenta
    return [s for s in recipe.slots[1:] if (name, s) in recipe.curl or (s, name) in recipe.curl]


def _is_elementwise(recipe: Recipe, name: str, slot: str) -> bool:
    field = recipe.curl[recipe.curl_key(name, slot)]
    return isinstance(field, Elementwise) or (isinstance(field, Coupling) and field.elementwise)


def _curl(recipe: Recipe, points: list[Point]) -> Operator:
    """R = Q_(momentum, position), the mean over a cross-fitted pair."""
    (name,) = recipe.momenta
    key = recipe.curl_key(name, "position")
    each = [{key: recipe.curl[key].at(p, *key)} for p in points]
    return recipe.curl_block(mean_operators(each), name, "position")


def _curl_reads(recipe: Recipe, point: Point) -> set[str]:
    (name,) = recipe.momenta
    return recipe.reads(point, recipe.curl_key(name, "position"))


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
        if slot in recipe.reads(point, recipe.curl_key(name, slot)):
            return f"the splitting needs a coupling that does not read z.{slot} itself: {advice}"
    for slot, energy in recipe.energy.items():
        if isinstance(energy, Energy) and set(energy.gradient(point, slot)) - {slot}:
            return f"the splitting needs energies of one slot each, got one of {slot!r} that reads others: {advice}"
    return None
