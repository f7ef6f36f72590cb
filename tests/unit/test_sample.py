"""The driver: counts, seeds, starts, batches, and what it says when things go wrong."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodica as eg

GAUSSIAN = eg.gallery.gaussian(2)


def test_same_seed_same_bytes_and_other_seed_other_draws():
    runs = [eg.sample(GAUSSIAN, eg.sghmc(), steps=50, step_size=0.1, seed=seed, chains=2) for seed in (3, 3, 4)]
    assert runs[0].posterior.tobytes() == runs[1].posterior.tobytes()
    assert not np.array_equal(runs[0].posterior, runs[2].posterior)


def test_a_chain_depends_on_neither_run_length_nor_thinning_nor_neighbours():
    short = eg.sample(GAUSSIAN, eg.sghmc(), steps=40, step_size=0.1, chains=1)
    longer = eg.sample(GAUSSIAN, eg.sghmc(), steps=60, step_size=0.1, chains=3)
    thinned = eg.sample(GAUSSIAN, eg.sghmc(), steps=40, step_size=0.1, chains=1, thin=4)
    np.testing.assert_allclose(longer.posterior[:1, :40], short.posterior, rtol=1e-12)
    np.testing.assert_allclose(thinned.posterior, short.posterior[:, 3::4], rtol=1e-12)


def test_warmup_counts_apart_from_steps():
    run = eg.sample(GAUSSIAN, eg.sgld(), steps=30, warmup=10, thin=3, step_size=0.1, chains=2)
    assert run.posterior.shape == (2, 10, 2)
    whole = eg.sample(GAUSSIAN, eg.sgld(), steps=40, step_size=0.1, chains=2)
    np.testing.assert_allclose(run.posterior, whole.posterior[:, 12::3], rtol=1e-12)


def test_any_pytree_dispersed_starts_and_schedules():
    target = eg.Density(lambda q: jnp.sum(q["a"] ** 2) / 2 + q["b"] ** 2 / 2)

    def start(key):
        return {"a": jax.random.normal(key, (3,)), "b": jnp.zeros(())}

    run = eg.sample(target, eg.sgnht(), start, steps=20, step_size=lambda t: 0.1 / (1 + t) ** 0.3, chains=3)
    assert run.posterior["a"].shape == (3, 20, 3)
    assert run.posterior["b"].shape == (3, 20)
    assert len(np.unique(run.posterior["a"][:, 0, 0])) == 3
    np.testing.assert_allclose(run.stats["step_size"][0, 1], 0.1 / 2**0.3)


def test_windows_hold_every_row_equally_often():
    from ergodica.driver.minibatches import batches_for

    target = eg.Posterior(lambda q: -(q**2), lambda q, rows: -((rows - q) ** 2), np.arange(7.0))
    windows = batches_for(target, 3, False, False, 0, "windows")
    seen = np.concatenate([np.asarray(windows.at(jnp.asarray([offset]))) for offset in range(7)])
    assert sorted(seen.tolist()) == sorted(np.arange(7.0).tolist() * 3)
    pair = batches_for(target, 4, True, False, 0, "windows")
    assert isinstance(pair.at(jnp.asarray([0, 3])), eg.BatchPair)


def test_runs_on_small_data_gather_their_rows():
    from ergodica.driver.minibatches import RowNumbers, Windows, batches_for

    target = eg.Posterior(lambda q: -(q**2), lambda q, rows: -((rows - q) ** 2), np.arange(100.0))
    assert isinstance(batches_for(target, 2, False, True, 0), Windows)
    gathers = batches_for(target, 10, True, True, 0)
    assert gathers.kind == "gathers"
    first, second = gathers.at(jnp.asarray(RowNumbers(gathers, 5).rows(0, 1, 1)[0]))
    assert len(set(first.tolist())) == len(set(second.tolist())) == 5
    assert set(first.tolist()) != set(second.tolist())


def test_minibatches_sample_the_posterior():
    data = np.random.default_rng(1).normal(1.0, 1.0, 4000)
    target = eg.Posterior(lambda q: -(q**2) / 2, lambda q, rows: -((rows - q) ** 2) / 2, data, init=np.ones(()))
    noise = eg.gradient_noise(target, np.ones(()), 20)
    run = eg.sample(target, eg.sgld(), steps=20_000, warmup=1000, step_size=2e-6, batch_size=20, gradient_noise=noise)
    mean, sd = data.sum() / 4001, 4001**-0.5
    # correlation time 2 / (eps 4001) = 250 steps, 4 chains: 320 effective draws. Four fifths of the noise come from the
    # batches: uncompensated the sd would be 1.34 times as large.
    assert abs(run.posterior.mean() - mean) < 4.5 * sd / 320**0.5
    assert abs(run.posterior.std() / sd - 1) < 4.5 / (2 * 320) ** 0.5


def test_cut_noise_is_reported_with_the_admissible_step():
    target = eg.Posterior(lambda q: -(q**2) / 2, lambda q, x: -((x - q) ** 2) / 2, np.zeros(50), init=np.zeros(()))
    with pytest.warns(UserWarning, match="largest admissible"):
        eg.sample(target, eg.sgld(), steps=10, step_size=0.01, batch_size=1, gradient_noise=1e4)


def test_external_gradient_samples_the_same_law():
    source = (None for _ in iter(int, 1))
    target = eg.External(lambda q, batch, seed: np.asarray(q), source, init=np.zeros(2))
    run = eg.sample(target, eg.sghmc(), steps=60, step_size=0.2, chains=2)
    twin = eg.sample(GAUSSIAN, eg.sghmc(), np.zeros(2), steps=60, step_size=0.2, chains=2)
    np.testing.assert_allclose(run.posterior, twin.posterior, rtol=1e-10)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"steps": 0}, "steps is 0: expected a whole number"),
        ({"chains": 2.5}, "chains is 2.5: expected a whole number"),
        ({"step_size": -0.1}, "step size must be a positive number, got -0.1"),
        ({"step_size": lambda t: 0.1 - 0.1 * t}, "schedule gives 0 at step 1"),
        ({"temperature": 0.0}, "temperature must be a positive number"),
        ({"batch_size": 10}, "this target has none"),
        ({"init": np.zeros(3)}, "position"),
        ({"init": np.array([0.0, np.nan])}, "position"),
        ({"resample_every": 5}, "no momentum to resample"),
    ],
)
def test_bad_input(change, words):
    with pytest.raises(eg.InputError, match=words):
        eg.sample(GAUSSIAN, eg.sgld(), **{"steps": 5, "step_size": 0.1, **change})


def test_batches_that_run_out_or_do_not_fit_are_named():
    target = eg.External(lambda q, batch, seed: q, [1, 2, 3], init=np.zeros(2))
    with pytest.raises(eg.InputError, match="ran out at step 1"):
        eg.sample(target, eg.sghmc(), steps=5, step_size=0.1, chains=2)
    data = eg.gallery.logistic_regression(rows=20, features=2)
    with pytest.raises(eg.InputError, match="from 1 to 20"):
        eg.sample(data, eg.sgld(), steps=5, step_size=0.1, batch_size=21)
    with pytest.raises(eg.InputError, match="Metropolis test needs all data"):
        eg.sample(data, eg.hmc(), steps=5, step_size=0.1, batch_size=5)
    with pytest.raises(eg.InputError, match="even batch_size"):
        eg.sample(data, eg.gsgrhmc(), steps=5, step_size=0.1, batch_size=5)


def test_non_finite_chain_is_named_with_step_and_advice():
    with pytest.raises(eg.InputError, match=r"no chain is finite for more than \d+ steps, .* size 1000: .* a tenth"):
        eg.sample(eg.gallery.two_peaks(), eg.sgld(), steps=200, step_size=1000.0)
    with pytest.raises(eg.NonFiniteError, match="use offset > "):
        eg.sample(eg.gallery.two_peaks(), eg.gsgrhmc(offset=0.5), steps=5000, step_size=0.05)


def test_float64_of_the_callers_thread_holds_in_the_chains_threads():
    with jax.enable_x64(False):
        run = eg.sample(eg.gallery.gaussian(2), eg.sgld(), steps=3, step_size=0.1, chains=2, progress=False)
    assert run.posterior.dtype == np.float32
