"""The ladder of known laws is exact; words follow from the temperatures found; a real run finds what was planted."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ergodica.errors import InputError
from ergodica.report import Check
from ergodica.verify.audit import family
from ergodica.verify.audit.family import audit_family, known_laws, quartic
from ergodica.verify.audit.family_words import FamilyRow, words
from ergodica.verify.audit.report import Audit, StepBias
from ergodica.verify.tails import Estimate
from ergodica_paper.wrong import RIGHT_STEPS, WRONG_STEPS

DIMS, TEMPERATURES = (1, 10, 100), (1.0, 0.1, 2.0)
ESTIMATE = Estimate.of(1.0, 0.01)
QUICK = {"dims": (1,), "effort": 0.05, "progress": False}


def rows_with(found, error=0.01, failed=("temperature",), rejected=True, seen=lambda law: 0.05):
    """The ladder with made-up findings: temperature found(law), with a relative standard error."""
    rows = []
    for law in known_laws(DIMS, TEMPERATURES):
        value = found(law)
        temperature = None if value is None else Estimate.of(value, error * value)
        checks = tuple(Check(name, False, 9.0, 4.0, f"what {name} says", 0.0) for name in failed)
        note = "position never moves" if value is None else "a note"
        figures = {"seen": {"temperature": seen(law)}}
        rows.append(FamilyRow(law, Audit("title", checks, (note,), figures, temperature), rejected))
    return rows


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (lambda law: 1.11, "temperature is ignored: it samples at temperature 1.11"),
        (lambda law: law.temperature * law.dim, "samples at temperature d, the dimension"),
        (lambda law: law.temperature / law.dim, "samples at temperature 1/d, one over the dimension"),
        (lambda law: law.temperature * law.dim**0.5, "temperature changes with the dimension, as d to the power 0.50"),
        (lambda law: law.temperature / 2, "times the temperature asked for, on every law, that is T/2"),
        (lambda law: 1.05 * law.temperature, "samples at 1.05"),
        (lambda law: 10.0 * law.temperature, "samples at 10.00 (9.93-10.07) times the temperature asked for, on every"),
        (lambda law: law.temperature**2, "samples at the square of the temperature asked for"),
        (lambda law: law.temperature**0.5, "samples at the square root of the temperature asked for"),
        (lambda law: law.temperature**0.7, "temperature follows the one asked for to the power 0.70"),
        (lambda law: law.temperature * (1 if law.is_plain else 3), "but not by one factor on every law"),
        (lambda law: None, "position never moves, on every law"),
    ],
)
def test_words_name_how_the_temperature_depends_on_what_was_asked(found, said):
    assert said in words(rows_with(found))[0]


def test_the_dimension_whatever_is_asked_for_is_two_sentences():
    first, second, *_ = words(rows_with(lambda law: law.dim))
    assert "samples at temperature d" in first
    assert "temperature is ignored" in second


def test_words_wait_until_the_intervals_are_narrow():
    """Off by 2 standard errors on every law, in no pattern: nothing is said of how it depends."""
    sign = iter([1, -1] * 5)
    noisy = rows_with(lambda law: law.temperature * (1 + 0.04 * next(sign)), error=0.02, failed=("mean",))
    assert words(noisy) == ("what mean says, on every law",)


def test_a_check_besides_the_temperature_is_told_once():
    said = words(rows_with(lambda law: 1.05 * law.temperature, failed=("temperature", "one step", "noise")))
    assert [s for s in said if "what" in s] == ["what noise says, on every law"]


def test_a_family_that_passes_says_what_it_would_have_seen():
    said = words(rows_with(lambda law: law.temperature, rejected=False))
    assert said[0].startswith("samples the law asked for, on 9 laws at temperature 0.1, 1 and 2")


def test_laws_that_could_not_tell_are_named_and_are_no_praise():
    said = words(rows_with(lambda law: law.temperature, rejected=False, seen=lambda law: 0.5 if law.dim > 2 else 0.05))
    assert said[0].startswith("not decided: samples the law asked for on 2 of 9 laws (Gaussian, d = 1; quartic, d = 2)")
    assert "nothing could be told" in said[-1]
    assert said[-1].count("d = 10") == 7
    nothing = words(rows_with(lambda law: law.temperature, rejected=False, seen=lambda law: 0.5))
    assert nothing[0] == "not decided: none of 9 laws could tell"


@pytest.mark.parametrize(
    ("seen", "p_value", "outcome", "verdict"),
    [
        (0.05, 1e-4, "passed", "PASSED"),  # no surprise among nine laws
        (0.05, 1e-6, "rejected", "NOT PASSED"),
        (0.5, 0.5, "undecided", "NOT DECIDED"),
        (2.0, 0.5, "undecided", "NOT DECIDED"),
        (2.0, 0.0, "rejected", "NOT PASSED"),
    ],
)
def test_one_law_that_is_rejected_or_cannot_tell_decides_for_the_family(seen, p_value, outcome, verdict):
    laws = known_laws(DIMS, TEMPERATURES)
    audits = [made_up(law, 0.05, 0.5) for law in laws]
    audits[3] = made_up(laws[3], seen, p_value)
    found = family._report(laws, audits)
    assert [row.outcome for row in found.rows] == ["passed"] * 3 + [outcome] + ["passed"] * 5
    assert found.passed == (verdict == "PASSED")
    assert found.verdict == found.to_dict()["verdict"] == verdict
    assert str(found).startswith(f"{verdict}  audit of a sampler on 9 known laws")
    if outcome == "undecided":
        assert "on 8 of 9 laws" in found.words[0]
        assert "nothing could be told" in found.words[-1]
        assert "badly scaled, d = 10" in found.words[-1]
        assert found.checks[3].explanation.startswith("undecided: a temperature off by less than")


def made_up(law, seen, p_value):
    """An audit that found the temperature asked for, and the two checks that decide."""
    checks = (
        Check("decides", seen < 1, seen, 1.0, "words"),
        Check("mean", p_value >= 1e-4, 1.0, 4.0, "words", p_value),
    )
    row = StepBias(0.1, ESTIMATE, ESTIMATE, ESTIMATE, "position[0]", 8)
    figures = {"seen": {"temperature": seen}, "ladder": [0.1]}
    return Audit(
        "title", checks, (), figures, Estimate.of(law.temperature, 0.01), law.temperature, (row,), p_value=p_value
    )


def test_draws_of_the_quartic_are_exact():
    """20,000 draws; E x_i² = 1/sqrt(pi), E|x|⁴ = 4 E y = 2. False alarm 1e-6 each: 4.9 standard errors."""
    law = quartic()
    x = np.asarray(jax.vmap(law.truth.draw)(jax.random.split(jax.random.key(3), 20_000)))
    for values, truth in [(x[:, 0], 0.0), (x[:, 0] ** 2, np.pi**-0.5), (np.sum(x**2, 1) ** 2, 2.0)]:
        assert abs(values.mean() - truth) < 4.9 * values.std() / np.sqrt(len(values))
    np.testing.assert_allclose(jax.grad(law.function)(jnp.asarray([1.0, 2.0])), [5.0, 10.0])


def test_the_ladder_is_what_it_says():
    laws = known_laws(DIMS, TEMPERATURES)
    assert [law.dim for law in laws] == [1, 10, 100, 10, 100, 2, 10, 10, 10]
    assert [law.temperature for law in laws] == [1.0] * 6 + [0.1, 2.0, 0.1]
    assert len({law.name for law in laws}) == len(laws)
    deviation = np.sqrt(np.asarray(laws[3].target.truth.variance))
    assert (deviation[0], deviation[-1]) == pytest.approx((0.1, 1.0))


def test_a_right_family_passes_and_can_be_written_as_json():
    found = audit_family(RIGHT_STEPS["sgld_step"].build, temperatures=(1.0, 0.2), **QUICK)
    assert found.passed, str(found)
    assert list(found.audits) == [check.name for check in found.checks]
    assert found.to_dict()["figures"]["audits"].keys() == found.audits.keys()
    assert "Gaussian, d = 1, T = 0.2" in str(found)
    assert found.false_alarm == 1e-4 < found.p_value


@pytest.mark.long
def test_a_renamed_kernel_gets_the_same_words():
    build = WRONG_STEPS["sgld_step_temperature_ignored"].build

    def nothing_to_see_here(potential, temperature):
        inner = build(potential, temperature)
        return (lambda position: {"x": position}), (lambda k, s, h: {"x": inner(k, s["x"], h)}), (lambda s: s["x"])

    bare = audit_family(build, temperatures=(1.0, 0.2), **QUICK)
    assert not bare.passed
    wrapped = audit_family(nothing_to_see_here, temperatures=(1.0, 0.2), **QUICK)
    # the estimates differ, since a step with a state of its own is tried in another way
    sentence = r"temperature is ignored: it samples at temperature \S+ \(\S+\) whether 0.2 or 1 is asked for"
    for found in (bare, wrapped):
        assert re.fullmatch(sentence, found.words[0])


def test_a_build_without_temperature_is_asked_for_one_only():
    frozen = audit_family(lambda potential: lambda key, position, step_size: position, **QUICK)
    assert {audit.asked for audit in frozen.audits.values()} == {1.0}
    assert "position never moves" in frozen.words[0]
    assert "position never moves" in str(frozen)


@pytest.mark.parametrize(
    ("build", "passed_on", "takes_temperature"),
    [
        (lambda potential, kt: (potential, kt), 0.2, True),
        (lambda potential, *, temperature: (potential, temperature), 0.2, True),
        (lambda potential, T=1.0: (potential, T), 0.2, True),
        (lambda potential, friction=3.0, temperature=1.0: (potential, friction, temperature), (3.0, 0.2), True),
        (lambda *arguments: arguments, 0.2, True),
        (lambda potential, friction=3.0: (potential, friction), 3.0, False),
    ],
)
def test_a_temperature_is_found_among_the_arguments_and_the_others_are_left_alone(build, passed_on, takes_temperature):
    call, takes = family._builder(build)
    assert call("U", 0.2) == ("U", *np.atleast_1d(passed_on))
    assert takes == takes_temperature


@pytest.mark.parametrize(
    ("build", "settings", "message"),
    [
        (3, {}, "build is 3: expected a function"),
        (lambda a, b, c: None, {}, "build needs 3 arguments"),
        (lambda potential, temperature: 5, {}, "build returned int: expected a step"),
        (lambda potential: None, {"temperatures": (2.0,)}, "build.potential. takes none"),
        (
            lambda potential, temperature: None,
            {"temperatures": (0.0,)},
            "temperatures is .0.0,.: expected numbers above",
        ),
        (lambda potential, temperature: None, {"dims": (0,)}, "dims is .0,.: expected whole numbers"),
        (lambda potential, temperature: None, {"dims": "ten"}, "dims is 'ten': expected whole numbers"),
        (lambda potential, temperature: None, {"temperatures": "hot"}, "temperatures is 'hot': expected numbers"),
        (lambda potential, temperature: None, {"seed": -1}, "seed is -1: expected a whole number"),
        (lambda potential, temperature: 1 // 0, {}, "build raised on Gaussian, d = 1: ZeroDivisionError"),
        (lambda potential, friction, temperature=1.0: None, {}, "build needs 2 arguments .potential, friction."),
    ],
)
def test_bad_input_is_one_line(build, settings, message):
    with pytest.raises(InputError, match=message) as caught:
        audit_family(build, **settings)
    assert "\n" not in str(caught.value)
