"""Printed formulas that are no samplers of their own, evaluated beside the right ones."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import ergodica as eg
from ergodica.paper.printed import Sde, equations

# where U = theta^4 - 2 theta^2 is -1/2, and the law of the naive sampler with C = 1/2 has poles
CUSPS = tuple(sign * np.sqrt(1 + root) for sign in (-1, 1) for root in (-np.sqrt(0.5), np.sqrt(0.5)))


# -- naive SGRHMC with the metric of the synthetic experiments -----------------------------------------


def naive_sgrhmc(potential: Callable, offset: float) -> Sde:
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


def hmc_curl(method: Any) -> Any:
    """Q of HMC on a standard Gaussian by `eg.rebuild_curl`: the paper has Q_12 = -1."""
    hmc = (lambda z: jnp.stack([z[1], -z[0]]), lambda z: jnp.zeros((2, 2), z.dtype), lambda z: z @ z / 2)
    return eg.rebuild_curl(*hmc, method=method)


def closed_form_integral(low: float, r: float) -> float:
    """p^-1 times the integral of f_1 p from `low` to r for HMC on a Gaussian: f_1 = s, p = exp(-s^2/2)."""
    return quadrature(lambda s: s * np.exp((r**2 - s**2) / 2), low, r)


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


def friction_law(theta: float, integrator: Any) -> Any:
    """SGHMC with friction theta on a standard Gaussian at the step size of the LDA experiment."""
    return eg.exact_law(eg.sghmc(friction=theta), eg.gallery.gaussian(1), 0.02, integrator)


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
