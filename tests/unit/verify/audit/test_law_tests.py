"""Tails, extrapolation, the order of a bias: the arithmetic of an audit, without chains."""

import numpy as np
import pytest
from scipy import stats

from ergodica.verify.audit.chains import Rung
from ergodica.verify.audit.checks import is_now_and_then, percent
from ergodica.verify.audit.law_tests import difference_root, limit, order
from ergodica.verify.audit.report import temperature_words
from ergodica.verify.tails import Estimate, any_of, each_of, largest_of, normal_score, threshold, two_sided


def rung(step_size, mean, spread, chains=400, seed=0):
    """Chains whose averages have this mean exactly and this standard error."""
    noise = np.random.default_rng(seed).normal(size=(chains, 1))
    noise = (noise - noise.mean()) / noise.std(ddof=1)
    return Rung(step_size, None, np.zeros(2), slice(0, 1), blocks=1, total=mean + spread * np.sqrt(chains) * noise)


def ladder(law, spread=1e-3):
    return [rung(h, law(h), spread, seed=k) for k, h in enumerate((0.4, 0.2, 0.1))]


@pytest.mark.parametrize("p", [0.3, 1e-4, 1e-12])
def test_tails_and_their_inverses(p):
    assert two_sided(threshold(p)) == pytest.approx(p, rel=1e-6)
    assert any_of(each_of(p, 7), 7) == pytest.approx(p, rel=1e-9)
    assert two_sided(1.5) == pytest.approx(2 * stats.norm.sf(1.5))


@pytest.mark.parametrize("t", [0.5, -3.0, 5.0, 9.0])
def test_normal_score_has_the_tail_of_student(t):
    score = float(normal_score(t, 32))
    assert np.sign(score) == np.sign(t)
    assert two_sided(score) == pytest.approx(2 * stats.t.sf(abs(t), 31), rel=0.1)


@pytest.mark.parametrize("dim", [2, 5])
def test_the_largest_difference_from_a_mean_has_a_uniform_p_value(dim):
    """Over 200 samples, by Kolmogorov and Smirnov's test at 1e-3."""
    weights = np.full(dim, 1 / dim)
    root = difference_root(weights)
    np.testing.assert_allclose(root @ root.T, (np.eye(dim) - 1 / dim) / (1 - 1 / dim), atol=1e-12)
    rows = np.random.default_rng(dim).standard_normal((200, dim)) @ root.T
    assert stats.kstest([largest_of(score, root) for score in np.abs(rows).max(1)], "uniform").pvalue > 1e-3
    assert largest_of(5.0, root) == pytest.approx((1 if dim == 2 else dim) * float(two_sided(5.0)))


def test_a_parabola_is_extrapolated_exactly_and_the_error_is_that_of_the_weights():
    found = limit(ladder(lambda h: 1.0 - 0.3 * h + 0.7 * h**2), np.eye(1))
    assert found.value[0] == pytest.approx(1.0)
    assert found.error[0] == pytest.approx(1e-3 * np.sqrt(1 / 9 + 4 + 64 / 9))


def test_what_a_regular_bias_leaves_is_allowed_for():
    """Euler's rule has variance 1/(1 - h/2), here for h/2: what the parabola leaves of it is within the leftover."""
    found = limit(ladder(lambda h: 1 / (1 - h / 4), spread=1e-5), np.eye(1))
    assert 3 * found.error[0] < abs(found.value[0] - 1) <= found.leftover[0] + 3 * found.error[0] < 0.01


def test_a_bias_that_does_not_settle_is_not_extrapolated_with_confidence():
    found = limit(ladder(lambda h: 1 + 50 * h**3), np.eye(1))
    assert found.leftover[0] > abs(found.value[0] - 1)


def test_a_step_size_at_which_chains_blow_up_is_left_out():
    found = limit(ladder(lambda h: 1.2 if h < 0.15 else 1.5 if h < 0.3 else 1e3), np.eye(1))
    assert found.value[0] == pytest.approx(0.9)
    assert found.leftover[0] > 0.1


def test_what_still_changes_with_time_is_allowed_for():
    """Averages that rise by 0.1 from one half of the record to the other may rise by more; where chains have not
    relaxed, what hides in the errors is added to them."""
    still = ladder(lambda h: 1.0)
    for one in still:
        one.parts = [(1, one.total), (1, one.total)]
        one.blocks, one.total = 2, 2 * one.total
    settled = limit(still, np.eye(1))
    assert settled.leftover[0] == 0
    still[2].parts = [(1, still[2].total / 2 - 0.05), (1, still[2].total / 2 + 0.05)]
    assert limit(still, np.eye(1)).leftover[0] == pytest.approx(8 / 3 * 4 * 0.1)
    still[2].is_relaxed = False
    still[2].parts = [(1, still[2].total / 4), (1, 3 * still[2].total / 4)]
    assert limit(still, np.eye(1)).error[0] > settled.error[0]


class Sharing:
    """Chains that forget each other at once, and share a slow change of their spread."""

    def __init__(self, spread):
        self.spread, self.rng = spread, np.random.default_rng(0)

    def run(self, states, word, first, step_size, blocks, thin):
        x = self.spread(first + blocks * thin) * self.rng.normal(size=(256, 20))
        return states, blocks * np.concatenate([x, x**2, (x**2).sum(1, keepdims=True)], axis=1)


def test_chains_that_share_a_slow_change_have_not_relaxed():
    start = Sharing(lambda n: 1.0).run(None, None, 0, 0.1, 1, 1)[1]
    rungs = [Rung(0.1, None, np.zeros(2), slice(20, 40)) for _ in range(2)]
    rungs[0].relax(Sharing(lambda n: 1.0), start, 10_000)
    assert rungs[0].is_relaxed
    assert rungs[0].relaxation < 10
    rungs[1].relax(Sharing(lambda n: 1 + n / 20), start, 10_000)
    assert not rungs[1].is_relaxed


def test_chains_that_come_back_have_not_run_away():
    grows, returns = (Rung(0.1, None, np.zeros(2), slice(0, 1)) for _ in range(2))
    grows.squares = [(2**k, 1.5**k) for k in range(8)]
    returns.squares = [(2**k, 1 + 9 * np.exp(-((k - 4) ** 2))) for k in range(8)]
    assert grows.escape == pytest.approx(0.1 * 2 ** (np.log(3) / np.log(1.5)), rel=0.1)
    assert returns.escape is None


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_the_order_of_a_bias(power):
    sizes = np.array([0.4, 0.2, 0.1])
    noise = 1e-3 * np.random.default_rng(1).normal(size=3)
    found = order(sizes, 0.3 * sizes**power + noise, np.full(3, 1e-3))
    assert found is not None
    assert found.low < power < found.high < power + 0.2


def test_the_interval_of_an_order_holds_it_away_from_small_steps():
    """Euler's bias 1/(1 - h/2) - 1 is of order 1, with slopes of 1.9 and 1.3 at these step sizes."""
    sizes = np.array([1.6, 0.8, 0.4, 0.2])
    bias = 1 / (1 - sizes / 2) - 1
    for count in (2, 3, 4):
        found = order(sizes[:count], bias[:count], np.full(count, 1e-4))
        assert found is not None
        assert found.low < 1 < found.high


def test_chains_that_blow_up_at_small_steps_only_do_so_now_and_then():
    sizes = (0.4, 0.2, 0.1)
    for blown, expected in (((0.1,), True), ((0.2, 0.1), True), ((0.4,), False), ((0.4, 0.2), False), ((), False)):
        rungs = [Rung(h, None, np.zeros(2), slice(0, 1), steps=100, is_finite=h not in blown) for h in sizes]
        assert is_now_and_then(rungs) == expected


def test_no_order_is_told_of_a_bias_that_is_not_clear():
    assert order(np.array([0.4, 0.2, 0.1]), np.array([3e-3, -1e-3, 2e-3]), np.full(3, 1e-3)) is None


def test_estimates_show_the_digits_that_the_interval_leaves():
    assert str(Estimate.of(0.5, 0.005)) == "0.50 (0.49-0.51)"
    assert str(Estimate.of(0.5, 0.01)) == "0.50 (0.48-0.52)"
    assert str(Estimate.of(0.01, 0.02)) == "0.01 (-0.03 to 0.05)"
    assert str(Estimate.of(1000.0, 50.0)) == "1000 (902-1098)"
    assert (percent(0.012), percent(1.5)) == ("1.2 %", "150 %")


def test_words_name_the_dimension_only_where_the_interval_holds_it():
    assert "that is the dimension, 10" in temperature_words(Estimate.of(10.0, 0.1), 1.0, 10)
    assert "dimension" not in temperature_words(Estimate.of(10.0, 1.5), 1.0, 10)
    assert (
        temperature_words(Estimate.of(0.5, 0.01), 1.0, 10) == "it samples at temperature 0.50 (0.48-0.52), asked for 1"
    )
