"""The closed forms of ergodica.tuning.law against the library's own step, linearised: `eg.exact_law`."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest

import ergodica as eg
from ergodica.gradients.control import referenced
from ergodica.tuning import law

STEPS, FRICTIONS = (0.05, 0.3, 0.7, 1.0, 1.4), (0.1, 0.7, 1.5, 3.0, 8.0)
CURVATURE, NOISE = np.array([0.1, 0.6, 1.0, 1.9]), np.array([3.0, 0.4, 1.0, 0.02])
BOWL = eg.Density(lambda q: jnp.sum(CURVATURE * q**2) / 2, init=np.zeros(4))
NOISY = {(h, f): eg.exact_law(eg.sghmc(f), BOWL, h, gradient_noise=NOISE, compensate=False)
         for h, f in itertools.product(STEPS, FRICTIONS)}  # fmt: skip


def one_direction(whole, j: int) -> tuple[np.ndarray, np.ndarray]:
    """(A, Sigma) of (q_j, r_j): the directions of `BOWL` do not meet."""
    places = np.ix_([j, j + 4], [j, j + 4])
    return whole.transition[places], whole.phase_covariance[places]


def correlation_time(matrix: np.ndarray, covariance: np.ndarray, f: np.ndarray) -> float:
    """1 + 2 sum_k of f A^k Sigma f^T over f Sigma f^T."""
    total = np.linalg.solve(np.eye(len(matrix)) - matrix, matrix @ covariance)
    return float(1 + 2 * (f @ total @ f) / (f @ covariance @ f))


@pytest.mark.parametrize("j", range(4))
@pytest.mark.parametrize(("h", "friction"), NOISY)
def test_constant_noise(h, friction, j):
    whole, c = NOISY[h, friction], law.coth_of_friction(friction, h)
    a, sigma = one_direction(whole, j)
    assert law.variance_bias(NOISE[j], h, c) == pytest.approx(whole.bias[j], rel=1e-10, abs=1e-13)
    first = correlation_time(a, sigma, np.array([1.0, 0.0]))
    assert law.time_of_means(h, c, CURVATURE[j]) == pytest.approx(first, rel=1e-10)
    # products of a Gaussian phase have covariance 2 Sigma x Sigma and go by the Kronecker square of A
    pairs = correlation_time(np.kron(a, a), np.kron(sigma, sigma), np.array([1.0, 0.0, 0.0, 0.0]))
    assert law.time_of_squares(h, c, CURVATURE[j]) == pytest.approx(pairs, rel=1e-10)


def test_noise_is_the_price_of_a_draw():
    """b tau = w, whatever the step and the friction."""
    h, c = np.meshgrid([0.1, 0.5, 0.7], [1.01, 2.0, 30.0])
    np.testing.assert_allclose(law.variance_bias(0.7, h, c) * law.time_of_means(h, c), 0.7, rtol=1e-14)


def test_friction_and_its_coth():
    friction = np.array([0.01, 1.0, 5.0])
    np.testing.assert_allclose(law.friction_of(law.coth_of_friction(friction, 0.7), 0.7), friction, rtol=1e-12)
    assert law.friction_of(2 / 0.5, 0.5) == pytest.approx(np.log(2.5 / 1.5) / 0.5)


# -- control variates, on a linear regression: the noise grows with the distance from the mode ----------------

ROWS = 2_000


def drawn_features(is_rare: bool) -> np.ndarray:
    rng = np.random.default_rng(5)
    if is_rare:  # zeros and ones: the last is 1 in a row of a hundred
        return np.column_stack([np.ones(ROWS), rng.random((ROWS, 3)) < [0.2, 0.05, 0.01]]).astype(float)
    return rng.normal(size=(ROWS, 4)) * [1.0, 0.3, 2.0, 1.0]


def noise_and_bias(features: np.ndarray, batch: int, h: float, friction: float) -> tuple[np.ndarray, np.ndarray]:
    """In whitened directions in which the noise is diagonal: the noise w, and the bias of variances by eg.exact_law.

    Row i differs from itself at the mode by x_i (x_i . y): over draws y of the posterior its covariance is summed here.
    """
    answers = features @ [1.0, -1.0, 0.5, 0.0] + np.random.default_rng(6).normal(size=ROWS)
    target = eg.Posterior(
        lambda q: -jnp.sum(q**2) / 2,
        lambda q, rows: -((rows[:, 0] - rows[:, 1:] @ q) ** 2) / 2,
        np.column_stack([answers, features]),
        init=np.zeros(4),
    )
    precision = features.T @ features + np.eye(4)
    mode = np.linalg.solve(precision, features.T @ answers)
    root = np.linalg.inv(np.linalg.cholesky(precision)).T
    x = features @ root
    second = (x * np.sum(x**2, axis=1, keepdims=True)).T @ x - (x.T @ x) @ (x.T @ x) / ROWS
    w, turn = np.linalg.eigh(second / (ROWS - 1) * ROWS**2 / batch * (1 - batch / ROWS))
    recipe = eg.sghmc(friction * precision, mass=precision)
    found = eg.exact_law(recipe, referenced(target, mode), h, batch_size=batch, compensate=False)
    back = np.linalg.inv(root @ turn)
    return w, np.diag(back @ found.covariance @ back.T) - 1


@pytest.mark.parametrize(("h", "friction"), [(0.2, 1.0), (0.7, 3.0), (0.7, 1.0), (1.0, 2.0), (1.4, 2.0)])
def test_control_variates(h, friction):
    w, true = noise_and_bias(drawn_features(is_rare=False), 20, h, friction)
    c = law.coth_of_friction(friction, h)
    stated = law.variance_bias_with_control(w, h, c)
    print(f"h {h} friction {friction}: bias {true.max():.3f}, off by {np.abs(stated / true - 1).max():.2%} of it")
    np.testing.assert_allclose(stated, true, rtol=0.01)
    # the form for constant noise is another, and would not pass
    assert np.abs(law.variance_bias(w, h, c) / true - 1).max() > 0.01


@pytest.mark.parametrize(("h", "friction", "batch"), [(0.2, 1.0, 60), (0.7, 1.0, 150), (1.4, 2.5, 600)])
def test_a_rare_feature_is_fed_by_its_own_noise(h, friction, batch):
    """Unequal noise: the mean understates the feedback of the noisiest direction, and the largest bounds it."""
    w, true = noise_and_bias(drawn_features(is_rare=True), batch, h, friction)
    assert w.max() > 5 * w.mean() / 2
    c = law.coth_of_friction(friction, h)
    stated, most = law.variance_bias_with_control(w, h, c), law.largest_bias_with_control(w, h, c)
    print(f"h {h} friction {friction}: bias {true.max():.3f}, stated {stated.max():.3f}, at most {most.max():.3f}")
    assert true.max() > 0.1
    assert stated.max() < true.max()
    np.testing.assert_array_less(true, most * (1 + 1e-9))
    assert most.max() < 1.2 * true.max()


def test_no_law_where_the_noise_feeds_itself():
    stated = law.variance_bias_with_control(np.array([[2.0, 4.0], [0.2, 0.4]]), np.array([0.7, 0.7]), 10.0)
    assert np.isinf(stated[0]).all()
    assert np.isfinite(stated[1]).all()
    assert np.isinf(law.variance_bias_with_control([0.1], 2.0, 1.1)).all()


# -- the choice of step and friction ---------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [1e-9, 0.01, 0.1, 0.3, 1.0, 10.0])
def test_motion_takes_what_the_bias_allows(noise):
    allowed = 2 * 0.05 / 3
    h, c = law.motion(allowed, noise)
    bias = law.variance_bias_with_control(np.array([noise]), h, c)[0]
    assert h <= 0.7
    assert bias <= allowed * (1 + 1e-12)
    if noise >= 0.1:  # noise is the limit, and all of it is taken
        assert bias == pytest.approx(allowed, rel=1e-12)
    others_h, others_c = np.meshgrid(np.linspace(0.01, 0.7, 300), np.geomspace(law.REFRESHED, 400, 300))
    times = law.time_of_squares(others_h, others_c)
    biases = law.variance_bias_with_control(np.array([noise]), others_h, others_c)[..., 0]
    best = times[biases <= allowed].min()
    assert law.time_of_squares(h, c) <= best * 1.02


def test_motion_of_many():
    h, c = law.motion(0.03, np.array([0.0, 0.2, 50.0]))
    assert h.shape == c.shape == (3,)
    np.testing.assert_allclose((h[0], c[0]), (0.7, 2 / 0.7))
    assert h[2] < h[1] <= h[0]
