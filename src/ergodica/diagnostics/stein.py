"""Kernel Stein discrepancy: how far draws are from exp(-U/T), from its gradients alone.

For the Langevin Stein operator and a kernel k, every h(x, .) below has mean zero under the law with score s:

    h(x, y) = s(x).s(y) k + s(x).grad_y k + s(y).grad_x k + sum_i d^2 k / dx_i dy_i

(Gorham and Mackey 2017, https://arxiv.org/abs/1703.01717), and KSD^2 is the mean of h over all pairs. k(x, y) =
(1 + |x - y|^2 / d)^(-1/2), the inverse multiquadric, of whitened positions. What it would be for right draws comes from
a wild bootstrap (Chwialkowski et al. 2016, https://arxiv.org/abs/1602.02964): each draw gets a random sign, and signs
stay the same along a chain for as long as its draws depend on each other.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from ergodica.compiling import sound_filter_jit
from ergodica.data.iterable import Batches
from ergodica.diagnostics import temperatures
from ergodica.diagnostics.columns import Named, size_of_mean, widening
from ergodica.diagnostics.thresholds import FEWEST_DRAWS, FEWEST_INDEPENDENT, LEAST_STEIN_P
from ergodica.errors import InputError
from ergodica.output.labelled import named, unnamed
from ergodica.report import Check
from ergodica.targets import Target

MOST_STEIN_DRAWS = 2000
FEWEST_GRADIENTS = 100  # draws at which the gradient is computed, however much data there is
GRADIENT_WORK = 4_000_000_000  # rows times numbers of the position times draws: about ten seconds
BLOCK_ROWS = 256  # of h at a time
BOOTSTRAP_COUNT = 1999
LARGEST_DENSE = 200  # numbers; larger positions are whitened by their sds alone
LEFT_OUT = "Stein discrepancy and configurational temperature were left out: "


def check_target(given: Any) -> None:
    if given is not None and not isinstance(given, Target):
        raise InputError(
            f"target is {str(given)[:60]!r} ({type(given).__name__}): expected the target that was sampled, such as "
            "eg.Posterior(...) or eg.Density(...)"
        )


def target_checks(
    variables: Named, target: Target, settings: Named, good: np.ndarray, correlation: float = 0.0, seed: int = 0
) -> tuple[list[Check], tuple[str, ...]]:
    """What the target's gradients on all data say of the draws, or a note on why that is left out."""
    reason = _why_left_out(variables, target, settings)
    if reason is not None:
        return [], (LEFT_OUT + reason + ".",)
    target = target.tempered(float(settings.get("temperature", 1.0)))
    positions, gradients = gradients_at_draws(variables, target, good)
    if not np.isfinite(gradients).all():
        return [], (LEFT_OUT + "the target's gradient is not finite at some of the draws.",)
    stein = kernel_stein_discrepancy(
        positions, gradients, float(settings.get("temperature", 1.0)), seed, correlation=correlation
    )
    count = positions.shape[0] * positions.shape[1]
    shapes = {name: tuple(x.shape[2:]) for name, x in variables.items()}
    if target.coordinates is not None:  # the numbers that are looked at are those that chains move
        shapes = {name: tuple(x.shape) for name, x in named(target.init).items()}
    thermometers = temperatures.configurational(
        positions, gradients, settings, correlation, lambda at: temperatures.place_name(at, shapes)
    )
    return [_stein_check(stein, count), *thermometers], ()


def _why_left_out(variables: Named, target: Target, settings: Named) -> str | None:
    if settings.get("keep", "draws") != "draws":
        return "a function of the position was kept (keep=), not the position that the target's gradient needs"
    if not target.has_potential:
        return "this target gives gradients of batches only, and they need all data"
    if target.domain is not None:
        return "the target has a domain, and they hold for densities that vanish at the border"
    if isinstance(target.source, Batches):
        return "the data are an iterator of batches, and they need all data"
    if next(iter(variables.values())).shape[1] < FEWEST_DRAWS:
        return f"chains have fewer than {FEWEST_DRAWS} draws"
    return None


def _stein_check(stein: "Stein", count: int) -> Check:
    words = (
        f"From the target's gradients at {count:,} draws the kernel Stein discrepancy is {stein.discrepancy:.3g}; "
        f"right draws stay below {stein.usual:.3g} 19 times of 20 and exceed this with chance {stein.p_value:.2g} "
        f"({LEAST_STEIN_P} is allowed)."
    )
    passed = stein.p_value >= LEAST_STEIN_P
    if not passed:
        words += " The draws do not have the target's law: look for a bias (halve the step), or for chains not settled."
    is_blunt = passed and stein.worth < FEWEST_INDEPENDENT
    if is_blunt:
        words += f" But the draws are worth {stein.worth:.0f} independent ones: too few to tell."
    return Check("Stein discrepancy", passed, stein.discrepancy, stein.usual, words, stein.p_value, is_blunt)


def gradients_at_draws(posterior: Named, target: Target, good: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions and gradients, (chain, draw, d), at draws spread evenly over the `good` chains."""
    example = _example(posterior, target)
    undrawn = (lambda draws: draws) if target.coordinates is None else jax.vmap(target.coordinates.undrawn)
    chains, draws = int(good.sum()), next(iter(posterior.values())).shape[1]
    size = sum(leaf.size for leaf in jax.tree.leaves(example))
    most = int(np.clip(GRADIENT_WORK // max(1, size * (target.size or 1)), FEWEST_GRADIENTS, MOST_STEIN_DRAWS))
    at = np.unique(np.linspace(0, draws - 1, min(draws, max(1, most // chains))).astype(int))
    leaves = [
        np.asarray(np.asarray(posterior[name])[good][:, at]).reshape(chains * at.size, *leaf.shape)
        for name, leaf in named(example).items()
    ]
    positions = undrawn(jax.tree.unflatten(jax.tree.structure(example), leaves))
    if target.source is not None:  # streams its rows, which cannot be traced
        each = [
            target.evaluate(jax.tree.map(lambda leaf, i=i: jnp.asarray(leaf[i]), positions))[1]
            for i in range(len(jax.tree.leaves(positions)[0]))
        ]
        gradients = jax.tree.map(lambda *parts: np.stack(parts), *each)
    else:
        gradients = _gradients(target, jax.tree.map(jnp.asarray, positions))
    return _flat(positions, chains), _flat(gradients, chains)


@sound_filter_jit
def _gradients(target: Target, positions: PyTree) -> PyTree:
    return jax.lax.map(lambda position: target.evaluate(position)[1], positions)


def _flat(tree: PyTree, chains: int) -> np.ndarray:
    leaves = [np.asarray(leaf, np.float64).reshape(len(leaf), -1) for leaf in jax.tree.leaves(tree)]
    return np.concatenate(leaves, axis=1).reshape(chains, len(leaves[0]) // chains, -1)


def _example(posterior: Named, target: Target) -> PyTree:
    """One position as the target wants it, after a look at whether the draws are such positions."""
    got = {name: tuple(x.shape[2:]) for name, x in posterior.items()}
    if target.init is None and target.coordinates is not None:
        raise InputError("the target has a transform and no init: give it one, so that draws can be put in its tree")
    if target.init is None:
        return unnamed({name: np.empty(shape) for name, shape in got.items()})
    like = target.init
    if target.coordinates is not None:
        like = jax.eval_shape(target.coordinates.drawn, jax.tree.map(jnp.asarray, like))
    expected = {name: tuple(np.shape(leaf)) for name, leaf in named(like).items()}
    if got != expected:
        raise InputError(
            f"the draws are {got}, but positions of this target are {expected}: give the target of this run"
        )
    return like


class Stein(NamedTuple):
    """The discrepancy, the one that right draws exceed once in 20 times, and the p-value of the draws being right."""

    discrepancy: float
    usual: float
    p_value: float
    worth: float
    """How many independent draws these are, for the mean of the slowest number."""


def kernel_stein_discrepancy(
    draws: np.ndarray, gradients: np.ndarray, temperature: float = 1.0, seed: int = 0, correlation: float = 0.0
) -> Stein:
    """Of draws (chain, draw, d), or (draw, d), with the gradients of U there; at most MOST_STEIN_DRAWS draws.

    `correlation` is that between chains which share batches.

    >>> x = np.random.default_rng(0).normal(size=(500, 2))
    >>> kernel_stein_discrepancy(x, x).p_value > 0.01  # U = |x|^2 / 2
    True
    """
    draws, gradients = np.asarray(draws, np.float64), np.asarray(gradients, np.float64)
    if draws.ndim == 2:
        draws, gradients = draws[None], gradients[None]
    if draws.ndim != 3 or draws.shape != gradients.shape:
        raise InputError(f"draws are {draws.shape} and gradients {gradients.shape}: expected (chain, draw, d) for both")
    chains, length, size = draws.shape
    if chains * length > MOST_STEIN_DRAWS:
        raise InputError(
            f"got {chains * length} draws, expected at most {MOST_STEIN_DRAWS}: thin them first, as draws[:, ::10]"
        )
    x, s = whitened(draws.reshape(-1, size), -gradients.reshape(-1, size) / temperature)
    worth = _worth(draws, rng := np.random.default_rng(seed))
    weights = _weights(chains, length, chains * length / worth, correlation, rng)
    products = np.zeros((len(weights), len(x)))
    total = 0.0
    for start in range(0, len(x), BLOCK_ROWS):
        rows = stein_kernel(x[start : start + BLOCK_ROWS], s[start : start + BLOCK_ROWS], x, s)
        total += float(rows.sum())
        products += weights[:, start : start + BLOCK_ROWS] @ rows
    null = np.maximum(np.sum(products * weights, axis=1), 0)
    p_value = (1 + int(np.count_nonzero(null >= total))) / (1 + len(null))
    usual = float(np.sqrt(np.quantile(null, 0.95))) / len(x)
    return Stein(float(np.sqrt(max(total, 0))) / len(x), usual, p_value, worth / widening(chains, correlation))


def whitened(x: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions L^-1 x with unit covariance, and scores L^T s in their coordinates; only by sds where d is large."""
    size = x.shape[1]
    if size > LARGEST_DENSE or len(x) < 5 * size:
        sd = x.std(axis=0)
        sd = np.where(sd > 0, sd, 1)
        return (x - x.mean(axis=0)) / sd, s * sd
    # a little of the diagonal: coordinates may be the same up to rounding
    covariance = np.cov(x, rowvar=False).reshape(size, size)
    root = np.linalg.cholesky(covariance + np.diag(1e-9 * np.diag(covariance) + 1e-300))
    return np.linalg.solve(root, (x - x.mean(axis=0)).T).T, s @ root


def stein_kernel(x: np.ndarray, s: np.ndarray, y: np.ndarray, t: np.ndarray) -> np.ndarray:
    """h for all pairs, (len(x), len(y)); s and t are the scores at x and y.

    With w = 1 + |x - y|^2 / d and k = w^(-1/2): grad_x k = -(x - y) w^(-3/2) / d = -grad_y k, and
    sum_i d^2 k / dx_i dy_i = w^(-3/2) - 3 |x - y|^2 w^(-5/2) / d^2.
    """
    d = x.shape[1]
    square = np.maximum(np.sum(x**2, 1)[:, None] + np.sum(y**2, 1)[None] - 2 * x @ y.T, 0)
    w = 1 + square / d
    along = (np.sum(s * x, 1)[:, None] - s @ y.T) - (x @ t.T - np.sum(y * t, 1)[None])  # (s - t).(x - y)
    return (s @ t.T) * w**-0.5 + along * w**-1.5 / d + w**-1.5 - 3 * square * w**-2.5 / d**2


def _worth(draws: np.ndarray, rng: Any) -> float:
    """How many independent draws these are, for the slowest of 20 numbers."""
    chains, length, size = draws.shape
    if length < 4:
        return chains * length
    some = draws[:, :, rng.choice(size, min(size, 20), replace=False)]
    return float(np.clip(np.nanmin(size_of_mean(some), initial=chains * length), 1, chains * length))


def _weights(chains: int, length: int, time: float, correlation: float, rng: Any) -> np.ndarray:
    """(BOOTSTRAP_COUNT, chain * draw) random signs, which flip along a chain about once in four correlation times.

    Signs that flip more often lose the correlation of slow functions of the draws, and right draws look wrong; signs
    that flip less often are so few that wrong draws look right. Chains that correlate by c get sqrt(c) times common
    signs and sqrt(1 - c) times their own.
    """
    chance = 0.5 if time < 1.5 else 0.25 / time
    shared = float(np.clip(correlation, 0, 1)) if chains > 1 else 0.0
    signs = np.sqrt(1 - shared) * _signs(chains, length, chance, rng)
    if shared > 0:
        signs = signs + np.sqrt(shared) * _signs(1, length, chance, rng)
    return signs.reshape(BOOTSTRAP_COUNT, -1)


def _signs(chains: int, length: int, chance: float, rng: Any) -> np.ndarray:
    """(BOOTSTRAP_COUNT, chain, draw) signs that flip along a chain with this chance."""
    flips = np.where(rng.random((BOOTSTRAP_COUNT, chains, length)) < chance, -1, 1).astype(np.int8)
    flips[:, :, 0] = rng.choice(np.array([-1, 1], np.int8), (BOOTSTRAP_COUNT, chains))
    return np.cumprod(flips, axis=2, dtype=np.int8).astype(np.float64)
