"""V from per-example gradients, against plain NumPy and against the variance over every possible batch."""

from functools import partial
from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodica as eg
from ergodica.gradients import noise
from ergodica.gradients.noise import batch_variance, example_variance
from ergodica.tree import Layout
from tests.oracle.stationarity import QUICK

N, FEATURES = 11, 3
RNG = np.random.default_rng(9)
X, Y = RNG.normal(size=(N, FEATURES)), RNG.integers(0, 2, N).astype(float)
VECTOR = jnp.array([0.4, -0.7, 0.2])


def log_likelihood(q, batch):
    """Logistic, on a tree: weights of two features as a matrix, of the third as a vector."""
    logits = batch["x"] @ jnp.concatenate([q["matrix"].reshape(-1), q["vector"]])
    return batch["y"] * logits - jax.nn.softplus(logits)


def log_prior(q):
    return -jnp.sum(q["matrix"] ** 2) - 3 * jnp.sum(q["vector"])


TARGET = eg.Posterior(log_prior, log_likelihood, {"x": X, "y": Y})
POSITION = {"matrix": VECTOR[:2].reshape(1, 2), "vector": VECTOR[2:]}
LAYOUT = Layout.of(POSITION)


def example_gradients(x=X, y=Y):
    """-d log_likelihood / dw by hand: (sigmoid(x.w) - y) x."""
    return (1 / (1 + np.exp(-x @ np.asarray(VECTOR))) - y)[:, None] * x


def rows(index):
    index = np.asarray(index)
    return {"x": jnp.asarray(X[index]), "y": jnp.asarray(Y[index])}


@partial(jax.jit, static_argnums=1, compiler_options=QUICK)
def flat_variance(batch, replacement):
    return LAYOUT.ravel(batch_variance(TARGET, POSITION, batch, replacement))


def numpy_variance(index, replacement):
    """V = (N^2 / n) (1 - n/N) s^2, s^2 with divisor n - 1; no finite-population factor with replacement."""
    n = len(index)
    spread = example_gradients()[np.asarray(index)].var(axis=0, ddof=1)
    return N**2 / n * (1 if replacement else 1 - n / N) * spread


@pytest.mark.parametrize("replacement", [False, True])
@pytest.mark.parametrize("index", [[0, 3, 4, 7, 9], [2, 5], list(range(N))])
def test_the_variance_of_a_batch_is_the_formula(index, replacement):
    got = flat_variance(rows(index), replacement)
    np.testing.assert_allclose(got, numpy_variance(index, replacement), rtol=1e-11, atol=1e-13)


def test_all_data_without_replacement_have_no_noise():
    np.testing.assert_array_equal(flat_variance(rows(range(N)), False), np.zeros(FEATURES))


def test_the_mean_over_every_batch_is_the_variance_of_the_gradient():
    """Over the 165 batches of 3 rows of 11, exactly: the estimate is unbiased, with the prior in the gradient."""
    subsets = np.array(list(combinations(range(N), 3)))
    batches = jax.tree.map(lambda leaf: jnp.asarray(leaf)[subsets], TARGET.data)

    def both(batch):
        estimate = batch_variance(TARGET, POSITION, batch)
        return LAYOUT.ravel(TARGET.evaluate(POSITION, batch)[1]), LAYOUT.ravel(estimate)

    gradients, estimates = jax.jit(jax.vmap(both), compiler_options=QUICK)(batches)
    np.testing.assert_allclose(jnp.mean(estimates, axis=0), np.var(gradients, axis=0), rtol=1e-11)


def test_a_pair_has_the_variance_of_the_mean_of_two_gradients():
    index = ([0, 3, 4], [4, 7, 9])
    got = flat_variance(eg.BatchPair(*map(rows, index)), False)
    np.testing.assert_allclose(got, sum(numpy_variance(i, False) for i in index) / 4, rtol=1e-12)


@pytest.mark.parametrize("examples", [1, 2, 3, 5, 10, 11])
def test_the_size_of_the_micro_batch_makes_no_difference(examples, monkeypatch):
    monkeypatch.setattr(noise, "MICRO_BATCH_NUMBERS", examples * FEATURES)
    got = jax.jit(lambda batch: example_variance(TARGET, POSITION, batch), compiler_options=QUICK)(rows(range(N)))
    np.testing.assert_allclose(LAYOUT.ravel(got), example_gradients().var(axis=0, ddof=1), rtol=1e-12)


def test_no_array_of_all_examples_and_entries_is_held(monkeypatch):
    monkeypatch.setattr(noise, "MICRO_BATCH_NUMBERS", 2 * FEATURES)
    traced = jax.make_jaxpr(lambda batch: example_variance(TARGET, POSITION, batch))(rows(range(N)))
    assert f"f64[{N},1,2]" not in str(traced)
    assert "f64[2,1,2]" in str(traced)


def test_one_example_is_refused():
    for replacement in (False, True):
        with pytest.raises(eg.InputError, match="batch of 1 example"):
            batch_variance(TARGET, POSITION, rows([4]), replacement)


# -- eg.gradient_noise --------------------------------------------------------------------------------


@pytest.mark.parametrize("replacement", [False, True])
def test_gradient_noise_of_all_data_is_the_formula(replacement):
    covariance = np.cov(example_gradients().T) * N**2 / 4 * (1 if replacement else 1 - 4 / N)
    diagonal = eg.gradient_noise(TARGET, POSITION, 4, replacement=replacement)
    assert jax.tree.map(jnp.shape, diagonal) == jax.tree.map(jnp.shape, POSITION)
    np.testing.assert_allclose(LAYOUT.ravel(diagonal), np.diag(covariance), rtol=1e-12)
    dense = eg.gradient_noise(TARGET, POSITION, 4, replacement=replacement, dense=True)
    np.testing.assert_allclose(dense, covariance, rtol=1e-12, atol=1e-13)


def test_gradient_noise_keeps_float32_and_needs_data():
    low = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), POSITION)
    target = eg.Posterior(log_prior, log_likelihood, {"x": X.astype(np.float32), "y": Y.astype(np.float32)})
    assert {leaf.dtype for leaf in jax.tree.leaves(eg.gradient_noise(target, low, 4))} == {jnp.dtype("float32")}
    with pytest.raises(eg.InputError, match="a target with data"):
        eg.gradient_noise(eg.gallery.gaussian(2), jnp.zeros(2), 4)


# -- during a run -------------------------------------------------------------------------------------


def test_per_example_is_the_mean_of_the_batches_before_and_then_forgets():
    estimate = eg.PerExample(memory=2)
    update = jax.jit(lambda state, batch: estimate.update(state, TARGET, POSITION, batch), compiler_options=QUICK)
    indices = ([0, 1, 2, 3], [4, 5, 6, 7], [2, 8, 9, 10])
    state = estimate.init(POSITION)
    np.testing.assert_array_equal(estimate.operator(state, LAYOUT).to_dense(), np.zeros((3, 3)))
    expected = np.zeros(FEATURES)
    for index, weight in zip(indices, (1, 1 / 2, 1 / 2), strict=True):
        state = update(state, rows(index))
        expected = expected + weight * (numpy_variance(index, False) - expected)
        np.testing.assert_allclose(estimate.operator(state, LAYOUT).to_dense(), np.diag(expected), rtol=1e-12)


def test_a_known_covariance_is_what_was_given():
    for given, expected in ((2.0, 2 * np.eye(3)), (np.diag([1.0, 2.0, 3.0]), np.diag([1.0, 2.0, 3.0]))):
        known = eg.Known(given)
        np.testing.assert_array_equal(known.operator(known.init(POSITION), LAYOUT).to_dense(), expected)


def test_sgfs_brings_its_own_covariance_for_steps_with_a_batch():
    """Injected: 2 eps D - eps^2 D V D = eps D (4 B0) D, so cut nowhere up to the step that it was built for."""
    covariance = LAYOUT.ravel(eg.gradient_noise(TARGET, POSITION, 4))
    recipe = eg.sgfs(LAYOUT.unravel(covariance), step_size=0.1, damping=0.5)
    kernel = eg.Kernel(TARGET, recipe)
    state = kernel.init(POSITION, jax.random.key(0))
    step = jax.jit(lambda batch: kernel.step(state, jax.random.key(1), 0.1, batch)[1], compiler_options=QUICK)
    with_batch = step(rows([0, 1, 2, 3]))
    d = 2 / (0.1 * np.asarray(covariance) + 2.0)
    np.testing.assert_allclose(with_batch.largest_step, np.min(2 / (d * np.asarray(covariance))), rtol=1e-12)
    assert with_batch.cuts == 0
    assert with_batch.largest_step > 0.1
    assert np.isinf(step(None).largest_step)
