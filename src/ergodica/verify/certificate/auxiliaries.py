"""The law of the auxiliary slots: does it leave the position's law alone, and does `draw` draw from it?

The position has the law exp(-U/T) only where the integral of exp(-g/T) over the auxiliaries does not depend on it, that
is where E[grad_theta g] = 0 under exp(-g/T). The draws themselves are held against what integration by
parts says of exp(-g/T): E[dg/dr] = 0, E[r dg/dr] = T, E[r^3 dg/dr] = 3 T E[r^2], and across coordinates
E[(v.r)(w.dg/dr)] = T v.w. All are means over draws, in units of their standard error.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, PyTree

from ergodica import tree
from ergodica.compiling import quick_filter_jit, quick_keys
from ergodica.phase import Phase, Point, phase_type
from ergodica.recipe import Recipe
from ergodica.report import Check
from ergodica.verify.tails import FALSE_ALARM, any_of, each_of, t_threshold, t_two_sided

MOST_DRAWS = 4_000
NUMBERS_DRAWN = 4_000_000  # in all draws of a slot: fewer draws of a large one
DIRECTION_PAIRS = 4  # for dependence between coordinates
MOST_COLUMNS = 64  # numbers whose means are looked at one by one; where there are more, sums of every 64th


def check_auxiliaries(
    recipe: Recipe, positions: list[PyTree], rng: np.random.Generator, temperature: float
) -> list[Check]:
    """For every auxiliary slot: one check of its integral, one of its draws, at each of the positions."""
    if not recipe.energy:
        return []
    draws = int(np.clip(NUMBERS_DRAWN / tree.size(positions[0]), 100, MOST_DRAWS))
    keys = quick_keys(rng, draws)
    moments = _quick_moments if draws == MOST_DRAWS else _fast_moments
    found = [moments(recipe, position, keys, temperature) for position in positions]
    checks = []
    for slot in recipe.energy:
        pulls, stein = zip(*(both[slot] for both in found), strict=True)
        checks += [_check_integral(slot, _Means(pulls)), _check_draws(slot, _Means(stein))]
    return checks


def _moments(recipe: Recipe, position: PyTree, keys: Array, temperature: float) -> dict[str, tuple[Array, Array]]:
    """Per slot and draw: the gradient of the slot's energy over what came before, and (dg/dr, r dg/dr - T, ...)."""

    def one(key: Array) -> dict[str, tuple[Array, Array]]:
        phase = recipe.draw_auxiliaries(position, key, temperature)
        return {slot: _moments_at(recipe, slot, phase, temperature) for slot in recipe.energy}

    return jax.lax.map(one, keys, batch_size=100)


_quick_moments, _fast_moments = quick_filter_jit(_moments), eqx.filter_jit(_moments)


def _moments_at(recipe: Recipe, slot: str, phase: Phase, temperature: float) -> tuple[Array, Array]:
    names = recipe.slots[: recipe.slots.index(slot) + 1]
    slots = {name: getattr(phase, name) for name in names}

    def value(slots: dict[str, PyTree]) -> Array:
        point = Point(phase_type(names)(*(slots[n] for n in names)), temperature=temperature)
        return recipe.energy[slot].value(point, slot)

    slopes = jax.grad(value)(slots)
    r, push = ravel_pytree(slots[slot])[0], ravel_pytree(slopes[slot])[0]
    before = ravel_pytree([slopes[name] for name in names[:-1]])[0]
    third = r**3 * push - 3 * temperature * r**2
    directions = np.random.default_rng(1).standard_normal((2, DIRECTION_PAIRS, r.size)).astype(r.dtype)
    v, w = directions / np.sqrt(r.size).astype(r.dtype)
    across = (v @ r) * (w @ push) - temperature * np.sum(v * w, axis=1)
    return _grouped(before), jnp.concatenate([*map(_grouped, (push, r * push - temperature, third)), across])


def _grouped(x: Array) -> Array:
    """Sums of every MOST_COLUMNS-th number of a vector that is longer than that; as it is otherwise."""
    if x.size <= MOST_COLUMNS:
        return x
    return jnp.sum(jnp.pad(x, (0, -x.size % MOST_COLUMNS)).reshape(-1, MOST_COLUMNS), axis=0)


class _Means:
    """Means of columns over draws, at every position, with their standard errors; the largest |t| counts."""

    def __init__(self, tables: tuple[Array, ...]):
        rows = [np.asarray(table) for table in tables]
        self.draws = len(rows[0])
        self.mean = np.concatenate([table.mean(axis=0) for table in rows])
        self.error = np.concatenate([table.std(axis=0, ddof=1) / np.sqrt(self.draws) for table in rows])

    @property
    def are_zero(self) -> bool:
        return not np.any(self.mean) and not np.any(self.error)

    def check(self, name: str, right: str, wrong: str) -> Check:
        """Are all means 0? `wrong` holds {off}, the mean that is furthest from it."""
        mean, error, count, freedom = self.mean, self.error, self.mean.size, self.draws - 1.0
        # without spread the mean alone decides
        is_off = np.abs(mean) > 1e-9 * np.max(np.abs([mean, error]), initial=0.0)
        t = np.where(error > 0, mean / np.where(error > 0, error, 1), np.where(is_off, np.inf, 0.0))
        worst = int(np.argmax(np.abs(t)))
        p_value = any_of(float(t_two_sided(t[worst], freedom)), count)
        passed = p_value >= FALSE_ALARM
        words = right if passed else wrong.format(off=f"{mean[worst]:.3g} +- {error[worst]:.2g}")
        bound = t_threshold(each_of(FALSE_ALARM, count), freedom)
        return Check(name, passed, float(np.abs(t[worst])), bound, words, p_value)


def _check_integral(slot: str, means: _Means) -> Check:
    name = f"law of {slot}"
    if means.are_zero:
        return Check(name, True, 0.0, 0.0, "its energy does not read the position")
    return means.check(
        name,
        "E[grad_theta g] = 0: its integral does not depend on the position",
        "E[grad_theta g] = {off}, not 0: the integral of exp(-g/T) "
        f"over {slot} depends on the position, which then has another law than exp(-U/T); add T times the log of "
        "that integral to g (for a mass M(theta): (T/2) log det M)",
    )


def _check_draws(slot: str, means: _Means) -> Check:
    return means.check(
        f"draws of {slot}",
        f"{means.draws:,} draws are of exp(-g/T) in their first moments",
        "the draws are not of exp(-g/T): what integration by parts says of its moments is off by {off}",
    )
