"""A mode of a target, and the Laplace approximation there: where control variates are centred, and how to scale.

L-BFGS (optax) in coordinates whitened by the matrix of second derivatives, first on some rows of the data, then on all.
It runs on the host, for potentials too large to be compiled whole, such as those over data on disk.
"""

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ergodica.compiling import quick_jit, sound_filter_jit
from ergodica.errors import InputError
from ergodica.targets import Posterior, Target
from ergodica.targets.coordinates import begun_at, sampled, seen
from ergodica.targets.domain import contains
from ergodica.targets.posterior import evaluate_all, hessian, hessian_all
from ergodica.tree import Layout

Evaluate = Callable[[np.ndarray], tuple[float, np.ndarray]]

LARGEST_DENSE = 2_000  # numbers of a position whose matrix of second derivatives is held
FIRST_ROWS = 20_000
ROUND_STEPS = 60  # iterations before the coordinates are whitened again
LEAST_CURVATURE = 1e-9  # of the largest
WIDEST_RATIO = 1e3  # sds of the narrowest direction that a start is moved at most in another one
LEAST_FALL = 1e-4  # of the largest: a more negative curvature is no rounding
ARMIJO_SHARE, SLOPE_SHARE = 1e-4, 0.9  # of the slope: how far a step must fall, and how flat it must become
MOST_TRIALS = 30  # of a step along one direction


class Mode(NamedTuple):
    """Where `eg.find_mode` stopped: a position, and how good it is.

    `eg.ControlVariates(mode)` takes it as a reference, `mode.position` is a start.

    Example:
        >>> import ergodica as eg
        >>> target = eg.gallery.gaussian(covariance=4.0)
        >>> eg.find_mode(target).covariance(target).round(3)
        array([[4.]])
    """

    position: PyTree
    potential: Array
    gradient_norm: float
    evaluations: int
    """Of the potential and its gradient from all data."""
    distance: float
    """To the mode, in standard deviations of the Gaussian with the curvature H there: sqrt(g·H^-1 g / d)."""
    is_converged: bool
    whitening: "Whitening | None" = None
    """Coordinates in which the law near the mode is a standard normal, as the search left them."""
    hessians: int = 0
    """How many matrices of second derivatives were taken from all data."""
    unconstrained: PyTree = None
    """The position as chains hold it, where a `transform` or a network lies between; else the same."""

    def __repr__(self) -> str:
        end = "" if self.is_converged else ", not converged"
        where = f"{self.distance:.2g} sd from the mode" if math.isfinite(self.distance) else "distance unknown"
        size, potential = Layout.of(self.unconstrained).size, float(self.potential)
        return f"Mode({size:,} numbers, potential {potential:.6g}, {where}, {self.evaluations} evaluations{end})"

    def covariance(self, target: Target) -> np.ndarray:
        """The inverse of the second derivatives from all data (Laplace): (d, d), in the order of `ravel_pytree`, of
        unconstrained numbers."""
        d = Layout.of(self.unconstrained).size
        if d > LARGEST_DENSE:
            raise InputError(f"the position has {d} numbers: a covariance is held for at most {LARGEST_DENSE}")
        curvatures = hessian_all(target, self.unconstrained)
        values, vectors = np.linalg.eigh((curvatures + curvatures.T) / 2)
        if not (np.isfinite(values).all() and values[0] > 0):
            raise InputError(
                f"the smallest curvature of the potential at the mode is {values[0]:.3g}, so it is no strict minimum "
                "and Laplace's covariance does not exist: a flat or unidentified direction needs a prior"
            )
        return (vectors / values) @ vectors.T


def find_mode(
    target: Target,
    init: PyTree = None,
    batch_size: int | None = None,
    *,
    tolerance: float = 0.01,
    evaluations: int = 500,
    seed: int = 0,
) -> Mode:
    """A minimum of the potential near `init`.

    Use it to start a run where the density is high, or to centre control variates. A search that stops short warns, and
    says so in `is_converged`.

    Args:
        target: an eg.Density or eg.Posterior; with data on disk each evaluation is one pass over them.
        init: where to begin; None: `target.init`.
        batch_size: how many rows, chosen once, the search begins with where there are more than twice as many (20,000).
        tolerance: the distance to the mode at which to stop, in standard deviations of the law near it.
        evaluations: how many evaluations from all data are allowed.
        seed: of the choice of rows.

    Returns:
        An `eg.Mode`: the position, the potential there, and how far the mode still is.

    Example:
        >>> import ergodica as eg
        >>> mode = eg.find_mode(eg.gallery.gaussian(mean=[3.0]))
        >>> round(float(mode.position[0]), 3), mode.is_converged
        (3.0, True)

    L-BFGS: Liu and Nocedal (1989), https://doi.org/10.1007/BF01589116.
    """
    if target.init is None and init is None:
        raise InputError("no start: give find_mode(target, init), or the target an `init`")
    if not target.has_potential:
        raise InputError("find_mode needs the potential, but this target gives gradients only")
    target = begun_at(target, init)
    position = target.init if init is None else sampled(target, init)
    return found_mode(target, position, batch_size, tolerance=tolerance, evaluations=evaluations, seed=seed)


def found_mode(
    target: Target,
    position: PyTree,
    batch_size: int | None = None,
    *,
    tolerance: float = 0.01,
    evaluations: int = 500,
    seed: int = 0,
) -> Mode:
    """`find_mode`, from a position as chains hold it."""
    position = jax.tree.map(jnp.asarray, position)
    target.check(position)
    search = _ModeSearch(target, Layout.of(position), batch_size, seed)
    point = np.asarray(search.layout.ravel(position), np.float64)
    if search.rows is not None:
        point = search.run(search.on_rows, point, 0.1, 4 * evaluations)[0].point
    place, distance, is_stuck = search.run(search.on_all, point, tolerance, evaluations)
    # where values are rounded more coarsely than the tolerance asks, a tenth of a standard deviation is a mode found
    is_converged = distance <= (max(tolerance, 0.1) if is_stuck else tolerance)
    if not is_converged:
        warnings.warn(search.complaint(place, distance), stacklevel=3)
    potential, norm = jnp.asarray(place.value, search.layout.dtype), float(np.linalg.norm(place.gradient))
    end, whitening = search.position(place.point), search.last_whitening
    known = (potential, norm, search.evaluations, distance, is_converged, whitening, search.hessians)
    return Mode(seen(target.coordinates, end), *known, unconstrained=end)


class Evaluated(NamedTuple):
    """A point with the value and gradient there."""

    point: np.ndarray
    value: float
    gradient: np.ndarray


class _ModeSearch:
    """The potential as a function of a flat vector, from some rows and from all."""

    def __init__(self, target: Target, layout: Layout, batch_size: int | None, seed: int):
        self.target, self.layout, self.evaluations, self.hessians = target, layout, 0, 0
        self.bare, self.rows = target.without_data(), None
        self.last_whitening: Whitening | None = None
        if not isinstance(target, Posterior):
            return
        if batch_size is not None:
            target.check_batch_size(batch_size)
        first = FIRST_ROWS if batch_size is None else batch_size
        if target.size > 2 * first:
            index = np.sort(np.random.default_rng(seed).choice(target.size, first, replace=False))
            self.rows = jax.tree.map(jnp.asarray, target.rows(index))

    def run(self, evaluate: Evaluate, point: np.ndarray, tolerance: float, most: int) -> tuple[Evaluated, float, bool]:
        """Rounds of L-BFGS, each in coordinates whitened where the last one ended; the place, the distance from there
        to the mode, and whether it ended because no better point was found."""
        rounding = 8 * float(jnp.finfo(self.layout.dtype).eps)
        before, here, stuck = self.evaluations, Evaluated(point, *evaluate(point)), 0
        while True:
            scale = self.last_whitening = self.whitening(here.point)
            white = Evaluated(np.zeros_like(here.point), here.value, scale.pull(here.gradient))
            distance = float(np.linalg.norm(white.gradient)) / math.sqrt(self.layout.size)
            # stuck in two sets of coordinates: it is not the direction that was bad
            if stuck == 2 or self.evaluations - before >= most:
                return here, distance, True
            if distance <= tolerance:
                lower = self.lower_than_a_saddle(evaluate, here, scale)
                if lower is None:
                    return here, distance, False
                here = lower
                continue
            goal = tolerance * math.sqrt(self.layout.size) / 2
            end, is_stuck = descend(partial(_moved, evaluate, here.point, scale), white, goal, ROUND_STEPS, rounding)
            stuck = stuck + 1 if is_stuck else 0
            point = here.point + scale.push(end.point)
            here = Evaluated(point, end.value, scale.unpull(end.gradient))

    def lower_than_a_saddle(self, evaluate: Evaluate, here: Evaluated, scale: "Whitening") -> Evaluated | None:
        """A lower place along the most negative curvature, None where there is none, or no lower one."""
        if scale.falls is None:
            return None
        tried = [Evaluated(point, *evaluate(point)) for point in (here.point + scale.falls, here.point - scale.falls)]
        lowest = min(tried, key=lambda place: place.value)
        return lowest if lowest.value < here.value and np.isfinite(lowest.gradient).all() else None

    def on_rows(self, point: np.ndarray) -> tuple[float, np.ndarray]:
        return self._inside(point, lambda position: _evaluate(self.bare, position, self.rows))

    def on_all(self, point: np.ndarray) -> tuple[float, np.ndarray]:
        self.evaluations += 1
        target = self.target
        if isinstance(target, Posterior):
            return self._inside(point, lambda position: evaluate_all(target, position))
        return self._inside(point, lambda position: _evaluate(self.bare, position, None))

    def whitening(self, point: np.ndarray) -> "Whitening":
        """Coordinates in which the potential has curvature about 1, or -1, near the point."""
        position = self.position(point)
        if self.layout.size > LARGEST_DENSE:
            curvature = float(_largest_curvature(self.bare, position, self._some_rows(), self.layout))
            is_good = math.isfinite(curvature) and curvature != 0
            return Whitening(np.sqrt(abs(curvature)) if is_good else np.float64(1))
        if self.rows is None:
            curvatures = hessian_all(self.target, position)
            self.hessians += 1
        else:
            curvatures = np.asarray(hessian(self.bare, position, self.rows, self.layout), np.float64)
        if not (np.isfinite(curvatures).all() and curvatures.any()):
            return Whitening(np.float64(1))
        values, vectors = np.linalg.eigh((curvatures + curvatures.T) / 2)
        largest = np.abs(values).max()
        roots = np.sqrt(np.maximum(np.abs(values), LEAST_CURVATURE * largest))  # a saddle repels
        falls = vectors[:, 0] / roots[0] if values[0] < -LEAST_FALL * largest else None
        return Whitening(roots, vectors, falls)

    def position(self, point: np.ndarray) -> PyTree:
        return self.layout.unravel(jnp.asarray(point, self.layout.dtype))

    def complaint(self, place: Evaluated, distance: float) -> str:
        values = f"potential {place.value:.6g}, about {distance:.2g} standard deviations away"
        advice = "start elsewhere, allow more evaluations, or look at the model: the density may have no maximum"
        if self.target.domain is not None:
            advice += "; near the edge of the domain there may be none inside: change the variable (a logarithm)"
        return f"find_mode did not converge after {self.evaluations} evaluations ({values}): {advice}"

    def _some_rows(self) -> PyTree:
        if isinstance(self.target, Posterior) and self.rows is None:
            return jax.tree.map(jnp.asarray, self.target.rows(slice(None)))
        return self.rows

    def _inside(self, point: np.ndarray, evaluate: Callable) -> tuple[float, np.ndarray]:
        position = self.position(point)
        if self.target.domain is not None and not contains(self.target.domain, position):
            return math.inf, np.full_like(point, np.nan)
        value, gradient = evaluate(position)
        return float(value), np.asarray(self.layout.ravel(gradient), np.float64)


class Whitening(NamedTuple):
    """x = push(u), with vectors v_k of curvature roots_k^2: push u = sum_k u_k v_k / roots_k."""

    roots: Any  # one for each vector, or one for all
    vectors: np.ndarray | None = None  # None: those of the coordinates
    falls: np.ndarray | None = None  # a unit along the most negative curvature, where there is such

    def push(self, u: np.ndarray) -> np.ndarray:
        return u / self.roots if self.vectors is None else self.vectors @ (u / self.roots)

    def pull(self, gradient: np.ndarray) -> np.ndarray:
        return (gradient if self.vectors is None else self.vectors.T @ gradient) / self.roots

    def unpull(self, gradient: np.ndarray) -> np.ndarray:
        return gradient * self.roots if self.vectors is None else self.vectors @ (gradient * self.roots)

    def sds(self) -> np.ndarray:
        """Of each coordinate, where u is a standard normal; one for all without vectors."""
        return 1 / self.roots if self.vectors is None else np.sqrt(np.square(self.vectors / self.roots).sum(axis=1))

    def bounded(self) -> "Whitening":
        """No direction more than WIDEST_RATIO times as wide as the narrowest: an unidentified one has no end."""
        return self._replace(roots=np.maximum(self.roots, np.max(self.roots) / WIDEST_RATIO))


def _moved(evaluate: Evaluate, origin: np.ndarray, scale: Whitening, u: np.ndarray) -> tuple[float, np.ndarray]:
    value, gradient = evaluate(origin + scale.push(u))
    return value, scale.pull(gradient)


@sound_filter_jit
def _evaluate(target: Target, position: PyTree, rows: PyTree) -> tuple[Array, PyTree]:
    return target.evaluate(position, rows)


@sound_filter_jit
def _largest_curvature(target: Target, position: PyTree, rows: PyTree, layout: Layout) -> Array:
    """The curvature along the gradient: a power of the matrix leans to its largest."""
    vector = layout.ravel(position)

    def slope(v: Array) -> Array:
        return layout.ravel(target.evaluate(layout.unravel(v), rows)[1])

    gradient = slope(vector)
    unit = gradient / jnp.linalg.norm(gradient)
    return jnp.vdot(unit, jax.jvp(slope, (vector,), (unit,))[1])


def descend(
    evaluate: Evaluate, start: Evaluated, tolerance: float, iterations: int, rounding: float
) -> tuple[Evaluated, bool]:
    """Steps down from `start` until the gradient is at most `tolerance`; whether no better point could be found.

    The points are expected in coordinates where curvatures are about 1. `rounding` is the relative error of values.
    """
    init, update = _lbfgs()
    with _double():
        state = init(jnp.asarray(start.point))
    here = start
    for _ in range(iterations):
        if np.linalg.norm(here.gradient) <= tolerance:
            return here, False
        with _double():
            scaled, state = update(jnp.asarray(here.gradient), state, jnp.asarray(here.point))
        direction = -np.asarray(scaled)
        if not (np.isfinite(direction).all() and direction @ here.gradient < 0):
            direction = -here.gradient
        new = search(evaluate, here, direction, rounding)
        if new is None:
            return here, True
        here = new
    return here, False


@contextmanager
def _double() -> Iterator[None]:
    """float64, for products of small differences; optax mixes integers, which strict promotion refuses."""
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


@cache
def _lbfgs() -> tuple[Callable, Callable]:
    import optax

    rule = optax.scale_by_lbfgs(memory_size=10)
    return quick_jit(rule.init), quick_jit(rule.update)


def search(evaluate: Evaluate, here: Evaluated, direction: np.ndarray, rounding: float) -> Evaluated | None:
    """A point along `direction` with Wolfe's two conditions, by bisection (Lewis and Overton, 2013); None without one.

    Where values differ by less than they are rounded, slopes decide (the approximate condition of Hager and Zhang).
    """
    slope, slack = float(direction @ here.gradient), rounding * abs(here.value)
    low, high, length = 0.0, math.inf, min(1.0, 10.0 / float(np.linalg.norm(direction)))
    best: Evaluated | None = None
    for _ in range(MOST_TRIALS):
        point = here.point + length * direction
        value, gradient = evaluate(point)
        is_finite = math.isfinite(value) and bool(np.isfinite(gradient).all())
        new_slope = float(direction @ gradient) if is_finite else math.inf
        falls = is_finite and value <= here.value + ARMIJO_SHARE * length * slope
        is_level = is_finite and value <= here.value + slack and new_slope <= (2 * ARMIJO_SHARE - 1) * slope
        if not (falls or is_level):
            high = length
        else:
            best = Evaluated(point, value, gradient)
            if new_slope >= SLOPE_SHARE * slope:
                return best
            low = length
        length = 2 * low if math.isinf(high) else (low + high) / 2
        if high - low <= 1e-12 * length:
            break
    return best
