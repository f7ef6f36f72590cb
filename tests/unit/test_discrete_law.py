"""The oracle of the discrete law against closed forms, against plain simulation, and against wrong simulations.

The simulations write each sampler out move by move, gradient noise and injected noise drawn separately; they share
nothing with the matrices of the oracle. Draws are 100,000 independent chains, so deviations are in standard errors.
"""

from typing import NamedTuple

import numpy as np
import pytest
from scipy.linalg import expm

from tests.statistical.discrete_law import Law, LinearChain, aboba, boa, curl_of, deviation, euler, standard_errors

CHAINS = 100_000
LIMIT = 4.5

K = np.array([[1.3, 0.5], [0.5, 0.8]])
CENTRE = np.array([0.7, -1.2])
V = np.array([[0.9, -0.3], [-0.3, 0.6]])
DENSE = np.array([[1.1, 0.4], [0.4, 0.9]])
MASS = np.array([[0.8, -0.2], [-0.2, 1.2]])
FRICTION = np.array([[1.6, 0.3], [0.3, 1.1]])
R = np.array([[0.9, 0.3], [-0.4, 1.1]])
SKEW = np.array([[0.0, -0.8], [0.8, 0.0]])


class Wrong(NamedTuple):
    """Factors that a correct simulation leaves at 1: each other value is an error that the oracle must notice."""

    noise: float = 1.0  # of the variance injected
    curl: float = 1.0  # of Q on the whole
    one_sided: float = 1.0  # of Q_qr only, so that Q is no longer skew
    friction: float = 1.0
    reduction: float = 1.0  # of the variance subtracted
    reuse: bool = False  # the same noise in two successive steps


class Noise:
    """Draws N(0, covariance); with `reuse` every draw serves two successive steps."""

    def __init__(self, seed: int, reuse: bool):
        self.rng, self.reuse, self.last = np.random.default_rng(seed), reuse, {}

    def draw(self, step, name, covariance):
        if self.reuse and step % 2:
            return self.last[name]
        values, vectors = np.linalg.eigh(covariance)
        root = vectors * np.sqrt(np.clip(values, 0, None))
        # einsum, not @: BLAS threads this product, and on a busy machine waits for its threads fifty times as long.
        self.last[name] = np.einsum("nj,ij->ni", self.rng.standard_normal((CHAINS, len(root))), root)
        return self.last[name]


class Setting(NamedTuple):
    """Everything a simulation needs beside the target."""

    eps: float
    T: float
    compensate: bool | None = None
    V: np.ndarray = V

    def gradient(self, q, step, noise):
        exact = (q - CENTRE) @ K
        return exact if self.compensate is None else exact + noise.draw(step, "gradient", self.V)


def position_euler(z, s, noise, steps, wrong):
    """Langevin with dense D and a skew Q on the position, by Euler."""
    push = DENSE + wrong.curl * SKEW
    injected = 2 * s.eps * s.T * DENSE * wrong.noise
    if s.compensate:
        injected = injected - wrong.reduction * s.eps**2 * push @ s.V @ push.T
    for step in range(steps):
        g = s.gradient(z, step, noise)
        z = z - s.eps * g @ push.T + noise.draw(step, "injected", injected)
    return z


def momentum_euler(z, s, noise, steps, wrong):
    """SGHMC with dense mass, friction and coupling, by Euler; both slots move from the old phase."""
    q, r = z[:, :2], z[:, 2:]
    coupling, inverse = wrong.curl * R, np.linalg.inv(MASS)
    injected = 2 * s.eps * s.T * FRICTION * wrong.noise
    if s.compensate:
        injected = injected - wrong.reduction * s.eps**2 * coupling @ s.V @ coupling.T
    for step in range(steps):
        velocity = r @ inverse
        g = s.gradient(q, step, noise)
        q = q + s.eps * wrong.one_sided * velocity @ coupling
        r = r - s.eps * g @ coupling.T - s.eps * wrong.friction * velocity @ FRICTION
        r = r + noise.draw(step, "injected", injected)
    return np.hstack([q, r])


def both_euler(z, s, noise, steps, wrong):
    """D on position and momentum both, so that B has blocks between the slots."""
    q, r = z[:, :2], z[:, 2:]
    coupling, inverse = wrong.curl * R, np.linalg.inv(MASS)
    injected = np.zeros((4, 4))
    injected[:2, :2], injected[2:, 2:] = 2 * s.eps * s.T * DENSE, 2 * s.eps * s.T * FRICTION
    injected *= wrong.noise
    if s.compensate:
        column = np.vstack([DENSE, coupling])
        injected -= wrong.reduction * s.eps**2 * column @ s.V @ column.T
    for step in range(steps):
        g, velocity = s.gradient(q, step, noise), r @ inverse
        w = noise.draw(step, "injected", injected)
        q = q - s.eps * g @ DENSE + s.eps * wrong.one_sided * velocity @ coupling + w[:, :2]
        r = r - s.eps * g @ coupling.T - s.eps * wrong.friction * velocity @ FRICTION + w[:, 2:]
    return np.hstack([q, r])


def splitting_aboba(z, s, noise, steps, wrong):
    q, r = z[:, :2], z[:, 2:]
    coupling, inverse = wrong.curl * R, np.linalg.inv(MASS)
    a = expm(-s.eps * wrong.friction * FRICTION @ inverse)
    fresh = wrong.noise * s.T * (MASS - a @ MASS @ a.T)
    if s.compensate:
        both = (np.eye(2) + a) @ coupling
        fresh = fresh - wrong.reduction * s.eps**2 / 4 * both @ s.V @ both.T
    for step in range(steps):
        q = q + s.eps / 2 * wrong.one_sided * (r @ inverse) @ coupling
        g = s.gradient(q, step, noise)
        r = r - s.eps / 2 * g @ coupling.T
        r = r @ a.T + noise.draw(step, "injected", fresh)
        r = r - s.eps / 2 * g @ coupling.T
        q = q + s.eps / 2 * wrong.one_sided * (r @ inverse) @ coupling
    return np.hstack([q, r])


def splitting_boa(z, s, noise, steps, wrong):
    q, r = z[:, :2], z[:, 2:]
    coupling, inverse = wrong.curl * R, np.linalg.inv(MASS)
    a = expm(-s.eps * wrong.friction * FRICTION @ inverse)
    fresh = wrong.noise * s.T * (MASS - a @ MASS @ a.T)
    if s.compensate:
        fresh = fresh - wrong.reduction * s.eps**2 * a @ coupling @ s.V @ coupling.T @ a.T
    for step in range(steps):
        r = r - s.eps * s.gradient(q, step, noise) @ coupling.T
        r = r @ a.T + noise.draw(step, "injected", fresh)
        q = q + s.eps * wrong.one_sided * (r @ inverse) @ coupling
    return np.hstack([q, r])


def oracle(simulation, s) -> LinearChain:
    common = dict(eps=s.eps, T=s.T, V=s.V, compensate=s.compensate)
    if simulation is position_euler:
        return euler(K, CENTRE, diffusion=(DENSE,), Q=SKEW, **common)
    if simulation is momentum_euler:
        return euler(K, CENTRE, diffusion=(0.0, FRICTION), Q=curl_of(R, 2, 2), M=MASS, **common)
    if simulation is both_euler:
        return euler(K, CENTRE, diffusion=(DENSE, FRICTION), Q=curl_of(R, 2, 2), M=MASS, **common)
    splitting = {splitting_aboba: aboba, splitting_boa: boa}[simulation]
    return splitting(K, CENTRE, diffusion=FRICTION, R=R, M=MASS, **common)


def stationary_draws(chain, seed):
    return np.random.default_rng(seed).multivariate_normal(chain.mean, chain.covariance, CHAINS, method="eigh")


SIMULATIONS = [
    pytest.param(position_euler, 0.4, 0.5, id="position_euler"),
    pytest.param(momentum_euler, 0.3, 1.0, id="momentum_euler"),
    pytest.param(both_euler, 0.4, 2.0, id="both_euler"),
    pytest.param(splitting_aboba, 0.6, 2.0, id="aboba"),
    pytest.param(splitting_boa, 0.5, 0.5, id="boa"),
]


@pytest.mark.parametrize("compensate", [None, False, True])
@pytest.mark.parametrize(("simulation", "eps", "T"), SIMULATIONS)
def test_chain_started_in_the_stationary_law_stays_there(simulation, eps, T, compensate):
    s = Setting(eps, T, compensate)
    chain = oracle(simulation, s)
    z = simulation(stationary_draws(chain, 1), s, Noise(2, reuse=False), 24, Wrong())
    assert max(deviation(z, chain)) < LIMIT


@pytest.mark.long
@pytest.mark.parametrize("compensate", [None, False, True])
@pytest.mark.parametrize(("simulation", "eps", "T"), SIMULATIONS)
def test_chain_started_elsewhere_has_the_law_of_each_time_and_ends_stationary(simulation, eps, T, compensate):
    s = Setting(eps, T, compensate)
    chain = oracle(simulation, s)
    start = Law(chain.mean + 2.0, 0.3 * np.eye(len(chain.mean)))
    z = np.random.default_rng(3).multivariate_normal(*start, CHAINS, method="eigh")
    z = simulation(z, s, Noise(4, reuse=False), 4, Wrong())
    assert max(deviation(z, chain.after(4, *start))) < LIMIT
    # What is left of the start is at most about radius^k: below a tenth of a standard error.
    rest = int(np.ceil(np.log(1e-4) / np.log(chain.radius)))
    z = simulation(z, s, Noise(5, reuse=False), rest, Wrong())
    assert max(deviation(z, chain)) < LIMIT


@pytest.mark.parametrize(("simulation", "eps", "T"), SIMULATIONS)
def test_compensation_restores_the_law_of_exact_gradients(simulation, eps, T):
    """As long as nothing is cut, which also shows that the settings above are in that regime."""
    exact, noisy, compensated = (oracle(simulation, Setting(eps, T, mode)) for mode in (None, False, True))
    np.testing.assert_allclose(compensated.noise, exact.noise, rtol=0, atol=1e-13)
    assert np.max(np.abs(noisy.noise - exact.noise)) > 0.01


def test_cut_noise_agrees_with_simulation():
    s = Setting(0.4, 0.5, True, V=np.array([[9.0, 1.0], [1.0, 0.3]]))
    push = DENSE + SKEW
    injected = 2 * s.eps * s.T * DENSE - s.eps**2 * push @ s.V @ push.T
    assert np.linalg.eigvalsh(injected)[0] < 0
    chain = oracle(position_euler, s)
    z = position_euler(stationary_draws(chain, 6), s, Noise(7, reuse=False), 24, Wrong())
    assert max(deviation(z, chain)) < LIMIT


EVERYWHERE = {
    "noise without the 2": Wrong(noise=0.5),
    "noise used in two successive steps": Wrong(reuse=True),
    "variance subtracted twice": Wrong(reduction=2.0),
    "half of the variance subtracted": Wrong(reduction=0.5),
    "no variance subtracted": Wrong(reduction=0.0),
}
OF_CURL = {"sign of Q": Wrong(curl=-1.0)}
OF_MOMENTUM = {"sign of one block of Q": Wrong(one_sided=-1.0), "sign of the friction": Wrong(friction=-1.0)}


def mutants():
    for case in SIMULATIONS:
        simulation, eps, T = case.values
        wrong = dict(EVERYWHERE)
        if simulation is not splitting_aboba:
            wrong |= OF_CURL
        if simulation is not position_euler:
            wrong |= OF_MOMENTUM
        if simulation in (splitting_aboba, splitting_boa):
            del wrong["sign of the friction"]  # then the friction's variance is negative: nothing to simulate
        for name, mutation in wrong.items():
            yield pytest.param(simulation, eps, T, mutation, id=f"{case.id}: {name}")


@pytest.mark.parametrize(("simulation", "eps", "T", "wrong"), list(mutants()))
def test_wrong_chain_is_noticed_even_when_started_in_the_stationary_law(simulation, eps, T, wrong):
    s = Setting(eps, T, True)
    chain = oracle(simulation, s)
    z = simulation(stationary_draws(chain, 8), s, Noise(9, wrong.reuse), 16, wrong)
    assert max(deviation(z, chain)) > 2 * LIMIT


def test_sign_of_q_under_aboba_shows_only_on_the_way():
    """-Q is Q after r -> -r, and ABOBA's stationary law is even in r: only the law of an early step can tell."""
    s = Setting(0.6, 2.0, True)
    chain, wrong = oracle(splitting_aboba, s), Wrong(curl=-1.0)
    z = splitting_aboba(stationary_draws(chain, 10), s, Noise(11, reuse=False), 16, wrong)
    assert max(deviation(z, chain)) < LIMIT
    start = Law(chain.mean + 2.0, 0.3 * np.eye(4))
    z = np.random.default_rng(12).multivariate_normal(*start, CHAINS, method="eigh")
    z = splitting_aboba(z, s, Noise(13, reuse=False), 4, wrong)
    assert max(deviation(z, chain.after(4, *start))) > 2 * LIMIT


@pytest.mark.parametrize("T", [0.5, 1.0, 2.0])
def test_scalar_langevin_closed_form(T):
    k, d, eps, v = 1.7, 0.6, 0.3, 2.5
    remembered = (1 - eps * d * k) ** 2
    exact = euler([[k]], [0.4], diffusion=(d,), eps=eps, T=T)
    noisy = euler([[k]], [0.4], diffusion=(d,), eps=eps, T=T, V=v, compensate=False)
    compensated = euler([[k]], [0.4], diffusion=(d,), eps=eps, T=T, V=v, compensate=True)
    assert exact.covariance[0, 0] == pytest.approx(T / (k * (1 - eps * d * k / 2)), rel=1e-11)
    assert noisy.covariance[0, 0] == pytest.approx((2 * eps * T * d + (eps * d) ** 2 * v) / (1 - remembered), rel=1e-11)
    assert compensated.covariance[0, 0] == pytest.approx(exact.covariance[0, 0], rel=1e-11)
    assert exact.mean[0] == pytest.approx(0.4, rel=1e-11)


def test_scalar_langevin_cut_leaves_the_gradient_noise_alone():
    k, d, eps, v = 1.7, 0.6, 0.3, 50.0
    chain = euler([[k]], [0.0], diffusion=(d,), eps=eps, V=v, compensate=True)
    assert chain.noise[0, 0] == pytest.approx((eps * d) ** 2 * v, rel=1e-11)


def test_scalar_splittings_closed_form():
    """By hand for M = R = 1 from the stationarity of q and r: P is the momentum's variance."""
    k, c, eps, T = 1.7, 0.6, 0.5, 2.0
    a = np.exp(-eps * c)
    symmetric = aboba([[k]], [0.0], diffusion=c, eps=eps, T=T).covariance
    P = T / (1 - eps**2 * k / 4)
    np.testing.assert_allclose(symmetric, [[T / k, 0.0], [0.0, P]], rtol=1e-12, atol=1e-13)
    kick_first = boa([[k]], [0.0], diffusion=c, eps=eps, T=T).covariance
    P = T / (1 - a * eps**2 * k / (2 * (1 + a)))
    expected = [[P * (1 + a) / (2 * a * k), eps * P / 2], [eps * P / 2, P]]
    np.testing.assert_allclose(kick_first, expected, rtol=1e-12)


@pytest.mark.parametrize("compensate", [None, True])
def test_aboba_has_the_exact_position_covariance_at_every_step(compensate):
    """Sigma_q = T K^-1, Sigma_qr = 0, Sigma_r^-1 = (M^-1 - (eps^2/4) M^-1 R K R^T M^-1) / T, matrices included."""
    eps, T, inverse = 0.6, 2.0, np.linalg.inv(MASS)
    sigma = aboba(K, CENTRE, diffusion=FRICTION, R=R, M=MASS, eps=eps, T=T, V=V, compensate=compensate).covariance
    momentum = T * np.linalg.inv(inverse - eps**2 / 4 * inverse @ R @ K @ R.T @ inverse)
    zero = np.zeros((2, 2))
    np.testing.assert_allclose(sigma, np.block([[T * np.linalg.inv(K), zero], [zero, momentum]]), rtol=0, atol=1e-12)


ORDERS = [
    pytest.param(position_euler, None, 1, id="position_euler"),
    pytest.param(momentum_euler, None, 1, id="momentum_euler"),
    pytest.param(splitting_aboba, None, 2, id="aboba"),
    pytest.param(splitting_aboba, True, 2, id="aboba compensated"),
    pytest.param(splitting_aboba, False, 1, id="aboba uncompensated"),
    pytest.param(splitting_boa, None, 1, id="boa"),
]


@pytest.mark.parametrize(("simulation", "compensate", "order"), ORDERS)
def test_bias_vanishes_with_the_stated_order(simulation, compensate, order):
    T = 2.0
    steps = 0.02 / 2.0 ** np.arange(4)
    truth = np.zeros((4, 4))
    truth[:2, :2], truth[2:, 2:] = T * np.linalg.inv(K), T * MASS
    biases = []
    for eps in steps:
        sigma = oracle(simulation, Setting(eps, T, compensate)).covariance
        biases.append(np.linalg.norm(sigma - truth[: len(sigma), : len(sigma)]))
    slope = np.polyfit(np.log(steps), np.log(biases), 1)[0]
    assert slope == pytest.approx(order, abs=0.05)
    assert biases[-1] < 0.05


def test_position_bias_of_boa_has_order_one():
    steps = 0.02 / 2.0 ** np.arange(4)
    truth = 2.0 * np.linalg.inv(K)
    biases = [np.linalg.norm(oracle(splitting_boa, Setting(e, 2.0)).covariance[:2, :2] - truth) for e in steps]
    assert np.polyfit(np.log(steps), np.log(biases), 1)[0] == pytest.approx(1, abs=0.05)


def test_law_after_k_steps_agrees_with_its_closed_form():
    chain = oracle(splitting_boa, Setting(0.5, 1.0, False))
    mean0, cov0 = np.array([3.0, -1.0, 0.5, 2.0]), np.diag([0.0, 1.0, 2.0, 0.5])
    power = np.linalg.matrix_power(chain.transition, 9)
    law = chain.after(9, mean0, cov0)
    np.testing.assert_allclose(law.mean, chain.mean + power @ (mean0 - chain.mean), atol=1e-13)
    left = power @ (cov0 - chain.covariance) @ power.T
    np.testing.assert_allclose(law.covariance, chain.covariance + left, atol=1e-13)
    np.testing.assert_array_equal(chain.covariance_after(9, cov0), chain.after(9, np.zeros(4), cov0).covariance)


def test_standard_errors_are_those_of_repeated_samples():
    cov = np.array([[2.0, 0.9], [0.9, 0.7]])
    draws = np.random.default_rng(14).multivariate_normal([0, 0], cov, (20_000, 30), method="eigh")
    centred = draws - draws.mean(axis=1, keepdims=True)
    covariances = np.einsum("ani,anj->aij", centred, centred) / 29
    # The relative error of a standard deviation over 20,000 repetitions is about 0.5 %, somewhat more with heavy tails.
    np.testing.assert_allclose(covariances.std(axis=0), standard_errors(cov, 30), rtol=0.03)


def test_deviation_counts_standard_errors_and_rejects_non_finite_draws():
    law = Law(np.zeros(2), np.eye(2))
    draws = np.random.default_rng(15).standard_normal((10_000, 2))
    assert max(deviation(draws, law)) < LIMIT
    shifted = deviation(draws + [0.1, 0.0], law)  # 0.1 is ten standard errors
    assert shifted.mean == pytest.approx(10, abs=LIMIT)
    assert deviation(draws * [1.1, 1.0], law).covariance > 10
    draws[17, 0] = np.nan
    assert deviation(draws, law) == (np.inf, np.inf)


def test_chain_without_a_stationary_law_is_refused():
    unstable = euler(K, CENTRE, diffusion=(DENSE,), eps=2.0)
    assert unstable.radius > 1
    with pytest.raises(ValueError, match="spectral radius"):
        _ = unstable.covariance
    with pytest.raises(ValueError, match="spectral radius"):
        _ = unstable.mean
    with pytest.raises(ValueError, match="spectral radius"):
        _ = euler(K, CENTRE, diffusion=(0.0, 0.0), Q=curl_of(1.0, 2, 2), M=1.0, eps=0.1).covariance
    assert np.all(np.isfinite(unstable.after(3, CENTRE, K).covariance))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(diffusion=(-1.0,)), "eigenvalue"),
        (dict(diffusion=(R,)), "not symmetric"),
        (dict(diffusion=(1.0, 1.0)), "one per slot"),
        (dict(diffusion=(1.0,), Q=K), "not skew"),
        (dict(diffusion=(1.0,), compensate=True), "without V"),
        (dict(diffusion=(np.eye(3),)), "shape"),
    ],
)
def test_bad_input_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        euler(K, CENTRE, eps=0.1, **arguments)
