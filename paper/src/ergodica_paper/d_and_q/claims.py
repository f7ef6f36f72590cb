"""What the supplement says of D and Q, sentence by sentence, each asked in several ways."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ergodica_paper import best_step, ratios
from ergodica_paper.best_step import BestStep, NoStep
from ergodica_paper.d_and_q.chains import Choice
from ergodica_paper.d_and_q.trials import Figures, Time
from ergodica_paper.ratios import RatioComparison, ratio
from ergodica_paper.result import Claim, Kind
from ergodica_paper.verdict import SURE, Answer, Measurement, beyond_chance, counted, judged

SOURCE = "supplement, 'Discussion of Choice of D and Q'"
ESCAPE, CROSSING = "Escape time", "Crossing time"
RULE = f"{best_step.RULE}; {ratios.RULE}."
AT_BEST_SIZE = f"D has the best of the sizes tried. {RULE}"
KINDS = (("constant D and Q", False), ("D and Q growing with U", True))

Chosen = tuple[Choice, BestStep[Figures]]
# By (what, where) in words: constant and growing D at one step; None where one of them has no step.
Pairs = Mapping[tuple[str, str], tuple[Figures, Figures] | None]


class Judge(NamedTuple):
    """What the search found for every choice."""

    found: Mapping[Choice, BestStep[Figures]]

    def agreeing(self, **wanted: Any) -> list[Chosen]:
        """The choices that agree with what is wanted."""
        return [
            (c, f) for c, f in self.found.items() if all(getattr(c, name) == value for name, value in wanted.items())
        ]  # fmt: skip

    def at_best_size(self, **wanted: Any) -> Chosen | NoStep:
        return fastest(self.agreeing(**wanted))

    def diffusion_escapes(self, heights: Sequence[float], sizes: Sequence[tuple[float, float]]) -> Claim:
        """Each smaller size of D against the larger."""
        asked = [
            _compare(
                words, f"barrier {height:g}, D from {low:g} to {high:g}", "escape",
                *(self._alone(Choice(height, size, grows, grows)) for size in (low, high)),
            )
            for words, grows in KINDS for height in heights for low, high in sizes
        ]  # fmt: skip
        listed = "; ".join(
            f"{', '.join(self._fastest_size(height, grows) for height in heights)} with {words}"
            for words, grows in KINDS
        )
        barriers = ", ".join(f"{height:g}" for height in heights)
        pairs = " and ".join(f"{low:g} to {high:g}" for low, high in sizes)
        return _claim(
            "diffusion-escapes-local-modes",
            "A larger diffusion D escapes faster from a local mode.",
            "section 3, summary: 'D(z) can guide escaping from local modes'",
            asked,
            f"Fastest sizes of D at barriers {barriers}: {listed}.",
            "escape",
            f"For a Q of mean 1, D is raised from {pairs}. {RULE}",
        )

    def _alone(self, choice: Choice) -> Chosen | NoStep:
        return fastest([(choice, self.found[choice])])

    def _fastest_size(self, height: float, grows: bool) -> str:
        same = dict(height=height, has_momentum=True, diffusion_grows=grows, curl_grows=grows, every=0)
        top = self.at_best_size(**same)
        return "none" if isinstance(top, NoStep) else f"{top[0].size:g}"

    def adaptive_diffusion(self, heights: Sequence[float]) -> Claim:
        asked = [
            _compare(words, f"barrier {height:g}", "escape", constant, growing)
            for words, has_momentum in (("without Q", False), ("with a constant Q", True))
            for height, constant, growing in self._pairs(
                heights, "diffusion_grows", has_momentum=has_momentum, curl_grows=False
            )
        ]
        return _claim(
            "adaptive-diffusion-escapes-faster",
            "A diffusion D that is larger where the density is low escapes faster from a local mode.",
            SOURCE,
            asked,
            ratios.ends(asked, f"{ESCAPE}, constant D over growing"),
            "escape",
            AT_BEST_SIZE,
        )

    def adaptive_curl(self, heights: Sequence[float]) -> Claim:
        asked = [
            _compare(f"{figure}, {kind} D", f"barrier {height:g}", figure, constant, growing)
            for figure in ("escape", "crossing")
            for kind, grows in (("constant", False), ("growing", True))
            for height, constant, growing in self._pairs(
                heights, "curl_grows", has_momentum=True, diffusion_grows=grows
            )
        ]
        return _claim(
            "adaptive-curl-more-efficient",
            "A curl Q that grows where the density is low makes a more efficient sampler.",
            SOURCE,
            asked,
            ratios.ends(asked, "Gradient evaluations, constant Q over growing"),
            "crossing",
            AT_BEST_SIZE,
        )

    def curl_traverses(self, heights: Sequence[float]) -> Claim:
        asked = []
        for words, grows in KINDS:
            for height in heights:
                same = dict(height=height, diffusion_grows=grows, every=0)
                without = self.at_best_size(has_momentum=False, **same)
                with_it = self.at_best_size(has_momentum=True, curl_grows=grows, **same)
                asked.append(_compare(words, f"barrier {height:g}", "crossing", without, with_it))
        return _claim(
            "curl-traverses-low-density",
            "A curl Q (with a momentum) traverses regions of low density rapidly.",
            "section 3, summary, and supplement, 'Discussion of Choice of D and Q'",
            asked,
            ratios.ends(asked, f"{CROSSING}, without Q over with it"),
            "crossing",
            AT_BEST_SIZE,
        )

    def resampling(self, choices: Sequence[Choice], words: Callable[[Choice], tuple[str, str]]) -> Claim:
        """Each choice with its best interval between resamplings against never."""
        asked = []
        for never in choices:
            same = {name: value for name, value in never._asdict().items() if name != "every"}
            with_it = fastest([pair for pair in self.agreeing(**same) if pair[0].every])
            what, where = words(never)
            every = "" if isinstance(with_it, NoStep) else f", every {with_it[0].every}"
            asked.append(_compare(what, where + every, "escape", self._alone(never), with_it))
        return _claim(
            "momentum-resampling",
            "Redrawing the momentum from time to time makes the sampler faster (an option in the paper, which "
            "claims nothing).",
            "Algorithm 1: 'optionally, periodically resample momentum'",
            asked,
            ratios.ends(asked, f"{ESCAPE}, without over with it"),
            "resampling",
            f"The momentum is redrawn at the best of the intervals tried. {RULE}",
            kind="ours",
        )

    def _pairs(
        self, heights: Sequence[float], field: str, **common: Any
    ) -> Iterator[tuple[float, Chosen | NoStep, Chosen | NoStep]]:
        """(height, constant, growing) at each one's best size, for D or Q."""
        for height in heights:
            constant, growing = (
                self.at_best_size(height=height, every=0, **{field: grows}, **common) for grows in (False, True)
            )
            yield height, constant, growing


def fastest(among: Sequence[Chosen]) -> Chosen | NoStep:
    """The one with the shortest escape in the search: the figures of fresh chains are then no luckier."""
    with_step = [pair for pair in among if pair[1].best is not None]
    if not with_step:
        return NoStep(bool(among) and all(found.has_none for _, found in among))
    return min(with_step, key=lambda pair: pair[1].expected)


def _compare(what: str, where: str, figure: str, without: Chosen | NoStep, with_it: Chosen | NoStep) -> RatioComparison:
    """By one figure of `Figures`."""
    return RatioComparison(what, where, ratio(*(_logarithm(figure, chosen) for chosen in (without, with_it))))


def _logarithm(figure: str, chosen: Chosen | NoStep) -> Measurement | NoStep:
    """Of a time, with its error from that of the step."""
    if isinstance(chosen, NoStep):
        return chosen
    _, found = chosen
    time: Time = getattr(found.best, figure)
    slope = found.slope if figure == "escape" else 1.0  # a crossing's time goes with 1 / step
    return Measurement(time.logarithm.value, math.hypot(time.logarithm.error, slope * found.step_error))


def _claim(
    name: str, statement: str, source: str, asked: Sequence[RatioComparison], more: str, picture: str, rule: str,
    kind: Kind = "paper",
) -> Claim:  # fmt: skip
    """A claim from its comparisons, explained by how many hold and by what `more` says."""
    return judged(
        name, statement, source,
        answers=[c.answer for c in asked],
        explanation=f"{ratios.told(asked)} {more}".rstrip(),
        figures={c.answer.words: c.ratio.figures() for c in asked},
        rule=rule, picture=picture, kind=kind,
    )  # fmt: skip


def near_mode(pairs: Pairs) -> Claim:
    """|bias| of the mean of U in the more probable half, constant D and growing D, at one step and one mean of D."""
    answers, figures, gains = [], {}, {}
    for (what, where), both in pairs.items():
        gain, told = Measurement(math.nan, math.nan), {}
        if both is not None:
            constant, growing = (Measurement.of(f.near_mode) for f in both)
            gain = _size(constant).minus(_size(growing))
            told = {"constant D": constant.told(), "growing D": growing.told()}
        answer = Answer(what, beyond_chance(*gain), where)
        answers.append(answer)
        figures[answer.words] = {**told, "holds": answer.outcome}
        gains |= {answer.words: gain} if told else {}
    explanation = f"{counted(answers)}."
    if gains:
        low, high = (pick(gains, key=lambda words: gains[words].value) for pick in (min, max))
        explanation += (
            f" The bias is smaller with the growing D by {gains[low]} ({low}) to {gains[high]} ({high}) sds."
        )  # fmt: skip
    return judged(
        "adaptive-diffusion-accurate-near-mode",
        "A diffusion D that is smaller where the density is high is more accurate near the modes.",
        SOURCE,
        answers,
        explanation,
        figures,
        rule="At the same step size and mean of D, the bias of the mean of U in the more probable half is smaller with "
        f"a growing D than with a constant one by more than {SURE:g} standard errors.",
        picture="accuracy",
    )


def _size(bias: Measurement) -> Measurement:
    return Measurement(abs(bias.value), bias.error)
