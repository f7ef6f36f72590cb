"""A chain that is no longer finite stays where it was, is named once, and the others go on."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodica as eg
from ergodica.driver import load, loop
from ergodica.driver.work import LOST_AT_ONCE

WELL = eg.Density(lambda q: jnp.sum(q**2) / 2 - jnp.where(q[0] > 50, q[0] ** 4, jnp.zeros(())), init=np.zeros(1))


def start(key):
    """Chain 1 of three begins where the potential falls without bound."""
    is_lost = jax.random.key_data(key)[0] == jax.random.key_data(_second())[0]
    return jnp.where(is_lost, 60.0, 0.5) * jnp.ones(1)


def _second():
    from ergodica.driver.keys import Purpose, step_keys

    return step_keys(0, 1, jnp.zeros((1,), jnp.int32), Purpose.START)[0]


def frozen_run(**changes):
    settings = {"steps": 40, "step_size": 0.1, "chains": 3, "progress": False} | changes
    with pytest.warns(UserWarning, match=r"chain 1 met a potential of -inf at step \d+ with step size 0\.1") as seen:
        run = eg.sample(WELL, eg.sgld(), start, **settings)
    assert len(seen) == 1
    return run


def test_one_is_frozen_and_the_others_go_on(monkeypatch, tmp_path):
    run = frozen_run()
    step = run.settings["frozen"][0]["step"]
    assert not run.is_finite
    assert 0 < step < 20
    assert np.isfinite(run.posterior).all()
    diverging = run.stats["diverging"]
    np.testing.assert_array_equal(diverging[1], np.arange(40) >= step)
    assert not diverging[[0, 2]].any()
    assert (run.posterior[1, step:] == run.posterior[1, step - 1]).all()
    assert np.isnan(run.stats["potential"][1, step:]).all()
    assert len(np.unique(run.posterior[[0, 2]])) == 80
    # frozen in one chunk or passed over in the next ones: the same
    monkeypatch.setattr(loop, "STRETCH_SECONDS", 0.0)
    monkeypatch.setattr(loop, "FIRST_COUNTS", (1,))
    again = frozen_run(out=tmp_path / "run.nc")
    assert again.posterior.tobytes() == run.posterior.tobytes()
    read = load(tmp_path / "run.nc")
    assert read.stats["diverging"].dtype == bool
    np.testing.assert_array_equal(read.stats["diverging"], diverging)
    assert not read.is_finite


@pytest.mark.parametrize("first", [1, 40], ids=["on the way", "in the last chunk"])
def test_where_warnings_are_errors_the_run_can_be_resumed_and_finished(monkeypatch, tmp_path, first):
    whole = frozen_run()
    monkeypatch.setattr(loop, "_rates", {})
    monkeypatch.setattr(loop, "STRETCH_SECONDS", 0.0)
    monkeypatch.setattr(loop, "FIRST_COUNTS", (first,))
    settings = {"steps": 40, "step_size": 0.1, "chains": 3, "progress": False, "out": tmp_path / "run.nc"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="chain 1 met a potential of -inf"):
            eg.sample(WELL, eg.sgld(), start, **settings)
        assert (tmp_path / "run.nc").exists() == (first == 40)
        again = eg.sample(WELL, eg.sgld(), start, resume=True, **settings)
    assert again.posterior.tobytes() == whole.posterior.tobytes()
    assert again.settings["frozen"] == whole.settings["frozen"]


def test_chains_in_a_group_are_frozen_apart_and_frozen_draws_are_no_part_of_moments():
    own, shared = frozen_run(), frozen_run(share_batches=True, keep="moments")
    np.testing.assert_array_equal(shared.stats["diverging"], own.stats["diverging"])
    step = own.settings["frozen"][0]["step"]
    np.testing.assert_array_equal(shared.moments.count, [40, step, 40])
    np.testing.assert_allclose(shared.moments.mean[1], own.posterior[1, :step].mean(0), rtol=1e-10)
    np.testing.assert_allclose(shared.moments.mean[2], own.posterior[2].mean(0), rtol=1e-10)


def test_where_none_is_left_at_once_nothing_was_sampled(tmp_path):
    lost = eg.Density(lambda q: -jnp.sum(q**4), init=np.full(1, 5.0))
    with pytest.raises(eg.InputError, match=r"no chain .* more than \d+ steps, as chain \d .*: .* try a tenth"):
        eg.sample(lost, eg.sgld(), steps=2 * LOST_AT_ONCE, step_size=0.1, out=tmp_path / "run.nc", progress=False)
    assert not list(tmp_path.iterdir())


def test_a_chain_that_never_moved_is_named():
    with pytest.warns(UserWarning, match="^chains 0, 1: none of the steps kept was accepted, .*: try a tenth of it$"):
        eg.sample(WELL, eg.hmc(), steps=4, step_size=1e30, chains=2, progress=False)


def test_gradients_from_outside_freeze_too():
    def gradient(q, batch, seed):
        with np.errstate(over="ignore"):
            return -(q**3) if q[0] > 50 else q

    target = eg.External(gradient, iter(int, 1), init=np.zeros(1))
    with pytest.warns(UserWarning, match="chain 1 is no longer finite"):
        run = eg.sample(target, eg.sgld(), start, steps=40, step_size=0.1, chains=3, progress=False)
    assert run.stats["diverging"][1, -1]
    assert np.isfinite(run.posterior).all()
    assert not run.stats["diverging"][[0, 2]].any()
