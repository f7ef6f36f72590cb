"""How much of the noise of a step is gradient noise: what decides if the spread of draws is a posterior's."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ergodica.lda.corpus.documents import Documents
from ergodica.lda.expanded_mean import ExpandedMean
from ergodica.phase import Evaluation, Point
from ergodica.recipe import Recipe


@dataclass(frozen=True)
class StepNoise:
    """Of a chain at one place, by word and topic.

    Args:
        kick: the diagonal of (D + Q) V (D + Q)^T, for the covariance V of the gradient of a batch.
        diffusion: the diagonal of D where noise is injected.
        is_momentum: whether that is the momentum, whose friction the splitting takes exactly.
    """

    kick: np.ndarray
    diffusion: np.ndarray
    is_momentum: bool

    def ratio(self, step_size: float) -> float:
        """Gradient noise over injected noise in a step, of the worst topic.

        Euler's step: eps^2 tr(kick) / (2 eps tr D), for SGRLD about eps (S/n)^2 N_.k / (2 theta_.k). The splitting adds
        (eps/2)^2 (1 + a)^2 tr(kick) to 1 - a^2 of the momentum, a = exp(-eps D) for mass 1
        (docs/explanation/mathematics.md, Steps).
        """
        if self.is_momentum:
            kept = np.exp(-step_size * self.diffusion)
            added, injected = (step_size / 2) ** 2 * (1 + kept) ** 2 * self.kick, 1 - kept**2
        else:
            added, injected = step_size**2 * self.kick, 2 * step_size * self.diffusion
        return float(np.max(added.sum(0) / injected.sum(0)))

    def step_size(self, ratio: float) -> float:
        """The step at which the ratio is this, to a thousandth: it grows with the step."""
        low, high = 1e-12, 1e3
        while high > 1.001 * low:
            middle = float(np.sqrt(low * high))
            low, high = (middle, high) if self.ratio(middle) < ratio else (low, middle)
        return low


def noise_of(
    model: ExpandedMean, recipe: Recipe, theta: np.ndarray, documents: Documents, *, batch_size: int, seed: int,
    visit: int = 0,
) -> StepNoise:  # fmt: skip
    """Measured by `documents`: halves of them give two independent gradients, whose difference has four times the
    covariance of one from all of them, which is V batch_size / len(documents).
    """
    theta = np.maximum(theta, np.float32(model.floor))  # SCIR may be at 0, where the gradient is infinite
    half = len(documents) // 2
    parts = documents.take(range(half)), documents.take(range(half, 2 * half))
    one, other = (model.gradient(theta, part, visit + half * i, seed) for i, part in enumerate(parts))
    squared, diffusion = _through(recipe, jnp.asarray(theta, jnp.float32), jnp.asarray(one - other))
    scale = (2 * half / batch_size) / 4
    return StepNoise(scale * np.asarray(squared, float), np.asarray(diffusion, float), "momentum" in recipe.diffusion)


def _through(recipe: Recipe, theta: Any, difference: Any) -> tuple[Any, Any]:
    """The squares of (D + Q) times a difference of gradients, and the diagonal of D."""
    phase = recipe.draw_auxiliaries(theta, jax.random.key(0), 1.0)
    one = jnp.ones((), theta.dtype)
    (slot,) = recipe.diffusion
    slopes = (difference, jnp.zeros_like(theta))
    moved, still = (recipe.moves(phase, (Evaluation(slope),), one, one)[slot].value() for slope in slopes)
    operator = recipe.diffusion_at(Point(phase, temperature=one))[slot]
    return (moved - still) ** 2, operator.apply(jnp.ones_like(theta))
