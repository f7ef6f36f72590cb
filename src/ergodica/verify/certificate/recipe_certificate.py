"""`certify`: Theorem 1 as a certificate for a recipe on a target."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ergodica import tree
from ergodica.compiling import quick_jit, quick_keys
from ergodica.errors import InputError
from ergodica.host.progress import spinner
from ergodica.host.validate import positive_number, whole
from ergodica.integrators.reflection import bounds
from ergodica.phase import Phase
from ergodica.recipe import Recipe
from ergodica.report import Check, Report
from ergodica.targets import Target
from ergodica.tree import Layout
from ergodica.verify.certificate import hypoellipticity, recipe_checks
from ergodica.verify.certificate.assumptions import check_derivatives, check_tails
from ergodica.verify.certificate.auxiliaries import check_auxiliaries
from ergodica.verify.certificate.points import walk
from ergodica.verify.sde import RecipeSde, checked_position, from_recipe, widened
from ergodica.verify.stationarity import EXACT_LIMIT, Currents, check_by_probes, check_exactly, currents

MUST_RESAMPLE = "D = 0: the flow keeps H for ever. It samples only with the momentum resampled, as eg.Leapfrog does."
REACH_POINTS = 3  # points at which Hormander's condition is looked at


def certify(
    recipe: Recipe,
    target: Target,
    position: PyTree = None,
    temperature: float = 1.0,
    *,
    points: int = 16,
    seed: int = 0,
) -> Report:
    """Does this recipe leave exp(-H/T) invariant, and with it exp(-U/T) of the position?

    Use it once for a recipe of your own, before the first run: it takes seconds, needs no sampling, and says what is
    wrong. Theorem 1 of Ma, Chen and Fox (2015, https://arxiv.org/abs/1506.04696) asks for a PSD D, a skew Q and the
    correction Gamma in the drift. Checked in float64 at points drawn where the law lives: D, Q and declared structure;
    Gamma against the divergence of the dense matrices; the Fokker-Planck residual; derivatives and tails; the law of
    the auxiliaries; the flux through the faces of a domain; and whether noise reaches every direction (Hormander's
    condition). Exact up to 300 numbers in the phase; above that by random probes, with a false alarm of 1e-4. The bias
    of a finite step is not its subject: see `eg.exact_law` and `eg.audit`.

    Args:
        recipe: energies, D and Q: one of the samplers (`eg.sghmc()`), or your own `eg.Recipe`.
        target: with a potential: `eg.Density`, `eg.Posterior`, `eg.gallery`.
        position: where to start looking; `target.init` by default.
        temperature: T of the law.
        points: how many phases are looked at.
        seed: of those points; the same seed gives the same report.

    Returns:
        A report: `passed`, and for each check its figure, its tolerance and an explanation; `print` shows all.

    Example:
        >>> import ergodica as eg
        >>> eg.certify(eg.sghmc(), eg.gallery.gaussian(2)).passed
        True
    """
    if not isinstance(recipe, Recipe):
        raise InputError(f"certify takes an eg.Recipe, got {type(recipe).__name__}; for functions: eg.certify_sde")
    advice = "certify the recipe on a small density with positions of the same kind"
    target, position = checked_position("certify", target, position, advice, temperature)
    points = whole("points", points, 1)
    temperature, seed = positive_number("temperature", temperature), whole("seed", seed)
    with jax.enable_x64(True), spinner("certifying"):
        recipe, target, position = widened((recipe, target, position))
        target.check(position)
        try:
            return _Certifier(recipe, target, position, temperature, points, seed).report()
        except jax.errors.UnexpectedTracerError:
            title = f"exp(-H/T) at T = {temperature:g}"
            return Report(title, (recipe_checks.left_behind(f"a field {recipe_checks.LEFT_BEHIND}"),))


class _FlatPotential(eqx.Module):
    """U/T of a flat position, infinite outside the domain. A module: its data are arguments of what is compiled."""

    target: Target
    faces: tuple[Array, Array] | None
    layout: Layout = eqx.field(static=True)
    temperature: float | None = None  # None: U itself

    @classmethod
    def of(cls, target: Target, position: PyTree, temperature: float | None = None) -> "_FlatPotential":
        faces = None if target.domain is None else bounds(target.domain, position)
        return cls(target, faces, Layout.of(position), temperature)

    def __call__(self, q: Array) -> Array:
        value = self.target.potential(self.layout.unravel(q))
        if self.faces is not None:
            low, high = self.faces
            value = jnp.where(jnp.all((q > low) & (q < high)), value, jnp.inf)
        return value if self.temperature is None else value / self.temperature

    @property
    def open_sides(self) -> np.ndarray | None:
        """For each number of the position where it may go to infinity: 1, -1, 0 nowhere, nan both ways."""
        if self.faces is None:
            return None
        low, high = (np.isfinite(np.asarray(bound)) for bound in self.faces)
        return np.where(low & high, 0.0, np.where(low, 1.0, np.where(high, -1.0, np.nan)))


class _Watched(eqx.Module):
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


class _Certifier:
    """The checks of one recipe on one target, on shared points."""

    def __init__(self, recipe: Recipe, target: Target, position: PyTree, temperature: float, points: int, seed: int):
        self.recipe, self.target, self.temperature, self.seed = recipe, target, temperature, seed
        self.rngs = [np.random.default_rng([seed, 5, k]) for k in range(3)]
        self.phases = self._phases(jax.tree.map(jnp.asarray, position), points)

    def _phases(self, position: PyTree, points: int) -> list[Phase]:
        """Phases where the law lives: short exact chains of the position, auxiliaries from their law."""
        layout = Layout.of(position)
        if layout.size > EXACT_LIMIT:
            points = min(points, 4)
        rows = self.target.size or 1
        steps = int(np.clip(4e6 / rows, 20, 400))  # with many rows each step is a pass over the data
        starts = np.tile(np.asarray(layout.ravel(position)), (points, 1))
        places, _ = walk(_FlatPotential.of(self.target, position), starts, self.seed, steps, self.temperature)

        def complete(q: Array, key: Array) -> Phase:
            return self.recipe.draw_auxiliaries(layout.unravel(q), key, self.temperature)

        drawn = quick_jit(jax.vmap(complete))(jnp.asarray(places), quick_keys(self.rngs[0], points))
        phases = jax.tree.map(np.asarray, drawn)
        return [jax.tree.map(lambda leaf, i=i: jnp.asarray(leaf[i]), phases) for i in range(points)]

    def report(self) -> Report:
        sde = from_recipe(self.recipe, self.target, self.phases[0], self.temperature)
        checks = [recipe_checks.check_reads(sde, self.phases), recipe_checks.check_structure(sde, self.phases)]
        notes = []
        if all(check.passed for check in checks):  # else what follows would differentiate what is not there
            places = np.stack([np.asarray(Layout.of(phase).ravel(phase)) for phase in self.phases])
            few = self.phases[:4]
            (residual, reach, notes), *others = _together(
                lambda: self._check_flow(sde, places),
                lambda: self._check_gamma(sde),
                lambda: self._check_functions(sde, places),
                lambda: check_auxiliaries(self.recipe, [z.position for z in few[:3]], self.rngs[1], self.temperature),
                lambda: recipe_checks.check_faces(sde, few),
            )
            gamma, functions, auxiliaries, faces = others
            checks += [*gamma, *functions, residual, *auxiliaries, *faces, *reach]
        slots = ", ".join(f"{tree.size(getattr(self.phases[0], slot)):,} {slot}" for slot in self.recipe.slots)
        title = f"exp(-H/T) at T = {self.temperature:g}; numbers in the phase: {slots}; {len(self.phases)} points"
        return Report(title, tuple(checks), tuple(notes))

    def _check_flow(self, sde: RecipeSde, places: np.ndarray) -> tuple[Check, list[Check], list[str]]:
        """The residual, and Hormander's condition from the same derivatives; for D = 0 with the momentum resampled."""
        few, known = places[:REACH_POINTS], None
        if sde.dim <= EXACT_LIMIT:
            both = np.concatenate([places, hypoellipticity.nudged(few)])
            found = currents(sde, both)
            residual = check_exactly(found, both)
            known = Currents(*(x[-2 * len(few) :] for x in found))
        else:
            residual = check_by_probes(sde, places, quick_keys(self.rngs[2], 1)[0])
        limit = hypoellipticity.MOST_NUMBERS
        if sde.dim > limit:
            why = f"Hormander's condition was not looked at: {sde.dim:,} numbers, the limit is {limit}."
            return residual, [], [why]
        is_bare = not self.recipe.diffusion and bool(self.recipe.momenta)
        reach, notes = hypoellipticity.check_reach(sde, few, self.seed, is_bare, known)
        return residual, [reach], notes + [MUST_RESAMPLE] * is_bare

    def _check_gamma(self, sde: RecipeSde) -> list[Check]:
        if sde.dim > EXACT_LIMIT:
            return []
        few = self.phases[:4] if sde.dim > 50 else self.phases
        return [recipe_checks.check_correction(sde, few)]

    def _check_functions(self, sde: RecipeSde, places: np.ndarray) -> list[Check]:
        energy = _FlatPotential.of(self.target, self.phases[0].position, self.temperature)
        rays = int(np.clip(1e6 / (self.target.size or 1), 16, 256))
        tails = check_tails(energy, places[:, : sde.slots[0]], self.seed, rays, energy.open_sides)
        weights = jnp.asarray(np.random.default_rng([self.seed, 1]).standard_normal(sde.dim))
        return [tails, check_derivatives(_Watched(sde, weights), places, self.seed)]


def _together(*tasks: Callable[[], Any]) -> list[Any]:
    """What each task returns, two at a time: a task is mostly compilation, which keeps one core busy."""

    def run(task: Callable[[], Any]) -> Any:
        with jax.enable_x64(True):  # holds in its own thread alone
            return task()

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(run, tasks))
