"""Thousands of chains at once of the library's own step, with gradients that carry noise of a known variance."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

import ergodica as eg
from ergodica.phase import Evaluation, View
from ergodica_paper.one_dimensional.densities import Peaks, PolynomialPotential
from ergodica_paper.one_dimensional.divergence import Divergence, divergence
from ergodica_paper.one_dimensional.draws import GeneratorState, normals
from ergodica_paper.verdict import Measurement

STEPS = (0.04, 0.02, 0.01, 0.005, 0.0025)
NOISE = 1.0  # V, the variance of the gradient
SCALE = 1.5  # D of the paper's metric D sqrt|U + C|
PRINTED_OFFSET = 0.5
INTERVAL = 0.16  # of time between two observations of a chain: a multiple of every step
GROUPS = 64


@dataclass(frozen=True)
class Size:
    """How much is run: chains, the time that they take to settle, and the time that they are looked at.

    From starts drawn from the target what a chain has to settle is the difference of two laws that are close.
    """

    chains: int
    settling: float
    watched: float

    @property
    def observations(self) -> tuple[int, int]:
        """Observations while settling, and those that count."""
        return round(self.settling / INTERVAL), round(self.watched / INTERVAL)


class AbsoluteRoot(eqx.Module):
    """The metric as printed, scale sqrt|U + offset|, which eg.potential_scaled refuses where U + offset <= 0."""

    scale: Array
    offset: Array

    def __init__(self, scale: float, offset: float):
        self.scale, self.offset = (jnp.asarray(x, jnp.float32) for x in (scale, offset))

    def __call__(self, z: View) -> Array:
        return self.scale * jnp.sqrt(jnp.abs(z.potential + self.offset))


class Hidden(eqx.Module):
    """A metric whose derivative is not seen: the recipe with it has no Gamma, which is the paper's naive sampler."""

    metric: AbsoluteRoot

    def __call__(self, z: View) -> Array:
        return jax.lax.stop_gradient(self.metric(z))


@dataclass(frozen=True)
class Case:
    """A sampler on a density: its name, the offset of its metric, how its gradient noise and its step are dealt with.

    Args:
        printed: the metric with |U + offset|, at an offset that the library refuses.
        splitting: the library's default integrator for momentum, instead of the paper's Euler.
    """

    peaks: Peaks
    sampler: str
    compensated: bool = True
    printed: bool = False
    splitting: bool = False

    @property
    def offset(self) -> float:
        return PRINTED_OFFSET if self.printed else self.peaks.offset

    @property
    def has_metric(self) -> bool:
        return self.sampler in ("naive_sgrhmc", "gsgrhmc")


def recipe(case: Case) -> Any:
    """One of the four samplers of the paper's figure 2; the builders are looked up when it is called."""
    if case.sampler == "naive_sgrhmc":
        return eg.sgrhmc(eg.Scaled(Hidden(AbsoluteRoot(SCALE, case.offset))))
    if case.sampler == "gsgrhmc" and case.printed:
        return eg.sgrhmc(eg.Scaled(AbsoluteRoot(SCALE, case.offset)))
    if case.sampler == "gsgrhmc":
        return eg.gsgrhmc(scale=SCALE, offset=case.offset)
    return {"sgld": eg.sgld, "sghmc": eg.sghmc}[case.sampler]()


class ChainTally(NamedTuple):
    """What some chains were seen to do: counts (groups, bins), each chain's mean and mean square of t and of t²
    (2, 2, chains), and how many became non-finite."""

    counts: np.ndarray
    moments: np.ndarray
    non_finite: int


def tally(case: Case, step_size: float, size: Size, seed: tuple[int, ...]) -> ChainTally:
    """Run the chains of one sampler at one step size. Equal seeds give equal random numbers to all samplers."""
    rng = np.random.default_rng(seed)
    starts = case.peaks.quantile(rng.uniform(size=size.chains)).astype(np.float32)
    above, moments, lost = _watch(
        eg.Density(PolynomialPotential(case.peaks.quartic, case.peaks.quadratic)),
        recipe(case),
        eg.Splitting() if case.splitting else eg.Euler(),
        jnp.asarray(starts),
        jax.random.key(int(rng.integers(2**31))),
        jnp.asarray(step_size, jnp.float32),
        jnp.asarray(NOISE if case.compensated else 0.0, jnp.float32),
        jnp.asarray(case.peaks.edges),
        *(jnp.asarray(round(n), jnp.int32) for n in (INTERVAL / step_size, *size.observations)),
    )
    whole = np.full((GROUPS, 1), size.chains // GROUPS * size.observations[1], np.int64)
    # from counts above each edge; the first bin holds what is below all of them, and what is not a number
    counts = -np.diff(np.concatenate([whole, np.asarray(above, np.int64), np.zeros_like(whole)], axis=1))
    return ChainTally(counts, np.asarray(moments, float), int(lost))


class SweepPoint(NamedTuple):
    """What came out at one step size.

    Args:
        effective: the independent draws that would be as good, for the least of the KL, the mean and the mean square;
            NaN where chains were lost, as there is no stationary law to draw from.
        non_finite: chains that became non-finite.
    """

    step_size: float
    divergence: Divergence
    effective: float
    non_finite: int

    @property
    def kl(self) -> Measurement:
        return self.divergence.kl


def point(case: Case, step_size: float, tallies: Sequence[ChainTally]) -> SweepPoint:
    """The chains of several tallies against the target."""
    found = divergence(np.concatenate([t.counts for t in tallies]), case.peaks.masses)
    moments = np.concatenate([t.moments for t in tallies], axis=-1)
    lost = sum(t.non_finite for t in tallies)
    effective = float("nan") if lost else min(found.effective, *(_effective(*m) for m in moments))
    return SweepPoint(step_size, found, effective, lost)


def _effective(means: np.ndarray, squares: np.ndarray) -> float:
    """Independent draws that give a mean as good as that of these chains, from the means of each and of its square."""
    return float((squares.mean() - means.mean() ** 2) / (means.var(ddof=1) / len(means)))


@eqx.filter_jit
def _watch(target, sampler, integrator, starts, key, step_size, known_noise, edges, stride, settling, watched):
    """Counts above each edge by group, each chain's moments, and the number of chains that are not finite.

    The noise that is compensated for is an argument, 0 for none: one compiled loop serves both, and all step sizes.
    """
    kernel = eg.Kernel(target, sampler, integrator=integrator, gradient_noise=known_noise)
    key_start, key = jax.random.split(key)
    states = jax.vmap(kernel.init)(starts, jax.random.split(key_start, len(starts)))
    (noisy,) = sampler.diffusion

    def step(state, normal, error):
        draws = {noisy: normal}
        state = kernel.probe(state, draws, step_size)
        potential, gradient = target.evaluate(state.phase.position)
        # z.potential is that of all data, and so owes nothing to the error of the gradient
        evaluation = Evaluation(gradient + error, potential, gradient)
        return kernel.finish(state, (evaluation,), draws, step_size)[0]

    def move(_, carry):
        states, words = carry
        drawn, words = normals(words)
        errors, words = normals(words)
        return jax.vmap(step)(states, drawn, np.float32(np.sqrt(NOISE)) * errors), words

    def settle(_, carry):
        return jax.lax.fori_loop(0, stride, move, carry)

    def observe(_, carry):
        chains, counts, moments = carry
        chains = settle(0, chains)
        at = chains[0].phase.position
        return chains, _counted(at.reshape(-1, GROUPS), edges, counts), moments + jnp.stack([at, at**2, at**4])

    chains = jax.lax.fori_loop(0, settling, settle, (states, GeneratorState.seeded(key, len(starts))))
    nothing = jnp.zeros((len(edges), GROUPS), jnp.int32), jnp.zeros((3, len(starts)), jnp.float32)
    (states, _), counts, moments = jax.lax.fori_loop(0, watched, observe, (chains, *nothing))
    mean, square, fourth = moments / watched.astype(jnp.float32)
    lost = jnp.sum(~jnp.isfinite(states.phase.position), dtype=jnp.int32)
    return counts.T, jnp.stack([jnp.stack([mean, square]), jnp.stack([square, fourth])]), lost


def _counted(rows, edges, counts):
    """Counts (edges, groups) with one more for each edge that a chain of the group (rows, groups) is at or above.

    Row by row, in less than half the time of one sum over all comparisons.
    """

    def add(row, counts):
        return counts + (rows[row][None] >= edges[:, None]).astype(jnp.int32)

    return jax.lax.fori_loop(0, len(rows), add, counts)
