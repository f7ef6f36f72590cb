"""`eg.audit_family`: a sampler for any potential, put on a ladder of known laws: what does it sample?"""

import inspect
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from ergodica.errors import InputError
from ergodica.host.progress import waiting
from ergodica.report import Check, Report, columns, number, paragraph
from ergodica.verify.audit.engine import audited, checked_seed, positive
from ergodica.verify.audit.family_words import BLIND, Row, ladder_top, unseen, words
from ergodica.verify.audit.known_laws import KnownLaw, known_laws
from ergodica.verify.audit.result import FALSE_ALARM, Audit
from ergodica.verify.audit.steps import one_line
from ergodica.verify.audit.tails import any_of, each_of
from ergodica.verify.audit.verdict import percent

TEMPERATURES = (1.0, 0.1, 2.0)
CALL = "build(potential, temperature) or build(potential)"
TEMPERATURE_NAMES = ("temperature", "temp", "t")  # of an argument, in lower case
MARKS = {"rejected": "FAIL", "passed": "ok  ", "undecided": "?   "}
HEAD = ("law", "asked", "temperature found", "worst variance / claimed", "at step", "order of bias", "would see")

Builder = Callable[[Any, float], Any]


@dataclass(frozen=True)
class FamilyAudit(Report):
    """A check for each law, at one false-alarm rate for all of them: it passes where no law rejects it and each could.

    Attributes:
        audits: the audit of each law, by its name.
        words: what it samples, in sentences that follow from the temperatures found with their intervals.
        p_value: of the whole: how often a right sampler does as badly on one law or another.
        false_alarm: how often a right sampler is rejected.
    """

    rows: tuple[Row, ...] = ()
    p_value: float = 1.0
    false_alarm: float = FALSE_ALARM

    @property
    def audits(self) -> dict[str, Audit]:
        return {row.law.name: row.audit for row in self.rows}

    @property
    def words(self) -> tuple[str, ...]:
        return self.notes

    @property
    def undecided(self) -> bool:
        """True when no law rejects it, but one could not."""
        return not all(check.passed for check in self.checks) and not any(row.is_rejected for row in self.rows)

    def __str__(self) -> str:
        marks = ["    ", *(MARKS[row.outcome] for row in self.rows)]
        table = columns([HEAD, *(_cells(row) for row in self.rows)])
        lines = [f"{self.verdict}  {self.title}"]
        lines += [f"  {mark} {line}" for mark, line in zip(marks, table, strict=True)]
        for note in self.notes:
            lines += paragraph(note, "  - ")
        return "\n".join(lines)


def _cells(row: Row) -> tuple[str, ...]:
    found = row.audit
    if found.temperature is None:
        return row.law.name, f"{row.law.temperature:g}", found.notes[0], "", "", "", ""
    at = ladder_top(found)
    order = "-" if found.order is None else str(found.order)
    seen = percent(found.figures["seen"]["temperature"])
    return (
        row.law.name, f"{row.law.temperature:g}", str(found.temperature), str(at.worst),
        number(at.step_size), order, seen,
    )  # fmt: skip


def audit_family(
    build: Callable[..., Any],
    *,
    seed: int = 0,
    temperatures: Sequence[float] | None = None,
    dims: Sequence[int] = (1, 10, 100),
    init: Callable[..., Any] | None = None,
    read: Callable[[Any], Any] | None = None,
    progress: bool = True,
    effort: float = 0.3,
) -> FamilyAudit:
    """What law does a sampler sample? An audit on each of a ladder of known laws.

    Standard Gaussians in each of `dims`, badly scaled ones (deviations from 0.1 to 1), a quartic, and other
    temperatures where build takes one. A right sampler is rejected once in 10,000 such audits, all laws together.
    Where a law could not tell, the family is not decided and does not pass: it needs more `effort`.

    Args:
        build: build(potential, temperature) -> step, for step(key, position, step_size) -> position, or
            (init, step, read) for a step with a state of its own. A build(potential) is audited at temperature 1.
        seed: same seed, same report.
        temperatures: those to ask for, (1, 0.1, 2) by default; the first is that of the ladder, the others are tried
            on a standard Gaussian, and the second of them on a badly scaled one.
        dims: dimensions of the Gaussians.
        init, read: for a step with a state of its own, as for `eg.audit`, where build returns the step alone.
        progress: show a bar where it takes longer than two seconds, on a terminal.
        effort: times the work of `eg.audit` on each law.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> def build(potential, temperature):
        ...     def step(key, x, h):
        ...         noise = jnp.sqrt(2 * temperature * h) * jax.random.normal(key, x.shape)
        ...         return x - h * jax.grad(potential)(x) + noise
        ...     return step
        >>> audit_family(build, dims=(1,), temperatures=(1.0,), effort=0.1).passed
        True
    """
    call, takes_temperature = _builder(build)
    asked, sizes = _checked(temperatures, dims, takes_temperature)
    seed, effort = checked_seed(seed), positive("effort", effort)
    with jax.enable_x64(True), waiting("auditing", progress) as tell:
        laws = known_laws(sizes, asked)
        audits = []
        for k, law in enumerate(laws):
            begin, step, reader = _functions(call, law, init, read)

            def part(share: float, before: int = k) -> None:
                tell((before + share) / len(laws))

            audits.append(audited(step, law.target, None, begin, reader, None, law.temperature, seed + k, effort, part))
            part(1.0)
    return _report(laws, audits)


def _report(laws: list[KnownLaw], audits: list[Audit]) -> FamilyAudit:
    level = each_of(FALSE_ALARM, len(laws))
    # An audit's own level is above the family's: what it alone would reject may be no surprise among so many.
    rows = tuple(Row(law, found, found.p_value < level) for law, found in zip(laws, audits, strict=True))
    p_value = any_of(min(row.audit.p_value for row in rows), len(rows))
    checks = tuple(
        Check(row.law.name, row.outcome == "passed", row.audit.p_value, level, _explained(row), row.audit.p_value)
        for row in rows
    )
    figures = {"p_value": p_value, "false_alarm": FALSE_ALARM, "audits": {r.law.name: r.audit.to_dict() for r in rows}}
    asked = ", ".join(f"{t:g}" for t in dict.fromkeys(law.temperature for law in laws))
    title = f"audit of a sampler on {len(laws)} known laws: does it sample exp(-U/T)? (T = {asked})"
    return FamilyAudit(title, checks, words(rows), figures, rows, p_value)


def _explained(row: Row) -> str:
    if row.audit.temperature is None:
        return row.audit.notes[0]
    if row.outcome == "undecided":
        is_blind = row.audit.figures["seen"]["temperature"] >= BLIND
        return f"undecided: {unseen(row.audit)}" if is_blind else row.audit["decides"].explanation
    failed = "".join(f"; {row.audit[name].explanation}" for name in row.failed if name != "temperature")
    return f"samples at temperature {row.audit.temperature}, asked for {row.law.temperature:g}{failed}"


def _builder(build: Any) -> tuple[Builder, bool]:
    """build as it is to be called, and whether it takes a temperature: its second argument, or one of that name."""
    if not callable(build):
        raise InputError(f"build is {build!r}: expected a function, {CALL}")
    try:
        parameters = list(inspect.signature(build).parameters.values())
    except (TypeError, ValueError):  # some callables have no signature to look at
        return build, True
    needed = [p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    named = next((p for p in parameters[1:] if p.name.lower() in TEMPERATURE_NAMES), None)
    if not parameters or len(needed) > 2 or (named is not None and {p.name for p in needed[1:]} - {named.name}):
        raise InputError(f"build needs {len(needed)} arguments ({', '.join(p.name for p in needed)}): expected {CALL}")
    if named is not None and named.kind is not named.POSITIONAL_ONLY:
        return lambda potential, temperature: build(potential, **{named.name: temperature}), True
    if len(needed) > 1 or parameters[-1].kind is parameters[-1].VAR_POSITIONAL:
        return build, True
    return lambda potential, temperature: build(potential), False


def _checked(
    temperatures: Sequence[float] | None, dims: Sequence[int], takes_temperature: bool
) -> tuple[tuple[float, ...], tuple[int, ...]]:
    try:
        sizes = tuple(dict.fromkeys(operator.index(d) for d in np.atleast_1d(np.asarray(dims)).tolist()))
    except TypeError:
        sizes = ()
    if not sizes or min(sizes) < 1:
        raise InputError(f"dims is {dims!r}: expected whole numbers of at least 1, as (1, 10, 100)")
    if temperatures is None:
        return (TEMPERATURES if takes_temperature else (1.0,)), sizes
    try:
        asked = tuple(dict.fromkeys(np.atleast_1d(np.asarray(temperatures, float)).tolist()))
    except (TypeError, ValueError):
        asked = ()
    if not asked or not all(np.isfinite(t) and t > 0 for t in asked):
        raise InputError(f"temperatures is {temperatures!r}: expected numbers above 0, as (1.0, 0.1, 2.0)")
    if not takes_temperature and asked != (1.0,):
        raise InputError(
            "temperatures were given, but build(potential) takes none: expected build(potential, temperature)"
        )
    return asked, sizes


def _functions(call: Builder, law: KnownLaw, init: Any, read: Any) -> tuple[Any, Any, Any]:
    """(init, step, read) of what build returns for a law."""
    try:
        built = call(law.target.function, law.temperature)
    except Exception as error:  # the user's code: anything may come out of it
        raise InputError(f"build raised on {law.name}: {one_line(error)}") from error
    if callable(built):
        return init, built, read
    if isinstance(built, tuple) and len(built) == 3 and all(map(callable, built)):
        return built
    raise InputError(
        f"build returned {type(built).__name__}: expected a step, or a tuple (init, step, read) of functions"
    )
