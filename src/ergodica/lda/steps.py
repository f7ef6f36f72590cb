"""A chain of topics, whichever way it moves, and its steps: how long they are, and how much of their noise is wanted.

Lengths are a schedule of sizes, or of rates. `StepNoise` says how much of the noise of a step is gradient noise, which
decides if the spread of draws is a posterior's.
"""

import math
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ergodica.driver.schedules import Polynomial, StepSizes
from ergodica.errors import NonFiniteError
from ergodica.lda.corpus.documents import Documents
from ergodica.lda.expanded_mean import ExpandedMean, column_sums, phi_of
from ergodica.lda.stream import DocumentBatch
from ergodica.phase import Evaluation, Point
from ergodica.recipe import Recipe

MOST_STEPS = 2**31 - 1  # that a schedule may be asked for


@dataclass(frozen=True)
class Rate:
    """Steps by how far phi moves: the fraction rho_t = a (1 + t/b)^-c of the way to what the batch says.

    A Langevin step of size h with D = diag(theta) moves theta_wk by h (a_wk - b_k theta_wk), the fraction h b_k of the
    way to a_wk / b_k, with a_wk = alpha + (S/n) N_wk and b_k = 1 + (S/n) N_.k / theta_.k (scir.py). As sum_k N_.k is
    the number of tokens of the batch, a topic with its share of them has b = 1 + (S/n) tokens / (K theta_.k), and moves
    by rho for h = rho / b. The size S of the corpus, K, the length of documents and the scale of theta drop out; and h
    is never above rho, however few the tokens.

    theta_.k is taken to be the median over topics. By the mean, a topic that a long step has thrown far lengthens the
    steps of all, which throws others: SGRLD with 50 topics on 1,000 documents ran away.

    Args:
        friction: C, of SGRHMC by the splitting; None: of SGRLD and SCIR, where h is the step.
    """

    a: float
    b: float
    c: float
    friction: float | None = None

    def step_size(self, step: int, relaxation: float) -> float:
        """Of the step with this number, where `relaxation` is b."""
        moved = self.a * (1 + step / self.b) ** -self.c / relaxation
        return moved if self.friction is None else splitting_step(moved, self.friction)


def langevin_step(step_size: float, friction: float | None) -> float:
    """The time h of SGRLD's equation that a step covers; with a constant friction, by `splitting_step`."""
    return step_size if friction is None else step_size**2 / 2 / math.tanh(step_size * friction / 2)


def splitting_step(moved: float, friction: float) -> float:
    """The step eps of the splitting that moves theta as far as a Langevin step h, for a constant friction C and mass 1.

    A force F kicks the momentum by (eps/2) F before friction, which keeps a = exp(-eps C) of it, and (eps/2) F after:
    by eps (1 + a)/2 F in all. That momentum moves the position by eps in this step's second half and the next one's
    first half together, by eps a in the following, and so on: by eps / (1 - a) in all. So

        h = eps^2 (1 + a) / (2 (1 - a)) = (eps^2 / 2) coth(eps C / 2),

    eps / C where eps C is small, as it must be, and eps^2 / 2 where it is large. It grows with eps.
    """
    low, high = 0.0, math.sqrt(2 * moved)  # coth > 1
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if langevin_step(middle, friction) < moved else (low, middle)
    return high


StepPlan = Polynomial | float | Rate


class TopicChain(ABC):
    """The chain of a model: its state theta, and how a batch changes it."""

    def __init__(self, model: ExpandedMean, plan: StepPlan, seed: int):
        self.model, self.seed, self.plan = model, seed, plan
        self._sizes = None if isinstance(plan, Rate) else StepSizes(plan, MOST_STEPS)
        self._relaxation = 1.0  # b of a rate, by the last batch
        self.topic_steps: np.ndarray = np.ones(1)  # by topic, what its step is of the step size (SCIR)
        self.fixed_size: float | None = None  # of all steps from now on, instead of the plan

    @property
    @abstractmethod
    def recipe(self) -> Recipe:
        """Whose noise the steps have."""

    @property
    @abstractmethod
    def steps(self) -> int:
        """How many were made."""

    @property
    @abstractmethod
    def theta(self) -> np.ndarray:
        """(words, topics)."""

    @abstractmethod
    def _move(self, model: ExpandedMean, batch: DocumentBatch, step_size: float) -> bool:
        """Make a step; False, with the state as it was, where the new one would not be finite."""

    @abstractmethod
    def start_at(self, theta: np.ndarray) -> None:
        """Go to a place that was found by other means, with a new momentum if there is one."""

    @abstractmethod
    def _state(self) -> dict[str, np.ndarray]:
        """Arrays: "steps", "position" and whatever else there is."""

    @abstractmethod
    def _set_state(self, saved: dict[str, np.ndarray]) -> None: ...

    @property
    def phi(self) -> np.ndarray:
        return phi_of(self.theta)

    def step_size(self, step: int) -> float:
        """By a rate: as it is for batches such as the last."""
        if self.fixed_size is not None:
            return self.fixed_size
        if isinstance(self.plan, Rate):
            return self.plan.step_size(step, self._relaxation)
        assert self._sizes is not None
        return float(self._sizes.between(step, step + 1)[0])

    def step(self, batch: DocumentBatch) -> None:
        """Learn from a batch; NonFiniteError leaves the state as it was."""
        number = self.steps
        if isinstance(self.plan, Rate):
            tokens = batch.size / len(batch.documents) * batch.documents.tokens
            self._relaxation = 1 + float(tokens / (self.model.topics * np.median(column_sums(self.theta))))
        size = self.step_size(number)
        with suppress(NonFiniteError):
            if self._move(replace(self.model, size=batch.size), batch, size):
                return
        raise NonFiniteError(
            f"the topics are not finite after step {number} (step size {size:g}): take a smaller step size; "
            "what was learnt before is kept"
        )

    def saved(self) -> dict[str, np.ndarray]:
        """All that is needed to continue."""
        relaxation = {"relaxation": np.asarray(self._relaxation)} if isinstance(self.plan, Rate) else {}
        return self._state() | relaxation | {"topic_steps": self.topic_steps}

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        self._set_state(saved)
        self._relaxation = float(saved.get("relaxation", 1.0))
        self.topic_steps = np.asarray(saved.get("topic_steps", np.ones(1)))


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
