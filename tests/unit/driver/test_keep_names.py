"""keep={...}: names are free, averages and scores are those of the draws."""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

import ergodica as eg
from ergodica.driver.keeping import BATCHES
from ergodica.errors import InputError
from tests.unit.driver.runs import ROWS, log_likelihood, run

KEEP = {"w": "draws", "m": "moments", "f": lambda q: q["mean"][0], "a b": eg.mean(lambda q, r: r @ q["mean"], ROWS[:3])}


@pytest.fixture(scope="module")
def found():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a short run on small batches is hot, which is not looked at here
        return run(steps=320, keep=KEEP | {"held out": eg.score(log_likelihood, ROWS[:4])})


def test_all_is_by_name(found):
    x = found.posterior["mean"]
    assert list(found.kept) == [*KEEP, "held out"]
    assert found.kept["w"] is found.posterior
    np.testing.assert_array_equal(found.kept["f"], x[..., 0])
    np.testing.assert_allclose(found.kept["m"].mean["mean"], x.mean((0, 1)), rtol=1e-10)
    values = x @ ROWS[:3].T
    average = found.kept["a b"]
    np.testing.assert_allclose(average.mean, values.mean((0, 1)), rtol=1e-10)
    np.testing.assert_allclose(average.sd, np.sqrt(values.var(1, ddof=1).mean(0) + values.mean(1).var(0)), rtol=1e-10)


def test_errors_are_those_of_batch_means(found):
    x = found.posterior["mean"] @ ROWS[:3].T
    batches = x.reshape(2, BATCHES, 320 // BATCHES, 3).mean(2)
    by_chain = batches.var(1, ddof=1) / BATCHES
    np.testing.assert_allclose(found.kept["a b"].error, np.sqrt(by_chain.sum(0) / 4), rtol=1e-9)


def test_scores_are_log_predictive_densities(found):
    x = found.posterior["mean"].reshape(-1, 2)
    densities = np.stack([np.asarray(log_likelihood({"mean": one}, ROWS[:4])) for one in x])
    expected = logsumexp(densities, axis=0) - np.log(len(x))
    np.testing.assert_allclose(found.kept["held out"].log_density, expected, rtol=1e-10)
    assert found.kept["held out"].evaluations[-1, 0] == 320
    assert found.kept["held out"].evaluations[-1, 1] == pytest.approx(expected.mean())


def test_without_draws_there_is_no_posterior(tmp_path):
    found = run(keep={"mean": eg.mean(lambda q: q["mean"])})
    assert found.posterior is None
    assert "mean" in repr(found)
    found.save(tmp_path / "run.nc")
    again = eg.load(tmp_path / "run.nc")
    np.testing.assert_array_equal(again.kept["mean"].mean, found.kept["mean"].mean)
    np.testing.assert_array_equal(again.kept["mean"].error, found.kept["mean"].error)


def test_shared_batches_average_too():
    shared = run(share_batches=True, keep=KEEP, steps=60)
    np.testing.assert_allclose(shared.kept["m"].mean["mean"], shared.posterior["mean"].mean((0, 1)), rtol=1e-10)


def test_gradients_from_outside_are_averaged():
    target = eg.External(lambda x, batch, seed: batch * x, iter(lambda: 1.0, None), init=np.ones(2))
    keep = {"x": "draws", "square": eg.mean(lambda x: x**2), "m": "moments"}
    found = eg.sample(target, eg.sgld(), steps=40, step_size=0.1, chains=2, keep=keep)
    np.testing.assert_allclose(found.kept["square"].mean, (found.posterior**2).mean((0, 1)), rtol=1e-10)


@pytest.mark.parametrize(
    ("keep", "words"),
    [
        ({}, "empty"),
        ({"a": "means"}, "keep['a'] is 'means'"),
        ({"a.b": "draws"}, "without '.'"),
        ({1: "draws"}, "has the name 1"),
        ({"a": "draws", "b": "draws"}, "two names"),
        (eg.mean(lambda q: q), "under a name"),
        ({"a": eg.mean(lambda q: "text")}, "eg.mean returned str"),
        ({"a": eg.mean(lambda q: None)}, "keep['a'] returned no arrays"),
        ({"s": eg.score(lambda q, rows: jnp.sum(rows), ROWS[:4])}, "expected (4,)"),
    ],
)
def test_what_cannot_be_kept_is_refused(keep, words):
    with pytest.raises(InputError) as error:
        run(keep=keep)
    assert words in str(error.value)


def test_what_is_no_function_is_refused():
    with pytest.raises(InputError, match="takes a function"):
        eg.mean(3.0)
    with pytest.raises(InputError, match="rows that are held out"):
        eg.score(log_likelihood, None)
    with pytest.raises(InputError, match="is for runs without"):
        eg.sample(eg.gallery.gaussian(2), keep={"a": "draws"})
