"""Where chains begin: at a place of their own, so that R-hat means something; or all at one, where that is wanted.

Chain 0 begins at the position that was given. Every other one is moved from there, at random, by its own seed:

- by a draw of Laplace's approximation, where the estimator has found a mode (`eg.ControlVariates()`);
- else by a jitter, uniform in every number between -a and a, with a the least of 2 (as in Stan), 6/sqrt(N) with N rows
  of data (a posterior is about that narrow) and 20 times what one step moves (steps fit the scale of a law, so a start
  that far off does no harm on laws of any scale).

Never further than half-way to a wall of the domain.
"""

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from ergodica.driver.constrained import start_key
from ergodica.driver.draws import Bath
from ergodica.driver.keys import Purpose
from ergodica.driver.request import PerChain, Request, Same
from ergodica.energy import Gaussian
from ergodica.errors import InputError
from ergodica.integrators import Kernel, Splitting, State
from ergodica.operators import DenseOperator, DiagonalOperator, LowRankOperator, Operator, ScalarOperator
from ergodica.output.labelled import named
from ergodica.phase import Point
from ergodica.targets.coordinates import sampled
from ergodica.targets.domain import leaf_boxes
from ergodica.targets.networks import is_start_function
from ergodica.tree import Layout

WIDEST_JITTER = 2.0
JITTER_BY_ROWS = 6.0
JITTER_STEPS = 20.0
CLOSER_STARTS = 2.0  # times the spread over chains, below which they began closer together than was asked for
START_TRIES = 8  # halvings of a start that is refused; then it is the position itself
LARGEST_BATH = 1_000  # numbers, with a matrix as mass or friction, for a thermometer: its directions are looked for
SMALL_POSITION = 2_000  # numbers of a position for which a product of matrices is looked at


# -- how a recipe moves at its start --------------------------------------------------------------------


class Motion:
    """At a state; found when it is asked for, which for one chain is next to nothing."""

    def __init__(self, kernel: Kernel, state: State, temperature: float):
        self.kernel, self.state, self.temperature = kernel, state, temperature

    @cached_property
    def point(self) -> Point:
        return self.kernel.recipe.point_at(self.kernel.target, self.state.phase, self.temperature)

    @cached_property
    def friction(self) -> float | None:
        """The mean of M^-1 D, where the only noise is on one Gaussian momentum and nothing else acts on that."""
        recipe = self.kernel.recipe
        is_known = len(recipe.energy) == 1 and recipe.momenta == tuple(recipe.diffusion)
        return _friction(self.kernel, self.point) if is_known else None

    @cached_property
    def bath(self) -> Bath | None:
        """What the thermometer by coordinate is read against, where it is exact: constant mass, friction and curl."""
        return None if self.friction is None else _bath(self.kernel, self.point)

    def reach(self, step_size: float) -> np.ndarray:
        """The sd of what one step adds to a position, for each number or one for all."""
        recipe, speed, diffusion = self.kernel.recipe, np.zeros(()), np.zeros(())
        for name in recipe.momenta:
            speed = np.sqrt(speed**2 + _speed(self.kernel, self.point, name) ** 2)
        if "position" in recipe.diffusion:
            diffusion = _diagonal(recipe.diffusion["position"].at(self.point, "position", "position"))
        moved = (step_size * speed) ** 2 + 2 * step_size * np.maximum(diffusion, 0)
        return np.sqrt(self.temperature * moved)


def _speed(kernel: Kernel, point: Point, name: str) -> np.ndarray:
    """The sd of the velocity that a momentum gives at temperature 1: sqrt(diag R^T M^-1 R), R the curl between momentum
    and position; of a matrix M^-1 its diagonal will do."""
    recipe = kernel.recipe
    energy, pair = recipe.energy[name], (name, "position")
    row, col = pair if pair in recipe.curl else ("position", name)
    operator = recipe.curl[row, col].at(point, row, col)
    if isinstance(operator, DenseOperator):
        matrix = np.asarray(operator.matrix, np.float64)
        turn = np.linalg.norm(matrix, axis=0 if row == name else 1)
    else:
        turn = np.abs(_diagonal(operator))
    if isinstance(energy, Gaussian):
        return turn * np.sqrt(_diagonal(energy.inverse_operator(Layout.of(point.slot(name)))))
    return turn / np.sqrt(np.asarray(getattr(energy, "mass", 1.0), float))


def _friction(kernel: Kernel, point: Point) -> float | None:
    recipe = kernel.recipe
    ((name, energy),) = recipe.energy.items()
    reads = [recipe.reads(point, key) for key in (*recipe.diffusion, *recipe.curl)]
    if not isinstance(energy, Gaussian) or any("potential" in read for read in reads):
        return None
    noise = recipe.diffusion[name].at(point, name, name)
    inverse = energy.inverse_operator(Layout.of(point.slot(name)))
    if _is_entrywise(noise) or _is_entrywise(inverse) or Layout.of(point.slot(name)).size > SMALL_POSITION:
        found = float(np.mean(_diagonal(noise) * _diagonal(inverse)))
    else:
        found = float(np.trace(np.asarray(inverse.to_dense()) @ np.asarray(noise.to_dense()))) / len(_diagonal(noise))
    return found if math.isfinite(found) and found > 0 else None


def _bath(kernel: Kernel, point: Point) -> Bath | None:
    recipe = kernel.recipe
    is_constant = not any(recipe.reads(point, key) for key in (*recipe.diffusion, *recipe.curl))
    if not is_constant or not isinstance(kernel.integrator, Splitting):
        return None
    ((name, energy),) = recipe.energy.items()
    assert isinstance(energy, Gaussian)
    row, col = recipe.curl_key(name, "position")
    turn = recipe.curl[row, col].at(point, row, col)
    mass = energy.mass_operator(Layout.of(point.slot(name)))
    friction = recipe.diffusion[name].at(point, name, name)
    if not (_is_entrywise(mass) and _is_entrywise(friction)) and Layout.of(point.slot(name)).size > LARGEST_BATH:
        return None
    return Bath(_entries(mass), _entries(friction), "numbers" if _is_entrywise(turn) else "whitened")


def _entries(operator: Operator) -> np.ndarray:
    """The diagonal, or all of a matrix."""
    return _diagonal(operator) if _is_entrywise(operator) else np.asarray(operator.to_dense(), np.float64)


def _is_entrywise(operator: Operator) -> bool:
    return isinstance(operator, ScalarOperator | DiagonalOperator)


def _diagonal(operator: Any) -> np.ndarray:
    """A number, or one for each of the slot, in the order of `ravel_pytree`."""
    if isinstance(operator, ScalarOperator):
        return np.asarray(operator.value, np.float64)
    if isinstance(operator, DiagonalOperator):
        return np.concatenate([np.asarray(x, np.float64).reshape(-1) for x in jax.tree.leaves(operator.value)])
    if isinstance(operator, LowRankOperator):  # few directions are corrected, and hardly any number by much
        return np.asarray(operator.value.diagonal, np.float64)
    return np.asarray(np.diagonal(np.asarray(operator.matrix)), np.float64)


# -- starts ---------------------------------------------------------------------------------------------


class Dispersal(NamedTuple):
    """What moves a start: from standard random numbers (d,) to a displacement (d,)."""

    words: str
    draw: Callable[[np.random.Generator, int], np.ndarray]
    push: Callable[[np.ndarray], np.ndarray]
    sds: np.ndarray
    """Of the displacement, for each number or one for all."""


class Starts:
    """The first states of the chains of a run.

    Attributes:
        dispersal: None where chains begin where they are told to.
    """

    def __init__(self, kernel: Kernel, request: Request):
        self.kernel, self.request = kernel, request
        self.position = kernel.target.init if request.init is None else request.init
        self.is_spread, self.dispersal = request.is_spread, None
        if isinstance(self.position, Same):
            self.position = self.position.position
        self.function = self.position if is_start_function(self.position) else None
        if not (request.init is None or self.function is not None or isinstance(self.position, PerChain)):
            self.position = sampled(kernel.target, self.position)
        if self.position is None:
            raise InputError("no start: give sample(..., init=position), or the target an `init`")

    def first(self) -> State:
        """That of chain 0."""
        return self._state(0, self._given(0))

    def others(self) -> list[State]:
        return [self._moved(chain) if self.is_spread else self._state(chain, self._given(chain))
                for chain in range(1, self.request.chains)]  # fmt: skip

    def jitter(self, motion: Motion, step_size: float) -> None:
        """Disperse by a jitter that fits steps of this size."""
        rows = JITTER_BY_ROWS / math.sqrt(self.kernel.target.size) if self.kernel.target.size else WIDEST_JITTER
        width = np.minimum(min(WIDEST_JITTER, rows), JITTER_STEPS * motion.reach(step_size))
        if not np.isfinite(width).all():
            width = np.zeros(())
        self.dispersal = Dispersal(
            "dispersed by a jitter", lambda rng, d: rng.uniform(-1, 1, d), lambda u: width * u, width / math.sqrt(3)
        )

    def laplace(self, whitening: Any) -> None:
        """Disperse by draws of Laplace's approximation at the mode."""
        root, whitening = math.sqrt(self.request.temperature), whitening.bounded()
        self.dispersal = Dispersal(
            "dispersed by Laplace's width", lambda rng, d: rng.normal(size=d), lambda u: root * whitening.push(u),
            root * whitening.sds(),
        )  # fmt: skip

    def words(self, positions: list[PyTree]) -> dict[str, Any]:
        """For the settings: how chains began, and how far apart, by leaf.

        Widths are those asked for, as few chains tell them badly; unless the chains really began much closer, at a
        wall or where most starts were refused. `positions`: where they began.
        """
        has_own = self.function is not None or isinstance(self.position, PerChain)
        if self.dispersal is None and not has_own:
            return {"starts": "one", "start_widths": None}
        real = _spreads([self._drawn(position) for position in positions])
        if self.dispersal is None:
            is_apart = any(spread > 0 for spread in real.values())
            return {"starts": "dispersed" if is_apart else "one", "start_widths": None}
        if len(positions) > 1 and not any(spread > 0 for spread in real.values()):
            return {"starts": "one", "start_widths": None}
        widths = {name: float(np.sqrt(np.mean(np.square(x)))) for name, x in self._asked().items() if np.size(x)}
        if len(positions) > 1:
            widths = {name: min(width, CLOSER_STARTS * real[name]) for name, width in widths.items()}
        return {"starts": self.dispersal.words, "start_widths": widths}

    def _drawn(self, position: PyTree) -> PyTree:
        """As draws are, which widths are compared with."""
        coordinates = self.kernel.target.coordinates
        return position if coordinates is None else coordinates.drawn(position)

    def _asked(self) -> dict[str, Any]:
        """The sds of the displacement by name; through a transform to first order."""
        assert self.dispersal is not None
        values, structure = jax.tree.flatten(self.position)
        sds = np.broadcast_to(self.dispersal.sds, (sum(value.size for value in values),))
        parts = np.split(sds, np.cumsum([value.size for value in values])[:-1])
        pairs = zip(parts, values, strict=True)
        if self.kernel.target.coordinates is None:
            return named(jax.tree.unflatten(structure, [part.reshape(value.shape) for part, value in pairs]))
        moves = jax.tree.unflatten(structure, [part.reshape(x.shape).astype(x.dtype) for part, x in pairs])
        return named(jax.jvp(self._drawn, (jax.tree.map(jnp.asarray, self.position),), (moves,))[1])

    def _given(self, chain: int) -> PyTree:
        if self.function is not None:
            return sampled(self.kernel.target, self.function(self._key(chain, Purpose.START)))
        if isinstance(self.position, PerChain):
            return self.position.positions[chain % len(self.position.positions)]
        return self.position

    def _key(self, chain: int, purpose: Purpose) -> Any:
        return start_key(self.request.seed, chain, purpose)

    def _state(self, chain: int, position: PyTree) -> State:
        return self.kernel.init(position, self._key(chain, Purpose.INIT), self.request.temperature)

    def _moved(self, chain: int) -> State:
        """The state at a start of its own; closer to the position where the target or the recipe refuses it, as where
        the potential is not finite."""
        assert self.dispersal is not None
        leaves, structure = jax.tree.flatten(self.position)
        values = [np.asarray(leaf) for leaf in leaves]
        rng = np.random.default_rng([self.request.seed, chain, int(Purpose.START)])
        shift = self.dispersal.push(self.dispersal.draw(rng, sum(value.size for value in values)))
        room = _room(self.kernel.target.domain, self.position, values)
        for _ in range(START_TRIES):
            moved = _shifted(values, shift, room)
            try:
                return self._state(chain, jax.tree.unflatten(structure, moved))
            except InputError:
                shift = shift / 2
        return self._state(chain, self.position)


def _spreads(positions: list[PyTree]) -> dict[str, float]:
    """The sd of the starts over chains, by leaf."""
    leaves = [named(jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), position)) for position in positions]
    return {
        name: float(np.sqrt(np.mean(np.var([one[name] for one in leaves], axis=0, ddof=min(1, len(leaves) - 1)))))
        for name, leaf in leaves[0].items()
        if leaf.size
    }


def _room(domain: PyTree, position: PyTree, values: list[np.ndarray]) -> list[tuple[Any, Any]]:
    """How far each number may go down and up: half-way to the wall."""
    if domain is None:
        return [(math.inf, math.inf)] * len(values)
    room = []
    for box, value in zip(leaf_boxes(domain, position), values, strict=True):
        low, high = (-math.inf, math.inf) if box is None else (np.asarray(box.low), np.asarray(box.high))
        here = value.astype(np.float64)
        room.append(((here - low) / 2, (high - here) / 2))
    return room


def _shifted(values: list[np.ndarray], shift: np.ndarray, room: list[tuple[Any, Any]]) -> list[np.ndarray]:
    moved, begin = [], 0
    for value, (down, up) in zip(values, room, strict=True):
        part = shift[begin : begin + value.size].reshape(value.shape)
        far = np.where(part < 0, down, up)
        with np.errstate(all="ignore"):
            part = np.where(far > 0, part / (1 + np.abs(part) / far), 0.0)  # shorter, the closer it comes to a wall
        moved.append((value.astype(np.float64) + part).astype(value.dtype))
        begin += value.size
    return moved
