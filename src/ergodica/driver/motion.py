"""How a recipe moves at its start, in plain numbers: how far one step goes, and how strong its friction is."""

import math
from typing import Any, NamedTuple

import jax
import numpy as np

from ergodica.energy import Gaussian
from ergodica.integrators import Kernel, State
from ergodica.operators import DiagonalOperator, Operator, ScalarOperator
from ergodica.phase import Point
from ergodica.tree import Layout

SMALL = 2_000  # numbers of a position for which a product of matrices is looked at


class Motion(NamedTuple):
    """At temperature 1, for each number of the position, or one for all."""

    speed: np.ndarray
    """The sd of the velocity that momenta give."""
    diffusion: np.ndarray
    """The diagonal of D on the position itself."""
    friction: float | None
    """The mean of M^-1 D, where the only noise is on one Gaussian momentum and nothing else acts on that; else None."""

    def reach(self, step_size: float, temperature: float) -> np.ndarray:
        """The sd of what one step adds to a position."""
        return np.sqrt(temperature * ((step_size * self.speed) ** 2 + 2 * step_size * self.diffusion))


def motion_of(kernel: Kernel, state: State, temperature: float) -> Motion:
    recipe = kernel.recipe
    point = recipe.point_at(kernel.target, state.phase, temperature)
    speed, diffusion = np.zeros(()), np.zeros(())
    for name in recipe.momenta:
        speed = np.sqrt(speed**2 + _speed(kernel, point, name) ** 2)
    if "position" in recipe.diffusion:
        diffusion = _diagonal(recipe.diffusion["position"].at(point, "position", "position"))
    return Motion(speed, np.maximum(diffusion, 0), _friction(kernel, point))


def _speed(kernel: Kernel, point: Point, name: str) -> np.ndarray:
    """sqrt(diag R^T M^-1 R), R the curl between momentum and position; of a matrix its diagonal will do."""
    recipe = kernel.recipe
    energy, pair = recipe.energy[name], (name, "position")
    row, col = pair if pair in recipe.curl else ("position", name)
    turn = np.abs(_diagonal(recipe.curl[row, col].at(point, row, col)))
    if isinstance(energy, Gaussian):
        return turn * np.sqrt(_diagonal(energy.inverse_operator(Layout.of(point.slot(name)))))
    return turn / np.sqrt(np.asarray(getattr(energy, "mass", 1.0), float))


def _friction(kernel: Kernel, point: Point) -> float | None:
    recipe = kernel.recipe
    if len(recipe.energy) != 1 or recipe.momenta != tuple(recipe.diffusion):
        return None
    ((name, energy),) = recipe.energy.items()
    reads = [recipe.reads(point, key) for key in (*recipe.diffusion, *recipe.curl)]
    if not isinstance(energy, Gaussian) or any("potential" in read for read in reads):
        return None
    noise = recipe.diffusion[name].at(point, name, name)
    inverse = energy.inverse_operator(Layout.of(point.slot(name)))
    if _is_entrywise(noise) or _is_entrywise(inverse) or Layout.of(point.slot(name)).size > SMALL:
        found = float(np.mean(_diagonal(noise) * _diagonal(inverse)))
    else:
        found = float(np.trace(np.asarray(inverse.to_dense()) @ np.asarray(noise.to_dense()))) / len(_diagonal(noise))
    return found if math.isfinite(found) and found > 0 else None


def _is_entrywise(operator: Operator) -> bool:
    return isinstance(operator, ScalarOperator | DiagonalOperator)


def _diagonal(operator: Any) -> np.ndarray:
    """A number, or one for each of the slot, in the order of `ravel_pytree`."""
    if isinstance(operator, ScalarOperator):
        return np.asarray(operator.value, np.float64)
    if isinstance(operator, DiagonalOperator):
        return np.concatenate([np.asarray(x, np.float64).reshape(-1) for x in jax.tree.leaves(operator.value)])
    return np.asarray(np.diagonal(np.asarray(operator.matrix)), np.float64)
