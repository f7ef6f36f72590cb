"""A potential that is not finite is never sampled, whatever its gradient says; a Metropolis test refuses it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodica as eg
from ergodica.driver import loop
from ergodica.driver.keys import Purpose, step_keys

WALL = 2.0
SOME = {"steps": 60, "step_size": 0.1, "chains": 3, "seed": 0, "progress": False}
# drives chains against a wall, where the gradient does not change
TILTED = eg.Density(lambda q: jnp.where(q[0] > WALL, jnp.full((), jnp.inf), jnp.zeros(())) - 4 * q[0], init=np.zeros(2))


def start(key):
    """Chain 1 of three begins close to the wall, the others where they will not come to it."""
    own = step_keys(SOME["seed"], 1, jnp.zeros((1,), jnp.int32), Purpose.START)[0]
    is_close = jnp.all(jax.random.key_data(key) == jax.random.key_data(own))
    return jnp.where(is_close, 1.0, -50.0) * jnp.array([1.0, 0.0])


def frozen_run(recipe, **changes):
    with pytest.warns(UserWarning, match=r"1 met a potential of inf at step \d+ .* a domain= \(eg.Box, eg.positive\)"):
        return eg.sample(TILTED, recipe, start, **SOME | changes)


def checked_step(run):
    """The first step of chain 1 whose draw does not stand."""
    assert np.all(run.posterior[..., 0] <= WALL)
    (step,) = (one["step"] for one in run.settings["frozen"])
    assert 0 < step < 60
    np.testing.assert_array_equal(run.stats["diverging"][1], np.arange(60) >= step)
    assert not run.stats["diverging"][[0, 2]].any()
    assert (run.posterior[1, step:] == run.posterior[1, step - 1]).all()
    assert np.isnan(run.stats["potential"][1, step:]).all()
    return step


def test_no_draw_of_a_splitting_stands_behind_a_wall(monkeypatch, tmp_path):
    run = frozen_run(eg.sghmc())
    step = checked_step(run)
    assert not run.diagnose().passed
    moments = frozen_run(eg.sghmc(), keep="moments").moments
    np.testing.assert_array_equal(moments.count, [60, step, 60])
    np.testing.assert_allclose(moments.mean[1], run.posterior[1, :step].mean(0), rtol=1e-9)
    # in chunks of one step the draw that is withdrawn is on disk already
    monkeypatch.setattr(loop, "STRETCH_SECONDS", 0.0)
    monkeypatch.setattr(loop, "FIRST_COUNTS", (1,))
    again = frozen_run(eg.sghmc(), out=tmp_path / "run.nc")
    assert again.posterior.tobytes() == run.posterior.tobytes()
    for name, values in run.stats.items():
        np.testing.assert_array_equal(again.stats[name], values, err_msg=name)
    np.testing.assert_array_equal(frozen_run(eg.sghmc(), keep="moments").moments.count, [60, step, 60])


def test_no_draw_of_eulers_steps_stands_behind_a_wall():
    run = frozen_run(eg.sgld())
    step = checked_step(run)
    # a run that ends with the draw in question: the last state is evaluated too
    short = frozen_run(eg.sgld(), steps=step + 1)
    np.testing.assert_array_equal(short.posterior, run.posterior[:, : step + 1])
    np.testing.assert_array_equal(short.stats["diverging"][1], np.arange(step + 1) == step)
    few = frozen_run(eg.sgld(), thin=4, keep=lambda q: 2 * q[0], share_batches=True)
    np.testing.assert_array_equal(few.stats["diverging"], run.stats["diverging"][:, 3::4])
    np.testing.assert_allclose(few.posterior, 2 * run.posterior[:, 3::4, 0], rtol=1e-12)


def test_a_metropolis_test_refuses_what_is_not_finite():
    def potential(q):
        walls = zip((q[0], -q[0], q[1]), (np.inf, np.nan, -np.inf), strict=True)
        return jnp.sum(q**2) / 2 + sum(jnp.where(x > WALL, jnp.full((), value), jnp.zeros(())) for x, value in walls)

    target = eg.Density(potential, init=np.zeros(2))
    run = eg.sample(target, eg.hmc(), lambda key: jnp.zeros(2), **SOME | {"step_size": 0.4, "steps": 200})
    assert np.all(np.abs(run.posterior[..., 0]) <= WALL)
    assert np.all(run.posterior[..., 1] <= WALL)
    assert run.is_finite
    assert 0.3 < run.stats["accepted"].mean() < 1


def test_a_start_with_a_potential_that_is_not_finite_is_refused():
    with pytest.raises(eg.InputError, match=r"potential is inf at this position.*domain="):
        eg.sample(TILTED, eg.sgld(), np.array([3.0, 0.0]), **SOME)
    # one row of many that is impossible at the start: found in the first step
    rows = np.zeros(3_000)
    rows[1] = 5.0
    target = eg.Posterior(
        lambda q: -(q**2) / 2,
        lambda q, rows: jnp.where(rows > q + 4, jnp.full_like(rows, -jnp.inf), -((rows - q) ** 2) / 2),
        rows,
        init=np.zeros(()),
    )
    with pytest.raises(eg.InputError, match=r"^chain 0 cannot start: its potential is inf; .*domain="):
        eg.sample(target, eg.sgld(), **SOME)


@pytest.mark.parametrize("keep", ["draws", "moments"])
def test_a_draw_before_a_gradient_from_outside_that_is_not_finite_is_withdrawn(keep):
    def gradient(q, batch, seed):
        return np.array([np.nan if q[0] > WALL else -4.0, 0.0])

    target = eg.External(gradient, iter(int, 1), init=np.zeros(2))
    with pytest.warns(UserWarning, match="chain 1 is no longer finite at step"):
        run = eg.sample(target, eg.sgld(), start, keep=keep, **SOME | {"steps": 20})
    (step,) = (one["step"] for one in run.settings["frozen"])
    np.testing.assert_array_equal(run.stats["diverging"][1], np.arange(20) >= step)
    if keep == "draws":
        assert np.all(run.posterior[..., 0] <= WALL)
    else:
        np.testing.assert_array_equal(run.moments.count, [20, step, 20])
