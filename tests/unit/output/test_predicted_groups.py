"""Predictions, log-likelihoods and data in a run's file: read back, covered by the checksums, used by ArviZ."""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest

import ergodica as eg
from ergodica.driver.run import Run, load
from ergodica.output import files

CHAINS, DRAWS, ROWS = 4, 250, 30
RNG = np.random.default_rng(3)
DATA = RNG.normal(0.5, 1.0, ROWS)


def log_likelihood(mean, y):
    return -((y - mean) ** 2) / 2 - 0.5 * jnp.log(2 * jnp.pi)


TARGET = eg.Posterior(lambda mean: jnp.zeros_like(mean), log_likelihood, DATA, init=np.zeros(()))


def a_run(frozen=()):
    draws = RNG.normal(DATA.mean(), ROWS**-0.5, (CHAINS, DRAWS))
    diverging = np.zeros((CHAINS, DRAWS), bool)
    diverging[list(frozen), -1] = True
    return Run(draws, {"step_size": np.ones((CHAINS, DRAWS)), "diverging": diverging}, {"seed": 1})


def direct(run):
    return -((DATA - run.posterior[..., None]) ** 2) / 2 - 0.5 * np.log(2 * np.pi)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    run = a_run()
    pointwise = run.log_likelihood(TARGET, batch_size=7)
    replicated = run.posterior[..., None] + RNG.normal(size=pointwise.shape)
    run = run.with_predictions({"y": replicated}, {"y": pointwise}, {"y": DATA})
    path = tmp_path_factory.mktemp("predicted") / "run.nc"
    run.save(path)
    return run, path


def test_log_likelihood_is_that_of_every_row_by_every_draw(saved):
    run, _ = saved
    np.testing.assert_allclose(run.predicted["log_likelihood"]["y"], direct(run), rtol=1e-12)
    thinned = run.log_likelihood(TARGET, thin=100)
    np.testing.assert_allclose(thinned, direct(run)[:, ::100], rtol=1e-12)
    with pytest.raises(eg.InputError, match=r"target is of type Density: expected the eg.Posterior"):
        run.log_likelihood(eg.Density(jnp.sum))
    with pytest.raises(eg.InputError, match=r"made by without_data\(\)"):
        run.log_likelihood(TARGET.without_data())


@pytest.mark.parametrize("mapped", [files.MAPPED_BYTES, 0])
def test_what_is_saved_is_loaded_and_saved_again(saved, tmp_path, monkeypatch, mapped):
    run, path = saved
    monkeypatch.setattr(files, "MAPPED_BYTES", mapped)
    again = load(path)
    again.save(tmp_path / "again.nc")
    for found in (again, load(tmp_path / "again.nc")):
        assert list(found.predicted) == ["posterior_predictive", "log_likelihood", "observed_data"]
        for name, group in run.predicted.items():
            assert group.identical(found.predicted[name])
        np.testing.assert_array_equal(found.posterior, run.posterior)


def test_it_is_covered_by_the_checksums(saved, tmp_path):
    import h5py

    from ergodica.output import checksums

    spoilt = tmp_path / "run.nc"
    content = saved[1].read_bytes()
    at = content.index(DATA.tobytes())
    spoilt.write_bytes(content[:at] + b"\0" + content[at + 1 :])
    with pytest.raises(eg.InputError, match="checksum of its bytes does not match"):
        load(spoilt)
    # by another program, which writes the file again: the checksum of what is read says so
    end = content.index(checksums.SUM_MARK)
    spoilt.write_bytes(content[:end])
    with h5py.File(spoilt, "a") as file:
        file["log_likelihood/y"][0, 0, 0] += 1
    with pytest.raises(eg.InputError, match="its checksum does not match"):
        load(spoilt)


def test_arviz_compares_and_plots_it(saved):
    import matplotlib as mpl

    mpl.use("Agg")
    run, path = saved
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ArviZ 0.23 announces its next version
        import arviz as az

        data = az.from_netcdf(path)
        found = az.loo(data, pointwise=True)
        arrays = az.from_dict(posterior={"position": run.posterior}, log_likelihood={"y": direct(run)})
        expected = az.loo(arrays, pointwise=True)
        axes = az.plot_ppc(data, num_pp_samples=20)
        waic = az.waic(data)
    data.close()
    np.testing.assert_allclose(found.loo_i, expected.loo_i, rtol=1e-10)
    assert found.elpd_loo == pytest.approx(expected.elpd_loo, rel=1e-10)
    # the mean is one number, known from 30: its effect on elpd is one, and each is exp of an average over draws
    assert found.p_loo == pytest.approx(1.0, abs=0.6)
    assert waic.elpd_waic == pytest.approx(found.elpd_loo, abs=0.1)
    assert axes is not None


def test_the_tree_has_the_groups_of_arviz_1(saved):
    """With the axes that it names; arviz_stats, which ArviZ 1.x is made of, finds the same by arrays."""
    from arviz_stats.base import array_stats

    run, path = saved
    tree = run.to_datatree()
    assert tree["posterior_predictive"]["y"].dims == ("chain", "draw", "y_dim_0")
    assert tree["observed_data"]["y"].dims == ("y_dim_0",)
    found = array_stats.loo(tree["log_likelihood"]["y"].transpose("y_dim_0", ...).values)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import arviz as az

        data = az.from_netcdf(path)
        expected = az.loo(data, pointwise=True, reff=1.0).loo_i
    data.close()
    np.testing.assert_allclose(found[0], expected, rtol=1e-3)


def test_predictions_are_labelled_by_the_chains_and_draws_they_are_of():
    run = a_run(frozen=[1])
    with pytest.warns(UserWarning, match="left out"):
        pointwise = run.log_likelihood(TARGET, thin=100)
    group = run.with_predictions(log_likelihood={"y": pointwise}, thin=100).predicted["log_likelihood"]
    np.testing.assert_array_equal(group["chain"], [0, 2, 3])
    np.testing.assert_array_equal(group["draw"], [0, 100, 200])


def test_groups_are_added_and_replaced():
    run = a_run().with_predictions(observed_data={"y": DATA, "x": {"a": np.arange(3)}})
    assert set(run.predicted["observed_data"].data_vars) == {"y", "x.a"}
    run = run.with_predictions(posterior_predictive={"y": np.zeros((CHAINS, DRAWS, 2), bool)})
    run = run.with_predictions(observed_data={"z": DATA})
    assert set(run.predicted) == {"observed_data", "posterior_predictive"}
    assert set(run.predicted["observed_data"].data_vars) == {"z"}


@pytest.mark.parametrize(
    ("groups", "match"),
    [
        (
            {"log_likelihood": {"y": np.zeros((DRAWS, CHAINS, 3))}},
            r"y of log_likelihood has shape \(250, 4, 3\): expec",
        ),
        ({"posterior_predictive": {"y": np.zeros((CHAINS, 5))}}, r"expected \(4, 250, ...\), .*thin="),
        ({"log_likelihood": np.zeros((CHAINS, DRAWS))}, "log_likelihood was given ndarray: expected arrays by name"),
        ({"observed_data": {}}, "observed_data was given dict: expected arrays by name"),
        ({"observed_data": {"y": np.array(["a"])}}, "y of observed_data has dtype <U1: expected numbers"),
        ({"observed_data": {"chain": DATA}}, "a part of observed_data is named 'chain'"),
        ({"log_likelihood": {"y": np.zeros((CHAINS, DRAWS))}, "thin": 0}, "thin is 0"),
        ({}, "with_predictions was given no group"),
    ],
)
def test_bad_groups_are_one_line(groups, match):
    with pytest.raises(eg.InputError, match=match) as caught:
        a_run().with_predictions(**groups)
    assert "\n" not in str(caught.value)
