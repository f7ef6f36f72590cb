"""What the supplement says of D and Q, sentence by sentence, each asked in several ways."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ergodica.paper.d_and_q.answers import BEYOND, Answer, claim, compare, verdict
from ergodica.paper.d_and_q.chains import Choice
from ergodica.paper.d_and_q.trials import Figures
from ergodica.paper.result import Claim

SOURCE = "supplement, 'Discussion of Choice of D and Q'"
Found = tuple[Choice, Figures]


class Judge(NamedTuple):
    """The figures of every choice at its best step, or None, and the error from that step being one of a grid."""

    best: Mapping[Choice, Figures | None]
    grid_error: float

    def found(self, **wanted: Any) -> list[Found]:
        """The choices that agree with what is wanted and have a step within the bound, with their figures."""
        agreeing = (c for c in self.best if all(getattr(c, name) == value for name, value in wanted.items()))
        return [(c, f) for c in agreeing if (f := self.best[c]) is not None]

    def at_best_size(self, **wanted: Any) -> Found | None:
        """The one with the shortest escape in the search: the figures of fresh chains are then no luckier."""
        return min(self.found(**wanted), key=lambda pair: pair[1].expected, default=None)

    def compare(self, words: str, figure: str, without: Found | None, with_it: Found | None) -> Answer | None:
        a, b = (None if found is None else getattr(found[1], figure) for found in (without, with_it))
        return compare(words, a, b, self.grid_error)

    def diffusion_escapes(self, heights: Sequence[float]) -> Claim:
        """More D helps up to a size: the smallest against the best, and the best against the largest."""
        answers, sizes = [], {}
        for words, grows in (("constant D and Q", False), ("D and Q growing with U", True)):
            for height in heights:
                same = dict(height=height, has_momentum=True, diffusion_grows=grows, curl_grows=grows, every=0)
                by_size = sorted(self.found(**same), key=lambda pair: pair[0].size)
                top = self.at_best_size(**same)
                if top is None:
                    continue
                how = f"{words}, barrier {height:g}"
                sizes[how] = top[0].size
                for low, high in ((by_size[0], top), (top, by_size[-1])):
                    if low[0].size < high[0].size:
                        from_to = f"{how}, D from {low[0].size:g} to {high[0].size:g}"
                        answers.append(self.compare(from_to, "escape", low, high))
        made = claim(
            "diffusion-escapes-local-modes",
            "A larger diffusion D escapes faster from a local mode.",
            "section 3, summary: 'D(z) can guide escaping from local modes'",
            answers,
            "Escape time in gradient evaluations, Q of mean 1,",
            "escape",
            ratio="with the smaller D over with the larger (above 1: the larger helps)",
        )
        fastest = "; ".join(f"{size:g} ({words})" for words, size in sizes.items())
        more = f"Fastest of the sizes tried: {fastest}. Without Q the size of D is the unit of the step size alone."
        return replace(made, explanation=f"{made.explanation} {more}")

    def adaptive_diffusion(self, heights: Sequence[float]) -> Claim:
        answers = [
            self.compare(f"{words}, barrier {height:g}", "escape", constant, growing)
            for words, has_momentum in (("without Q", False), ("with a constant Q", True))
            for height, constant, growing in self._pairs(
                heights, "diffusion_grows", has_momentum=has_momentum, curl_grows=False
            )
        ]
        return claim(
            "adaptive-diffusion-escapes-faster",
            "A diffusion D that is larger where the density is low escapes faster from a local mode.",
            SOURCE,
            answers,
            "Escape time in gradient evaluations",
            "escape",
        )

    def adaptive_curl(self, heights: Sequence[float]) -> Claim:
        answers = [
            self.compare(f"{figure}, D {kind}, barrier {height:g}", figure, constant, growing)
            for figure in ("escape", "crossing")
            for kind, grows in (("constant", False), ("growing", True))
            for height, constant, growing in self._pairs(
                heights, "curl_grows", has_momentum=True, diffusion_grows=grows
            )
        ]
        return claim(
            "adaptive-curl-more-efficient",
            "A curl Q that grows where the density is low makes a more efficient sampler.",
            SOURCE,
            answers,
            "Escape time, and time for a crossing of the region of low density, in gradient evaluations,",
            "crossing",
        )

    def curl_traverses(self, heights: Sequence[float]) -> Claim:
        answers = []
        for words, grows in (("constant D and Q", False), ("D and Q growing with U", True)):
            for height in heights:
                same = dict(height=height, diffusion_grows=grows, every=0)
                without = self.at_best_size(has_momentum=False, **same)
                with_it = self.at_best_size(has_momentum=True, curl_grows=grows, **same)
                answers.append(self.compare(f"{words}, barrier {height:g}", "crossing", without, with_it))
        return claim(
            "curl-traverses-low-density",
            "A curl Q (with a momentum) traverses regions of low density rapidly.",
            "section 3, summary, and supplement, 'Discussion of Choice of D and Q'",
            answers,
            "Gradient evaluations that a crossing of the region of low density takes,",
            "crossing",
        )

    def resampling(self, choices: Sequence[Choice], words: Callable[[Choice], str]) -> Claim:
        """Each choice with its best interval between resamplings against never."""
        answers = []
        for never in choices:
            same = {name: value for name, value in never._asdict().items() if name != "every"}
            drawn = [pair for pair in self.found(**same) if pair[0].every]
            with_it = min(drawn, key=lambda pair: pair[1].expected, default=None)
            plain = self.at_best_size(**never._asdict())
            every = f", every {with_it[0].every}" if with_it else ""
            answers.append(self.compare(words(never) + every, "escape", plain, with_it))
        return claim(
            "momentum-resampling",
            "Drawing the momentum anew from time to time makes the sampler faster.",
            "Algorithm 1: 'optionally, periodically resample momentum'",
            answers,
            "Escape time in gradient evaluations at the best interval tried,",
            "resampling",
        )

    def _pairs(
        self, heights: Sequence[float], field: str, **common: Any
    ) -> Iterator[tuple[float, Found | None, Found | None]]:
        """(height, constant, growing) at each one's best size, for D or Q."""
        for height in heights:
            constant, growing = (
                self.at_best_size(height=height, every=0, **{field: grows}, **common) for grows in (False, True)
            )
            yield height, constant, growing


def near_mode(pairs: Mapping[str, tuple[Figures, Figures]]) -> Claim:
    """|bias| of the mean of U in the more probable half, constant D and growing D, at one step and one mean of D."""
    figures, yes, no, listed = {}, [], [], []
    for words, both in pairs.items():
        (a, da), (b, db) = (
            (float(abs(f.near_mode.mean())), float(f.near_mode.std(ddof=1) / np.sqrt(len(f.near_mode)))) for f in both
        )
        sigmas = (a - b) / float(np.hypot(da, db))
        listed.append(f"{words}: {a:.4f} ± {da:.4f} constant, {b:.4f} ± {db:.4f} growing")
        errors = {"constant_standard_error": da, "growing_standard_error": db}
        figures[words] = {"constant": a, "growing": b, **errors, "standard_errors_apart": sigmas}
        yes += [words] * (sigmas > BEYOND)
        no += [words] * (sigmas < -BEYOND)
    outcome = verdict(len(yes), len(pairs))
    return Claim(
        "adaptive-diffusion-accurate-near-mode",
        "A diffusion D that is smaller where the density is high is more accurate near the modes.",
        SOURCE,
        outcome,
        "Bias of the mean of U in the more probable half, in its sds, D constant and growing with U, at the same step "
        f"size and mean of D: {'; '.join(listed)}. The growing D is more accurate by more than {BEYOND:g} standard "
        f"errors in {len(yes)} of {len(pairs)} ways of asking, and less so in {len(no)}.",
        figures,
        conditions="; ".join(yes) if outcome == "reproduced under conditions" else "",
        picture="accuracy",
    )
