"""The processes of the picture: does each leave its exp(-H) invariant (`eg.certify_sde`), and is it a recipe?"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

import ergodica as eg
from ergodica.verify.sde import RecipeSde
from ergodica.verify.specimens import SAMPLERS, curved
from ergodica_paper.flat import RESIDUAL, flat_sde, start_of
from ergodica_paper.printed import SLIPS, WRONG
from ergodica_paper.printed_samplers import SECTION_3
from ergodica_paper.processes import (
    Diffusion,
    Process,
    Waves,
    WavyBowl,
    circling,
    draw_bowl,
    draw_waves,
    of,
    ornstein_uhlenbeck,
)
from ergodica_paper.random_recipes import RecipePlan, build, draw_numbers
from ergodica_paper.result import Ask
from ergodica_paper.style import LABELS

# Compiling is what takes the time: a quick run has the first plan only.
PLANS = (
    RecipePlan(2, 0, False, (("position", "dense"),), ((("position", "position"), "dense"),)),
    RecipePlan(2, 2, False, (("momentum", "dense"),), ((("momentum", "position"), "dense"),)),
)
GROUPS = {
    "recipes": "random recipes",
    "section 3": "samplers of section 3",
    "other route": "law by another\nroute, no Q given",
    "no correction": "random recipes\nwithout Γ",
    "random": "random SDEs",
    "printed": "as printed",
    "naive": "naive samplers",
}
RECIPES = ("recipes", "section 3")  # inside by Theorem 1
NAIVE = {
    "sghmc_naive": "naive SGHMC",
    "sgrhmc_two_peaks_naive": "naive SGRHMC, two peaks",
    "sgrhmc_dense_naive": "naive SGRHMC, dense metric",
}


LINEAR, SINGULAR = "linear", "linear, singular D"
# How a process is known to be a recipe.
MADE, REBUILT, NOT_FOUND = "made as one", "Q rebuilt", "no Q found"


class Curl(NamedTuple):
    """What `eg.rebuild_curl` said: in one of the words above, and how far the drift through Q is off, over its size."""

    words: str = ""
    error: float | None = None


class Placed(NamedTuple):
    """A process, its residual over what cancels in it, the bound of rounding, and how it is known to be a recipe."""

    group: str
    name: str
    label: str
    dim: int
    residual: float
    tolerance: float
    curl: Curl = Curl()

    @property
    def is_inside(self) -> bool:
        return self.residual <= self.tolerance

    @property
    def is_recipe(self) -> bool:
        return self.curl.words in (MADE, REBUILT)


class RandomDrift(eqx.Module):
    """A pull towards 0 and waves, with no thought of any law."""

    pull: np.ndarray
    waves: Waves

    def __call__(self, z: Any) -> Any:
        return -self.pull @ z + 1.5 * self.waves(z)


class WithoutGamma(eqx.Module):
    """The drift of a recipe, its correction left out."""

    sde: RecipeSde

    def __call__(self, z: Any) -> Any:
        layout = self.sde.layout
        gamma = self.sde.recipe.correction(self.sde.target, layout.unravel(z))
        return self.sde.drift(z) - layout.ravel(gamma)


def random_sde(seed: Any, dim: int) -> Process:
    """A smooth drift, D and H that have nothing to do with each other."""
    rng = np.random.default_rng(seed)
    pull, stiffness = draw_bowl(rng, dim), draw_bowl(rng, dim)
    skew = rng.normal(size=(dim, dim))
    drift = RandomDrift(pull + skew - skew.T, draw_waves(rng, dim, dim))
    return Process(drift, Diffusion(draw_waves(rng, dim, dim, dim)), WavyBowl(stiffness, draw_waves(rng, dim)))


# Certificates between two clearings of what was compiled: after some six hundred without one the process ended with a
# segmentation fault.
TOGETHER = 50


def all_processes(ask: Ask) -> list[Placed]:
    every = list(_cases(ask))
    found = []
    for i, (group, name, label, case) in enumerate(every):
        ask.report(i / len(every), f"{GROUPS[group].replace(chr(10), ' ')}: {label}")
        if i % TOGETHER == TOGETHER - 1:
            jax.clear_caches()
        process, dim, start = case()
        check = eg.certify_sde(*process, dim, start=start, seed=ask.seed)[RESIDUAL]
        placed = Placed(group, name, label, dim, float(check.figure), float(check.tolerance))
        found.append(placed._replace(curl=_curl_of(placed, process, ask.seed)))
    return found


def _curl_of(placed: Placed, process: Process, seed: int) -> Curl:
    """Theorem 2 put to work on whatever keeps its law and was not made as a recipe."""
    if placed.group in RECIPES:
        return Curl(MADE)
    if not placed.is_inside or placed.dim != 2:  # a grid in three dimensions takes too long
        return Curl()
    try:
        rebuilt = eg.rebuild_curl(*process, seed=seed)
    except eg.InputError:
        return Curl(NOT_FOUND)
    return Curl(REBUILT if rebuilt.passed else NOT_FOUND, float(rebuilt.error))


Case = Callable[[], tuple[Process, int, Any]]


def _cases(ask: Ask) -> Iterator[tuple[str, str, str, Case]]:
    chance, made, few, plans = (60, 60, 20, PLANS) if ask.full else (12, 6, 4, PLANS[:1])
    each = 30 if ask.full else 4
    for i in range(each):
        process, _ = ornstein_uhlenbeck([ask.seed, 9, i], 2)
        name = SINGULAR if _is_singular(process) else LINEAR
        yield "other route", name, f"{name} {i + 1}", lambda process=process: (process, 2, None)
    for i in range(each):
        label = f"stream function {i + 1}"
        yield "other route", "stream function", label, lambda i=i: (circling([ask.seed, 10, i])[0], 2, None)
    for i in range(chance):
        yield "random", "random", str(i + 1), lambda i=i: (random_sde([ask.seed, 4, i], 2 + i % 2), 2 + i % 2, None)
    for i in range(made):
        yield "recipes", "recipe", str(i + 1), lambda i=i: _recipe(plans, ask.seed, i)
    for i in range(few):
        yield "no correction", "no correction", str(i + 1), lambda i=i: _recipe(plans, ask.seed, i, WithoutGamma)
    for name in SECTION_3:
        yield "section 3", name, LABELS[name], lambda name=name: _named(name)
    for name, label in NAIVE.items():
        yield "naive", name, label, lambda name=name: _wrong(name)
    for slip in SLIPS if ask.full else ():  # item errata has them in a quick run, too
        yield "printed", slip.name, slip.where, lambda slip=slip: _wrong(slip.name)


def _is_singular(process: Process) -> bool:
    with jax.enable_x64(True):
        low, high = np.linalg.eigvalsh(np.asarray(process.diffusion(np.zeros(2))))
    return bool(low < 1e-9 * high)


def _recipe(
    plans: tuple[RecipePlan, ...], seed: int, i: int, change: Callable | None = None
) -> tuple[Process, int, Any]:
    plan = plans[i % len(plans)]
    sde = flat_sde(*build(plan, draw_numbers(plan, [seed, 5, i])))
    process = of(sde)
    return process if change is None else process._replace(drift=change(sde)), sde.dim, None


def _named(name: str) -> tuple[Process, int, Any]:
    recipe, target = (make() for make in SAMPLERS[name])
    if name == "sgrhmc":  # a scalar metric, whose root compiles in a third of the time
        recipe = eg.sgrhmc(eg.Scaled(curved))
    sde = flat_sde(recipe, target)
    return of(sde), sde.dim, start_of(recipe, target)


def _wrong(name: str) -> tuple[Process, int, Any]:
    sde = WRONG[name]
    return of(sde), sde.dim, None
