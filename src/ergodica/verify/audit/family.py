"""`eg.audit_family`: a sampler for any potential, put on a ladder of known laws: what does it sample?"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ergodica.errors import InputError
from ergodica.host.progress import waiting
from ergodica.host.validate import positive_number, whole
from ergodica.report import Check, Report, columns, number, paragraph
from ergodica.targets import Density, Truth, gallery
from ergodica.verify.audit.audit_step import audited
from ergodica.verify.audit.black_box import needed_arguments, one_line
from ergodica.verify.audit.checks import percent
from ergodica.verify.audit.family_words import BLIND_ABOVE, FamilyRow, ladder_top, unseen, words
from ergodica.verify.audit.report import Audit
from ergodica.verify.tails import FALSE_ALARM, any_of, each_of

USUAL_TEMPERATURES = (1.0, 0.1, 2.0)
NARROWEST_DEVIATION = 0.1  # of the narrowest coordinate of a badly scaled law; the widest has 1
BUILD_CALL = "build(potential, temperature) or build(potential)"
TEMPERATURE_NAMES = ("temperature", "temp", "t")  # of an argument, in lower case
OUTCOME_MARKS = {"rejected": "FAIL", "passed": "ok  ", "undecided": "?   "}
TABLE_HEAD = ("law", "asked", "temperature found", "worst variance / claimed", "at step", "order of bias", "would see")

Builder = Callable[[Any, float], Any]


@dataclass(frozen=True)
class KnownLaw:
    """exp(-U/T) for a target's U: every mean, variance and draw of it is exact. `is_plain`: a standard Gaussian, on
    which temperature and dimension are compared."""

    name: str
    target: Density
    temperature: float
    dim: int
    is_plain: bool


def known_laws(dims: Sequence[int], temperatures: Sequence[float]) -> list[KnownLaw]:
    """Standard and badly scaled Gaussians in each dimension and a quartic at the first temperature, then the others
    on the standard Gaussian in the middle one of the dimensions, and the second temperature on a badly scaled one."""
    first, *others = temperatures
    middle = sorted(dims)[len(dims) // 2]
    laws = [KnownLaw(f"Gaussian, d = {d}", gallery.gaussian(d), first, d, True) for d in dims]
    laws += [KnownLaw(f"badly scaled, d = {d}", badly_scaled(d), first, d, False) for d in dims if d > 1]
    laws += [KnownLaw("quartic, d = 2", quartic(), first, 2, False)]
    laws += [KnownLaw(f"Gaussian, d = {middle}, T = {t:g}", gallery.gaussian(middle), t, middle, True) for t in others]
    if others and middle > 1:
        name = f"badly scaled, d = {middle}, T = {others[0]:g}"
        laws.append(KnownLaw(name, badly_scaled(middle), others[0], middle, False))
    return laws


def badly_scaled(dim: int) -> Density:
    """A Gaussian with deviations spread evenly in their logarithm from NARROWEST_DEVIATION to 1."""
    return gallery.gaussian(covariance=np.geomspace(NARROWEST_DEVIATION, 1.0, dim) ** 2)


def quartic_potential(x: Array) -> Array:
    """U = |x|⁴ / 4."""
    return 0.25 * jnp.sum(x * x) ** 2


def quartic_draw(key: Array) -> Array:
    """One exact draw in the plane.

    The radius has the density r exp(-r⁴/4); for y = r⁴/4, r dr is proportional to y^-1/2 dy, so y has the law of
    z²/2 with a standard normal z, and r = (2 z²)^1/4.
    """
    *direction, z = jax.random.normal(key, (3,), jnp.float64)
    x = jnp.stack(direction)
    return (2.0 * z * z) ** 0.25 * x / jnp.sqrt(jnp.sum(x * x))


def quartic() -> Density:
    """U = |x|⁴/4 in the plane. E x_i² = E r²/2 = E|z| / sqrt(2) = 1 / sqrt(pi)."""
    variance = jnp.full(2, np.pi**-0.5, jnp.float64)
    truth = Truth(jnp.zeros(2, jnp.float64), jnp.diag(variance), quartic_draw, variance)
    return Density(quartic_potential, init=jnp.sqrt(variance), truth=truth)


@dataclass(frozen=True)
class FamilyAudit(Report):
    """A check for each law, at one false-alarm rate for all of them: it passes where no law rejects it and each could.

    Attributes:
        audits: the audit of each law, by its name.
        words: what it samples, in sentences that follow from the temperatures found with their intervals.
        p_value: of the whole: how often a right sampler does as badly on one law or another.
        false_alarm: how often a right sampler is rejected.
    """

    rows: tuple[FamilyRow, ...] = ()
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
        marks = ["    ", *(OUTCOME_MARKS[row.outcome] for row in self.rows)]
        table = columns([TABLE_HEAD, *(_cells(row) for row in self.rows)])
        lines = [f"{self.verdict}  {self.title}"]
        lines += [f"  {mark} {line}" for mark, line in zip(marks, table, strict=True)]
        for note in self.notes:
            lines += paragraph(note, "  - ")
        return "\n".join(lines)


def _cells(row: FamilyRow) -> tuple[str, ...]:
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

    Use it for a sampler that works for any potential: where `eg.audit` says that one step is wrong on one law, this
    says how, as a formula (temperature d instead of T, the square of the temperature, 2 T). The laws are standard
    Gaussians in each of `dims`, badly scaled ones (deviations from 0.1 to 1), a quartic, and other temperatures where
    build takes one. A right sampler is rejected once in 10,000 such audits, all laws together.
    Where a law could not tell, the family is not decided and does not pass: it needs more `effort`. The laws are exact,
    as in Geweke's joint distribution tests (2004, https://doi.org/10.1198/016214504000001132).

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

    Returns:
        A `FamilyAudit`: `passed`, the `audits` by law, and in `words` what the sampler samples.

    Example:
        >>> import jax, jax.numpy as jnp, ergodica as eg
        >>> def build(potential, temperature):
        ...     def step(key, x, h):
        ...         noise = jnp.sqrt(2 * temperature * h) * jax.random.normal(key, x.shape)
        ...         return x - h * jax.grad(potential)(x) + noise
        ...     return step
        >>> eg.audit_family(build, dims=(1,), temperatures=(1.0,), effort=0.1).passed
        True
    """
    call, takes_temperature = _builder(build)
    asked, sizes = _checked(temperatures, dims, takes_temperature)
    seed, effort = whole("seed", seed), positive_number("effort", effort)
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
    rows = tuple(FamilyRow(law, found, found.p_value < level) for law, found in zip(laws, audits, strict=True))
    p_value = any_of(min(row.audit.p_value for row in rows), len(rows))
    checks = tuple(
        Check(row.law.name, row.outcome == "passed", row.audit.p_value, level, _explained(row), row.audit.p_value)
        for row in rows
    )
    figures = {"p_value": p_value, "false_alarm": FALSE_ALARM, "audits": {r.law.name: r.audit.to_dict() for r in rows}}
    asked = ", ".join(f"{t:g}" for t in dict.fromkeys(law.temperature for law in laws))
    title = f"audit of a sampler on {len(laws)} known laws: does it sample exp(-U/T)? (T = {asked})"
    return FamilyAudit(title, checks, words(rows), figures, rows, p_value)


def _explained(row: FamilyRow) -> str:
    if row.audit.temperature is None:
        return row.audit.notes[0]
    if row.outcome == "undecided":
        is_blind = row.audit.figures["seen"]["temperature"] >= BLIND_ABOVE
        return f"undecided: {unseen(row.audit)}" if is_blind else row.audit["decides"].explanation
    failed = "".join(f"; {row.audit[name].explanation}" for name in row.failed if name != "temperature")
    return f"samples at temperature {row.audit.temperature}, asked for {row.law.temperature:g}{failed}"


def _builder(build: Any) -> tuple[Builder, bool]:
    """build as it is to be called, and whether it takes a temperature: its second argument, or one of that name."""
    if not callable(build):
        raise InputError(f"build is {build!r}: expected a function, {BUILD_CALL}")
    needed = needed_arguments(build)
    if needed is None:  # some callables have no signature to look at
        return build, True
    parameters = list(inspect.signature(build).parameters.values())
    named = next((p for p in parameters[1:] if p.name.lower() in TEMPERATURE_NAMES), None)
    if not parameters or len(needed) > 2 or (named is not None and set(needed[1:]) - {named.name}):
        raise InputError(f"build needs {len(needed)} arguments ({', '.join(needed)}): expected {BUILD_CALL}")
    if named is not None and named.kind is not named.POSITIONAL_ONLY:
        return lambda potential, temperature: build(potential, **{named.name: temperature}), True
    if len(needed) > 1 or parameters[-1].kind is parameters[-1].VAR_POSITIONAL:
        return build, True
    return lambda potential, temperature: build(potential), False


def _checked(
    temperatures: Sequence[float] | None, dims: Sequence[int], takes_temperature: bool
) -> tuple[tuple[float, ...], tuple[int, ...]]:
    sizes = _each(
        "dims", dims, lambda name, value: whole(name, value, 1), "whole numbers of at least 1, as (1, 10, 100)"
    )
    if temperatures is None:
        return (USUAL_TEMPERATURES if takes_temperature else (1.0,)), sizes
    asked = _each("temperatures", temperatures, positive_number, "numbers above 0, as (1.0, 0.1, 2.0)")
    if not takes_temperature and asked != (1.0,):
        raise InputError(
            "temperatures were given, but build(potential) takes none: expected build(potential, temperature)"
        )
    return asked, sizes


def _each(name: str, values: Any, check: Callable[[str, Any], Any], expected: str) -> tuple[Any, ...]:
    """The different ones of some values, or of a single one, each of them checked."""
    try:
        found = tuple(dict.fromkeys(check(name, value) for value in np.atleast_1d(np.asarray(values)).tolist()))
    except (InputError, TypeError, ValueError):
        found = ()
    if not found:
        raise InputError(f"{name} is {values!r}: expected {expected}")
    return found


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
