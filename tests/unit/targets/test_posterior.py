"""Posterior: unbiased minibatch estimates over any pytree of data, and what is said of a wrong model."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ergodica.errors import InputError
from ergodica.targets import Posterior, positive

N = 12
generator = np.random.default_rng(0)
data = {"x": generator.standard_normal((N, 3)), "label": (generator.integers(0, 5, N), generator.random(N) < 0.5)}
position = {"w": jnp.array([0.3, -0.2, 0.5]), "scale": jnp.asarray(0.7)}


def log_prior(position):
    return -jnp.sum(position["w"] ** 2) / 2 - position["scale"] ** 2


def log_likelihood(position, batch):
    dtype = position["w"].dtype
    count, flag = (leaf.astype(dtype) for leaf in batch["label"])
    return (
        -((count - batch["x"].astype(dtype) @ position["w"]) ** 2) * position["scale"] ** 2 + flag * position["scale"]
    )


target = Posterior(log_prior, log_likelihood, data, init=position)


evaluate = eqx.filter_jit(lambda target, position, batch: target.evaluate(position, batch))


def by_hand(p, index):
    """The estimate of the potential from the rows at `index`, in NumPy, row by row."""
    w, scale = np.asarray(p["w"]), float(p["scale"])
    total = 0.0
    for i in index:
        total += -((data["label"][0][i] - data["x"][i] @ w) ** 2) * scale**2 + data["label"][1][i] * scale
    return -N / len(index) * total + np.sum(w**2) / 2 + scale**2


class TestEstimates:
    def test_all_data(self):
        assert float(target.potential(position)) == pytest.approx(by_hand(position, range(N)), rel=1e-13)

    @given(st.lists(st.integers(0, N - 1), min_size=1, max_size=N))
    def test_a_batch_is_scaled_by_rows_over_batch_size(self, index):
        estimate, _ = evaluate(target, position, target.rows(np.array(index)))
        assert float(estimate) == pytest.approx(by_hand(position, index), rel=1e-12)

    @given(st.permutations(range(N)), st.lists(st.integers(1, N - 1), unique=True, max_size=4))
    def test_gradients_over_a_partition_average_to_the_full_gradient(self, order, cuts):
        parts = np.split(np.array(order), sorted(cuts))
        gradients = [evaluate(target, position, target.rows(part))[1] for part in parts]
        average = jax.tree.map(lambda *g: sum(len(p) / N * x for p, x in zip(parts, g, strict=True)), *gradients)
        full = target.evaluate(position)[1]
        for got, expected in zip(jax.tree.leaves(average), jax.tree.leaves(full), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-10)

    def test_without_the_scaling_that_check_fails(self):
        # What the partition test must catch: N/n dropped, or the prior scaled with the likelihood.
        def dropped(p, batch):
            return -jnp.sum(log_likelihood(p, batch)) - log_prior(p)

        def prior_scaled(p, batch):
            return -(N / 6) * (jnp.sum(log_likelihood(p, batch)) + log_prior(p))

        full = target.evaluate(position)[1]["w"]
        halves = [target.rows(slice(0, 6)), target.rows(slice(6, 12))]
        for wrong in (dropped, prior_scaled):
            average = sum(jax.grad(wrong)(position, half)["w"] for half in halves) / 2
            assert np.abs(average - full).max() > 1e-2

    @pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
    def test_dtype_of_the_position_is_kept(self, dtype):
        cast = jax.tree.map(lambda leaf: leaf.astype(dtype), position)
        batch = target.rows(slice(0, 5))
        value, gradient = target.evaluate(cast, batch)
        rows, prior = target.example_gradients(cast, batch), target.prior_gradient(cast)
        assert value.dtype == dtype
        for tree in (gradient, rows, prior):
            assert {leaf.dtype for leaf in jax.tree.leaves(tree)} == {jnp.dtype(dtype)}
        np.testing.assert_allclose(value, by_hand(position, range(5)), rtol=1e-5)

    def test_float64_terms_of_a_float32_position_give_a_float32_potential(self):
        x = np.ones(4)
        mixed = Posterior(lambda m: -(m**2), lambda m, b: -((b - m.astype(float)) ** 2), x)
        value, gradient = mixed.evaluate(jnp.asarray(0.5, jnp.float32))
        assert value.dtype == gradient.dtype == jnp.float32

    def test_a_bare_array_of_data(self):
        simple = Posterior(lambda m: 0.0, lambda m, b: -((b - m) ** 2) / 2, np.array([1.0, 2.0, 6.0]))
        assert float(simple.evaluate(jnp.asarray(0.0))[1]) == -9.0
        assert float(simple.evaluate(jnp.asarray(0.0), np.array([6.0]))[1]) == -18.0


class TestExampleGradients:
    def test_they_and_the_prior_add_up_to_the_gradient(self):
        batch = target.rows(np.array([3, 1, 7, 8]))
        rows, prior = target.example_gradients(position, batch), target.prior_gradient(position)
        total = jax.tree.map(lambda r, p: N / 4 * jnp.sum(r, axis=0) + p, rows, prior)
        expected = target.evaluate(position, batch)[1]
        assert rows["w"].shape == (4, 3)
        assert rows["scale"].shape == (4,)
        for got, want in zip(jax.tree.leaves(total), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-12)

    def test_each_is_that_of_its_row_alone(self):
        rows = target.example_gradients(position)
        for i in range(N):
            alone = jax.grad(lambda p, i=i: -log_likelihood(p, target.rows(slice(i, i + 1)))[0])(position)
            np.testing.assert_allclose(rows["w"][i], alone["w"], rtol=1e-12)

    def test_a_flat_prior_has_gradient_zero(self):
        flat = Posterior(lambda m: 0, lambda m, b: b * m, np.ones(3))
        assert float(flat.prior_gradient(jnp.asarray(2.0))) == 0.0


class TestTransformations:
    def test_jit_vmap_and_grad_through_evaluate(self):
        batch = target.rows(slice(0, 4))
        stacked = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf + 1.0]), position)
        values, _ = jax.jit(jax.vmap(target.evaluate, in_axes=(0, None)))(stacked, batch)
        np.testing.assert_allclose(values[0], target.potential(position, batch), rtol=1e-12)
        slope = jax.grad(lambda p: target.evaluate(p, batch)[0])(position)
        np.testing.assert_allclose(slope["w"], target.evaluate(position, batch)[1]["w"], rtol=1e-12)

    def test_batches_may_differ_between_chains_under_vmap(self):
        windows = jax.tree.map(lambda leaf: jnp.stack([leaf[:4], leaf[4:8]]), data)
        values, _ = jax.vmap(target.evaluate, in_axes=(None, 0))(position, windows)
        np.testing.assert_allclose(values[1], by_hand(position, range(4, 8)), rtol=1e-12)

    def test_the_target_without_data_is_an_argument_that_holds_no_rows_and_traces_once(self):
        traces = []

        @eqx.filter_jit
        def evaluate(target, p, batch):
            traces.append(1)
            return target.evaluate(p, batch)[0]

        for start in range(3):
            made = Posterior(log_prior, log_likelihood, data, init=position)
            evaluate(made.without_data(), position, made.rows(slice(start, start + 4)))
        assert len(traces) == 1

    def test_data_given_as_an_argument_of_jit_are_traced(self):
        full = eqx.filter_jit(lambda target, p: target.evaluate(p)[0])
        np.testing.assert_allclose(full(target, position), by_hand(position, range(N)), rtol=1e-12)

    def test_it_can_be_built_inside_jit(self):
        built = jax.jit(lambda x: Posterior(lambda m: -(m**2), lambda m, b: b * m, x).potential(jnp.asarray(1.0)))
        assert float(built(jnp.ones(3))) == -2.0


class TestRows:
    def test_without_data_keeps_the_size(self):
        bare = target.without_data()
        assert bare.data is None
        assert bare.size == target.size == N
        assert bare.without_data() is bare
        batch = target.rows(slice(0, 3))
        assert float(bare.potential(position, batch)) == float(target.potential(position, batch))
        bare.check(position)

    def test_without_data_cannot_use_all_data(self):
        for use in (lambda bare: bare.evaluate(position), lambda bare: bare.rows(slice(0, 2))):
            with pytest.raises(InputError, match=r"without_data\(\) and has no rows: give it a batch"):
                use(target.without_data())

    def test_rows_by_array_slice_and_traced_index(self):
        index = np.array([5, 0, 5])
        for batch in (target.rows(index), target.rows(jnp.asarray(index)), jax.jit(lambda i: target.rows(i))(index)):
            np.testing.assert_array_equal(batch["x"], data["x"][index])
            np.testing.assert_array_equal(batch["label"][0], data["label"][0][index])
        assert np.shares_memory(target.rows(slice(2, 5))["x"], data["x"])

    @pytest.mark.parametrize(
        ("index", "match"),
        [
            (np.array([0, N]), f"row {N} does not exist: data has {N} rows"),
            (np.array([-1, 2]), "row -1 does not exist"),
            (np.array([0.0]), "1-D array of integers.*float64"),
            (np.ones(N, bool), "1-D array of integers.*bool"),
            (3, r"got shape \(\)"),
        ],
    )
    def test_rows_that_do_not_exist(self, index, match):
        with pytest.raises(InputError, match=match):
            target.rows(index)

    @pytest.mark.parametrize("n", [1, N, np.int64(3)])
    def test_batch_sizes_that_fit(self, n):
        target.check_batch_size(n)

    @pytest.mark.parametrize("n", [0, -1, N + 1, 2.0, True, None])
    def test_batch_sizes_that_do_not(self, n):
        with pytest.raises(
            InputError, match=rf"batch_size is {n}: expected a whole number of data rows \(leave.*\), from 1 to {N}"
        ):
            target.check_batch_size(n)

    def test_a_ragged_or_empty_batch(self):
        with pytest.raises(InputError, match=r"leaves of batch .*batch\['a'\] has 2, batch\['b'\] has 3"):
            target.evaluate(position, {"a": np.ones(2), "b": np.ones(3)})
        with pytest.raises(InputError, match="the batch has 0 rows"):
            target.evaluate(position, target.rows(slice(0, 0)))


def model(prior=lambda m: -(m**2), likelihood=lambda m, b: -((b - m) ** 2), rows=7, **settings):
    return Posterior(prior, likelihood, np.arange(float(rows)), **settings)


class TestCheck:
    def test_a_good_model_passes(self):
        target.check(position)
        model().check(jnp.asarray(0.1))
        model(rows=1).check(jnp.asarray(0.1))

    @pytest.mark.parametrize(
        ("likelihood", "match"),
        [
            (lambda m, b: -jnp.sum((b - m) ** 2), r"shape \(\) for a batch of 6 rows, expected \(6,\).*their sum"),
            (lambda m, b: -((b - m)[:, None] ** 2), r"shape \(6, 1\).*sum over all axes but the first"),
            (lambda m, b: jnp.ones(7) * m, r"shape \(7,\) for a batch of 6 rows"),
            (lambda m, b: None, "log_likelihood returned NoneType"),
            (lambda m, b: (b * m).astype(complex), "log_likelihood returned dtype complex128"),
            (lambda m, b: jnp.log(jnp.abs(b - 3)) + m, "log_likelihood is -inf for data row 3 at this position"),
            (lambda m, b: b * jnp.sqrt(m), "gradient is not"),
        ],
    )
    def test_wrong_likelihoods(self, likelihood, match):
        with pytest.raises(InputError, match=match):
            model(likelihood=likelihood).check(jnp.asarray(0.0))

    @pytest.mark.parametrize(
        ("prior", "match"),
        [
            (lambda m: -(m**2) * jnp.ones(2), r"log_prior returned shape \(2,\), expected a scalar"),
            (lambda m: -jnp.inf, "log_prior is -inf at this position"),
            (lambda m: None, "log_prior returned NoneType"),
        ],
    )
    def test_wrong_priors(self, prior, match):
        with pytest.raises(InputError, match=match):
            model(prior=prior).check(jnp.asarray(0.0))

    def test_the_position_is_checked_first(self):
        with pytest.raises(InputError, match="outside"):
            model(domain=positive).check(jnp.asarray(-1.0))

    def test_a_row_of_a_large_data_set_is_named_by_its_own_number(self):
        def impossible_after_half(m, b):
            return jnp.where(b >= 2500, -jnp.inf, 0.0) + m

        with pytest.raises(InputError, match="for data row 25") as error:
            model(likelihood=impossible_after_half, rows=5000).check(jnp.asarray(0.0))
        row = int(str(error.value).split("data row ")[1].split()[0])
        assert 2500 <= row <= 2510  # at most 1,000 rows, evenly spread, are looked at

    def test_functions_must_be_functions(self):
        with pytest.raises(InputError, match=r"log_prior is 0\.0: expected a function"):
            Posterior(0.0, lambda m, b: b * m, np.ones(3))
        with pytest.raises(InputError, match="log_likelihood is array"):
            Posterior(lambda m: 0.0, np.ones(3), np.ones(3))
