"""Every sampler at every step size, on a thread per core."""

import os
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import cached_property

from ergodica_paper.one_dimensional.chains import STEPS, Case, ChainTally, Size, SweepPoint, point, tally
from ergodica_paper.one_dimensional.densities import ONE_PEAK, TWO_PEAKS
from ergodica_paper.one_dimensional.divergence import TO_OTHER, TO_TARGET, StepZeroLimit, limit
from ergodica_paper.result import Ask
from ergodica_paper.style import LABELS

SAMPLERS = ("sgld", "sghmc", "naive_sgrhmc", "gsgrhmc")


@dataclass(frozen=True)
class Curve:
    """KL of one sampler against the step size, and its limit."""

    case: Case
    points: Sequence[SweepPoint]

    @property
    def name(self) -> str:
        case = self.case
        marks = [LABELS[case.sampler], case.peaks.name]
        marks += [f"offset {case.offset:g}"] if case.has_metric else []
        marks += ["splitting"] if case.splitting else []
        return ", ".join([*marks, "V subtracted" if case.compensated else "V not subtracted"])

    @property
    def settled(self) -> list[SweepPoint]:
        """Points with a stationary law: where chains become non-finite the step has none."""
        return [p for p in self.points if not p.non_finite]

    @cached_property
    def limit(self) -> StepZeroLimit | None:
        """At step 0; None where too few steps have a stationary law, or the metric's cusp makes KL no polynomial."""
        points, powers = self.settled, TO_OTHER if self.case.sampler == "naive_sgrhmc" else TO_TARGET
        if len(points) < 3 or self.case.printed:
            return None
        # one power fewer than points, so that there is a misfit to look at
        return limit([p.step_size for p in points], [p.kl for p in points], powers[: len(points) - 1])


def cases() -> list[Case]:
    """The four samplers on both densities, V subtracted and not; the printed offset; and the library's splitting."""
    both = [Case(peaks, s, c) for peaks in (ONE_PEAK, TWO_PEAKS) for s in SAMPLERS for c in (True, False)]
    printed = [Case(TWO_PEAKS, s, printed=True) for s in ("naive_sgrhmc", "gsgrhmc")]
    return both + printed + [Case(peaks, "sghmc", splitting=True) for peaks in (ONE_PEAK, TWO_PEAKS)]


def measure(ask: Ask, size: Size, parts: int) -> list[Curve]:
    """All cases at all steps, each from `parts` independent lots of chains."""
    asked = cases()
    # a sampler with and without V subtracted sees the same random numbers: their difference is then well known
    numbers = {c: asked.index(replace(c, compensated=True)) for c in asked}
    jobs = [(c, i, part) for i in reversed(range(len(STEPS))) for c in asked for part in range(parts)]
    pool = ThreadPoolExecutor(len(os.sched_getaffinity(0)))
    try:
        futures = {j: pool.submit(tally, j[0], STEPS[j[1]], size, (ask.seed, numbers[j[0]], *j[1:])) for j in jobs}
        _wait(ask, futures)
    finally:
        pool.shutdown(cancel_futures=True)
    return [
        Curve(c, [point(c, step, [futures[c, i, k].result() for k in range(parts)]) for i, step in enumerate(STEPS)])
        for c in asked
    ]


def _wait(ask: Ask, futures: dict[tuple[Case, int, int], Future[ChainTally]]) -> None:
    """Until all are done, with a word every two seconds; a job counts for its steps."""
    weights = {future: 1 / STEPS[i] for (_, i, _), future in futures.items()}
    words = {future: f"{LABELS[c.sampler]}, {c.peaks.name}, step {STEPS[i]:g}" for (c, i, _), future in futures.items()}
    pending = set(weights)
    while pending:
        done, pending = wait(pending, timeout=2, return_when=FIRST_COMPLETED)
        for future in done:
            future.result()
        left = min(pending, key=list(weights).index) if pending else None
        share = 1 - sum(weights[f] for f in pending) / sum(weights.values())
        ask.report(0.9 * share, words[left] if left else "own batches")
