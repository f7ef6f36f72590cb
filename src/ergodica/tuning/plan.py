"""The plan: which way to sample, with which step, friction, batch and length, and what each way would cost.

Costs are counted in rows read, never by a clock, so that the plan is the same on every machine. The length follows from
the sum that decides in the end (diagnostics/accuracy.py): with errors e^2 = tau2 / (2 steps) of sds,

    s + z sqrt(e_run^2 (1 + 1/9) + e_witness^2 / 9) <= sd,

s the predicted bias. Step, batch, the share of the bias and the length of the witness are searched on a grid.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree
from scipy.stats import norm

from ergodica.diagnostics.accuracy import LEVERAGE, Accuracy
from ergodica.targets import Posterior, Target
from ergodica.tuning import law
from ergodica.tuning.curvature import PosteriorRoot
from ergodica.tuning.laplace import Laplace
from ergodica.tuning.noise import Noise

STEP_OPERATIONS = 20_000  # what a step costs beside its rows, and
NUMBER_OPERATIONS = 12  # for each pair of numbers of the position
TRANSCENDENTAL_OPERATIONS = 10
BIAS_SHARES = np.linspace(0.1, 0.6, 11)  # of the tolerance of sds
WITNESS_SHARES = (0.1, 0.15, 0.2, 0.25, 0.35, 0.5)  # steps of the witness over those of the run
SMALLEST_BATCH = 16
LARGEST_FEEDBACK = 0.5  # of x mean(w) at twice the step: there must still be a law
LENGTH_MARGIN = 1.1  # stopping where the error is small enough favours errors that are underestimated
DOUBT = 1.5  # without a Metropolis test more is assumed: that must be cheaper by so much
JITTERED_DRAWS = 1.1  # trajectories for an independent draw, were all accepted: their lengths vary by a fifth
MOST_LEAPS = 64
QUARTER_TURN = math.pi / 2  # the length of a trajectory in whitened units after which a Gaussian is forgotten
SETTLING_TIMES = 6.0  # correlation times before the first draw that is kept
DRAWS_PER_TIME = 3.0  # kept in a correlation time
MIDDLE_OPERATIONS = 1e6  # of one gradient from all data: below that the driver costs more, and Metropolis is safer
LARGEST_ROUNDING = 0.25  # of the potential over the temperature: a Metropolis test goes by differences of about 1


class SamplingWay(NamedTuple):
    """One way to sample, and its price; lengths in steps of all chains together."""

    method: str
    """"minibatches", "all data" (the splitting) or "Metropolis"."""
    passes: float
    """Over the data, with the witness."""
    cost: float
    """The same with what steps cost beside their rows."""
    step_size: float
    steps: float
    friction: float | None = None
    witness_steps: float = 0.0
    batch_size: int | None = None
    leaps: int = 0
    """Leapfrog steps of a trajectory."""
    bias: float = 0.0
    """Predicted, of the sd in the worst direction."""
    time: float = 1.0
    """tau2: steps for an independent draw of a square."""
    slowest: float = 1.0
    """The curvature of the direction that takes longest, in whitened units."""

    @property
    def c(self) -> float:
        return float(law.coth_of_friction(self.friction or np.inf, self.step_size))

    @property
    def warmup(self) -> int:
        if self.method == "Metropolis":
            return 20
        time = float(law.time_of_means(self.step_size, self.c, self.slowest))
        return math.ceil(SETTLING_TIMES * max(1.0, time, self.c))

    @property
    def thin(self) -> int:
        return 1 if self.method == "Metropolis" else max(1, int(self.time / DRAWS_PER_TIME))

    def doubled(self) -> "SamplingWay":
        """The witness: twice the step at constant friction times step."""
        assert self.friction is not None
        step, friction = 2 * self.step_size, self.friction / 2
        time = float(law.time_of_squares(step, self.c, self.slowest))
        return self._replace(step_size=step, friction=friction, steps=self.witness_steps, time=time)

    def halved(self) -> "SamplingWay":
        """The next rung: half the step, four times the steps."""
        assert self.friction is not None
        step, friction = self.step_size / 2, 2 * self.friction
        time = float(law.time_of_squares(step, self.c, self.slowest))
        return self._replace(step_size=step, friction=friction, steps=4 * self.steps, time=time)


class Costs(NamedTuple):
    """What a step costs, in rows."""

    rows: int
    """N; 1 for a target without rows."""
    beside: float
    """c0: what a step costs beside its rows."""
    operations: float
    """Of one row's gradient."""


def costs_of(target: Target, found: Laplace) -> Costs:
    """Counted by XLA for the program before it is compiled."""
    rows = target.size if isinstance(target, Posterior) else 1
    assert rows is not None
    operations = row_operations(target, found.position(found.peak.point))
    beside = (STEP_OPERATIONS + NUMBER_OPERATIONS * found.size ** (2 if found.peak.root.is_dense else 1)) / operations
    return Costs(rows, beside, operations)


def row_operations(target: Target, position: PyTree) -> float:
    bare = target.without_data()
    if not isinstance(target, Posterior):
        return _operations(bare, position, None)
    few, many = (target.rows(np.arange(min(count, target.size))) for count in (32, 256))
    sizes = [len(jax.tree.leaves(rows)[0]) for rows in (few, many)]
    found = [_operations(bare, position, rows) for rows in (few, many)]
    return max(1.0, (found[1] - found[0]) / max(1, sizes[1] - sizes[0]) if sizes[1] > sizes[0] else found[1] / sizes[1])


def _operations(target: Target, position: PyTree, rows: PyTree) -> float:
    counted: Any = jax.jit(lambda q, batch: target.evaluate(q, batch)).lower(position, rows).cost_analysis()
    counted = counted[0] if isinstance(counted, list) else counted or {}
    return max(1.0, counted.get("flops", 0.0) + TRANSCENDENTAL_OPERATIONS * counted.get("transcendentals", 0.0))


def ways(
    target: Target, found: Laplace, noise: Noise | None, accuracy: Accuracy, kept: int, costs: Costs, temperature: float
) -> list[SamplingWay]:
    """Those that can be gone, the one to take first."""
    z = accuracy.z(kept)
    can_metropolis = target.source is None and found.rounding <= LARGEST_ROUNDING * temperature
    several = bool(found.others) or not found.peak.is_proper or target.domain is not None
    slowest = found.peak.slowest
    metropolis = [_metropolis(found.size, accuracy, z, costs, slowest)] if can_metropolis else []
    if several:
        return metropolis
    whole = [_all_data(accuracy, z, costs, slowest)] if target.source is None else []
    batches = [] if noise is None else _minibatches(noise, accuracy, z, costs, slowest)
    return sorted(batches + whole + metropolis, key=lambda way: _preference(way, costs))


def _preference(way: SamplingWay, costs: Costs) -> float:
    """What it costs with the doubt there is about it."""
    if way.method == "Metropolis":
        return way.cost
    is_small = way.method == "all data" and costs.rows * costs.operations < MIDDLE_OPERATIONS
    return way.cost * (100.0 if is_small else DOUBT)


def _length(accuracy: Accuracy, z: float, s: float, motion: "SplittingMotion", share: float) -> float:
    """Steps of the run, with a witness of `share` of them at twice the step, and the bias s of sds."""
    tau, tau2 = motion.times()
    there, there2 = motion._replace(step_size=2 * motion.step_size).times()
    seen = LEVERAGE**2

    def steps(here: float, there: float, room: float) -> float:
        return z**2 * (here * (1 + 1 / seen) + there / (share * seen)) / room**2 if room > 0 else math.inf

    return LENGTH_MARGIN * max(steps(tau2 / 2, there2 / 2, accuracy.sd - s), steps(tau, there, accuracy.mean))


class SplittingMotion(NamedTuple):
    """How the splitting moves: h, c = coth(gamma h / 2), and the least curvature."""

    step_size: float
    c: float
    slowest: float

    def times(self) -> tuple[float, float]:
        """tau and tau2 of the direction that takes longest."""
        return float(law.time_of_means(*self)), float(law.time_of_squares(*self))

    def way(self, method: str, length: tuple[float, float], rows: float, costs: Costs, **more: Any) -> SamplingWay:
        """With steps of the run and of the witness, and the rows that a step reads."""
        friction, time = float(law.friction_of(self.c, self.step_size)), self.times()[1]
        passes, cost = (sum(length) * each / costs.rows for each in (rows, rows + costs.beside))
        return SamplingWay(
            method, passes, cost, self.step_size, length[0], friction, length[1], time=time, slowest=self.slowest,
            **more,
        )  # fmt: skip


def _shortest(accuracy: Accuracy, z: float, s: float, motion: SplittingMotion) -> tuple[float, float]:
    """The least steps of run and witness together: those of each."""
    tried = [(_length(accuracy, z, s, motion, share), share) for share in WITNESS_SHARES]
    steps, share = min(tried, key=lambda pair: pair[0] * (1 + pair[1]))
    return steps, share * steps


def _all_data(accuracy: Accuracy, z: float, costs: Costs, slowest: float) -> SamplingWay:
    """The splitting; on a Gaussian without bias, so a sixth of the tolerance is left for what is not Gaussian."""
    step = law.LARGEST_STEP
    motion = SplittingMotion(step, 2 / (step * math.sqrt(slowest)), slowest)  # where the slowest direction is fastest
    return motion.way("all data", _shortest(accuracy, z, accuracy.sd / 6, motion), costs.rows, costs)


def _metropolis(size: int, accuracy: Accuracy, z: float, costs: Costs, slowest: float) -> SamplingWay:
    """On a Gaussian, where after a quarter turn the energy is off by (h^2/4) sqrt(d)."""
    turn = QUARTER_TURN / math.sqrt(slowest)
    leaps, time = trajectory(turn**2 / 4 * math.sqrt(size))
    steps = LENGTH_MARGIN * time * z**2 * max(1 / accuracy.mean**2, 1 / (2 * accuracy.sd**2))
    passes = steps * (leaps + 1)
    cost = passes * (1 + costs.beside / (3 * costs.rows))  # a leap does less beside its gradient than a step
    return SamplingWay("Metropolis", passes, cost, turn / leaps, steps, leaps=leaps, time=time, slowest=slowest)


def trajectory(one_leap_error: float) -> tuple[int, float]:
    """The leaps of a quarter turn that cost least, and the trajectories that an independent draw then takes.

    `one_leap_error` is the sd of the energy's error were the turn made in one leap; with L leaps it is 1/L^2 of that. A
    share a = 2 Phi(-sd/2) of trajectories is accepted, which takes (2 - a)/a of them for each independent draw, and a
    trajectory costs L + 1 gradients.
    """
    leaps = np.arange(1, MOST_LEAPS + 1)
    accepted = 2 * norm.cdf(-one_leap_error / leaps**2 / 2)
    times = JITTERED_DRAWS * (2 - accepted) / np.maximum(accepted, 1e-12)
    best = int(np.argmin((leaps + 1) * times))
    return int(leaps[best]), float(times[best])


def _minibatches(noise: Noise, accuracy: Accuracy, z: float, costs: Costs, slowest: float) -> list[SamplingWay]:
    rows, found = costs.rows, []
    for power in range(0, 2 * int(math.log2(max(2, rows / SMALLEST_BATCH)))):
        size = round(SMALLEST_BATCH * 2 ** (power / 2))
        if size > rows // 2:
            break
        w = noise.of_batch(size, rows)
        for share in BIAS_SHARES:
            way = _batch_way(w, share * accuracy.sd, size, accuracy, z, costs, slowest)
            found += [] if way is None else [way]
    return [min(found, key=lambda way: way.cost)] if found else []


def _batch_way(
    w: np.ndarray, s: float, size: int, accuracy: Accuracy, z: float, costs: Costs, slowest: float
) -> SamplingWay | None:
    step, c = (float(x) for x in law.motion((1 + s) ** 2 - 1, w.max()))
    u = step**2  # (2h)^2 / 4
    if not u < 1 or u * c / (1 - u) * w.mean() > LARGEST_FEEDBACK:
        return None
    bias = float(np.max(law.variance_bias_with_control(w, step, c)))
    s = math.sqrt(1 + bias) - 1
    if not s < accuracy.sd:
        return None
    motion = SplittingMotion(step, c, slowest)
    return motion.way("minibatches", _shortest(accuracy, z, s, motion), 2 * size, costs, batch_size=size, bias=s)


def predicted_bias(way: SamplingWay, noise: Noise | None, rows: int, shares: np.ndarray | None) -> np.ndarray | float:
    """Of the sd of each kept number: `shares` are those of the directions in its variance, (number, direction)."""
    if noise is None or way.batch_size is None:
        return 0.0
    bias = law.variance_bias_with_control(noise.of_batch(way.batch_size, rows), way.step_size, way.c)
    return np.sqrt(1 + (bias.max() if shares is None else shares @ bias)) - 1


def direction_shares(keep: Any, found: Laplace, root: PosteriorRoot) -> np.ndarray | None:
    """How much each whitened direction has in the variance of each kept number, near the mode; None if too many."""
    layout = found.layout
    if not root.is_dense:
        return None
    if keep is None:
        slopes = root.main
    else:

        def kept(flat: Any) -> Any:
            leaves = jax.tree.leaves(keep(layout.unravel(flat)))
            return jnp.concatenate([jnp.ravel(jnp.asarray(leaf, layout.dtype)) for leaf in leaves])

        slopes = np.asarray(jax.jacfwd(kept)(jnp.asarray(found.peak.point, layout.dtype)), np.float64)
        slopes = np.where(np.isfinite(slopes), slopes, 0) @ root.main
    squares = np.square(slopes / np.maximum(np.abs(slopes).max(axis=1, keepdims=True), 1e-300))
    total = squares.sum(axis=1, keepdims=True)
    return np.where(total > 0, squares / np.where(total > 0, total, 1), 1 / layout.size)
