"""Seconds per hundred documents on LDA: the four samplers, batch by batch in turn, and what the time goes into."""

from dataclasses import dataclass, field, fields
from typing import Any

import numba
import numpy as np

from ergodica.driver.pace import now
from ergodica.errors import NonFiniteError
from ergodica.lda.corpus import Documents
from ergodica.lda.expanded_mean import ExpandedMean
from ergodica.lda.learner import Learner
from ergodica.lda.samplers import SAMPLERS
from ergodica.paper.lda_runs import Pool, Setup, batches, begin_training, pool_of, seeds_of
from ergodica.paper.result import Ask, Claim, Item, Picture, Result, Table, Verdict
from ergodica.paper.style import LABELS, new_figure

PAPER_SECONDS = {"sgld": 0.778, "sghmc": 0.815, "sgrld": 0.730, "sgrhmc": 0.806}  # the paper: figure 3, lower left
SHOWN_PRESETS = ("paper", "tuned")
QUICK, FULL = 1_500, 10_000  # documents
DEMO_TOPICS = 10
WARM_UP = 3  # rounds that are not counted: compilation, caches
ALIKE = 1.25  # the slowest over the fastest, at most
DOMINATES = 0.5  # the gradient's share of a step, at least
RULE = (
    f"the slowest sampler takes at most {ALIKE:g} times as long as the fastest, and the gradient at least "
    f"{DOMINATES:.0%} of every sampler's step"
)
PARTS = {"gradient": "#555555", "update": "#9a9a9a", "reading": "#d9d9d9"}


@dataclass(frozen=True)
class TimedModel(ExpandedMean):
    """A model that notes how long its gradients took."""

    seconds: list[float] = field(default_factory=list)

    def gradient(self, theta: np.ndarray, documents: Documents, visit: int, seed: int) -> np.ndarray:
        begin = now()
        found = super().gradient(theta, documents, visit, seed)
        self.seconds.append(now() - begin)
        return found


@dataclass(frozen=True)
class Timing:
    """Of one sampler at one preset: seconds per hundred documents of every batch."""

    sampler: str
    preset: str
    gradient: np.ndarray
    update: np.ndarray

    @property
    def step(self) -> float:
        """The median of all but reading."""
        return float(np.median(self.gradient + self.update))

    @property
    def share(self) -> float:
        """The gradient's, of a step."""
        return float(np.median(self.gradient) / (np.median(self.gradient) + np.median(self.update)))

    def quartiles(self) -> tuple[float, float]:
        low, high = np.quantile(self.gradient + self.update, (0.25, 0.75))
        return float(low), float(high)


def run(ask: Ask) -> Result:
    ask.report(0.0, "reading the corpus" if ask.corpus else "making the demo corpus")
    documents, topics = (FULL if ask.full else QUICK), (50 if ask.corpus else DEMO_TOPICS)
    pool = pool_of(ask, documents)
    timings, stopped = [], {}
    for preset in SHOWN_PRESETS:
        found, lost = _timed(pool, preset, topics, documents, ask)
        timings += found
        stopped |= lost
    return Result(
        text=_text(pool, timings),
        claims=[claim_of(timings, pool.is_demo)],
        pictures=[_picture(timings, pool.reading)],
        tables=[_table(timings, pool.reading), _batches(timings)],
        settings={
            **pool.told(), "topics": topics, "documents": documents, "threads": numba.get_num_threads(), "rule": RULE,
            "seed": seeds_of(ask.seed)[0],
        },
        non_finite=stopped,
    )  # fmt: skip


def _timed(pool: Pool, preset: str, topics: int, documents: int, ask: Ask) -> tuple[list[Timing], dict[str, int]]:
    """All samplers learn from a batch before the next one comes; who begins changes from batch to batch."""
    seed, names = seeds_of(ask.seed)[0], list(SAMPLERS)
    learners = {name: begin_training(pool, Setup(name, preset), topics, seed).learner for name in names}
    for learner in learners.values():
        model = learner.model
        learner.model = TimedModel(**{f.name: getattr(model, f.name) for f in fields(model)})
    settings = Setup(names[0], preset).settings()  # batches are the same for all of a preset
    rows: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    stopped: dict[str, int] = {}
    count = -(-documents // settings.batch_size)
    for number, batch in enumerate(batches(pool, settings, documents, seed)):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            try:
                parts = _one_step(learners[name], batch)
            except NonFiniteError:
                key = f"{LABELS[name]}, {preset} preset, steps"
                stopped[key] = stopped.get(key, 0) + 1
                continue
            if number >= min(WARM_UP, count - 1):
                rows[name].append((100 * parts[0] / len(batch.documents), 100 * parts[1] / len(batch.documents)))
        done = (SHOWN_PRESETS.index(preset) + (number + 1) / count) / len(SHOWN_PRESETS)
        ask.report(0.99 * done, f"{preset} preset, batch {number + 1} of {count}")
    timings = [Timing(name, preset, *np.array(found).T) for name, found in rows.items() if found]
    return timings, stopped


def _one_step(learner: Learner, batch: Any) -> tuple[float, float]:
    """Seconds in the gradient, and in all else: random numbers and the recipe's update."""
    begin, before = now(), len(learner.model.seconds)  # pyright: ignore[reportAttributeAccessIssue]
    learner.step(batch)
    whole = now() - begin
    gradient = sum(learner.model.seconds[before:])  # pyright: ignore[reportAttributeAccessIssue]
    return gradient, whole - gradient


def claim_of(timings: list[Timing], is_demo: bool) -> Claim:
    figures: dict[str, Any] = {}
    holds: dict[str, bool] = {}
    told = []
    for preset in SHOWN_PRESETS:
        mine = [t for t in timings if t.preset == preset]
        ratio = max(t.step for t in mine) / min(t.step for t in mine)
        share = min(t.share for t in mine)
        holds[preset] = len(mine) == len(SAMPLERS) and ratio <= ALIKE and share >= DOMINATES
        figures[f"{preset} preset"] = {
            "slowest over fastest": ratio, "smallest share of the gradient": share,
            "seconds per 100 documents": {t.sampler: t.step for t in mine},
        }  # fmt: skip
        told.append(f"{preset} preset: the slowest takes {ratio:.2f} times as long as the fastest, and the gradient "
                    f"takes {share:.0%} of a step or more")  # fmt: skip
    quoted = max(PAPER_SECONDS.values()) / min(PAPER_SECONDS.values())
    verdict, conditions = _verdict(holds, is_demo)
    return Claim(
        "lda-runtime",
        "The samplers take about the same time because most of it goes into the gradient.",
        "section 4.2, figure 3 (lower left)",
        verdict,
        f"{'; '.join(told)} (the paper: {quoted:.2f} times). Rule: {RULE}.",
        figures,
        conditions,
        "runtime",
    )


def _verdict(holds: dict[str, bool], is_demo: bool) -> tuple[Verdict, str]:
    if is_demo:
        return "illustration, no verdict", ""
    if all(holds.values()):
        return "reproduced", ""
    if not any(holds.values()):
        return "not reproduced", ""
    yes, no = ([name for name, is_so in holds.items() if is_so is wanted] for wanted in (True, False))
    return "reproduced under conditions", f"at the {', '.join(yes)} preset, not at the {', '.join(no)} preset"


def _text(pool: Pool, timings: list[Timing]) -> list[str]:
    fastest = min((t for t in timings if t.preset == "paper"), key=lambda t: t.step)
    return [
        "The samplers learn from every batch in turn, so that whatever else the machine does meets all of them alike; "
        "the figure is the median over batches. The gradient is Gibbs sampling of the topics of the batch's words; the "
        "update is the recipe's step with its random numbers, over all words and topics. Reading is measured apart, as "
        "it goes on in a thread of its own while a model learns.",
        f"At the paper's settings the fastest, {LABELS[fastest.sampler]}, takes {fastest.step:.3g} s for 100 documents "
        f"and reading them {pool.reading:.2g} s. Seconds of another machine, and of documents of another length, "
        "cannot be compared with these: what can is how the samplers compare with each other.",
    ]


def _table(timings: list[Timing], reading: float) -> Table:
    rows = []
    for t in timings:
        parts = [float(np.median(t.gradient)), float(np.median(t.update)), reading]
        low, high = t.quartiles()
        shares = [f"{part / sum(parts):.0%}" for part in parts]
        seconds = [float(f"{value:.3g}") for value in (t.step, low, high)]
        rows.append([t.preset, LABELS[t.sampler], PAPER_SECONDS[t.sampler], *seconds, *shares])
    columns = [
        "preset", "sampler", "the paper (s)", "ours, without reading (s)", "lower quartile", "upper quartile", *PARTS,
    ]  # fmt: skip
    caption = "Seconds per 100 documents, and the shares of gradient, update and reading."
    return Table("runtime", caption, columns, rows, shown=True, quoted=("the paper (s)",))


def _batches(timings: list[Timing]) -> Table:
    rows = [
        [t.preset, t.sampler, number, gradient, update]
        for t in timings
        for number, (gradient, update) in enumerate(zip(t.gradient.tolist(), t.update.tolist(), strict=True))
    ]
    columns = ["preset", "sampler", "batch", "gradient", "update"]
    return Table("batches", "Seconds per 100 documents, batch by batch.", columns, rows)


def _picture(timings: list[Timing], reading: float) -> Picture:
    figure, axes = new_figure(1, 2, size=(7.0, 3.4), sharey=True)
    for axis, preset in zip(axes, SHOWN_PRESETS, strict=True):
        mine = [t for t in timings if t.preset == preset]
        names, left = [LABELS[t.sampler] for t in mine], np.zeros(len(mine))
        parts = {"gradient": [np.median(t.gradient) for t in mine], "update": [np.median(t.update) for t in mine]}
        for part, values in (parts | {"reading": [reading] * len(mine)}).items():
            axis.barh(names, values, left=left, color=PARTS[part], edgecolor="white", label=part)
            left = left + np.array(values)
        axis.invert_yaxis()
        axis.grid(axis="y", visible=False)
        axis.set_xlabel(f"seconds per 100 documents,\n{preset} preset")
    axes[0].invert_yaxis()  # shared: inverted twice
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3, frameon=False)
    caption = "Where the time goes: medians over batches, all samplers in turn."
    return Picture("runtime", caption, figure, "runtime")


ITEM = Item(
    name="lda-runtime",
    title="Topic models: seconds per 100 documents",
    source="figure 3 (lower left)",
    run=run,
    code=("ergodica/paper/lda_runtime.py", "ergodica/paper/lda_runs.py", "ergodica/lda/learner.py"),
    seconds=(15, 90),
)
