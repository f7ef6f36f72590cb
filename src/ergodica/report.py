"""What a certificate and an audit return: checks with their figures, one verdict, a table that a person can read."""

import math
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

REPORT_WIDTH = 118


@dataclass(frozen=True)
class Check:
    """One question and its answer: `figure` was measured, `tolerance` is what it was held against.

    `p_value`, for a statistical check: how often a right sampler shows a figure this extreme. `is_undecided`: passed,
    but only because it was not checked, or on too little data to fail. `is_essential`: without an answer to this
    question there is no verdict.
    """

    name: str
    passed: bool
    figure: float
    tolerance: float
    explanation: str
    p_value: float | None = None
    is_undecided: bool = False
    is_essential: bool = False

    def to_dict(self) -> dict[str, Any]:
        """For JSON, which has no NaN or infinity: those become strings."""
        return {
            "name": self.name,
            "passed": bool(self.passed),
            "figure": plain(self.figure),
            "tolerance": plain(self.tolerance),
            "explanation": self.explanation,
            "p_value": None if self.p_value is None else plain(self.p_value),
            "is_undecided": self.is_undecided,
            "is_essential": self.is_essential,
        }


@dataclass(frozen=True)
class Report:
    """The checks of one sampler, what follows from them in words, and figures worth keeping.

    Args:
        title: what was checked, and against which law.
        checks: in the order in which they were made.
        notes: sentences that follow from the checks: repairs, the law that is sampled, what could not be seen.
        figures: named numbers behind the sentences, as plain numbers, strings, lists and dictionaries.
    """

    title: str
    checks: tuple[Check, ...]
    notes: tuple[str, ...] = ()
    figures: dict[str, Any] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """True when every check passed, there was at least one, and nothing essential is undecided."""
        return bool(self.checks) and all(check.passed for check in self.checks) and not self.undecided

    @property
    def undecided(self) -> bool:
        """True when nothing is wrong, but something essential was not checked, or could not be."""
        is_wrong = any(not check.passed for check in self.checks)
        return not is_wrong and any(check.is_undecided and check.is_essential for check in self.checks)

    @property
    def verdict(self) -> str:
        """The first words of the report."""
        if self.undecided:
            return "NOT DECIDED"
        return "PASSED" if self.passed else "NOT PASSED"

    def __getitem__(self, name: str) -> Check:
        """The check of that name."""
        for check in self.checks:
            if check.name == name:
                return check
        raise KeyError(f"no check {name!r}; there are {', '.join(check.name for check in self.checks)}")

    def to_dict(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "passed": self.passed,
            "undecided": self.undecided,
            "verdict": self.verdict,
            "checks": [check.to_dict() for check in self.checks],
            "notes": list(self.notes),
            "figures": plain(self.figures),
        }

    def __str__(self) -> str:
        names = max([len(check.name) for check in self.checks], default=0)
        lines = [f"{self.verdict}  {self.title}"]
        for check in self.checks:
            mark = "ok  " if check.passed else "FAIL"
            head = f"  {mark} {check.name:<{names}}  {number(check.figure):>9} of {number(check.tolerance):<9} "
            lines += paragraph(check.explanation, head)
        for note in self.notes:
            lines += paragraph(note, "  - ")
        return "\n".join(lines)


def paragraph(text: str, head: str) -> list[str]:
    """The text behind `head`, folded at REPORT_WIDTH, later lines under the first word."""
    body = textwrap.wrap(text, max(REPORT_WIDTH - len(head), 40)) or [""]
    return [head + body[0], *(" " * len(head) + line for line in body[1:])]


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """A line for each row, its cells under those of the row above."""
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    return ["  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]


def number(value: float) -> str:
    """Three digits, as short as they go."""
    if math.isfinite(value) and value == int(value) and abs(value) < 1e6:
        return str(int(value))
    return f"{value:.3g}"


def plain(value: Any) -> Any:
    """As JSON can hold it: NumPy and JAX numbers and arrays become Python's, NaN and infinities strings."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, str | bool) or value is None:
        return value
    if hasattr(value, "dtype"):
        return plain(value.tolist())
    if isinstance(value, Iterable):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
