"""Chains between two peaks, for any size and growth of D and Q, as one compiled function."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import ergodica as eg
from ergodica.integrators.base import Setting, resample
from ergodica_paper.best_step import warmup
from ergodica_paper.d_and_q import peaks

BATCH = 768  # chains of one call: jobs are filled up to a multiple of it, so that all sizes compile once


class Choice(NamedTuple):
    """A choice of D and Q. The size is the mean of D over the law; Q has mean 1, or there is no momentum and no Q."""

    height: float
    size: float
    diffusion_grows: bool
    curl_grows: bool
    has_momentum: bool = True
    every: int = 0
    """Steps between two momentum resamplings; 0: never."""


class Counts(NamedTuple):
    """What a chain met, over its steps after warm-up. In `lost` chains no other figure means anything."""

    steps: Any
    sums: Any
    """Of t squared, U, and being between the inflection points."""
    near_mode: Any
    """(steps, sum of U) in the more probable half."""
    passages: Any
    """From the bottom of one well to that of the other."""
    crossings: Any
    """(number, steps between the inflection points on the way) of crossings of the region of low density."""
    lost: Any


class _Growing(eqx.Module):
    """size (U + offset)^power: constant where the power is 0."""

    size: Any
    offset: Any
    power: Any

    def __call__(self, z):
        return self.size * (z.potential + self.offset) ** self.power


class _Watch(NamedTuple):
    """Where a chain is on its way: the well it was in last, the side it entered the barrier from, the steps since.

    Well and side are -1 or 1, or 0 as long as a chain that started between them has been in neither.
    """

    well: Any
    side: Any
    inside: Any
    counts: Counts


def recipe(diffusion: Any, curl: Any, has_momentum: bool) -> eg.Recipe:
    """D on the momentum and Q between it and the position; or D on the position and no Q."""
    if not has_momentum:
        return eg.sgrld(eg.Scaled(diffusion))
    return eg.Recipe(
        energy={"momentum": eg.Gaussian()},
        diffusion={"momentum": eg.Scaled(diffusion)},
        curl={("momentum", "position"): eg.Scaled(curl)},
    )


def compiled(has_momentum: bool, length: int, tell: Callable[[int], None]) -> Callable[..., Counts]:
    """(choices, step sizes, seed) -> Counts of as many chains, each started from the exact law.

    `tell` is told how many chains have been run, after each batch of them.
    """

    def chain(job, step_size, key):
        target = eg.Density(lambda t: peaks.potential(t, job["height"]))
        diffusion, curl = (
            _Growing(job[f"{name}_size"], job["offset"], job[f"{name}_power"]) for name in ("diffusion", "curl")
        )
        # one integrator for all choices, that of a curl which reads the potential: kick, exact friction, move
        integrator = eg.Splitting() if has_momentum else eg.Euler()
        kernel = eg.Kernel(target, recipe(diffusion, curl, has_momentum), integrator)
        first, *others = jax.random.split(key, 3)

        def advance(carry, number):
            state, watch = carry
            if has_momentum:
                is_due = (job["every"] > 0) & (number % jnp.maximum(job["every"], 1) == 0)
                setting = Setting(step_size, jnp.ones_like(step_size))
                drawn = resample(kernel.recipe, state.phase, jax.random.fold_in(others[1], number), setting)
                state = state._replace(phase=jax.tree.map(lambda a, b: jnp.where(is_due, a, b), drawn, state.phase))
            state, _ = kernel.step(state, jax.random.fold_in(others[0], number), step_size)
            return (state, _look(watch, state.phase.position, job, number >= warmup(length))), None

        begun = kernel.init(job["start"], first), _begin(job["start"])  # which draws the momentum from its law
        (state, watch), _ = jax.lax.scan(advance, begun, jnp.arange(length, dtype=jnp.int32))
        return watch.counts._replace(lost=~jnp.isfinite(state.phase.position))

    run = jax.jit(jax.vmap(chain))

    def count(choices: Sequence[Choice], step_sizes: Sequence[float], seed: int) -> Counts:
        table = _table(choices, np.random.default_rng(seed))
        sizes, parts = np.asarray(step_sizes, np.float32), []
        keys = jax.random.split(jax.random.key(seed), -(-len(choices) // BATCH) * BATCH)
        for begin in range(0, len(choices), BATCH):
            wanted = np.arange(begin, begin + BATCH) % len(choices)  # the surplus of the last batch is thrown away
            job = {name: jnp.asarray(column[wanted]) for name, column in table.items()}
            parts.append(jax.tree.map(np.asarray, run(job, jnp.asarray(sizes[wanted]), keys[begin : begin + BATCH])))
            tell(BATCH)
        return jax.tree.map(lambda *x: np.concatenate(x)[: len(choices)], *parts)

    return count


def _table(choices: Sequence[Choice], rng: np.random.Generator) -> dict[str, np.ndarray]:
    truths = [peaks.truth(c.height) for c in choices]
    columns = {
        "height": [c.height for c in choices],
        "offset": [c.height + peaks.ROOM for c in choices],
        "diffusion_power": [peaks.DIFFUSION_POWER * c.diffusion_grows for c in choices],
        "curl_power": [peaks.CURL_POWER * c.curl_grows for c in choices],
        "diffusion_size": [
            c.size / (t.diffusion_size if c.diffusion_grows else 1) for c, t in zip(choices, truths, strict=True)
        ],
        "curl_size": [1 / (t.curl_size if c.curl_grows else 1) for c, t in zip(choices, truths, strict=True)],
        "middle": [t.middle for t in truths],
        "start": peaks.draw(np.array([c.height for c in choices]), rng),
    }
    table = {name: np.asarray(column, np.float32) for name, column in columns.items()}
    return table | {"every": np.asarray([c.every for c in choices], np.int32)}


def _begin(start: Any) -> _Watch:
    none, neither, side = jnp.zeros((), jnp.int32), jnp.zeros_like(start), jnp.sign(start)
    counts = Counts(none, jnp.zeros(3, start.dtype), (none, neither), none, (none, none), none)
    well, from_side = (jnp.where(jnp.abs(start) < edge, neither, side) for edge in (1, peaks.EDGE))
    return _Watch(well, from_side, none, counts)


def _look(watch: _Watch, t: Any, job: dict[str, Any], counts: Any) -> _Watch:
    """The watch after a step to t; nothing is counted before the end of warm-up."""
    well, side, inside, old = watch
    u = peaks.potential(t, job["height"])
    is_low = jnp.abs(t) < peaks.EDGE
    arrived = jnp.where(t <= -1, -jnp.ones_like(t), jnp.where(t >= 1, jnp.ones_like(t), well))
    here = jnp.sign(t)
    has_crossed = ~is_low & (side != 0) & (here != side)
    has_passed = (well != 0) & (arrived != well)
    is_near = u < job["middle"]
    sums = jnp.stack([t**2, u, is_low.astype(t.dtype)])

    def number(flag):
        return (counts & flag).astype(jnp.int32)

    new = Counts(
        steps=old.steps + number(True),
        sums=old.sums + jnp.where(counts, sums, jnp.zeros_like(sums)),
        near_mode=(
            old.near_mode[0] + number(is_near),
            old.near_mode[1] + jnp.where(counts & is_near, u, jnp.zeros_like(u)),
        ),
        passages=old.passages + number(has_passed),
        crossings=(old.crossings[0] + number(has_crossed), old.crossings[1] + number(has_crossed) * (inside + 1)),
        lost=old.lost,
    )
    now_inside = jnp.where(is_low, inside + 1, jnp.zeros_like(inside))
    return _Watch(arrived, jnp.where(is_low, side, here), now_inside, new)
