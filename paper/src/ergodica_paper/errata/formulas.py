"""Printed formulas that are no samplers of their own, evaluated beside the right ones."""

from collections.abc import Callable, Sequence
from itertools import pairwise, product
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import gammaln

import ergodica as eg
from ergodica.compiling import quick_jit
from ergodica_paper.printed import HandwrittenSde, equations
from ergodica_paper.processes import Bowl, ConstantMatrix, Linear

# where U = theta^4 - 2 theta^2 is -1/2, and the law of the naive sampler with C = 1/2 has poles
CUSPS = tuple(sign * np.sqrt(1 + root) for sign in (-1, 1) for root in (-np.sqrt(0.5), np.sqrt(0.5)))


# -- naive SGRHMC with the metric of the synthetic experiments -----------------------------------------


def naive_sgrhmc(potential: Callable, offset: float) -> HandwrittenSde:
    """SGRHMC without Gamma, G^-1 = 1.5 sqrt|U + offset|."""

    def root(theta: Any) -> Any:
        return jnp.sqrt(1.5 * jnp.sqrt(jnp.abs(potential(theta) + offset))).reshape(1, 1)

    return equations.sgrhmc(f"{potential.__name__}, {offset}", potential, root, ((-3.0, 3.0), (-9.0, 9.0)))[2]


def divergence(sampled: Callable, potential: Callable, cusps: tuple[float, ...] = ()) -> float:
    """KL of the position's law under exp(-sampled(theta, r)) from exp(-potential), where r is independent of theta."""
    nodes, weights = graded(np.sort([-12.0, *cusps, 12.0]))
    with jax.enable_x64(True):
        theta = jnp.asarray(nodes)[:, None]
        p = -np.asarray(jax.vmap(potential)(theta))
        q = -np.asarray(jax.vmap(lambda x: sampled(jnp.append(x, 0.0)))(theta))
    p, q = (log - np.log(np.sum(weights * np.exp(log))) for log in (p, q))
    return float(np.sum(weights * np.exp(q) * (q - p)))


def graded(edges: np.ndarray, half: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights between the edges by the double exponential rule, which takes integrable poles at them."""
    t = np.linspace(-3.0, 3.0, 2 * half + 1)
    unit = np.tanh(np.pi / 2 * np.sinh(t))
    slope = 3.0 / half * np.pi / 2 * np.cosh(t) / np.cosh(np.pi / 2 * np.sinh(t)) ** 2
    pairs = list(pairwise(edges))
    nodes = [(low + high) / 2 + (high - low) / 2 * unit for low, high in pairs]
    return np.concatenate(nodes), np.concatenate([(high - low) / 2 * slope for low, high in pairs])


# -- the closed form of Q in two dimensions ------------------------------------------------------------


class LinearProcess(NamedTuple):
    """dz = A z dt + sqrt(2 D) dW in two dimensions, with the law N(0, S); Q = -A S - D."""

    drift: np.ndarray
    diffusion: np.ndarray
    covariance: np.ndarray

    @property
    def curl(self) -> np.ndarray:
        return -self.drift @ self.covariance - self.diffusion

    @property
    def edge(self) -> float:
        """Where the density has vanished."""
        return -10 * float(np.sqrt(self.covariance.diagonal().max()))


HMC = LinearProcess(np.array([[0.0, 1.0], [-1.0, 0.0]]), np.zeros((2, 2)), np.eye(2))  # on a standard Gaussian
# With noise in both directions: A S + S A^T + 2 D = 0.
NOISY = LinearProcess(
    np.array([[-1.0, 0.5], [-1.0, -0.5]]), np.array([[0.75, 0.375], [0.375, 1.5]]), np.array([[1.0, 0.5], [0.5, 2.0]])
)


def rebuilt_curl(process: LinearProcess, method: Any = "closed form") -> Any:
    """Q by `eg.rebuild_curl`, which is reported drift, D and H."""
    energy = Bowl(np.linalg.inv(process.covariance))
    return eg.rebuild_curl(Linear(process.drift), ConstantMatrix(process.diffusion), energy, method=method)


def integrals(process: LinearProcess, z: Sequence[float], row: int, low: float) -> tuple[float, float]:
    """The integrals of f_i p and of sum_j d_j(D_ij p), i = row, along the other coordinate from `low` to z, over p(z).

    Where p has vanished at `low`, their difference is Q_12 for the first row and Q_21 for the second.
    """
    precision, other, end = np.linalg.inv(process.covariance), 1 - row, np.asarray(z, float)

    def part(matrix: np.ndarray) -> float:
        def integrand(s: np.ndarray) -> np.ndarray:
            line = np.repeat(end[:, None], len(s), axis=1)
            line[other] = s
            heights = np.sum(line * (precision @ line), axis=0) - end @ precision @ end
            return (matrix[row] @ line) * np.exp(-heights / 2)

        return quadrature(integrand, low, end[other])

    return part(process.drift), part(-process.diffusion @ precision)


def printed_curl(process: LinearProcess, z: Sequence[float], row: int) -> float:
    """Q_12 by the printed closed form: its sign is the other one, and only the first integral is over p(z)."""
    drift, diffusion = integrals(process, z, row, process.edge)
    precision = np.linalg.inv(process.covariance)
    density = np.sqrt(np.linalg.det(precision)) / (2 * np.pi) * np.exp(-np.asarray(z) @ precision @ z / 2)
    q_21 = drift - density * diffusion if row == 0 else -drift + density * diffusion
    return float(-q_21)


def quadrature(function: Callable, low: float, high: float) -> float:
    nodes, weights = np.polynomial.legendre.leggauss(200)
    return float((high - low) / 2 * np.sum(weights * function((low + high) / 2 + (high - low) / 2 * nodes)))


# -- the remark after Theorem 2 ------------------------------------------------------------------------


def transform(k: float) -> float:
    """k / (2 pi i (k^2 + a^2)) over i, a = 1."""
    return -k / (2 * np.pi * (k**2 + 1))


def transform_of_g(k: float) -> float:
    """The same of g = +½ e^(-2 pi z), z > 0, by quadrature: g is odd, so it is -2 times the integral of g sin."""
    return -quadrature(lambda z: np.exp(-2 * np.pi * z) * np.sin(2 * np.pi * k * z), 0.0, 6.0)


# -- step sizes, friction, topics ----------------------------------------------------------------------

SCHEDULE = (0.01, 1000.0, 0.55)  # a, b, c: the defaults of Patterson and Teh's code


def printed_schedule(t: float) -> float:
    a, b, c = SCHEDULE
    return (a * (1 + t / b)) ** -c


def right_schedule(t: float) -> float:
    a, b, c = SCHEDULE
    return a * (1 + t / b) ** -c


def friction_law(theta: float, integrator: Any, step_size: float = 0.02) -> Any:
    """SGHMC with friction theta on a standard Gaussian; the step size is that of the LDA experiment."""
    return eg.exact_law(eg.sghmc(friction=theta), eg.gallery.gaussian(1), step_size, integrator)


def topic_weights(seed: int, topics: int = 4, words: int = 6, gamma: float = 0.1) -> tuple[np.ndarray, ...]:
    """P(topic of one token | the others) by Bayes' rule, by the printed weights, and by the right ones.

    One document with Dirichlet(gamma) topic shares, n_k tokens of it in topic k, and word x at the token in question:
    p(z = k) p(x | z = k) = (gamma + n_k) / (sum) * theta_kx / theta_k.
    """
    rng = np.random.default_rng([seed, 8])
    theta, counts, x = rng.gamma(0.7, size=(topics, words)), rng.integers(0, 8, topics), int(rng.integers(words))
    shares = (gamma + counts) / (topics * gamma + counts.sum())
    likelihood = theta / theta.sum(axis=1, keepdims=True)
    bayes = shares * likelihood[:, x]
    printed = (gamma + counts) * theta[:, x]
    right = (gamma + counts) * theta[:, x] / theta.sum(axis=1)
    return tuple(weights / weights.sum() for weights in (bayes, printed, right))


def lda_gradients(
    seed: int, topics: int = 3, words: int = 4, alpha: float = 0.3, gamma: float = 0.4
) -> tuple[Any, Any]:
    """Of log p(theta | x): by differentiation of the sum over all topics of all tokens, and by the printed formula.

    The printed one is averaged over all minibatches of one document, with the factor |S| / |S~|.
    """
    rng = np.random.default_rng([seed, 11])
    theta, documents = rng.gamma(1.5, size=(topics, words)), rng.integers(words, size=(2, 4))
    every = np.array(list(product(range(topics), repeat=documents.shape[1])))
    counts = np.array([np.bincount(z, minlength=topics) for z in every])
    prior = np.sum(gammaln(gamma + counts), axis=1)  # of the topics of the tokens, Dirichlet-multinomial

    def log_joint(theta: Any, x: np.ndarray) -> Any:
        return prior + jnp.sum(jnp.log((theta / theta.sum(axis=1, keepdims=True))[every, x]), axis=1)

    def log_posterior(theta: Any) -> tuple[Any, Any]:
        joint = [log_joint(theta, x) for x in documents]
        likelihood = sum(jax.nn.logsumexp(log) for log in joint)
        weights = [jax.nn.softmax(log) for log in joint]  # of all topics of all tokens, given the words
        return jnp.sum((alpha - 1) * jnp.log(theta) - theta) + likelihood, weights

    def expectation(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
        of_words = np.zeros(theta.shape)
        for z, weight in zip(every, weights, strict=True):
            np.add.at(of_words, (z, x), weight)
        return of_words / theta - (of_words.sum(axis=1) / theta.sum(axis=1))[:, None]

    with jax.enable_x64(True):
        right, weights = quick_jit(jax.grad(log_posterior, has_aux=True))(jnp.asarray(theta))
    expected = [expectation(x, np.asarray(w)) for x, w in zip(documents, weights, strict=True)]
    batches = [(alpha - 1) / theta - 1 + len(documents) * each for each in expected]
    return np.asarray(right), np.mean(batches, axis=0)
