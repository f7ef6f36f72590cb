"""The stationary covariance of a linear chain: Sigma = A Sigma A^T + S, in float64, by doubling."""

from collections.abc import Callable

import numpy as np

from ergodica.errors import InputError

ROUNDS = 60  # doublings: a chain that needs more than 2^60 steps to forget cannot be told from one that never does
FEEDBACK_ROUNDS = 5_000


def radius(matrix: np.ndarray) -> float:
    """The spectral radius."""
    return float(np.max(np.abs(np.linalg.eigvals(matrix))))


class Doubling:
    """Sigma = sum_k A^k S (A^k)^T for any S, the first 2^m terms in m rounds (Smith, 1968).

    With Sigma_m the sum of the first 2^m terms, Sigma_(m+1) = Sigma_m + A^(2^m) Sigma_m (A^(2^m))^T.
    """

    def __init__(self, transition: np.ndarray):
        self.powers = [transition]
        # the round after one with a power of size p adds p^4 of what is there
        while np.linalg.norm(self.powers[-1]) > 1e-5:
            if len(self.powers) == ROUNDS or not np.all(np.isfinite(self.powers[-1])):
                raise InputError(
                    f"the spectral radius {radius(transition):.15g} of a step is too close to 1 for float64: take a "
                    "larger step, or scale the target's coordinates"
                )
            self.powers.append(self.powers[-1] @ self.powers[-1])

    def solve(self, noise: np.ndarray) -> np.ndarray:
        total = noise
        for power in self.powers:
            total = total + power @ total @ power.T
        return (total + total.T) / 2


def solve_with_feedback(
    doubling: Doubling, noise: np.ndarray, feedback: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray | None:
    """Sigma = A Sigma A^T + S + feedback(Sigma), `feedback` linear and PSD for PSD arguments; None if there is none.

    Summed as a Neumann series. What comes back in each round is PSD, so it turns into the slowest direction of the map,
    whose eigenvalue is its spectral radius: the series converges exactly when that is below 1, and once only this
    direction is left, the rest of the series is geometric.
    """
    total = added = doubling.solve(noise)
    for _ in range(FEEDBACK_ROUNDS):
        before, added = added, doubling.solve(feedback(added))
        size = np.linalg.norm(added)
        if size <= 1e-17 * np.linalg.norm(total):
            return total
        total = total + added
        ratio = np.sum(added * before) / np.sum(before * before)
        others = np.linalg.norm(added - ratio * before) / size
        if others < 1e-6 and ratio >= 1:
            return None
        if others < 1e-13:
            return total + added * ratio / (1 - ratio)
    raise InputError(
        "the effect of the batches' noise on itself did not settle: the step is too close to the largest stable one; "
        "take a smaller step"
    )
