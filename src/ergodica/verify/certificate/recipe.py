"""`certify`: Theorem 1 as a certificate for a recipe on a target."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ergodica import structure, tree
from ergodica.compiling import quick_jit, quick_keys
from ergodica.errors import InputError
from ergodica.host.progress import spinner
from ergodica.integrators.reflection import bounds
from ergodica.recipe import Recipe
from ergodica.report import Check, Report
from ergodica.tree import Layout
from ergodica.verify.certificate import hypoellipticity
from ergodica.verify.certificate.auxiliaries import check_auxiliaries
from ergodica.verify.certificate.declared import (
    LEFT_BEHIND,
    check_correction,
    check_reads,
    check_structure,
    left_behind,
)
from ergodica.verify.certificate.derivatives import check_derivatives
from ergodica.verify.certificate.faces import check_faces
from ergodica.verify.certificate.tails import check_tails
from ergodica.verify.points import walk
from ergodica.verify.precision import widened
from ergodica.verify.sde import RecipeSde, Sde, from_recipe
from ergodica.verify.stationarity import (
    EXACT_LIMIT,
    FALSE_ALARM,
    Currents,
    currents,
    exact_residual,
    probed_residual,
    rounding,
)

MUST_RESAMPLE = "D = 0: the flow keeps H for ever. It samples only with the momentum resampled, as eg.Leapfrog does."


def certify(
    recipe: Recipe, target: Any, position: PyTree = None, temperature: float = 1.0, *, points: int = 16, seed: int = 0
) -> Report:
    """Does this recipe leave exp(-H/T) invariant, and with it exp(-U/T) of the position? Checked in float64.

    D PSD, Q skew, declared structure, correction against the dense oracle, Fokker-Planck residual, the auxiliaries'
    law, flux through the faces of a domain, and Hormander's condition, at points drawn where the law lives. Exact up
    to EXACT_LIMIT numbers in the phase; above that by random probes, with a false alarm of 1e-4.

    Args:
        position: where to start looking; `target.init` by default.
        points: how many phases are looked at.

    Example:
        >>> import ergodica as eg
        >>> eg.certify(eg.sghmc(), eg.gallery.gaussian(2)).passed
        True
    """
    _check_input(recipe, target, points)
    position = target.init if position is None else position
    if position is None:
        raise InputError("certify needs a position to start from: give one, or give the target an `init`")
    structure.check_temperature(temperature)
    structure.check_seed(seed)
    with jax.enable_x64(True), spinner("certifying"):
        recipe, target, position = widened((recipe, target, position))
        target.check(position)
        try:
            return _Certifier(recipe, target, position, float(temperature), points, seed).report()
        except jax.errors.UnexpectedTracerError:
            title = f"exp(-H/T) at T = {temperature:g}"
            return Report(title, (left_behind(f"a field {LEFT_BEHIND}"),))


def _check_input(recipe: Any, target: Any, points: int) -> None:
    if not isinstance(recipe, Recipe):
        raise InputError(f"certify takes an eg.Recipe, got {type(recipe).__name__}; for functions: eg.certify_sde")
    if not getattr(target, "has_potential", False):
        raise InputError(
            f"certify needs a target with a potential (eg.Density, eg.Posterior), got {type(target).__name__}: "
            "certify the recipe on a small density with positions of the same kind"
        )
    if not isinstance(points, int) or points < 1:
        raise InputError(f"points must be a whole number, at least 1, got {points!r}")


def together(tasks: list[Callable[[], Any]]) -> list[Any]:
    """What each task returns, two at a time: a task is mostly compilation, which keeps one core busy."""

    def run(task: Callable[[], Any]) -> Any:
        with jax.enable_x64(True):  # holds in its own thread alone
            return task()

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(run, tasks))


class _InsidePotential(eqx.Module):
    """U of a flat position, infinite outside the domain. A module: its data are arguments of what is compiled."""

    target: Any
    faces: tuple[Array, Array] | None
    layout: Layout = eqx.field(static=True)

    @classmethod
    def of(cls, target: Any, position: PyTree) -> "_InsidePotential":
        return cls(target, None if target.domain is None else bounds(target.domain, position), Layout.of(position))

    def __call__(self, q: Array) -> Array:
        value = self.target.potential(self.layout.unravel(q))
        if self.faces is None:
            return value
        low, high = self.faces
        return jnp.where(jnp.all((q > low) & (q < high)), value, jnp.inf)


class Scaled(eqx.Module):
    """U/T of a flat position."""

    potential: _InsidePotential
    temperature: float

    def __call__(self, q: Array) -> Array:
        return self.potential(q) / self.temperature


class Watched(eqx.Module):
    """H, and D and Q along a fixed vector, as functions of the flat phase."""

    sde: RecipeSde
    weights: Array

    def __call__(self, z: Array) -> dict[str, Array]:
        sde = self.sde
        values = {"H": sde.hamiltonian(z), "D": sde.diffuse(z, self.weights)}
        if sde.dim <= EXACT_LIMIT and sde.recipe.curl:
            _, q = sde.recipe.matrices(sde.target, sde.layout.unravel(z), sde.temperature)
            values["Q"] = q @ self.weights
        return values


def open_sides(target: Any, position: PyTree) -> np.ndarray | None:
    """For each number of the position where it may go to infinity: 1, -1, 0 nowhere, nan both ways."""
    if target.domain is None:
        return None
    low, high = (np.isfinite(np.asarray(bound)) for bound in bounds(target.domain, position))
    return np.where(low & high, 0.0, np.where(low, 1.0, np.where(high, -1.0, np.nan)))


class _Certifier:
    """The checks of one recipe on one target, on shared points."""

    def __init__(self, recipe: Recipe, target: Any, position: PyTree, temperature: float, points: int, seed: int):
        self.recipe, self.target, self.temperature, self.seed = recipe, target, temperature, seed
        self.rngs = [np.random.default_rng([seed, 5, k]) for k in range(3)]
        self.phases = self._phases(jax.tree.map(jnp.asarray, position), points)

    def _phases(self, position: PyTree, points: int) -> list[Any]:
        """Phases where the law lives: short exact chains of the position, auxiliaries from their law."""
        layout = Layout.of(position)
        if layout.size > EXACT_LIMIT:
            points = min(points, 4)
        rows = self.target.size or 1
        steps = int(np.clip(4e6 / rows, 20, 400))  # with many rows each step is a pass over the data
        starts = np.tile(np.asarray(layout.ravel(position)), (points, 1))
        places, _ = walk(_InsidePotential.of(self.target, position), starts, self.seed, steps, self.temperature)

        def complete(q: Array, key: Array) -> Any:
            return self.recipe.draw_auxiliaries(layout.unravel(q), key, self.temperature)

        drawn = quick_jit(jax.vmap(complete))(jnp.asarray(places), quick_keys(self.rngs[0], points))
        phases = jax.tree.map(np.asarray, drawn)
        return [jax.tree.map(lambda leaf, i=i: jnp.asarray(leaf[i]), phases) for i in range(points)]

    def report(self) -> Report:
        at = (self.recipe, self.target, self.phases, self.temperature)
        checks = [check_reads(*at), check_structure(*at)]
        if not all(check.passed for check in checks):  # what follows would differentiate what is not there
            return self._bundle(checks, [])
        sde = from_recipe(self.recipe, self.target, self.phases[0], self.temperature)
        places = np.stack([np.asarray(Layout.of(phase).ravel(phase)) for phase in self.phases])
        tasks = [
            lambda: self._check_flow(sde, places),
            lambda: self._check_gamma(sde),
            lambda: self._check_functions(sde, places),
            self._check_auxiliaries,
            lambda: self._check_faces(sde),
        ]
        (residual, reach, notes), gamma, functions, auxiliaries, faces = together(tasks)
        return self._bundle([*checks, *gamma, *functions, residual, *auxiliaries, *faces, *reach], notes)

    def _check_flow(self, sde: RecipeSde, places: np.ndarray) -> tuple[Check, list[Check], list[str]]:
        """The residual, and Hormander's condition from the same derivatives."""
        corners = hypoellipticity.nudged(places[:3])
        is_small = sde.dim <= EXACT_LIMIT
        found = currents(sde, np.concatenate([places, corners])) if is_small else None
        residual = check_residual(found) if found else check_by_probes(sde, places, self.rngs[2])
        return residual, *check_reach(self.recipe, sde, places[:3], self.seed, found)

    def _check_gamma(self, sde: RecipeSde) -> list[Check]:
        if sde.dim > EXACT_LIMIT:
            return []
        few = self.phases[:4] if sde.dim > 50 else self.phases
        return [check_correction(self.recipe, self.target, few, self.temperature)]

    def _check_auxiliaries(self) -> list[Check]:
        positions = [phase.position for phase in self.phases[:3]]
        return check_auxiliaries(self.recipe, positions, self.rngs[1], self.temperature)

    def _check_faces(self, sde: RecipeSde) -> list[Check]:
        if self.target.domain is None:
            return []
        return [check_faces(self.recipe, self.target, sde, self.phases[:4], self.temperature)]

    def _check_functions(self, sde: RecipeSde, places: np.ndarray) -> list[Check]:
        """What the residual takes for granted: a law, and derivatives that are those of the functions."""
        position, size = self.phases[0].position, sde.slots[0]
        potential = _InsidePotential.of(self.target, position)
        rays = int(np.clip(1e6 / (self.target.size or 1), 16, 256))
        energy = Scaled(potential, self.temperature)
        tails = check_tails(energy, places[:, :size], self.seed, rays, open_sides(self.target, position))
        weights = jnp.asarray(np.random.default_rng([self.seed, 1]).standard_normal(sde.dim))
        return [tails, check_derivatives(Watched(sde, weights), places, self.seed)]

    def _bundle(self, checks: list[Check], notes: list[str]) -> Report:
        slots = ", ".join(f"{tree.size(getattr(self.phases[0], slot)):,} {slot}" for slot in self.recipe.slots)
        title = f"exp(-H/T) at T = {self.temperature:g}; numbers in the phase: {slots}; {len(self.phases)} points"
        return Report(title, tuple(checks), tuple(notes))


def check_residual(found: Currents) -> Check:
    """The Fokker-Planck residual against its rounding bound."""
    residual = exact_residual(found)
    tolerance = rounding(np.float64)
    figure = float(np.max(residual.relative)) if np.all(np.isfinite(residual.value)) else np.inf
    passed = figure <= tolerance
    seen = residual.smallest_seen(tolerance)
    words = (
        f"exp(-H/T) is invariant; a relative drift error of {seen:.1e} would have been seen"
        if passed
        else ("the drift does not leave exp(-H/T) invariant: residual over the size of its terms")
    )
    return Check("Fokker-Planck residual", passed, figure, tolerance, words)


def check_by_probes(sde: Sde, places: np.ndarray, rng: np.random.Generator) -> Check:
    """The Fokker-Planck residual of a large phase, with its standard error."""
    probed = probed_residual(sde, jnp.asarray(places), quick_keys(rng, 1)[0])
    worst = int(np.argmax(np.abs(probed.value / probed.error)))
    p_value = probed.p_value
    words = (
        f"by {probed.probes} probes at each point: {probed.value[worst]:.3g} +- {probed.error[worst]:.2g} at worst; "
        f"a relative drift error of {probed.smallest_seen():.1e} would have been seen; false alarm {FALSE_ALARM:g}"
    )
    figure = float(abs(probed.value[worst] / probed.error[worst]))
    return Check("Fokker-Planck residual", p_value >= FALSE_ALARM, figure, probed.bound, words, p_value)


def check_reach(
    recipe: Recipe, sde: Sde, places: np.ndarray, seed: int, found: Currents | None
) -> tuple[list[Check], list[str]]:
    """Hormander's condition; for D = 0, with the momentum resampled."""
    if sde.dim > hypoellipticity.LIMIT:
        return [], [
            f"Hormander's condition was not looked at: {sde.dim:,} numbers, the limit is {hypoellipticity.LIMIT}."
        ]
    is_bare = not recipe.diffusion and bool(recipe.momenta)
    known = None if found is None else Currents(*(x[-2 * len(places) :] for x in found))
    reach = hypoellipticity.reach(sde, places, seed, is_resampled=is_bare, known=known)
    notes = [hypoellipticity.SMOOTH_IS_NOT_ERGODIC] if reach.is_full and reach.depth > 1 else []
    if is_bare:
        notes.append(MUST_RESAMPLE)
    if reach.is_full:
        how = "D has full rank" if reach.depth == 1 else f"brackets of depth {reach.depth} have full rank"
        words = how if not is_bare else f"with the momentum resampled, {how}"
    else:
        words = (
            f"brackets to depth {hypoellipticity.DEPTH} span {reach.rank} of {reach.dim} directions; least of all "
            f"{sde.name(reach.missed or 0)}: it is not moved by noise, so its law depends on the start"
        )
    return [Check(hypoellipticity.NAME, reach.is_full, reach.rank, reach.dim, words)], notes
