"""The gallery: potentials as published, truths against quadrature and exact draws, and one compilation each."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy import integrate, stats

from ergodica.errors import InputError
from ergodica.targets import Density, gallery

COVARIANCE = np.array([[2.0, 0.6, -0.3], [0.6, 1.0, 0.2], [-0.3, 0.2, 0.5]])
MEAN = np.array([1.0, -2.0, 0.5])

BUILDERS = {
    "standard": lambda **settings: gallery.gaussian(3, **settings),
    "diagonal": lambda **settings: gallery.gaussian(mean=MEAN, covariance=[1.0, 4.0, 0.25], **settings),
    "dense": lambda **settings: gallery.gaussian(mean=MEAN, covariance=COVARIANCE, **settings),
    "one_peak": gallery.one_peak,
    "two_peaks": gallery.two_peaks,
    "correlated": gallery.correlated,
    "funnel": gallery.funnel,
    "logistic": lambda **settings: gallery.logistic_regression(50, 4, **settings),
}
KNOWN = [name for name in BUILDERS if name != "logistic"]
DRAWS = 200_000


def flat_draws(target, key, count=DRAWS):
    draws = jax.jit(jax.vmap(target.truth.draw))(jax.random.split(key, count))
    return np.asarray(jax.vmap(lambda draw: ravel_pytree(draw)[0])(draws))


def worst_z_score(draws, mean, covariance):
    """The largest error of the first and second moments, in standard errors."""
    centred = draws - mean
    products = np.concatenate([centred, (centred[:, :, None] * centred[:, None, :]).reshape(len(draws), -1)], axis=1)
    expected = np.concatenate([np.zeros(len(mean)), np.ravel(covariance)])
    return np.max(np.abs(products.mean(0) - expected) / (products.std(0) / math.sqrt(len(draws))))


class TestEveryMember:
    @pytest.mark.parametrize("name", BUILDERS)
    @pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
    def test_its_start_is_good_and_the_dtype_kept(self, name, dtype):
        target = BUILDERS[name](dtype=dtype)
        target.check(target.init)
        value, gradient = target.evaluate(target.init)
        tree = (target.init, value, gradient)
        if target.truth is not None:
            truth = target.truth
            tree = (tree, truth.mean, truth.variance, truth.covariance, truth.draw(jax.random.key(0)))
        assert {leaf.dtype for leaf in jax.tree.leaves(tree)} == {jnp.dtype(dtype)}
        assert max(np.abs(leaf).max() for leaf in jax.tree.leaves(gradient)) > 0.1

    @pytest.mark.parametrize("name", BUILDERS)
    def test_it_takes_positions_of_another_dtype(self, name):
        target = BUILDERS[name]()
        low = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), target.init)
        value, gradient = target.evaluate(low)
        assert {leaf.dtype for leaf in jax.tree.leaves((value, gradient))} == {jnp.dtype("float32")}
        np.testing.assert_allclose(value, target.potential(target.init), rtol=1e-5)

    @pytest.mark.parametrize("name", BUILDERS)
    def test_made_twice_it_compiles_once(self, name):
        traces = []

        @eqx.filter_jit
        def evaluate(target, position):
            traces.append(1)
            return target.evaluate(position)

        first, second = BUILDERS[name](), BUILDERS[name]()
        assert jax.tree.structure(first) == jax.tree.structure(second)
        for target in (first, second):
            evaluate(target, target.init)
        assert len(traces) == 1

    def test_a_lambda_would_compile_twice(self):
        made = [Density(lambda x: jnp.sum(x**2), init=jnp.ones(2)) for _ in range(2)]
        static = [eqx.partition(target, eqx.is_array)[1] for target in made]
        assert jax.tree.leaves(static[0]) != jax.tree.leaves(static[1])

    @pytest.mark.parametrize("name", KNOWN)
    def test_the_truth_is_consistent_in_itself(self, name):
        target = BUILDERS[name]()
        truth, structure = target.truth, jax.tree.structure(target.init)
        assert jax.tree.structure(truth.mean) == jax.tree.structure(truth.variance) == structure
        np.testing.assert_allclose(np.diag(truth.covariance), ravel_pytree(truth.variance)[0])
        draw = truth.draw(jax.random.key(1))
        assert jax.tree.map(jnp.shape, draw) == jax.tree.map(jnp.shape, target.init)

    @pytest.mark.parametrize("name", [name for name in KNOWN if name != "funnel"])
    def test_exact_draws_have_the_stated_moments(self, name):
        truth = BUILDERS[name]().truth
        draws = flat_draws(BUILDERS[name](), jax.random.key(2))
        assert worst_z_score(draws, np.asarray(truth.mean), truth.covariance) < 4.5
        # The yardstick itself notices a moment that is off by 3 %.
        assert worst_z_score(draws, np.asarray(truth.mean), 1.03 * np.asarray(truth.covariance)) > 4.5

    @pytest.mark.parametrize("name", KNOWN)
    def test_exact_draws_fit_the_potential(self, name):
        # E grad U = 0 and E x_i dU/dx_i = 1 under exp(-U), by parts: it ties the draws to the potential and needs
        # no moment in closed form.
        target = BUILDERS[name]()
        keys = jax.random.split(jax.random.key(3), DRAWS)

        def identities(key, stretch):
            position = jax.tree.map(lambda leaf: stretch * leaf, target.truth.draw(key))
            x, gradient = ravel_pytree(position)[0], ravel_pytree(target.evaluate(position)[1])[0]
            return jnp.concatenate([gradient, x * gradient - 1.0])

        if name == "funnel":  # dU/dx = exp(-v) x has no usable variance; x dU/dx and the slope in v have
            chosen = [0, *range(10, 20)]
        else:
            chosen = slice(None)
        compiled = jax.jit(jax.vmap(identities, in_axes=(0, None)))

        def worst(stretch):
            values = np.asarray(compiled(keys, stretch))[:, chosen]
            return np.max(np.abs(values.mean(0)) / (values.std(0) / math.sqrt(DRAWS)))

        assert worst(1.0) < 4.5
        assert worst(1.03) > 4.5


class TestGaussian:
    def test_dense_potential_is_the_log_density(self):
        target = gallery.gaussian(mean=MEAN, covariance=COVARIANCE)
        x = np.array([0.3, 0.1, -1.0])
        law = stats.multivariate_normal(MEAN, COVARIANCE)
        expected = law.logpdf(MEAN) - law.logpdf(x)
        assert float(target.potential(jnp.asarray(x))) == pytest.approx(expected, rel=1e-12)
        hessian = jax.hessian(target.potential)(jnp.asarray(x))
        np.testing.assert_allclose(hessian, np.linalg.inv(COVARIANCE), rtol=1e-10)

    def test_diagonal_potential_is_the_dense_one(self):
        x, variances = jnp.array([0.3, 0.1, -1.0]), np.array([1.0, 4.0, 0.25])
        diagonal = gallery.gaussian(mean=MEAN, covariance=variances)
        dense = gallery.gaussian(mean=MEAN, covariance=np.diag(variances))
        np.testing.assert_allclose(diagonal.potential(x), dense.potential(x), rtol=1e-11)
        np.testing.assert_allclose(diagonal.truth.covariance, dense.truth.covariance)

    def test_one_number_is_the_variance_of_every_coordinate(self):
        target = gallery.gaussian(2, covariance=4.0)
        assert float(target.potential(jnp.array([2.0, 0.0]))) == 0.5
        np.testing.assert_array_equal(target.truth.variance, [4.0, 4.0])

    @pytest.mark.parametrize("settings", [{"dim": 1_000_000}, {"covariance": np.full(1_000_000, 4.0)}])
    def test_a_million_dimensions_without_a_matrix(self, settings):
        target = gallery.gaussian(**settings)
        assert target.truth.covariance is None
        assert target.truth.variance.shape == (1_000_000,)
        assert max(leaf.size for leaf in jax.tree.leaves(target) if eqx.is_array(leaf)) == 1_000_000
        assert float(target.potential(target.init)) == pytest.approx(500_000)
        assert target.truth.draw(jax.random.key(0)).shape == (1_000_000,)

    @pytest.mark.parametrize(
        ("settings", "match"),
        [
            ({"dim": 0}, "dim is 0: expected a whole number of at least 1"),
            ({"dim": 2.5}, "dim is 2.5"),
            ({"dim": 2, "mean": np.zeros(3)}, "dimension is not clear: dim gives 2, mean gives 3"),
            ({"mean": 1.0}, r"mean has shape \(\): expected a vector"),
            ({"mean": [np.nan]}, "mean holds NaN"),
            ({"covariance": np.ones((2, 3))}, r"covariance has shape \(2, 3\).*square matrix"),
            ({"covariance": [1.0, 0.0]}, "a variance of 0.0"),
            ({"covariance": [1.0, np.inf]}, "covariance holds NaN or infinite"),
            ({"covariance": [[1.0, 0.5], [0.2, 1.0]]}, "not symmetric: .* by up to 0.3"),
            ({"covariance": [[1.0, 2.0], [2.0, 1.0]]}, "not positive definite: its smallest eigenvalue is -1"),
            ({"dim": 2, "dtype": int}, "expected a floating dtype"),
        ],
    )
    def test_bad_settings(self, settings, match):
        with pytest.raises(InputError, match=match):
            gallery.gaussian(**settings)


class TestSynthetic:
    def test_potentials_are_the_papers(self):
        t = jnp.array([0.7])
        assert float(gallery.one_peak().potential(t)) == pytest.approx(0.7**2 / 2)
        assert float(gallery.two_peaks().potential(t)) == pytest.approx(0.7**4 - 2 * 0.7**2)
        value = gallery.correlated().potential(jnp.array([0.7, -0.4]))
        assert float(value) == pytest.approx(0.7**4 / 10 + (4 * (-0.4 + 1.2) - 0.7**2) ** 2 / 2)

    def test_two_peaks_variance_by_quadrature_and_by_series(self):
        def integral(power):
            return integrate.quad(lambda t: t**power * math.exp(-(t**4) + 2 * t**2), -6, 6, epsabs=1e-13)[0]

        def series(power):  # exp(2 t²) expanded under exp(-t⁴)
            return sum(2**k / math.factorial(k) * math.gamma((2 * k + power + 1) / 4) / 2 for k in range(60))

        variance = float(gallery.two_peaks().truth.variance[0])
        assert variance == pytest.approx(series(2) / series(0), rel=1e-12)
        assert variance == pytest.approx(integral(2) / integral(0), rel=1e-10)

    def test_two_peaks_draws_have_the_law_and_not_only_its_moments(self):
        draws = flat_draws(gallery.two_peaks(), jax.random.key(4))[:, 0]
        grid = np.linspace(-4, 4, 8001)
        cumulative = integrate.cumulative_trapezoid(np.exp(-((grid**2 - 1) ** 2)), grid, initial=0.0)
        cumulative /= cumulative[-1]
        empirical = np.searchsorted(np.sort(draws), grid) / len(draws)
        stretched = np.searchsorted(np.sort(1.02 * draws), grid) / len(draws)
        # Kolmogorov: sqrt(n) times the distance exceeds 2.7 with probability 2 exp(-2 * 2.7²) = 1e-6.
        assert math.sqrt(len(draws)) * np.abs(empirical - cumulative).max() < 2.7
        assert math.sqrt(len(draws)) * np.abs(stretched - cumulative).max() > 2.7

    def test_correlated_moments_by_quadrature(self):
        t1, t2 = np.linspace(-6, 6, 1201), np.linspace(-4, 12, 3201)
        ridge = (4 * (t2[None, :] + 1.2) - t1[:, None] ** 2) ** 2 / 2
        weight = np.exp(-(t1[:, None] ** 4) / 10 - ridge)
        weight /= weight.sum()
        truth = gallery.correlated().truth
        mean = [np.sum(weight * t1[:, None]), np.sum(weight * t2[None, :])]
        np.testing.assert_allclose(truth.mean, mean, atol=1e-10)
        first, second = t1[:, None] - mean[0], t2[None, :] - mean[1]
        expected = [[np.sum(weight * a * b) for b in (first, second)] for a in (first, second)]
        np.testing.assert_allclose(truth.covariance, expected, atol=1e-9)


class TestFunnel:
    def test_potential_is_the_log_density(self):
        v, x = 1.3, np.array([0.5, -2.0])

        def log_density(v, x):
            return stats.norm.logpdf(v, 0, 3) + stats.norm.logpdf(x, 0, math.exp(v / 2)).sum()

        target = gallery.funnel(3)
        got = target.potential({"v": jnp.asarray(v), "x": jnp.asarray(x)})
        assert float(got) == pytest.approx(log_density(0.0, np.zeros(2)) - log_density(v, x))

    def test_variance_by_quadrature(self):
        def integrand(v):
            return math.exp(v) * stats.norm.pdf(v, 0, 3)

        truth = gallery.funnel(4).truth
        assert float(truth.variance["x"][0]) == pytest.approx(integrate.quad(integrand, -40, 60)[0], rel=1e-8)
        assert truth.covariance.shape == (4, 4)

    def test_draws(self):
        # x itself has no usable fourth moment: v and x / exp(v/2) are looked at instead.
        draws = flat_draws(gallery.funnel(4), jax.random.key(5))
        v, z = draws[:, :1], draws[:, 1:] * np.exp(-draws[:, :1] / 2)
        assert worst_z_score(np.hstack([v, z]), np.zeros(4), np.diag([9.0, 1, 1, 1])) < 4.5

    def test_at_least_one_x(self):
        with pytest.raises(InputError, match="dim is 1: expected a whole number of at least 2"):
            gallery.funnel(1)


class TestLogisticRegression:
    def test_potential_row_by_row(self):
        target = gallery.logistic_regression(30, 3, seed=1)
        w = np.array([0.2, -1.0, 0.7])
        p = 1 / (1 + np.exp(-target.data["x"] @ w))
        y = target.data["y"]
        expected = -np.sum(y * np.log(p) + (1 - y) * np.log1p(-p)) + np.sum(w**2) / 2
        assert float(target.potential(jnp.asarray(w))) == pytest.approx(expected, rel=1e-12)

    def test_no_overflow_at_large_logits(self):
        for dtype in (jnp.float32, jnp.float64):
            target = gallery.logistic_regression(x=np.array([[1.0], [-1.0]]), y=np.array([0, 1]), dtype=dtype)
            value, gradient = target.evaluate(jnp.asarray([1e4], dtype))
            np.testing.assert_allclose(value, 2e4 + 1e8 / 2)
            np.testing.assert_allclose(gradient, [2 + 1e4])

    def test_one_product_per_evaluation_and_one_for_its_gradient(self):
        target = gallery.logistic_regression(30, 3)
        assert str(jax.make_jaxpr(lambda w: target.potential(w))(target.init)).count("dot_general") == 1
        assert str(jax.make_jaxpr(lambda w: target.evaluate(w))(target.init)).count("dot_general") == 2

    def test_the_seed_decides_the_data(self):
        first, same, other = (gallery.logistic_regression(20, 2, seed=seed).data for seed in (3, 3, 4))
        np.testing.assert_array_equal(first["x"], same["x"])
        np.testing.assert_array_equal(first["y"], same["y"])
        assert (first["x"] != other["x"]).all()
        assert first["x"].shape == (20, 2)
        assert set(first["y"]) == {0.0, 1.0}

    def test_given_arrays_are_kept(self):
        x, y = np.ones((4, 2), np.float32), np.array([0, 1, 1, 0], np.float32)
        target = gallery.logistic_regression(x=x, y=y)
        assert target.data["x"] is x
        assert target.data["y"] is y
        assert target.init.dtype == jnp.float32

    def test_given_integers_and_lists_are_converted(self):
        target = gallery.logistic_regression(x=[[1, 2], [3, 4]], y=[True, False])
        assert target.data["x"].dtype == target.data["y"].dtype == np.float64
        on_device = gallery.logistic_regression(x=jnp.ones((2, 3)), y=jnp.array([0, 1]), dtype=jnp.float32)
        assert isinstance(on_device.data["x"], jax.Array)
        assert on_device.data["x"].dtype == jnp.float32

    @pytest.mark.parametrize(
        ("settings", "match"),
        [
            ({"x": np.ones((3, 2))}, "y is missing"),
            ({"y": np.ones(3)}, "x is missing"),
            ({"x": np.ones(3), "y": np.ones(3)}, r"x has shape \(3,\).*expected \(N, d\)"),
            ({"x": np.ones((3, 2)), "y": np.ones(4)}, r"y \(4,\)"),
            ({"x": np.ones((2, 2)), "y": np.array([-1, 1])}, r"y holds the values -1, 1: expected 0 and 1"),
            ({"x": np.full((2, 2), np.nan), "y": np.array([0, 1])}, r"data\['x'\] has NaN"),
            ({"rows": 0}, "rows is 0"),
            ({"features": -1}, "features is -1"),
        ],
    )
    def test_bad_settings(self, settings, match):
        with pytest.raises(InputError, match=match):
            gallery.logistic_regression(**settings)


def test_without_x64_nothing_warns():
    """In a process of JAX's defaults the gallery is float32 and silent, NumPy's float64 data included."""
    with jax.enable_x64(False):
        for name, build in BUILDERS.items():
            target = build()
            assert {leaf.dtype for leaf in jax.tree.leaves(target.init)} == {jnp.dtype("float32")}, name
            target.check(target.init)
        given = gallery.logistic_regression(x=np.ones((2, 3)), y=np.array([0.0, 1.0]))
        value, gradient = given.evaluate(given.init)
        assert value.dtype == gradient.dtype == jnp.float32
