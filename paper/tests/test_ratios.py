"""Ratios of means over seeds, and what is said of several of them."""

import numpy as np
import pytest

from ergodica_paper import ratios
from ergodica_paper.best_step import NoStep
from ergodica_paper.ratios import RatioComparison
from ergodica_paper.verdict import Measurement, judged


def test_ratios_count_beyond_three_standard_errors():
    rng = np.random.default_rng(5)
    fast, slow = (x * np.exp(0.1 * rng.normal(size=24)) for x in (1.0, 2.0))

    def outcome(without, with_it, step_error=0.05):
        return ratios.ratio(*(ratios.log_mean(x, step_error) for x in (without, with_it))).outcome

    assert outcome(slow, fast) == "yes"
    assert outcome(fast, slow) == "no"
    assert outcome(slow, fast, step_error=0.2) == "unclear"  # the step is not known well enough to tell


def test_a_side_that_alone_has_a_step_wins_only_if_the_other_is_shown_to_have_none():
    some, none, unknown = Measurement(0.0, 0.1), NoStep(True), NoStep(False)
    assert ratios.ratio(none, some).outcome == "yes"
    assert ratios.ratio(some, none).outcome == "no"
    for pair in ((unknown, some), (some, unknown), (none, none), (none, unknown), (unknown, none)):
        assert ratios.ratio(*pair).outcome == "unclear"
    assert str(ratios.ratio(none, some)) == "a step with it alone"
    assert ratios.ratio(unknown, some).figures() == {
        "value": None, "standard error": None, "only": "", "holds": "unclear",
    }  # fmt: skip


def test_what_was_never_met_decides_nothing():
    assert ratios.ratio(Measurement(np.inf, np.inf), Measurement(0.0, 0.1)).figures()["holds"] == "unclear"


def test_log_mean_has_the_error_of_the_seeds():
    """Against the spread of the same figure over many repetitions, with lengths that share their noise."""
    rng = np.random.default_rng(6)
    common = rng.gamma(20, size=(2000, 24, 1)) + 0.5 * rng.gamma(20, size=(2000, 24, 3))
    found = [ratios.log_mean(x) for x in common]
    assert np.mean([f.error for f in found]) == pytest.approx(np.std([f.value for f in found]), rel=0.1)


def test_what_is_said_of_several_comparisons():
    helps, hurts = (ratios.ratio(ratios.log_mean(np.full(24, x)), ratios.log_mean(np.ones(24))) for x in (2.0, 0.5))
    asked = [RatioComparison(a, b, helps) for a in "AB" for b in "xy"] + [RatioComparison("C", "x", hurts)]
    asked[3] = RatioComparison("B", "y", ratios.ratio(Measurement(0.0, 0.1), NoStep(True)))
    claim = judged("name", "statement", "source", [c.answer for c in asked], "", {}, rule="rule")
    assert claim.conditions == "A; B (x)"
    assert ratios.told(asked).endswith("it holds in 3 and the contrary holds in 2; in 1 only one side has a step.")
    assert ratios.ends(asked, "without over with") == "without over with: 0.5 (C, x) to 2 (A, x)."
    assert ratios.ends(asked[3:4], "without over with") == ""
