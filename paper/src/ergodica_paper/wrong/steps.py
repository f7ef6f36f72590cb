"""Discrete steps without momentum, right and with the slips that people make in them: SGLD and SGRLD."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from .step import RuleFamily, UpdateRule, first, leading, normal_like

FIVE_PERCENT = 1.05


def langevin(noise=lambda temperature, step_size, dim: jnp.sqrt(2.0 * temperature * step_size), drift=1.0, spread=1.0):
    """build for theta - h grad U + noise(T, h, d) xi; the first coordinate's drift and noise times a factor."""

    def build(potential, temperature):
        def step(key, position, step_size):
            force = leading(position, drift) * jax.grad(potential)(position)
            scale = noise(temperature, step_size, position.size) * leading(position, spread)
            return position - step_size * force + scale * normal_like(key, position)

        return step

    return build


def shifted(potential, temperature, shift=0.1):
    """SGLD whose drift has a constant too much."""
    step = langevin()(potential, temperature)
    return lambda key, position, step_size: step(key, position, step_size) + step_size * shift


def key_ignored(potential, temperature):
    step = langevin()(potential, temperature)
    return lambda key, position, step_size: step(jax.random.key(0), position, step_size)


def one_noise(potential, temperature):
    """One normal number for all coordinates: each has the right variance, and they are not independent."""

    def step(key, position, step_size):
        noise = jnp.full_like(position, jax.random.normal(key, (), position.dtype))
        return position - step_size * jax.grad(potential)(position) + jnp.sqrt(2.0 * temperature * step_size) * noise

    return step


def key_twice(potential, temperature):
    """Every other step uses the noise of the step before: the state holds the position, a noise, and a parity."""

    def step(key, state, step_size):
        position, held, odd = state
        noise = jnp.where(odd, held, normal_like(key, position))
        force = jax.grad(potential)(position)
        return position - step_size * force + jnp.sqrt(2.0 * temperature * step_size) * noise, noise, ~odd

    return step


def with_noise(key, position):
    return position, normal_like(key, position), jnp.asarray(False)


def numpy_langevin(noise):
    """SGLD in plain NumPy on the standard Gaussian, whose gradient is the position; its key is a Generator."""

    def build(potential, temperature):
        def step(key, position, step_size):
            return position - step_size * position + noise(temperature, step_size) * key.standard_normal(position.shape)

        return step

    return build


def sgld() -> RuleFamily:
    right = UpdateRule("sgld_step", langevin(), "Welling and Teh 2011; Eq. SGLD with D = 1")
    noise = "mutation: noise "
    return (
        right,
        right.but("sgld_step_noise_without_two", noise + "sqrt(h)", langevin(lambda t, h, d: jnp.sqrt(t * h))),
        right.but("sgld_step_noise_is_step", noise + "of scale h", langevin(lambda t, h, d: h * jnp.sqrt(t))),
        right.but(
            "sgld_step_temperature_ignored",
            noise + "sqrt(2 h) at every temperature",
            langevin(lambda t, h, d: jnp.sqrt(2.0 * h)),
            temperature=0.5,
        ),
        right.but(
            "sgld_step_temperature_squared",
            noise + "T sqrt(2 h)",
            langevin(lambda t, h, d: t * jnp.sqrt(2.0 * h)),
            temperature=0.5,
        ),
        right.but(
            "sgld_step_temperature_is_dimension",
            noise + "sqrt(2 h T d)",
            langevin(lambda t, h, d: jnp.sqrt(2.0 * h * t * d)),
        ),
        right.but("sgld_step_drift_off", "mutation: one coordinate's drift 5 % off", langevin(drift=FIVE_PERCENT)),
        right.but(
            "sgld_step_variance_off",
            "mutation: one coordinate's variance 5 % off",
            langevin(spread=FIVE_PERCENT**0.5),
        ),
        right.but(
            "sgld_step_temperature_off",
            "mutation: temperature 5 % off",
            langevin(lambda t, h, d: jnp.sqrt(2.0 * FIVE_PERCENT * t * h)),
        ),
        right.but("sgld_step_shifted", "mutation: drift off by 0.1", shifted, effort=0.3),
        right.but("sgld_step_bent", "mutation: drift + 0.15 (x2^2 - 1) in x1", bent, effort=0.6),
        right.but("sgld_step_one_noise", "mutation: one normal number for all coordinates", one_noise),
        right.but("sgld_step_key_ignored", "mutation: the same key at every step", key_ignored),
        right.but("sgld_step_key_twice", "mutation: a key serves two steps", key_twice, init=with_noise, read=first),
    )


def numpy_sgld() -> RuleFamily:
    right = UpdateRule("sgld_numpy", numpy_langevin(lambda t, h: np.sqrt(2.0 * t * h)), "SGLD in NumPy", numpy=True)
    half = numpy_langevin(lambda t, h: np.sqrt(t * h))
    return right, right.but("sgld_numpy_without_two", "mutation: noise sqrt(h)", half)


def resampled(draw):
    """build for coordinates that are redrawn at rate 1, each for itself: samples the law of `draw` exactly."""

    def build(potential, temperature):
        def step(key, position, step_size):
            key_when, key_draw = jax.random.split(key)
            is_drawn = jax.random.uniform(key_when, position.shape) < -jnp.expm1(-step_size)
            return jnp.where(is_drawn, draw(key_draw, position).astype(position.dtype), position)

        return step

    return build


def bent(potential, temperature):
    """SGLD whose first coordinate is pushed by the square of the second: mean and covariance stay as they are, but for
    0.5 % of a variance."""
    step = langevin()(potential, temperature)

    def pushed(key, position, step_size):
        push = jnp.zeros_like(position).at[0].set(0.15 * (position[1] ** 2 - 1))
        return step(key, position, step_size) + step_size * push

    return pushed


def shapes() -> RuleFamily:
    """Wrong laws with the mean and the covariance of the right one."""
    right = UpdateRule("resampled_step", resampled(normal_like), "coordinates redrawn at rate 1")
    exponential = resampled(lambda key, x: jax.random.exponential(key, x.shape) - 1)
    gamma = resampled(lambda key, x: (jax.random.gamma(key, 4.0, x.shape) - 4) / 2)
    return (
        right,
        right.but("resampled_step_exponential", "mutation: exponential, of mean 0 and variance 1", exponential),
        right.but("resampled_step_gamma", "mutation: a Gamma law of mean 0 and variance 1", gamma),
    )


def dense_diffusion(position):
    """A positive definite D(theta) with positive entries, each a function of two coordinates or more; any dimension."""
    slope = 0.5 * (-1.0) ** jnp.arange(position.size, dtype=position.dtype)
    weights = 0.8 + slope * jnp.tanh(position)
    return jnp.outer(weights, weights) + jnp.diag(0.5 + 0.3 * jnp.tanh(jnp.roll(position, 1)))


def riemannian(correction=lambda jacobian: jnp.einsum("ijj->i", jacobian), root: Callable = jnp.linalg.cholesky):
    """build for theta + h [-D grad U + T Gamma] + sqrt(2 T h) root(D) xi."""

    def build(potential, temperature):
        def step(key, position, step_size):
            diffusion, gamma = dense_diffusion(position), correction(jax.jacfwd(dense_diffusion)(position))
            drift = -diffusion @ jax.grad(potential)(position) + temperature * gamma
            noise = root(diffusion) @ normal_like(key, position)
            return position + step_size * drift + jnp.sqrt(2.0 * temperature * step_size) * noise

        return step

    return build


def sgrld() -> RuleFamily:
    right = UpdateRule("sgrld_step", riemannian(), "Eq. SGRLD with -Gamma, D dense and not separable", effort=0.1)
    gamma = "mutation: Gamma "
    return (
        right,
        # D is symmetric, so the index to get wrong is the one of the derivative: a sum of d_i D_ij, not of d_j D_ij.
        right.but("sgrld_step_gamma_index", gamma + "is sum_j d_i D_ij", riemannian(lambda j: jnp.einsum("iji->i", j))),
        right.but("sgrld_step_gamma_dropped", gamma + "dropped", riemannian(lambda j: jnp.zeros_like(j[0, 0]))),
        right.but(
            "sgrld_step_printed", "Eq. SGRLD: +Gamma inside -eps [...]", riemannian(lambda j: -jnp.einsum("ijj->i", j))
        ),
        right.but(
            "sgrld_step_elementwise_root",
            "mutation: noise through the element-wise root of D",
            riemannian(root=jnp.sqrt),
        ),
    )


STEPS: list[RuleFamily] = [sgld(), numpy_sgld(), sgrld(), shapes()]
