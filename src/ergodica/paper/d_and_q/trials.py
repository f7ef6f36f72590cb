"""For every choice of D and Q its fastest step within the bound on the bias, then all figures from fresh chains."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ergodica.paper.d_and_q import peaks
from ergodica.paper.d_and_q.chains import Choice, Counts
from ergodica.paper.two_dimensional.trials import BOUND

SEEDS = 24
CHAINS = 8  # of a seed
SMALLEST, LARGEST = 0.1, 1.6  # of the grid, in units of `unit`; the largest is left out
EXTENSIONS = 2  # of the grid, at most, each by as many steps again
ROUNDS = 6  # of steps that fresh chains may reject

Count = Callable[..., Counts]


def grid(steps: int) -> tuple[float, ...]:
    """This many step sizes in equal ratios, in units of `unit`."""
    return tuple(float(x) for x in np.geomspace(SMALLEST, LARGEST, steps, endpoint=False))


class Figures(NamedTuple):
    """What chains of one choice gave at one step size. Arrays have the seed as their axis."""

    step_size: float
    bias: float
    """The largest of t squared, U and the mass between the inflection points, in sds."""
    bias_error: float
    escape: np.ndarray
    """Gradient evaluations from the bottom of one well to that of the other."""
    crossing: np.ndarray
    """Gradient evaluations spent between the inflection points by a crossing."""
    near_mode: np.ndarray
    """Bias of the mean of U in the more probable half, in its sds there."""
    lost: int
    expected: float = np.nan
    """The escape time that chose this step, from other chains."""

    @property
    def mean_escape(self) -> float:
        return 1 / float(np.mean(1 / self.escape))  # seeds are equally long: passages add up


def unit(choice: Choice) -> float:
    """The step size to measure steps in: 1 / w for a frequency w^2 = U'' = 8 h in a well, 1 / (w^2 D) without Q."""
    curvature = 8 * choice.height
    return curvature**-0.5 if choice.has_momentum else 1 / (curvature * choice.size)


def figures(choice: Choice, step_size: float, counts: Counts, seeds: int) -> Figures:
    """Of the counts of seeds * n chains."""
    truth = peaks.truth(choice.height)
    with np.errstate(all="ignore"):  # chains on their way to infinity, which no caller admits
        means = counts.sums.astype(np.float64) / counts.steps[:, None]
        bias = (means.mean(axis=0) - truth.mean) / truth.sd
        error = means.std(axis=0, ddof=1) / np.sqrt(len(means)) / truth.sd

        def by_seed(x):
            return x.reshape(seeds, -1).sum(axis=1).astype(np.float64)

        near = by_seed(counts.near_mode[1]) / by_seed(counts.near_mode[0])
        worst = int(np.argmax(np.abs(bias)))
        return Figures(
            step_size,
            float(bias[worst]),
            float(error[worst]),
            by_seed(counts.steps) / np.maximum(by_seed(counts.passages), 0.5),  # none yet: about twice as long
            by_seed(counts.crossings[1]) / np.maximum(by_seed(counts.crossings[0]), 1),
            (near - truth.near_mode) / truth.near_mode_sd,
            int(np.count_nonzero(counts.lost)),
        )


def try_all(count: Count, jobs: Sequence[tuple[Choice, float]], chains: int, seed: int, seeds: int) -> list[Figures]:
    """Figures of each (choice, step size), from this many chains of it."""
    each = [job for job in jobs for _ in range(chains)]
    found = count([choice for choice, _ in each], [step for _, step in each], seed)
    return [
        figures(choice, step, _part(found, slice(k * chains, (k + 1) * chains)), seeds)
        for k, (choice, step) in enumerate(jobs)
    ]


def _part(counts: Counts, rows: slice) -> Counts:
    pairs = {name: tuple(x[rows] for x in getattr(counts, name)) for name in ("near_mode", "crossings")}
    single = {name: getattr(counts, name)[rows] for name in ("steps", "sums", "passages", "lost")}
    return Counts(**single, **pairs)


class Search(NamedTuple):
    """What came of it: the figures of fresh chains at each choice's best step, or None; all that was tried."""

    best: Mapping[Choice, Figures | None]
    tried: Mapping[Choice, Sequence[Figures]]
    lost: int


def search(count: Count, choices: Sequence[Choice], steps: Sequence[float], seeds: Iterator[int]) -> Search:
    """The fastest escape over a grid of steps within the bound; a best step at an end extends that choice's grid."""
    tried: dict[Choice, list[Figures]] = {c: [] for c in choices}
    waiting = {c: [unit(c) * x for x in steps] for c in choices}
    for _ in range(1 + EXTENSIONS):
        jobs = [(c, step) for c, sizes in waiting.items() for step in sizes]
        if not jobs:
            break
        for (choice, _), found in zip(jobs, try_all(count, jobs, SEEDS, next(seeds), SEEDS), strict=True):
            tried[choice].append(found)
        waiting = {c: _extension(sorted(tried[c], key=lambda f: f.step_size), len(steps)) for c in waiting}
    best, lost = _confirmed(count, tried, seeds)
    return Search(best, tried, lost + sum(f.lost for found in tried.values() for f in found))


def is_admitted(found: Figures) -> bool:
    """Whether the bias may be within the bound; fresh chains then decide."""
    return found.lost == 0 and found.bias_error < BOUND and abs(found.bias) <= BOUND + 2 * found.bias_error


def _extension(found: list[Figures], more: int) -> list[float]:
    """So many more steps beyond the end at which the best one lies."""
    admitted = [f for f in found if is_admitted(f)]
    winner = min(admitted, key=lambda f: f.mean_escape, default=None)
    ratio = found[1].step_size / found[0].step_size
    if winner is not None and winner is found[-1]:
        return [found[-1].step_size * ratio**k for k in range(1, more + 1)]
    if winner is None or winner is found[0]:
        return [found[0].step_size / ratio**k for k in range(1, more + 1)]
    return []


def _confirmed(count: Count, tried: Mapping[Choice, Sequence[Figures]], seeds: Iterator[int]):
    """Fresh chains, many more of them, at the fastest admitted step; the next one where they leave the bound."""
    best: dict[Choice, Figures | None] = dict.fromkeys(tried)
    queues = {
        choice: sorted(filter(is_admitted, found), key=lambda f: f.mean_escape) for choice, found in tried.items()
    }
    lost = 0
    for _ in range(ROUNDS):
        chosen = {c: queue.pop(0) for c, queue in queues.items() if best[c] is None and queue}
        if not chosen:
            break
        jobs = [(c, f.step_size) for c, f in chosen.items()]
        made = try_all(count, jobs, SEEDS * CHAINS, next(seeds), SEEDS)
        for (choice, old), fresh in zip(chosen.items(), made, strict=True):
            lost += fresh.lost
            if fresh.lost == 0 and abs(fresh.bias) <= BOUND:
                best[choice] = fresh._replace(expected=old.mean_escape)
    return best, lost
