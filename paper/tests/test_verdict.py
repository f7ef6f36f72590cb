"""How figures become answers, answers a verdict, and a verdict words."""

import math

import numpy as np
import pytest

from ergodica_paper.verdict import Answer, Measurement, beyond_chance, conditions, counted, plus_minus, verdict, yes_if


def answers(*outcomes):
    return [Answer(f"case {i}", outcome) for i, outcome in enumerate(outcomes)]


@pytest.mark.parametrize(
    ("value", "error", "outcome"),
    [
        (3.1, 1.0, "yes"),
        (-3.1, 1.0, "no"),
        (2.9, 1.0, "unclear"),
        (1.0, 0.0, "yes"),
        (0.0, 0.0, "unclear"),
        (math.nan, 1.0, "unclear"),
        (5.0, math.nan, "unclear"),
        (5.0, math.inf, "unclear"),
    ],
)
def test_beyond_chance(value, error, outcome):
    assert beyond_chance(value, error) == outcome


@pytest.mark.parametrize(
    ("outcomes", "found", "where"),
    [
        (("yes", "yes"), "reproduced", ""),
        (("yes", "no", "yes"), "reproduced under conditions", "case 0; case 2"),
        (("unclear", "yes"), "reproduced under conditions", "case 1"),
        (("no", "unclear"), "not reproduced", ""),
        (("unclear",), "not reproduced", ""),
    ],
)
def test_verdict(outcomes, found, where):
    assert verdict(answers(*outcomes)) == found
    assert conditions(answers(*outcomes)) == where


def test_without_an_answer_there_is_no_verdict():
    with pytest.raises(ValueError, match="at least one answer"):
        verdict([])


@pytest.mark.parametrize(
    ("outcomes", "words"),
    [
        (("yes",), "It holds"),
        (("no",), "It is the other way round"),
        (("yes", "yes"), "It holds in all 2 ways of asking"),
        (("yes", "no"), "Of 2 ways of asking it holds in 1 and the contrary holds in 1"),
        (
            ("no", "unclear", "unclear"),
            "Of 3 ways of asking it holds in 0, the contrary holds in 1 and 2 show no difference beyond chance",
        ),
    ],
)
def test_counted(outcomes, words):
    assert counted(answers(*outcomes)) == words


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        (1.23456, 0.0561, "1.235 ± 0.056"),
        (12345.6, 23.4, "12,346 ± 23"),
        (1.2e-7, 3e-8, "(1.20 ± 0.30)e-7"),
        (-1e-6, 2e-6, "(-1.0 ± 2.0)e-6"),
        (3.0, 0.0, "3"),
        (math.nan, 1.0, "no figure"),
    ],
)
def test_plus_minus(value, error, words):
    assert plus_minus(value, error) == words
    assert str(Measurement(value, error)) == words


def test_estimates():
    mean = Measurement.of(np.array([1.0, 2.0, 3.0, 4.0]))
    assert mean == pytest.approx((2.5, math.sqrt(5 / 3) / 2))
    assert mean.told() == {"value": mean.value, "standard error": mean.error}
    assert Measurement(math.nan, math.inf).told() == {"value": None, "standard error": None}
    assert (yes_if(True), yes_if(False)) == ("yes", "no")
