"""What the supplement says of D and Q, sentence by sentence, each asked in several ways."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ergodica.paper import best_step, ratios
from ergodica.paper.best_step import Found
from ergodica.paper.d_and_q.chains import Choice
from ergodica.paper.d_and_q.trials import Figures
from ergodica.paper.ratios import Comparison, log_mean, ratio
from ergodica.paper.result import Claim, Kind
from ergodica.paper.verdict import SURE, Answer, Estimate, beyond_chance, counted, verdict

SOURCE = "supplement, 'Discussion of Choice of D and Q'"
ESCAPE, CROSSING = "Escape time", "Time for a crossing"
RULE = f"{best_step.RULE}; {ratios.RULE}."
AT_BEST_SIZE = f"D has the best of the sizes tried. {RULE}"
KINDS = (("constant D and Q", False), ("D and Q growing with U", True))

Chosen = tuple[Choice, Found[Figures]]


class Judge(NamedTuple):
    """What the search found for every choice."""

    found: Mapping[Choice, Found[Figures]]

    def confirmed(self, **wanted: Any) -> list[Chosen]:
        """The choices that agree with what is wanted and have a step within the bound."""
        agreeing = (c for c in self.found if all(getattr(c, name) == value for name, value in wanted.items()))
        return [(c, f) for c in agreeing if (f := self.found[c]).best is not None]

    def at_best_size(self, **wanted: Any) -> Chosen | None:
        """The one with the shortest escape in the search: the figures of fresh chains are then no luckier."""
        return min(self.confirmed(**wanted), key=lambda pair: pair[1].expected, default=None)

    def diffusion_escapes(self, heights: Sequence[float]) -> Claim:
        """More D helps up to a size: the smallest against the best, and the best against the largest."""
        asked = []
        for words, grows in KINDS:
            for height in heights:
                same = dict(height=height, has_momentum=True, diffusion_grows=grows, curl_grows=grows, every=0)
                by_size = sorted(self.confirmed(**same), key=lambda pair: pair[0].size)
                top = self.at_best_size(**same)
                if top is None:
                    continue
                for low, high in ((by_size[0], top), (top, by_size[-1])):
                    if low[0].size < high[0].size:
                        where = f"barrier {height:g}, D from {low[0].size:g} to {high[0].size:g}"
                        asked.append(_compare(words, where, "escape", low, high))
        return _claim(
            "diffusion-escapes-local-modes",
            "A larger diffusion D escapes faster from a local mode.",
            "section 3, summary: 'D(z) can guide escaping from local modes'",
            asked,
            f"{ESCAPE}, smaller D over larger",
            "escape",
            "For a Q of mean 1, the smallest size of D is set against the best, and the best against the largest. "
            f"{RULE}",
        )

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
            f"{ESCAPE}, constant D over growing",
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
            "Gradient evaluations, constant Q over growing",
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
            f"{CROSSING} of the region of low density, without Q over with it",
            "crossing",
            AT_BEST_SIZE,
        )

    def resampling(self, choices: Sequence[Choice], words: Callable[[Choice], tuple[str, str]]) -> Claim:
        """Each choice with its best interval between resamplings against never."""
        asked = []
        for never in choices:
            same = {name: value for name, value in never._asdict().items() if name != "every"}
            drawn = [pair for pair in self.confirmed(**same) if pair[0].every]
            with_it = min(drawn, key=lambda pair: pair[1].expected, default=None)
            plain = self.at_best_size(**never._asdict())
            what, where = words(never)
            every = f", every {with_it[0].every}" if with_it else ""
            asked.append(_compare(what, where + every, "escape", plain, with_it))
        return _claim(
            "momentum-resampling",
            "Drawing the momentum anew from time to time makes the sampler faster (an option in the paper, which "
            "claims nothing).",
            "Algorithm 1: 'optionally, periodically resample momentum'",
            asked,
            f"{ESCAPE}, without it over with it",
            "resampling",
            f"The momentum is drawn anew at the best of the intervals tried. {RULE}",
            kind="ours",
        )

    def _pairs(
        self, heights: Sequence[float], field: str, **common: Any
    ) -> Iterator[tuple[float, Chosen | None, Chosen | None]]:
        """(height, constant, growing) at each one's best size, for D or Q."""
        for height in heights:
            constant, growing = (
                self.at_best_size(height=height, every=0, **{field: grows}, **common) for grows in (False, True)
            )
            yield height, constant, growing


def _compare(what: str, where: str, figure: str, without: Chosen | None, with_it: Chosen | None) -> Comparison | None:
    """By one figure of `Figures`; None where neither has a step: nothing was asked."""
    if without is None and with_it is None:
        return None
    return Comparison(what, where, ratio(*(_logarithm(figure, chosen) for chosen in (without, with_it))))


def _logarithm(figure: str, chosen: Chosen | None) -> Estimate | None:
    if chosen is None or chosen[1].best is None:
        return None
    return log_mean(getattr(chosen[1].best, figure), chosen[1].step_error)


def _claim(
    name: str, statement: str, source: str, asked: Sequence[Comparison | None], over: str, picture: str, rule: str,
    kind: Kind = "paper",
) -> Claim:  # fmt: skip
    """A claim from its comparisons; `over` says what was divided by what."""
    comparisons = [c for c in asked if c is not None] or [ratios.NOTHING]
    return Claim(
        name,
        statement,
        source,
        verdict([c.answer for c in comparisons]),
        ratios.told(comparisons, over),
        {c.words: c.ratio.figures() for c in comparisons},
        ratios.conditions([(c.what, c.where, c.ratio.outcome) for c in comparisons]),
        picture,
        kind,
        rule,
    )


def near_mode(pairs: Mapping[str, tuple[Figures, Figures]]) -> Claim:
    """|bias| of the mean of U in the more probable half, constant D and growing D, at one step and one mean of D."""
    figures, gains = {}, {}
    for words, both in pairs.items():
        constant, growing = (Estimate.of(f.near_mode) for f in both)
        gain = Estimate(abs(constant.value) - abs(growing.value), float(np.hypot(constant.error, growing.error)))
        figures[words] = {"constant D": constant.told(), "growing D": growing.told(), "holds": beyond_chance(*gain)}
        gains[words] = gain
    answers = [Answer(words, beyond_chance(*gain)) for words, gain in gains.items()] or [ratios.NOTHING.answer]
    explanation = f"{counted(answers)}."
    if gains:
        low, high = (pick(gains, key=lambda words: gains[words].value) for pick in (min, max))
        explanation += (
            f" The bias is smaller with the growing D by {gains[low]} ({low}) to {gains[high]} ({high}) sds."
        )  # fmt: skip
    return Claim(
        "adaptive-diffusion-accurate-near-mode",
        "A diffusion D that is smaller where the density is high is more accurate near the modes.",
        SOURCE,
        verdict(answers),
        explanation,
        figures,
        ratios.conditions([(*_parted(a.words), a.outcome) for a in answers]),
        picture="accuracy",
        rule="At the same step size and mean of D, the bias of the mean of U in the more probable half is smaller with "
        f"a growing D than with a constant one by more than {SURE:g} standard errors.",
    )


def _parted(words: str) -> tuple[str, str]:
    what, _, where = words.partition(", ")
    return what, where
