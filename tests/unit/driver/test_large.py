"""Chunks of large positions make the steps that chunks of small ones make."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodica as eg
from ergodica.driver import engine
from ergodica.driver.draws import KeptSteps
from ergodica.driver.large import Stretches, large_chunk_length
from tests.unit.driver.runs import ROWS, log_likelihood, run

KEEP = {
    "q": "draws",
    "m": "moments",
    "square": eg.mean(lambda q: q["mean"] ** 2),
    "sum": lambda q: jnp.sum(q["mean"]),
    "held out": eg.score(log_likelihood, ROWS[:5]),
}


def both(monkeypatch, **arguments):
    """The same run as one of a small and as one of a large position."""
    small = run(**arguments)
    monkeypatch.setattr(engine, "LARGE_POSITION", 1)
    large = run(**arguments)
    monkeypatch.undo()
    return small, large


def assert_equal_runs(small, large):
    for one, other in zip(jax.tree.leaves(small.stored), jax.tree.leaves(large.stored), strict=True):
        np.testing.assert_allclose(other, one, atol=1e-12)
    assert (small.moments is None) == (large.moments is None)
    if small.moments is not None:
        pairs = [jax.tree.leaves(vars(run.moments)) for run in (small, large)]
        for one, other in zip(*pairs, strict=True):
            np.testing.assert_allclose(other, one, atol=1e-11)
    for name, values in small.stats.items():
        np.testing.assert_allclose(large.stats[name], values, atol=1e-9, err_msg=name)
    assert small.settings["frozen"] == large.settings["frozen"]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"thin": 7, "warmup": 13, "steps": 90},
        {"thin": 7, "warmup": 13, "steps": 90, "keep": KEEP},
        {"recipe": eg.sgld(), "keep": "moments", "thin": 3},
        pytest.param({"recipe": eg.hmc(), "batch_size": None, "thin": 2}, marks=pytest.mark.long),
        pytest.param({"estimator": eg.Svrg(refresh=20), "thin": 5}, marks=pytest.mark.long),
    ],
)
def test_they_are_the_same_steps(changes, monkeypatch):
    assert_equal_runs(*both(monkeypatch, **changes))


def test_cuts_of_all_steps_are_counted(monkeypatch):
    arguments = {"recipe": eg.sgld(), "step_size": 0.2, "thin": 10, "gradient_noise": eg.PerExample(), "batch_size": 3}
    told = []
    for size in (10**9, 1):
        monkeypatch.setattr(engine, "LARGE_POSITION", size)
        with pytest.warns(UserWarning, match="directions cut at zero") as caught:
            run(**arguments)
        told.append([str(one.message) for one in caught if "cut at zero" in str(one.message)])
    assert told[0] == told[1]


@pytest.mark.parametrize(
    ("wrong", "thin"),
    [(jnp.inf, 50), *(pytest.param(*case, marks=pytest.mark.long) for case in ((jnp.nan, 50), (jnp.inf, 1)))],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_chain_that_dies_stays_where_it_would(wrong, thin, monkeypatch):
    target = eg.Density(lambda q: jnp.where(q[0] > 2.9, wrong, jnp.sum(q**2) / 2), init=np.zeros(2))
    arguments = {"target": target, "recipe": eg.sgld(), "steps": 6_000, "step_size": 0.02, "seed": 3, "chains": 3}
    keep = {"q": "draws", "mean": eg.mean(lambda q: q)}
    small, large = both(monkeypatch, **arguments, thin=thin, keep=keep, batch_size=None)
    assert small.settings["frozen"]
    assert np.isfinite(large.posterior).all()
    assert_equal_runs(small, large)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_number_that_the_potential_does_not_see_is_found(monkeypatch):
    """The second number overflows, and nothing that is computed from the first one shows it."""
    monkeypatch.setattr(engine, "LARGE_POSITION", 1)

    @jax.custom_jvp
    def potential(q):
        return jnp.sum(q[:1] ** 2) / 2

    potential.defjvp(lambda q, dq: (potential(q[0]), q[0][0] * dq[0][0] - 5.3 * jnp.abs(q[0][1]) * dq[0][1]))
    target = eg.Density(potential, init=np.ones(2))
    found = run(target=target, recipe=eg.sgld(), steps=4_000, step_size=0.05, thin=400, batch_size=None, chains=1)
    assert not found.is_finite
    assert np.isfinite(found.posterior).all()


def test_stretches_end_at_what_is_kept_and_before_the_last_step():
    kept = KeptSteps(3, 4, 100)
    for first, count in ((0, 20), (5, 9), (7, 1), (80, 20)):
        found = Stretches.of(kept, first, count, 40)
        ends = found.real_ends()
        assert ends[-1] == count
        assert (np.diff(ends) > 0).all()
        assert count == 1 or count - 1 in ends
        draws = kept.between(first, first + count) - first + 1
        assert set(draws) <= set(ends)
        assert [found.places[list(ends).index(draw)] for draw in draws] == list(range(len(draws)))
        begins = [0, *ends[:-1]]
        expected = [len(kept.between(first + b - 1, first + b)) > 0 if first + b else False for b in begins]
        assert list(found.was_kept[: len(ends)]) == expected


def test_chunks_hold_a_bounded_number_of_draws():
    assert large_chunk_length(478_410, 1, 478_410) * 478_410 <= 2**24
    assert large_chunk_length(478_410, 50, 478_410) > 100
    assert large_chunk_length(478_410, 1, 0) > 100


def test_a_large_run_is_resumed_bit_for_bit(tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "LARGE_POSITION", 1)
    whole = run(keep=KEEP, steps=90, thin=7, out=tmp_path / "whole.nc")
    plain = run(keep=KEEP, steps=90, thin=7)
    for one, other in zip(jax.tree.leaves(whole.stored), jax.tree.leaves(plain.stored), strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()
    again = eg.load(tmp_path / "whole.nc")
    np.testing.assert_array_equal(again.kept["square"].mean, plain.kept["square"].mean)
    assert again.kept["held out"].score == plain.kept["held out"].score
