"""A run that is fine passes; each way of being wrong is named.

The chains are fixed by their seeds; a check alarms falsely about once in a thousand runs or less.
"""

import jax.numpy as jnp
import numpy as np
import pytest

import ergodica as eg
from ergodica.diagnostics import diagnose, summary
from ergodica.diagnostics.columns import columns
from ergodica.diagnostics.settled import drift
from ergodica.diagnostics.thresholds import largest_z
from ergodica.errors import InputError
from ergodica.output.labelled import Moments
from tests.unit.diagnostics.chains import SETTINGS, a_run, autoregressive, statistics

HALVED = a_run({"w": autoregressive(draws=4000, seed=7)}, statistics(draws=4000, step_size=0.05))
TARGET = eg.Density(lambda q: jnp.sum(q["w"] ** 2) / 2, init={"w": jnp.zeros(3)})


def failed(diagnosis):
    return {check.name for check in diagnosis.checks if not check.passed}


def unsure(diagnosis):
    return {check.name for check in diagnosis.checks if check.is_undecided}


def test_a_run_that_is_fine_passes_everything():
    diagnosis = diagnose({"w": autoregressive()}, statistics(), SETTINGS, halved=HALVED, target=TARGET)
    assert diagnosis.passed, str(diagnosis)
    names = [check.name for check in diagnosis.checks]
    assert names == [
        "finite", "moving", "R-hat", "bulk ESS", "tail ESS", "Monte Carlo error", "settled", "kinetic temperature",
        "bias of means", "bias of sds", "Stein discrepancy", "configurational temperature",
        "configurational by coordinate", "dispersed starts", "width of the law",
    ]  # fmt: skip
    assert str(diagnosis).endswith("No problem was found in what was looked at.")
    assert diagnosis.notes == ()


def chain_apart():
    x = autoregressive()
    x[2] += 1
    return x


def stuck_chain():
    x = autoregressive()
    x[1, 700:] = x[1, 700]
    return x


def drifting():
    return autoregressive() + np.linspace(-0.4, 0.4, 2000)[:, None]


@pytest.mark.parametrize(
    ("draws", "stats", "wrong", "words"),
    [
        (chain_apart(), {}, {"R-hat", "bulk ESS", "Monte Carlo error"}, "not below 1.01 for 3 of 3 numbers"),
        (stuck_chain(), {}, {"moving", "R-hat", "bulk ESS", "Monte Carlo error"}, "Chain 1 stood still"),
        (drifting(), {}, {"settled", "R-hat", "bulk ESS"}, "Drop the first part as warm-up"),
        (autoregressive(a=0.99), {}, {"R-hat", "bulk ESS", "Monte Carlo error"}, "errors cannot be trusted"),
        (autoregressive(), {"temperature": 1.1}, {"kinetic temperature"}, "Too hot, by gradient noise"),
        (autoregressive(), {"temperature": 0.9}, {"kinetic temperature"}, "Too cold: the step is too large"),
        (autoregressive(), {"accepted": 0.3}, {"acceptance"}, "Take a smaller step, or a mass matrix"),
    ],
)
def test_what_is_wrong_is_named(draws, stats, wrong, words):
    diagnosis = diagnose({"w": draws}, statistics(**stats), SETTINGS)
    assert wrong <= failed(diagnosis), str(diagnosis)
    assert failed(diagnosis) <= wrong | {"tail ESS", "settled"}, str(diagnosis)
    assert words in " ".join(str(diagnosis).split())
    assert any("Step-size bias was not looked at" in note for note in diagnosis.notes)


@pytest.mark.parametrize(
    ("draws", "wrong"), [({"mean": 0.2}, "bias of means"), ({"sd": 1.2}, "bias of sds"), ({"sd": 0.9}, "bias of sds")]
)
def test_a_biased_step_is_seen_by_halving_it(draws, wrong):
    diagnosis = diagnose({"w": autoregressive(**draws)}, statistics(), SETTINGS, halved=HALVED)
    assert failed(diagnosis) == {wrong}, str(diagnosis)
    # of order 1 the bias is twice the difference, 0.4 or 0.2 sd
    expected = 2 * abs(draws.get("mean", 0) or draws["sd"] - 1)
    assert diagnosis[wrong].figure == pytest.approx(expected, abs=0.15)
    assert "Divide the step by" in diagnosis[wrong].explanation
    second = diagnose(
        {"w": autoregressive(**draws)}, statistics(), SETTINGS | {"batch_size": None}, halved=HALVED, target=None
    )
    assert second[wrong].figure == pytest.approx(diagnosis[wrong].figure * (4 / 3) / 2)


def test_the_target_sees_a_wrong_law_without_a_second_run():
    diagnosis = diagnose({"w": autoregressive(sd=1.15)}, statistics(), SETTINGS, target=TARGET)
    assert failed(diagnosis) == {
        "Stein discrepancy", "configurational temperature", "configurational by coordinate",
    }  # fmt: skip
    assert diagnosis["configurational temperature"].figure == pytest.approx(1.15**2 - 1, abs=0.1)
    hot = diagnose(
        {"w": autoregressive(sd=2**0.5)}, statistics(temperature=2), SETTINGS | {"temperature": 2}, target=TARGET
    )
    assert hot.passed, str(hot)


def test_a_non_finite_chain_is_named_and_left_out():
    x, stats = autoregressive(), statistics()
    stats["diverging"][3, 500:] = True
    x[3, 500:] = 1e30
    diagnosis = diagnose({"w": x}, stats, SETTINGS)
    assert failed(diagnosis) == {"finite"}, str(diagnosis)
    assert "Chain 3 of 4 became non-finite (draw 500 was the first)" in diagnosis["finite"].explanation
    frozen = {"frozen": [{"chain": 3, "step": 512, "step_size": 0.25}]}
    named = diagnose({"w": x}, {}, SETTINGS | frozen)["finite"]
    assert "(chain 3 at step 512, with step size 0.25)" in named.explanation
    stats["diverging"][:, -1] = True
    assert failed(diagnose({"w": x}, stats, SETTINGS)) == {"finite"}


def test_shared_batches_widen_the_errors():
    apart = diagnose({"w": autoregressive()}, statistics(), SETTINGS)
    shared = diagnose({"w": autoregressive()}, statistics(), SETTINGS | {"chain_correlation": 1.0})
    assert shared["bulk ESS"].figure == pytest.approx(apart["bulk ESS"].figure / 4)
    assert shared["Monte Carlo error"].figure == pytest.approx(2 * apart["Monte Carlo error"].figure)
    assert "correlate by 1.000: errors are widened by 2.00" in shared["Monte Carlo error"].explanation


def test_of_a_large_position_the_worst_and_some_others(monkeypatch):
    monkeypatch.setattr("ergodica.diagnostics.columns.MOST_NUMBERS", 64)
    x = np.random.default_rng(5).normal(size=(4, 100, 60, 50)).astype(np.float32)
    x[0, :, 33, 7] += 3
    diagnosis = diagnose({"w": x}, {}, {})
    assert "w[33, 7]" in diagnosis["R-hat"].explanation
    assert any("64 of the position's 3,000 numbers" in note for note in diagnosis.notes)


def test_moments_say_what_they_can():
    def moments(x):
        return Moments(np.full(len(x), x.shape[1]), {"w": x.mean(axis=1)}, {"w": x.var(axis=1)})

    good = diagnose(None, {}, SETTINGS, moments(autoregressive(size=20)))
    assert failed(good) == set(), str(good)
    assert good.undecided  # nothing looked at the width
    assert any("Only moments were kept" in note for note in good.notes)
    bad = diagnose(None, {}, SETTINGS, moments(chain_apart()))
    assert failed(bad) == {"R-hat of moments", "Monte Carlo error"}
    halved = a_run(None, {}, {}, moments(autoregressive(size=20, draws=4000, seed=7)))
    biased = diagnose(None, {}, SETTINGS, moments(autoregressive(size=20, sd=1.3)), halved)
    assert failed(biased) == {"bias of sds"}, str(biased)
    alone = diagnose(None, {}, SETTINGS, moments(autoregressive(chains=1)))
    assert any("single chain" in note for note in alone.notes)
    assert {"R-hat", "dispersed starts"} <= unsure(alone)


def test_few_draws_one_chain_and_integers():
    assert failed(diagnose({"w": np.zeros((4, 5))}, {}, {})) == {"length"}
    one = diagnose({"w": autoregressive(chains=1)}, {}, {})
    assert unsure(one) == {"dispersed starts", "width of the law"}
    assert "compares its halves" in one["R-hat"].explanation
    flags = np.random.default_rng(0).integers(0, 2, (4, 500))
    assert failed(diagnose({"n": flags}, {}, {})) == set()


@pytest.mark.parametrize(
    ("target", "settings", "reason"),
    [
        (eg.Density(lambda q: jnp.sum(q["w"]), init={"w": jnp.ones(3)}, domain=eg.positive), {}, "has a domain"),
        (eg.External(lambda q, batch, seed: q, [0], init={"w": jnp.ones(3)}), {}, "gradients of batches only"),
        (TARGET, {"keep": "<lambda>"}, "a function of the position was kept"),
        (
            eg.Posterior(lambda q: 0.0, lambda q, x: -x, eg.data.batches(iter([np.ones(5)]), 100), TARGET.init),
            {},
            "an iterator of batches",
        ),
    ],
)
def test_a_target_that_cannot_tell_is_a_note(target, settings, reason):
    diagnosis = diagnose({"w": autoregressive()}, statistics(), SETTINGS | settings, target=target)
    assert diagnosis.passed, str(diagnosis)
    assert "Stein discrepancy" not in [check.name for check in diagnosis.checks]
    assert any("were left out" in note and reason in note for note in diagnosis.notes)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (({"w": np.zeros((2, 0, 3))}, {}, {}), "kept no draws"),
        (({"w": np.zeros((2, 0, 3))}, {}, {"is_finished": False}), "no draws yet: it has just begun"),
        (({"w": autoregressive()}, {}, {}, None, None, 3), "target is '3' \\(int\\): expected the target"),
        ((None, {}, {}), "neither draws nor moments"),
        (({"w": autoregressive()}, statistics(), {}, None, a_run(HALVED.posterior, statistics(step_size=0.1))), "h/2"),
        (({"w": autoregressive(size=2)}, {}, {}, None, HALVED), "different positions"),
        (({"v": autoregressive()}, {}, {}, None, None, TARGET), "give the target of this run"),
    ],
)
def test_bad_input_is_one_line(arguments, message):
    with pytest.raises(InputError, match=message) as caught:
        diagnose(*arguments)
    assert "\n" not in str(caught.value)


def test_the_summary_is_a_table():
    x = autoregressive(mean=2.0)
    table = summary({"w": x})
    assert table.names == ["w[0]", "w[1]", "w[2]"]
    np.testing.assert_allclose(table["mean"], x.mean(axis=(0, 1)))
    # an AR(1) chain with a = 1/2 has 1/3 of its draws' worth for the mean, and 3/5 for the square
    np.testing.assert_allclose(table["mean error"], np.sqrt(3 / 8000), rtol=0.15)
    np.testing.assert_allclose(table["sd error"], np.sqrt((5 / 3) / (2 * 8000)), rtol=0.15)
    assert str(table).splitlines()[0].split()[:2] == ["mean", "sd"]
    assert dict(table.to_dataset().sizes) == {"number": 3}
    with pytest.raises(InputError, match="only moments"):
        summary(None)


def from_afar(signs):
    """20,000 draws with a start at 50 sd and a = 0.99: a hundredth of the run is on its way."""
    x = autoregressive(chains=3, draws=20_000, a=0.99, size=2)
    return x + np.asarray(signs)[:, None, None] * 50 * 0.99 ** np.arange(20_000)[:, None]


@pytest.mark.parametrize("signs", [[1, 1, 1], [1, -1, 0]])
def test_a_transient_does_not_hide_behind_its_own_error(signs):
    diagnosis = diagnose({"w": from_afar(signs)}, {}, {})
    assert "settled" in failed(diagnosis), str(diagnosis)
    assert "the first hundredth" in diagnosis["settled"].explanation
    assert not settled_columns(from_afar([0, 0, 0])).is_drifting.any()


def test_settled_chains_alarm_at_the_stated_rate():
    """1,000 numbers of 4 chains, each a run of its own: about one may alarm; 8 or more have chance 1e-5."""
    found = settled_columns(autoregressive(draws=500, size=1000, a=0.9))
    assert np.count_nonzero(np.max(found.z, axis=(0, 1)) > largest_z(3 * 5)) < 8


def settled_columns(x):
    return drift(columns({"w": x}), 0.0)


def test_a_check_without_power_is_unsure():
    short = a_run({"w": autoregressive(draws=80, a=0.8, seed=7)}, statistics(draws=80, step_size=0.05))
    diagnosis = diagnose({"w": autoregressive(draws=2000)}, statistics(), SETTINGS, halved=short)
    assert diagnosis.passed  # the momenta's temperature looked at the width
    assert diagnosis["bias of means"].is_undecided
    lines = str(diagnosis).splitlines()
    assert any(line.startswith("  unsure bias of means") for line in lines)
    assert lines[-1].startswith("No problem was found; 2 checks could not tell: bias of means, bias of sds.")
    assert [check["name"] for check in diagnosis.to_dict()["checks"] if check["is_undecided"]] == sorted(
        unsure(diagnosis)
    )


def test_too_large_a_step_is_not_answered_by_a_larger_one():
    x = autoregressive(size=1)
    x[1, 1000:] += 50 * np.abs(x[1, 1000:]) + 100
    for stats in ({"gradient_norm": np.where(np.arange(2000) % 500 == 3, 1e4, 1.0) * np.ones((4, 1))}, {}):
        words = str(diagnose({"w": x}, stats, {}))
        assert "Take a smaller step" in " ".join(words.split())
        assert "larger step" not in words
        assert "times as long" not in words


def test_chains_that_have_not_met_get_no_factor():
    diagnosis = diagnose({"w": autoregressive(a=0.9995)}, {}, {})
    assert {"bulk ESS", "Monte Carlo error"} <= failed(diagnosis)
    assert "times as long" not in str(diagnosis)
    assert "they have not met" in diagnosis["bulk ESS"].explanation


@pytest.mark.parametrize(
    ("shape", "numbers", "ranked"),
    [((4, 20_000, 20), 20, 2_500), ((4, 6_000, 500), 250, 1_000), ((64, 500, 20), 20, 500), ((4, 500, 30), 30, 500)],
)
def test_the_work_of_a_diagnosis_is_bounded(shape, numbers, ranked, monkeypatch):
    """Ranks of at most a million draws, however long the run; and the report says so."""
    from ergodica.diagnostics import columns

    seen = []
    original = columns.in_two
    monkeypatch.setattr(columns, "in_two", lambda x: seen.append(x.shape) or original(x))
    chains, draws, _size = shape
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    diagnosis = diagnose({"w": x}, statistics(chains, draws), SETTINGS)
    ((k, _, length),) = seen
    assert k == numbers
    assert 0.9 * ranked <= length <= ranked
    assert k * chains * length <= columns.RANKED_DRAWS
    is_thinned = length < draws
    assert any(f"from {length:,} draws of each chain" in note for note in diagnosis.notes) == is_thinned
    assert f"{chains} chains of {draws:,} draws" in diagnosis.title
    assert diagnosis["bulk ESS"].passed
    again = diagnose({"w": x}, statistics(chains, draws), SETTINGS)
    assert str(again) == str(diagnosis)


def test_errors_of_a_long_run_are_those_of_all_its_draws():
    """Ranks are of 2,500 draws a chain; the mean of 20,000 is known better than that."""
    draws = {"w": autoregressive(draws=20_000, size=2, a=0.3)}
    found = diagnose(draws, statistics(draws=20_000), SETTINGS).figures
    exact = np.sqrt((1.3 / 0.7) / 80_000)
    np.testing.assert_allclose(found["mean_error"], exact, rtol=0.3)
    slow = {"w": autoregressive(draws=20_000, size=2, a=0.995)}
    found = diagnose(slow, statistics(draws=20_000), SETTINGS).figures
    np.testing.assert_allclose(found["mean_error"], np.sqrt((1.995 / 0.005) / 80_000), rtol=0.4)
