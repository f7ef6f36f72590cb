"""Discrete steps that see the data by minibatches, right and wrong."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from .step import RuleFamily, UpdateRule, first, normal_like

ROWS, BATCH, HELD = 64, 4, 10


def rows(dim: int):
    """(ROWS, dim) numbers whose columns sum to zero: adding rows @ theta to U leaves the full-data potential U.

    The mean of a Gaussian has such a posterior: its likelihood is linear in the data but for a term without data.
    """
    drawn = np.random.default_rng(7).normal(scale=0.06, size=(ROWS, dim))
    return jnp.asarray(drawn - drawn.mean(axis=0))


def batch_potential(potential, position, batch):
    """U~ = U + (N/n) sum of the batch's rows times theta; its mean over batches is U."""
    return potential(position) + (ROWS / BATCH) * jnp.sum(batch @ position)


def draw_batch(key, position):
    index = jax.random.randint(key, (BATCH,), 0, ROWS)
    return rows(position.size).astype(position.dtype)[index]


def batched(potential, temperature):
    """SGLD with a fresh batch at every step."""

    def step(key, position, step_size):
        key_batch, key_noise = jax.random.split(key)
        force = jax.grad(batch_potential, argnums=1)(potential, position, draw_batch(key_batch, position))
        return position - step_size * force + jnp.sqrt(2.0 * temperature * step_size) * normal_like(key_noise, position)

    return step


def held(potential, temperature):
    """SGLD that keeps a batch for HELD steps: the state holds the position, the batch and its age."""

    def step(key, state, step_size):
        position, batch, age = state
        key_batch, key_noise = jax.random.split(key)
        batch = jnp.where(age % HELD == 0, draw_batch(key_batch, position), batch)
        force = jax.grad(batch_potential, argnums=1)(potential, position, batch)
        noise = jnp.sqrt(2.0 * temperature * step_size) * normal_like(key_noise, position)
        return position - step_size * force + noise, batch, age + 1

    return step


def with_batch(key, position):
    return position, draw_batch(key, position), jnp.asarray(0)


def metric(own):
    """build for SGRLD with D = d(U~): the metric from the gradient's own batch, or from another one."""

    def diffusion(potential, position, batch):
        return 1.2 + jnp.tanh(0.5 * (batch_potential(potential, position, batch) - 1.0))

    def build(potential, temperature):
        def step(key, position, step_size):
            key_batch, key_other, key_noise = jax.random.split(key, 3)
            batch = draw_batch(key_batch, position)
            other = batch if own else draw_batch(key_other, position)
            d, gamma = jax.value_and_grad(diffusion, argnums=1)(potential, position, other)
            force = d * jax.grad(batch_potential, argnums=1)(potential, position, batch)
            noise = jnp.sqrt(2.0 * temperature * step_size * d) * normal_like(key_noise, position)
            return position + step_size * (temperature * gamma - force) + noise

        return step

    return build


def batches() -> RuleFamily:
    right = UpdateRule("sgld_batch", batched, "SGLD with independent batches")
    source = f"mutation: a batch serves {HELD} steps"
    return right, right.but("sgld_batch_held", source, held, init=with_batch, read=first)


def metrics() -> RuleFamily:
    right = UpdateRule("independent_batch_step", metric(own=False), "metric from a batch independent of the gradient's")
    return right, right.but("own_batch_step", "supplement: G defined through the minibatch potential", metric(own=True))


STEPS: list[RuleFamily] = [batches(), metrics()]
