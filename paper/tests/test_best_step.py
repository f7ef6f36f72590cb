"""The search for a best step, by subjects whose bias and time are known."""

import itertools
from typing import NamedTuple

import numpy as np
import pytest

from ergodica_paper import best_step
from ergodica_paper.best_step import BOUND, BestStep
from ergodica_paper.two_dimensional.trials import StepTrial

STEPS = best_step.grid(0.0025, 0.16, 12)


def made_up(step: float, *figures: float) -> StepTrial:
    """What made-up chains gave: bias, its error, time, its error, chains lost, chains."""
    return StepTrial(step, 1.0, *figures)


class Subject(NamedTuple):
    """Times fall with the step, the bias goes with its square; some chains are lost from a step on.

    Args:
        largest: the step at the bound. bias: of every step, besides. error: of the bias of one chain.
        quickest: beyond this step times grow again. slope: they go with step^-slope.
    """

    largest: float = np.inf
    loses_from: float = np.inf
    bias: float = 0.0
    error: float = 0.02
    quickest: float = np.inf
    slope: float = 1.0

    def chains(self, step: float, chains: int, rng: np.random.Generator) -> StepTrial:
        error, spread = self.error / np.sqrt(chains), 1 / np.sqrt(10 * chains)
        time = max(step**-self.slope, step / self.quickest**2) * np.exp(spread * rng.normal())
        lost = rng.binomial(chains, 1 / 30) if step >= self.loses_from else 0
        bias = self.bias + BOUND * (step / self.largest) ** 2 + error * rng.normal()
        return made_up(step, bias, error, time, time * spread, lost, chains)


def searched(subject: Subject) -> BestStep[StepTrial]:
    rng = np.random.default_rng(5)

    def attempt(chains):
        return lambda jobs: [s.chains(step, chains, rng) for s, step in jobs]

    return best_step.search({subject: STEPS}, attempt(24), attempt(400))[subject]


@pytest.mark.parametrize("largest", [0.00041, 0.021, 0.31])
def test_the_best_step_is_the_largest_within_the_bound_wherever_the_grid_began(largest):
    found = searched(Subject(largest))
    assert found.best is not None
    assert largest / 1.15 < found.best.step_size <= 1.03 * largest
    steps = [t.step_size for t in found.tried]
    assert steps == sorted(steps)
    assert steps[0] < found.best.step_size < steps[-1]
    assert found.next_larger is not None
    assert found.next_larger.step_size < 1.15 * found.best.step_size
    assert found.grid_error == pytest.approx(best_step.FINEST, rel=0.05)
    assert found.step_error > found.grid_error  # the bias is the limit, and has an error
    assert not found.has_none


def test_the_best_step_is_the_fastest_where_larger_ones_are_slower():
    found = searched(Subject(quickest=0.02))
    assert found.best is not None
    assert found.best.step_size == pytest.approx(0.02, rel=0.2)
    assert found.step_error == found.grid_error


@pytest.mark.parametrize(("slope", "expected"), [(0.5, 1.0), (1.0, 1.0), (3.0, 3.0)])
def test_the_slope_is_how_steeply_times_fall(slope, expected):
    assert searched(Subject(0.02, slope=slope)).slope == pytest.approx(expected, abs=0.15)


def test_a_step_that_loses_fresh_chains_is_out_with_all_larger_ones():
    found = searched(Subject(loses_from=0.2))
    assert found.best is not None
    assert 0.2 / 1.15 < found.best.step_size < 0.2
    assert found.next_larger is not None
    assert 0 < found.next_larger.lost <= found.next_larger.chains
    assert found.step_error == found.grid_error  # the bias is not the limit
    assert found.lost == sum(t.lost for t in (*found.tried, *found.refused)) > 0


def test_trials_that_met_nothing_are_no_obstacle():
    """An infinite time is slower than any, and no curve goes through it."""
    trials = [made_up(s, 0.0, 0.01, 1 / s if s > 0.01 else np.inf, 0.1 / s, 0, 24) for s in STEPS]
    ranked = best_step.ranked(trials)
    assert [r.step_size for r in ranked][:3] == pytest.approx([*reversed(STEPS)][:3])
    assert np.isinf(ranked[-1].time)


@pytest.mark.parametrize(
    ("subject", "is_shown"),
    [
        (Subject(bias=3 * BOUND), True),
        (Subject(loses_from=0.0), True),
        (Subject(bias=1.5 * BOUND, error=0.1), False),  # beyond the bound, but not beyond chance at every step
        (Subject(error=1.0), False),  # nothing is known of the bias
    ],
)
def test_that_no_step_was_confirmed_is_not_yet_that_there_is_none(subject, is_shown):
    found = searched(subject)
    assert found.best is None
    assert found.next_larger is None
    assert found.has_none == is_shown


def test_one_step_that_may_be_within_the_bound_leaves_it_open():
    out, lost = (made_up(0.1, 1.0, 0.1, 1.0, 0.1, 0, 24), made_up(0.2, np.nan, np.nan, np.nan, np.nan, 1, 24))
    unknown = made_up(0.3, 0.2, 0.1, 1.0, 0.1, 0, 24)
    assert BestStep(None, np.nan, [out, lost, unknown], [], 0.0).has_none  # it is larger than one that lost a chain
    below = unknown._replace(step_size=0.05)
    assert not BestStep(None, np.nan, [below, out, lost], [], 0.0).has_none
    assert BestStep(None, np.nan, [below, out, lost], [below._replace(bias_error=0.01)], 0.0).has_none


def test_fresh_chains_refuse_what_is_biased_or_lost():
    good = made_up(0.1, 0.9 * BOUND, 0.01, 1.0, 0.1, 0, 24)
    assert best_step.is_confirmed(good)
    assert not best_step.is_confirmed(good._replace(bias=-1.1 * BOUND))
    assert not best_step.is_confirmed(good._replace(lost=1))


def test_seeds_are_those_of_the_ask_and_the_item():
    first, same, other = (
        list(itertools.islice(best_step.seeds(*x), 3)) for x in ((1, 2), (1, 2), (1, 3))
    )  # fmt: skip
    assert first == same
    assert not set(first) & set(other)
    assert len(set(first)) == 3
