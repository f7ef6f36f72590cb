"""The law of the auxiliary slots: does it leave the position's law alone, and does `draw` draw from it?

The position has the law exp(-U/T) only where the integral of exp(-g/T) over the auxiliaries does not depend on it, that
is where E[grad_theta g] = 0 under exp(-g/T). The draws themselves are held against what integration by
parts says of exp(-g/T): E[dg/dr] = 0, E[r dg/dr] = T, E[r^3 dg/dr] = 3 T E[r^2], and across coordinates
E[(v.r)(w.dg/dr)] = T v.w. All are means over draws, in units of their standard error.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from ergodica import tree
from ergodica.compiling import quick_filter_jit, quick_keys
from ergodica.phase import Point, phase_type
from ergodica.recipe import Recipe
from ergodica.report import Check
from ergodica.verify.stationarity import FALSE_ALARM, sidak, t_p_value, t_quantile

DRAWS = 4_000
NUMBERS = 4_000_000  # in all draws of a slot: fewer draws of a large one
PAIRS = 4  # of directions, for dependence between coordinates
GROUPS = 64  # of coordinates, whose means are looked at in the place of each one where there are more


def check_auxiliaries(
    recipe: Recipe, positions: list[Any], rng: np.random.Generator, temperature: float
) -> list[Check]:
    """For every auxiliary slot: one check of its integral, one of its draws, at each of the positions."""
    if not recipe.energy:
        return []
    draws = int(np.clip(NUMBERS / tree.size(positions[0]), 100, DRAWS))
    keys = quick_keys(rng, draws)
    means = _quick_means if draws == DRAWS else _fast_means
    found = [means(recipe, position, keys, temperature) for position in positions]
    checks = []
    for slot in recipe.energy:
        pulls, stein = zip(*(both[slot] for both in found), strict=True)
        checks.append(_check_integral(slot, np.concatenate([_columns(pull) for pull in pulls], axis=1)))
        checks.append(_check_draws(slot, np.concatenate([_columns(x) for x in stein], axis=1)))
    return checks


def _means(recipe: Recipe, position: Any, keys: Array, temperature: float) -> dict[str, tuple[Array, Array]]:
    """Per slot and draw: the gradient of the slot's energy over what came before, and (dg/dr, r dg/dr - T, ...)."""

    def one(key: Array) -> dict[str, tuple[Array, Array]]:
        phase = recipe.draw_auxiliaries(position, key, temperature)
        return {slot: _moments(recipe, slot, phase, temperature) for slot in recipe.energy}

    return jax.lax.map(one, keys, batch_size=100)


_quick_means, _fast_means = quick_filter_jit(_means), eqx.filter_jit(_means)


def _moments(recipe: Recipe, slot: str, phase: Any, temperature: float) -> tuple[Array, Array]:
    names = recipe.slots[: recipe.slots.index(slot) + 1]
    slots = {name: getattr(phase, name) for name in names}

    def value(slots):
        point = Point(phase_type(names)(*(slots[n] for n in names)), temperature=temperature)
        return recipe.energy[slot].value(point, slot)

    slopes = jax.grad(value)(slots)
    r, push = ravel_pytree(slots[slot])[0], ravel_pytree(slopes[slot])[0]
    before = ravel_pytree([slopes[name] for name in names[:-1]])[0]
    third = r**3 * push - 3 * temperature * r**2
    v, w = np.random.default_rng(1).standard_normal((2, PAIRS, r.size)).astype(r.dtype) / np.sqrt(r.size).astype(
        r.dtype
    )
    across = (v @ r) * (w @ push) - temperature * np.sum(v * w, axis=1)
    return grouped(before), jnp.concatenate([*map(grouped, (push, r * push - temperature, third)), across])


def grouped(x: Array) -> Array:
    """Sums of every GROUPS-th number of a vector that is longer than that; as it is otherwise."""
    if x.size <= GROUPS:
        return x
    return jnp.sum(jnp.pad(x, (0, -x.size % GROUPS)).reshape(-1, GROUPS), axis=0)


def _columns(values: Array) -> np.ndarray:
    """Mean, standard error and number of draws of each column, (3, columns)."""
    table = np.asarray(values)
    error = table.std(axis=0, ddof=1) / np.sqrt(len(table))
    return np.stack([table.mean(axis=0), error, np.full_like(error, len(table))])


def _score(columns: np.ndarray) -> tuple[float, float, float, int]:
    """Largest |t|, its bound, its p-value among all columns, and where; without spread the mean alone decides."""
    mean, error, draws = columns
    freedom = float(draws[0]) - 1
    bound = t_quantile(-np.expm1(np.log1p(-FALSE_ALARM) / mean.size), freedom)
    size = np.max(np.abs(columns[:2]), initial=0.0)
    t = np.where(error > 0, mean / np.where(error > 0, error, 1), np.where(np.abs(mean) > 1e-9 * size, np.inf, 0.0))
    worst = int(np.argmax(np.abs(t)))
    least = float(t_p_value(t[worst], freedom)) if np.isfinite(t[worst]) else 0.0
    return float(np.abs(t[worst])), bound, sidak(least, t.size), worst


def _check_integral(slot: str, columns: np.ndarray) -> Check:
    name = f"law of {slot}"
    if not np.any(columns[:2]):
        return Check(name, True, 0.0, 0.0, "its energy does not read the position")
    size, bound, p_value, worst = _score(columns)
    passed = p_value >= FALSE_ALARM
    words = (
        "E[grad_theta g] = 0: its integral does not depend on the position"
        if passed
        else (
            f"E[grad_theta g] = {columns[0, worst]:.3g} +- {columns[1, worst]:.2g}, not 0: the integral of exp(-g/T) "
            f"over {slot} depends on the position, which then has another law than exp(-U/T); add T times the log of "
            "that integral to g (for a mass M(theta): (T/2) log det M)"
        )
    )
    return Check(name, passed, size, bound, words, p_value)


def _check_draws(slot: str, columns: np.ndarray) -> Check:
    size, bound, p_value, worst = _score(columns)
    passed = p_value >= FALSE_ALARM
    words = (
        f"{int(columns[2, 0]):,} draws are of exp(-g/T) in their first moments"
        if passed
        else (
            "the draws are not of exp(-g/T): what integration by parts says of its moments is off by "
            f"{columns[0, worst]:.3g} +- {columns[1, worst]:.2g}"
        )
    )
    return Check(f"draws of {slot}", passed, size, bound, words, p_value)
