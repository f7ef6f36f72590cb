"""What an audit over known laws says in words: from the temperatures found and their intervals, nothing else."""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ergodica.verify.audit.checks import first_three, percent
from ergodica.verify.audit.law_tests import weighted_slope
from ergodica.verify.audit.report import Audit, StepBias
from ergodica.verify.tails import Estimate

if TYPE_CHECKING:
    from ergodica.verify.audit.family import KnownLaw

# standard errors by which an exponent or a factor must miss what was asked for before it is put in words
SURE_SCORE = 4.0
CLOSE_TO = 0.05  # exponents and relative factors this close to a simple number are called by it
BLIND_ABOVE = 0.25  # relative error of the temperature; a law on which less would not have been seen tells nothing
HOT_CHECKS = ("temperature", "one step")  # checks that a wrong temperature fails
FOLLOWING_CHECKS = ("one step", "shape")  # checks that need no words of their own where the temperature is wrong
FRACTION_NAMES = {0.25: "T/4", 0.5: "T/2", 2.0: "2 T", 4.0: "4 T"}
POWER_NAMES = {0.5: "the square root of the temperature", 2.0: "the square of the temperature"}


class FamilyRow(NamedTuple):
    """One law, what the audit found on it, and whether that rejects the sampler at the family's level."""

    law: "KnownLaw"
    audit: Audit
    is_rejected: bool

    @property
    def outcome(self) -> str:
        """ "rejected", "passed", or "undecided": nothing against it, but a temperature that is badly off would not have
        been seen either."""
        if self.is_rejected:
            return "rejected"
        is_blind = not self.audit.is_decided or self.audit.figures["seen"]["temperature"] >= BLIND_ABOVE
        return "undecided" if is_blind else "passed"

    @property
    def failed(self) -> list[str]:
        return [check.name for check in self.audit.checks if not check.passed] if self.is_rejected else []


class Measured(NamedTuple):
    """A number with its standard error."""

    value: float
    error: float

    def misses(self, number: float) -> bool:
        """Surely not that number, nor close to it."""
        return abs(self.value - number) > max(SURE_SCORE * self.error, CLOSE_TO)

    def is_near(self, number: float) -> bool:
        return abs(self.value - number) <= max(2 * self.error, CLOSE_TO * max(abs(number), 1.0))

    def __str__(self) -> str:
        return str(Estimate.of(self.value, self.error))


def words(rows: Sequence[FamilyRow]) -> tuple[str, ...]:
    """The sentences, most important first."""
    said = [*_standstill(rows), *_culprit(rows), *_temperature(rows), *_other(rows), *_bias(rows), *_untold(rows)]
    return tuple(said) if any(row.is_rejected for row in rows) else (_praise(rows), *said)


def unseen(found: Audit) -> str:
    """What an audit would have missed."""
    return f"a temperature off by less than {percent(found.figures['seen']['temperature'])} might not have been seen"


def ladder_top(found: Audit) -> StepBias:
    """The row of bias at the largest of the three step sizes that the verdict rests on."""
    return min(found.bias, key=lambda row: abs(row.step_size - found.figures["ladder"][0]))


def _standstill(rows: Sequence[FamilyRow]) -> list[str]:
    """Laws on which there was nothing to estimate: the position never moves, the key is ignored, not finite."""
    stopped = [row for row in rows if row.audit.temperature is None]
    reasons: dict[str, list[str]] = {}
    for row in stopped:
        reasons.setdefault(row.audit.notes[0], []).append(row.law.name)
    return [_where(note, names, len(rows)) for note, names in reasons.items()]


def _culprit(rows: Sequence[FamilyRow]) -> list[str]:
    """What the moments of one step name as missing, on the first law on which they do."""
    named = [row for row in rows if row.is_rejected and "culprit" in row.audit.figures]
    return [_where(named[0].audit.figures["culprit"], [row.law.name for row in named], len(rows))] if named else []


def _where(sentence: str, names: Sequence[str], of: int) -> str:
    if len(names) == of:
        return f"{sentence}, on every law"
    return f"{sentence} (on {first_three(names, '; ')})"


def _temperature(rows: Sequence[FamilyRow]) -> list[str]:
    """How the temperature found depends on the one asked for and on the dimension, where a law failed by it."""
    known = [row for row in rows if _is_known(row)]
    if not any(name in row.failed for row in known for name in HOT_CHECKS):
        return []
    plain = [row for row in known if row.law.is_plain]
    by_dim = [row for row in plain if row.law.temperature == plain[0].law.temperature]
    dims = [row.law.dim for row in plain]  # most temperatures were tried in one of them
    by_temperature = [row for row in plain if row.law.dim == max(dims, key=dims.count)]
    by_temperature.sort(key=lambda row: row.law.temperature)
    in_dim = _power(by_dim, lambda law: law.dim)
    in_temperature = _power(by_temperature, lambda law: law.temperature)
    if in_dim is not None and in_dim.misses(0):
        return [_of_dimension(in_dim, by_dim), *_of_asked(in_temperature, by_temperature)]
    return _of_asked(in_temperature, by_temperature) or _factor(known)


def _is_known(row: FamilyRow) -> bool:
    found = row.audit.temperature
    return found is not None and found.value > 0 and found.high - found.low < found.value


def _logarithm(row: FamilyRow) -> Measured:
    found = row.audit.temperature
    assert found is not None
    return Measured(math.log(found.value), (found.high - found.low) / (2 * 1.96 * found.value))


def _power(rows: Sequence[FamilyRow], of: Callable[["KnownLaw"], float]) -> Measured | None:
    """p of temperature found = c x^p, by least squares of logarithms; None where x is not varied."""
    x = np.log([of(row.law) for row in rows])
    if len(set(x)) < 2:
        return None
    y, error = np.asarray([_logarithm(row) for row in rows]).T
    return Measured(*weighted_slope(x, y, error))


def _mean(values: Sequence[Measured]) -> Measured:
    """The weighted mean of logarithms, as a factor; wider where they scatter by more than their errors."""
    value, error = np.asarray(values).T
    weight = 1 / error**2
    mean = np.average(value, weights=weight)
    scatter = np.sum(weight * (value - mean) ** 2) / max(len(value) - 1, 1)
    return Measured(math.exp(mean), math.exp(mean) * math.sqrt(max(scatter, 1.0) / weight.sum()))


def _series(numbers: Sequence[float], link: str) -> str:
    """0.1, 1 or 2"""
    *first, last = [f"{x:g}" for x in sorted(set(numbers))]
    return f"{', '.join(first)} {link} {last}" if first else last


def _listed(rows: Sequence[FamilyRow], of: Callable[["KnownLaw"], float], what: str) -> str:
    return ", ".join(f"{row.audit.temperature} {what} {of(row.law):g}" for row in rows)


def _of_dimension(power: Measured, rows: Sequence[FamilyRow]) -> str:
    listed = _listed(rows, lambda law: law.dim, "at d =")
    unit = _mean([_relative(row, row.law.dim) for row in rows])
    if power.is_near(1) and unit.is_near(1):
        return f"samples at temperature d, the dimension: {listed}"
    if power.is_near(-1) and _mean([_relative(row, 1 / row.law.dim) for row in rows]).is_near(1):
        return f"samples at temperature 1/d, one over the dimension: {listed}"
    return f"temperature changes with the dimension, as d to the power {power}: {listed}"


def _relative(row: FamilyRow, expected: float) -> Measured:
    found = _logarithm(row)
    return Measured(found.value - math.log(row.law.temperature * expected), found.error)


def _of_asked(power: Measured | None, rows: Sequence[FamilyRow]) -> list[str]:
    """The temperature asked for is ignored, squared, ...; nothing where it is heeded."""
    if power is None or not power.misses(1):
        return []
    if power.is_near(0):
        found = _mean([_logarithm(row) for row in rows])
        asked = _series([row.law.temperature for row in rows], "or")
        return [f"temperature is ignored: it samples at temperature {found} whether {asked} is asked for"]
    listed = _listed(rows, lambda law: law.temperature, "for")
    name = next((name for number, name in POWER_NAMES.items() if power.is_near(number)), None)
    if name is not None:
        return [f"samples at {name} asked for: {listed}"]
    return [f"temperature follows the one asked for to the power {power}: {listed}"]


def _factor(rows: Sequence[FamilyRow]) -> list[str]:
    """One factor between what was asked for and what was found, where most laws failed and agree; else law by law."""
    ratios = [_relative(row, 1.0) for row in rows]
    factor = _mean(ratios)
    wrong = [row for row in rows if any(name in row.failed for name in HOT_CHECKS)]
    is_one = all(abs(r.value - math.log(factor.value)) <= max(SURE_SCORE * r.error, CLOSE_TO) for r in ratios)
    if is_one and 2 * len(wrong) > len(rows):
        name = next((f", that is {text}" for number, text in FRACTION_NAMES.items() if factor.is_near(number)), "")
        off = abs(factor.value - 1) > SURE_SCORE * factor.error
        return [f"samples at {factor} times the temperature asked for, on every law{name}"] if off else []
    listed = "; ".join(f"{row.audit.temperature} for {row.law.temperature:g} on {row.law.name}" for row in wrong[:4])
    return [f"samples at another temperature than asked for, but not by one factor on every law: {listed}"]


def _other(rows: Sequence[FamilyRow]) -> list[str]:
    """What failed besides the temperature: one sentence for each kind of check, as the first such law says it."""
    said = []
    names = dict.fromkeys(name for row in rows if row.audit.temperature is not None for name in row.failed)
    for name in names:
        with_it = [
            row for row in rows if name in row.failed and not (name in FOLLOWING_CHECKS and "temperature" in row.failed)
        ]
        if name in ("temperature", "decides") or not with_it:  # what is rejected needs no more effort
            continue
        said.append(_where(with_it[0].audit[name].explanation, [row.law.name for row in with_it], len(rows)))
    return said


def _bias(rows: Sequence[FamilyRow]) -> list[str]:
    """The order of the bias that is known best."""
    known = [row for row in rows if row.audit.order is not None and row.audit.bias]
    if not known:
        return []
    # standard Gaussians first: where scales differ, the narrow coordinates may be far from any power
    plain = [row for row in known if row.law.is_plain] or known
    row = min(plain, key=lambda row: row.audit.order.high - row.audit.order.low)  # pyright: ignore
    at, best = ladder_top(row.audit), row.audit.order
    other = [r for r in known if r.audit.order.low > best.high or r.audit.order.high < best.low]  # pyright: ignore
    but = "".join(f"; {r.audit.order} on {r.law.name}" for r in other)
    return [
        f"bias falls as step size to the power {best} (on {row.law.name}: variance {at.variance} of the "
        f"claimed one at step size {at.step_size:.3g}{but})"
    ]


def _untold(rows: Sequence[FamilyRow]) -> list[str]:
    names = [row.law.name for row in rows if row.outcome == "undecided"]
    sentence = "nothing could be told: the chains are too slow, or their bias too large, at the step sizes that fit"
    if len(names) == len(rows):
        return [f"{sentence}, on every law; give more effort"]
    return [f"{sentence} (on {'; '.join(names)}); give more effort"] if names else []


def _praise(rows: Sequence[FamilyRow]) -> str:
    """Where nothing speaks against it."""
    told = [row for row in rows if row.outcome == "passed"]
    if not told:
        return f"not decided: none of {len(rows)} laws could tell"
    asked = _series([row.law.temperature for row in told], "and")
    seen = max(row.audit.figures["seen"]["temperature"] for row in told)
    hardest = f"on the hardest of them a temperature off by {percent(seen)} would have been seen"
    if len(told) < len(rows):
        names = "; ".join(row.law.name for row in told)
        return f"not decided: samples the law asked for on {len(told)} of {len(rows)} laws ({names}), {hardest}"
    return f"samples the law asked for, on {len(told)} laws at temperature {asked}: {hardest}"
