"""Certificates of the samplers of section 3, and of random recipes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import ergodica as eg
from ergodica.report import Report
from ergodica.verify.certificate import hypoellipticity
from ergodica.verify.specimens import SAMPLERS
from ergodica.verify.stationarity import rounding
from ergodica_paper import style
from ergodica_paper.flat import FLOOR, RESIDUAL
from ergodica_paper.printed_samplers import SECTION_3
from ergodica_paper.random_recipes import build_with_normals, draw_numbers, draw_plan
from ergodica_paper.result import Ask, Claim, Picture, Table
from ergodica_paper.style import LABELS
from ergodica_paper.verdict import Answer, judged, yes_if

BOUND = rounding(np.float64)  # of a residual that is nothing but rounding
RULE = (
    "eg.certify passes in all checks but the reach of the noise, among them a Fokker-Planck residual of at most "
    f"{BOUND:.1e} of what cancels in it"
)
POINTS = 16  # of the phase, for a certificate
SHOWN = 3  # that did not pass, by name, in the explanation


@dataclass(frozen=True)
class Certified:
    """A recipe and its certificate. Theorem 1 is of a law that is kept; that it is reached is a check of its own."""

    name: str
    kind: str
    report: Report

    @property
    def residual(self) -> float:
        """Infinite where the certificate stopped before it."""
        return next((c.figure for c in self.report.checks if c.name == RESIDUAL), np.inf)

    @property
    def is_kept(self) -> bool:
        return all(check.passed for check in self.report.checks if check.name != hypoellipticity.CHECK_NAME)

    @property
    def is_reached(self) -> bool | None:
        return next((c.passed for c in self.report.checks if c.name == hypoellipticity.CHECK_NAME), None)

    @property
    def failed(self) -> str:
        return ", ".join(check.name for check in self.report.checks if not check.passed)


def certify_named(ask: Ask) -> list[Certified]:
    found = []
    for i, name in enumerate(SECTION_3):
        ask.report(0.45 * i / len(SECTION_3), f"certificate of {LABELS[name]}")
        build, target = SAMPLERS[name]
        found.append(Certified(name, "section 3", eg.certify(build(), target(), points=POINTS, seed=ask.seed)))
    return found


def certify_random(ask: Ask) -> list[Certified]:
    plans, draws = (16, 8) if ask.full else (3, 3)
    found = []
    for p in range(plans):
        plan = draw_plan([ask.seed, 1, p])
        for i in range(draws):
            ask.report(0.45 + 0.4 * (p + i / draws) / plans, f"random recipe {p * draws + i + 1} of {plans * draws}")
            recipe, target = build_with_normals(plan, draw_numbers(plan, [ask.seed, 1, p, i]))
            found.append(Certified(str(plan), "random", eg.certify(recipe, target, points=POINTS, seed=ask.seed)))
    return found


def named_claim(found: Sequence[Certified]) -> Claim:
    """Asked of every sampler."""
    answers = [Answer(LABELS[c.name], yes_if(c.is_kept)) for c in found]
    statement = "The samplers of section 3, cast as recipes, have exp(-H) as a stationary law."
    source, rule = "Theorem 1 and section 3", f"Sampler by sampler: {RULE}."
    return _claim("theorem-1-section-3", statement, source, answers, found, rule)


def random_claim(found: Sequence[Certified]) -> Claim:
    """Asked of all of them at once: the theorem is of any D and Q, so that one that fails is enough."""
    answers = [Answer("random recipes", yes_if(all(c.is_kept for c in found)))]
    statement = "Any positive semidefinite D(z) and skew Q(z) give a process with the stationary law exp(-H)."
    source, rule = "Theorem 1, section 2.1", f"For every one of the random recipes {RULE}."
    return _claim("theorem-1-random", statement, source, answers, found, rule)


def _claim(
    name: str, statement: str, source: str, answers: Sequence[Answer], found: Sequence[Certified], rule: str
) -> Claim:
    told, figures = _told(found), _figures(found)
    return judged(name, statement, source, answers, told, figures, picture="certificates", rule=rule)


def _told(found: Sequence[Certified]) -> str:
    failed = [c for c in found if not c.is_kept]
    largest = max((c.residual for c in found if np.isfinite(c.residual)), default=np.nan)
    words = (
        f"{len(found) - len(failed)} of {len(found)} recipes leave exp(-H) invariant; the largest Fokker-Planck "
        f"residual is {largest:.1e} of what cancels in it."
    )
    if failed:
        more = f" and {len(failed) - SHOWN} more" if len(failed) > SHOWN else ""
        words += f" Not passed: {'; '.join(f'{c.name} ({c.failed})' for c in failed[:SHOWN])}{more}."
    return words


def _figures(found: Sequence[Certified]) -> dict[str, Any]:
    residuals = [c.residual for c in found]
    return {
        "recipes": len(found),
        "passed": sum(c.is_kept for c in found),
        "largest_residual": max(residuals) if np.all(np.isfinite(residuals)) else None,
        "stopped_before_the_residual": int(np.sum(~np.isfinite(residuals))),
        "tolerance": BOUND,
        "noise_reaches_everything": sum(c.is_reached is True for c in found),
    }


def table_of(found: Sequence[Certified]) -> Table:
    columns = ("recipe", "kind", "residual", "tolerance", "law kept", "noise reaches everything", "checks not passed")
    rows = [(c.name, c.kind, c.residual, BOUND, c.is_kept, c.is_reached, c.failed) for c in found]
    return Table(
        "certificates", "Every certificate: the Fokker-Planck residual over what cancels in it.", columns, rows
    )


def picture_of(found: Sequence[Certified]) -> Picture:
    named = [c for c in found if c.kind == "section 3"]
    others = [c for c in found if c.kind != "section 3"]
    figure, ((axis,),) = style.new_figure(squeeze=False, size=(7.0, 3.6))
    for place, c in enumerate(named):
        colour, marker = style.COLOURS.get(c.name, "#555555"), style.MARKERS.get(c.name, "o")
        axis.plot(max(c.residual, FLOOR), place, marker, color=colour, markersize=8)
    row = len(named)
    spread = np.linspace(-0.3, 0.3, len(others))
    axis.plot([max(c.residual, FLOOR) for c in others], row + spread, "o", color="#777777", markersize=4, alpha=0.7)
    axis.axvline(BOUND, color="#000000", linestyle="--", linewidth=1)
    axis.text(BOUND * 0.8, row + 0.1, "bound of\nrounding", ha="right", va="center", fontsize=9)
    labels = [LABELS[c.name] for c in named]
    axis.set(
        xscale="log",
        ylim=(-0.6, row + 0.6),
        xlim=(FLOOR / 2, 10 * max([BOUND, *(c.residual for c in found if np.isfinite(c.residual))])),
        xlabel="Fokker-Planck residual over the size of what cancels in it (no unit)",
        yticks=range(row + 1),
        yticklabels=[*labels, f"{len(others)} random\nrecipes"],
    )
    caption = (
        f"Residuals of eg.certify for the samplers of section 3 and {len(others)} random recipes; residuals of exactly "
        f"zero ({sum(c.residual == 0 for c in found)}) are drawn at {FLOOR:g}."
    )
    return Picture("certificates", caption, figure, "certificates")
