"""`eg.audit_family`: a sampler for any potential, put on a ladder of known laws: what does it sample?"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from ergodica.errors import InputError
from ergodica.report import Check, Report, number, paragraph
from ergodica.verify.audit.engine import audit
from ergodica.verify.audit.family_words import Row, ladder_top, words
from ergodica.verify.audit.known_laws import KnownLaw, known_laws
from ergodica.verify.audit.result import FALSE_ALARM, Audit
from ergodica.verify.audit.tails import any_of, each_of
from ergodica.verify.waiting import waiting

TEMPERATURES = (1.0, 0.1, 2.0)
CALL = "build(potential, temperature) or build(potential)"


@dataclass(frozen=True)
class FamilyAudit(Report):
    """A check for each law, at one false-alarm rate for all of them.

    Attributes:
        audits: the audit of each law, by its name.
        words: what it samples, in sentences that follow from the temperatures found with their intervals.
        p_value: of the whole: how often a right sampler does as badly on one law or another.
        false_alarm: how often a right sampler does not pass.
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

    def __str__(self) -> str:
        head = (
            "law",
            "asked",
            "temperature found",
            "worst variance / claimed",
            "at step",
            "order of bias",
            "would see",
        )
        table = [head, *(_cells(row) for row in self.rows)]
        widths = [max(len(line[k]) for line in table) for k in range(len(head))]
        lines = [f"{'PASSED' if self.passed else 'NOT PASSED'}  {self.title}"]
        for line, mark in zip(table, ["    ", *map(_mark, self.rows)], strict=True):
            lines.append(
                f"  {mark} " + "  ".join(f"{cell:<{w}}" for cell, w in zip(line, widths, strict=True)).rstrip()
            )
        for note in self.notes:
            lines += paragraph(note, "  - ")
        return "\n".join(lines)


def _mark(row: Row) -> str:
    return "FAIL" if not row.passed else "ok  " if row.is_told else "?   "


def _cells(row: Row) -> tuple[str, ...]:
    found = row.audit
    if found.temperature is None:
        return row.law.name, f"{row.law.temperature:g}", found.notes[0], "", "", "", ""
    at = ladder_top(found)
    order = "-" if found.order is None else str(found.order)
    seen = f"{100 * found.figures['seen']['temperature']:.2g} %"
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
    temperatures where build takes one. A right sampler does not pass once in 10,000 such audits, all laws together.

    Args:
        build: build(potential, temperature) -> step, for step(key, position, step_size) -> position, or
            (init, step, read) for a step with a state of its own. A build(potential) is audited at temperature 1.
        seed: same seed, same report.
        temperatures: those to ask for, (1, 0.1, 2) by default; the first is that of the ladder, the others are tried
            on a standard Gaussian.
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
        >>> audit_family(build, dims=(1,), effort=0.1).passed
        True
    """
    takes_temperature = _takes_temperature(build)
    asked, sizes = _checked(temperatures, dims, takes_temperature)
    with jax.enable_x64(True), waiting("auditing", progress) as tell:
        laws = known_laws(sizes, asked)
        audits = []
        for k, law in enumerate(laws):
            functions = _functions(build, law, takes_temperature, init, read)
            audits.append(_audit(functions, law, seed + k, effort))
            tell((k + 1) / len(laws))
    return _report(laws, audits)


def _audit(functions: tuple[Any, Any, Any], law: KnownLaw, seed: int, effort: float) -> Audit:
    begin, step, reader = functions
    return audit(
        step, law.target, init=begin, read=reader, temperature=law.temperature, seed=seed, progress=False, effort=effort
    )


def _report(laws: list[KnownLaw], audits: list[Audit]) -> FamilyAudit:
    level = each_of(FALSE_ALARM, len(laws))
    # An audit's own level is above the family's: what passes alone passes here.
    rows = tuple(
        Row(law, found, found.passed or found.p_value >= level) for law, found in zip(laws, audits, strict=True)
    )
    p_value = any_of(min(row.audit.p_value for row in rows), len(rows))
    checks = tuple(
        Check(row.law.name, row.passed, row.audit.p_value, level, _explained(row), row.audit.p_value) for row in rows
    )
    figures = {"p_value": p_value, "false_alarm": FALSE_ALARM, "audits": {r.law.name: r.audit.to_dict() for r in rows}}
    asked = ", ".join(f"{t:g}" for t in dict.fromkeys(law.temperature for law in laws))
    title = f"audit of a sampler on {len(laws)} known laws: does it sample exp(-U/T)? (T = {asked})"
    return FamilyAudit(title, checks, words(rows), figures, rows, p_value)


def _explained(row: Row) -> str:
    if row.audit.temperature is None:
        return row.audit.notes[0]
    failed = "".join(f"; {row.audit[name].explanation}" for name in row.failed if name != "temperature")
    return f"samples at temperature {row.audit.temperature}, asked for {row.law.temperature:g}{failed}"


def _takes_temperature(build: Any) -> bool:
    if not callable(build):
        raise InputError(f"build is {build!r}: expected a function, {CALL}")
    try:
        parameters = inspect.signature(build).parameters.values()
    except (TypeError, ValueError):  # some callables have no signature to look at
        return True
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL)]
    needed = [p for p in positional if p.default is p.empty and p.kind is not p.VAR_POSITIONAL]
    if not positional or len(needed) > 2:
        raise InputError(f"build needs {len(needed)} arguments: expected {CALL}")
    return len(positional) > 1 or positional[0].kind is inspect.Parameter.VAR_POSITIONAL


def _checked(
    temperatures: Sequence[float] | None, dims: Sequence[int], takes_temperature: bool
) -> tuple[tuple[float, ...], tuple[int, ...]]:
    sizes = tuple(np.atleast_1d(np.asarray(dims)).tolist())
    if not sizes or not all(isinstance(d, int) and d >= 1 for d in sizes):
        raise InputError(f"dims is {dims!r}: expected whole numbers of at least 1, as (1, 10, 100)")
    if temperatures is None:
        return (TEMPERATURES if takes_temperature else (1.0,)), sizes
    asked = tuple(np.atleast_1d(np.asarray(temperatures, float)).tolist())
    if not asked or not all(np.isfinite(t) and t > 0 for t in asked):
        raise InputError(f"temperatures is {temperatures!r}: expected numbers above 0, as (1.0, 0.1, 2.0)")
    if not takes_temperature and asked != (1.0,):
        raise InputError(
            "temperatures were given, but build(potential) takes none: expected build(potential, temperature)"
        )
    return asked, sizes


def _functions(
    build: Callable[..., Any], law: KnownLaw, takes_temperature: bool, init: Any, read: Any
) -> tuple[Any, Any, Any]:
    """(init, step, read) of what build returns for a law."""
    potential = law.target.function
    built = build(potential, law.temperature) if takes_temperature else build(potential)
    if callable(built):
        return init, built, read
    if isinstance(built, tuple) and len(built) == 3 and all(map(callable, built)):
        return built
    raise InputError(
        f"build returned {type(built).__name__}: expected a step, or a tuple (init, step, read) of functions"
    )
