"""What is wrong with a step, where its first moments identify it: Gamma, Hastings' ratio, a test's temperature.

With D(x) from dx dx' / 2h, a step without Gamma has the drift -D grad U and nothing else. For any w(x), by parts,

    R = E[dx_i w] + E[dx_i dx_j d_j w] / 2 = 0                     if exp(-U/T) is left invariant,
    R = -c M,   M = E[dx_i (dx . grad U/T) w] / 2 - E[dx_i dx_j d_j w] / 2 = h T E[Gamma_i w],

with c = 1 where Gamma is left out and c = 2 where it has the wrong sign. w is 1, and the coordinate itself.

A Metropolis test that leaves out the ratio of the proposals counts the drift of a Langevin proposal twice: uphill moves
are refused as often as it takes to double it, and the law is that of half the temperature. So is that of a walk with a
test at half the temperature, which refuses twice as many: a test that takes moves uphill by u = dx . grad U/T with the
chance exp(-b u) gives b times the drift that the noise asks for, and refuses a share E[1 - exp(-b u)] of as many moves
as go downhill. With b from that share and the drift c times what the noise asks for, b = c is a test without a drift in
its proposal, at temperature T/c; b = 1 and c = 2 is a Langevin proposal behind a test without Hastings' ratio, or with
it and at T/2, which is the same to this order; b = 0 is no matter of the test.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ergodica.verify.audit.black_box import Step
from ergodica.verify.audit.features import Features
from ergodica.verify.audit.one_step import BLOCK_PAIRS, Balance, moved_pairs
from ergodica.verify.audit.reference import Reference

# times the step of `balance`: means of dx stand out from the noise as the root of the step size
FAR_STEP, NEAR_STEP = 64.0, 2.0
MOST_BLOCKS = 24
CLEAR_GAMMA = 6.0  # standard errors of a Gamma that is there
FITS_WITHIN = 5.0  # standard errors within which one factor explains all that is left over
SURE_ERROR, CLOSE_FACTOR = 0.12, 0.3  # standard error and distance of a factor that may be called 1 or 2
REFUSED_SHARE = 0.005  # share of steps that stand still where there is a Metropolis test
HARSHEST_TEST = 50.0  # b of a test that takes next to nothing uphill
CLOSE_HARSHNESS = 0.15  # distance of b from what it is compared with, relative


def culprit(step: Step, features: Features, law: Reference, balance: Balance, seed: int) -> str | None:
    """What a step that was rejected leaves out, in words; None where its moments do not tell."""
    half = len(law.draws) // 2
    per_block = min(max(BLOCK_PAIRS // half, 1), law.draws.shape[1])
    deviation, rows, stands, climbs = np.asarray(features.deviation), [], [], []
    blocks = range(0, law.draws.shape[1] - per_block + 1, per_block)[:MOST_BLOCKS]
    for k, at in enumerate(blocks):
        one, other = law.draws[:half, at : at + per_block], law.draws[half : 2 * half, at : at + per_block]
        pair = (one, other)
        slopes = [np.asarray(_slopes(features, jnp.asarray(x))) * deviation for x in pair]
        far, near = (
            [dx / deviation for dx in moved_pairs(step, one, other, np.random.SeedSequence([seed, 6, k]), h)]
            for h in (FAR_STEP * balance.step_size, NEAR_STEP * balance.step_size)
        )
        places = [(x - np.asarray(features.mean)) / deviation for x in pair]
        parts = _with_one(far, slopes) / FAR_STEP, _with_place(places, near, slopes) / NEAR_STEP
        rows.append(np.concatenate(parts, axis=2))
        stands.append(np.mean([(dx == 0).all(-1) for dx in far]))
        climbs += [np.where((dx == 0).all(-1), np.nan, (dx * g).sum(-1)) for dx, g in zip(near, slopes, strict=True)]
    refused = float(np.mean(stands))
    ratio = 1 - balance.residual[: step.dim]
    is_alike = np.all(np.abs(ratio - ratio.mean()) < CLOSE_FACTOR * ratio.mean() + 2 * balance.error[: step.dim])
    tested = _test(refused, float(ratio.mean()), harshness(np.stack(climbs)), features) if is_alike else None
    return tested or _gamma(np.mean(rows, axis=0))


def harshness(climbs: np.ndarray) -> float:
    """b of a Metropolis test that takes u = dx . grad U/T uphill with the chance exp(-b u), from the u of moves, NaN
    where they were refused: as many as went downhill, and as far, would have gone uphill."""
    refused, down = np.isnan(climbs).sum(), -climbs[climbs < 0]
    low, high = 0.0, HARSHEST_TEST
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if np.sum(-np.expm1(-middle * down)) < refused else (low, middle)
    return low


def _test(refused: float, ratio: float, b: float, features: Features) -> str | None:
    """What a Metropolis test does wrong, by the share of steps that it refuses, the drift over what the noise asks for,
    and its harshness b."""
    if refused < REFUSED_SHARE or abs(ratio - 1) < SURE_ERROR:
        return None
    asked = float(features.temperature)
    begin = f"{100 * refused:.2g} % of steps are refused, and drift is {ratio:.2f} times what the noise asks for: "
    if abs(b - ratio) < CLOSE_HARSHNESS * ratio:
        return (
            f"{begin}as many as a Metropolis test at temperature {asked / ratio:.2g} refuses of a proposal without a "
            f"drift, asked for {asked:g}"
        )
    if abs(ratio - 2) < CLOSE_FACTOR and abs(b - 1) < CLOSE_FACTOR:
        return (
            f"{begin}that is what a Metropolis test does to a Langevin proposal without the ratio of the proposals "
            "(Hastings' ratio; with a momentum, its kinetic energy), and what a test with it does at temperature "
            f"{asked / 2:.2g}, asked for {asked:g}: both fit"
        )
    return None


def _gamma(rows: np.ndarray) -> str | None:
    """From R and M (clusters, 2, statistics)."""
    root = np.sqrt(len(rows))
    r, m = rows[:, 0], rows[:, 1]
    mean_m, error = m.mean(0), np.maximum(r.std(0, ddof=1) / root, 1e-300)
    if not np.max(np.abs(mean_m) * root / np.maximum(m.std(0, ddof=1), 1e-300)) > CLEAR_GAMMA:
        return None
    weight = mean_m / error**2
    size = np.sum(weight * mean_m)
    factor = -np.sum(weight * r.mean(0)) / size
    rest = r + factor * m
    spread = float(np.std(rest @ weight, ddof=1) / root / size)
    explains = np.all(np.abs(rest.mean(0)) < FITS_WITHIN * np.maximum(rest.std(0, ddof=1), 1e-300) / root)
    if spread > SURE_ERROR or not explains:
        return None
    for number, words in ((1, "is left out"), (2, "has the wrong sign")):
        if abs(factor - number) < CLOSE_FACTOR:
            return (
                "the noise depends on the position, and the drift misses "
                f"{factor:.2f} times Gamma, the divergence of its diffusion: Gamma {words}"
            )
    return None


def _with_one(moved: list[np.ndarray], slopes: list[np.ndarray]) -> np.ndarray:
    """R and M (clusters, 2, d) for w = 1, of steps and slopes of U/T, in units of the deviation."""
    left = np.mean([dx.mean(1) for dx in moved], axis=0)
    pushed = np.mean([_push(dx, g).mean(1) for dx, g in zip(moved, slopes, strict=True)], axis=0)
    return np.stack([left, pushed], axis=1)


def _with_place(places: list[np.ndarray], moved: list[np.ndarray], slopes: list[np.ndarray]) -> np.ndarray:
    """The same for w = x_i, whose R is that of `balance`: noise that two draws share drops out."""
    (u, v), (du, dv) = places, moved
    square = (du * du + dv * dv).mean(1) / 4
    left = ((u - v) * (du - dv)).mean(1) / 2 + square
    pushed = np.mean([(_push(dx, g) * x).mean(1) for x, dx, g in zip(places, moved, slopes, strict=True)], axis=0)
    return np.stack([left, pushed - square], axis=1)


def _push(dx: np.ndarray, slope: np.ndarray) -> np.ndarray:
    return dx * np.sum(dx * slope, axis=-1, keepdims=True) / 2


@eqx.filter_jit
def _slopes(features: Features, x: Array) -> Array:
    def one(x: Array) -> Array:
        gradient = features.target.evaluate(features.layout.unravel(x))[1]
        return features.layout.ravel(gradient).astype(jnp.float64) / features.temperature

    return jax.vmap(jax.vmap(one))(x)
