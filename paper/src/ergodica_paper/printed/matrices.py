"""D and Q as section 3 prints them, and the updates that are right as printed, written out by hand at one flat phase.

z = theta, (theta, r) or (theta, r, xi). Eq. `SGRLD` and Eq. `ExSGRHMC` have slips in the update, not in D and Q: they
are in `equations`. The SGHMC paragraph's D is here the C of Eq. `SGHMC`, not its eps V.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

Pair = tuple[np.ndarray, np.ndarray]


class Printed(NamedTuple):
    """z -> (D, Q), and (z, grad U) -> drift or None."""

    matrices: Callable[[np.ndarray], Pair]
    drift: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None


def _hamiltonian(root: np.ndarray) -> np.ndarray:
    """Q = [[0, -root], [root, 0]]."""
    zero = np.zeros_like(root)
    return np.block([[zero, -root], [root, zero]])


def _on_momentum(block: np.ndarray) -> np.ndarray:
    zero = np.zeros_like(block)
    return np.block([[zero, zero], [zero, block]])


def hmc(mass: np.ndarray) -> Printed:
    d = len(mass)
    return Printed(
        lambda z: (np.zeros((2 * d, 2 * d)), _hamiltonian(np.eye(d))),
        lambda z, slope: np.concatenate([np.linalg.solve(mass, z[d:]), -slope]),
    )


def sghmc(friction: float, mass: np.ndarray) -> Printed:
    d = len(mass)

    def drift(z: np.ndarray, slope: np.ndarray) -> np.ndarray:
        velocity = np.linalg.solve(mass, z[d:])
        return np.concatenate([velocity, -slope - friction * velocity])

    return Printed(lambda z: (_on_momentum(friction * np.eye(d)), _hamiltonian(np.eye(d))), drift)


def sgld(diffusion: np.ndarray) -> Printed:
    return Printed(lambda z: (diffusion, np.zeros_like(diffusion)), lambda z, slope: -diffusion @ slope)


def sgrld(inverse_metric: Callable[[np.ndarray], np.ndarray]) -> Printed:
    return Printed(lambda z: (inverse_metric(z), np.zeros((len(z), len(z)))))


def sgnht(level: float) -> Printed:
    def matrices(z: np.ndarray) -> Pair:
        d = len(z) // 2
        curl, r = np.zeros((2 * d + 1, 2 * d + 1)), z[d : 2 * d]
        curl[: 2 * d, : 2 * d] = _hamiltonian(np.eye(d))
        curl[d : 2 * d, 2 * d], curl[2 * d, d : 2 * d] = r / d, -r / d
        return np.diag([0.0] * d + [level] * d + [0.0]), curl

    def drift(z: np.ndarray, slope: np.ndarray) -> np.ndarray:
        d = len(slope)
        r, xi = z[d : 2 * d], z[2 * d]
        return np.concatenate([r, -slope - xi * r, [r @ r / d - 1]])

    return Printed(matrices, drift)


def sgrhmc(inverse_metric: Callable[[np.ndarray], np.ndarray], d: int) -> Printed:
    def matrices(z: np.ndarray) -> Pair:
        inverse = inverse_metric(z[:d])
        values, vectors = np.linalg.eigh(inverse)
        return _on_momentum(inverse), _hamiltonian(vectors * np.sqrt(values) @ vectors.T)

    return Printed(matrices)
