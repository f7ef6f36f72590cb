"""Sample a Bayesian logistic regression: the posterior of 5 weights given 20,000 rows, without a setting; then with."""

import jax
import jax.numpy as jnp
import numpy as np

import ergodica as eg

rng = np.random.default_rng(0)
x = rng.normal(size=(20_000, 5)).astype(np.float32)
y = (rng.uniform(size=20_000) < 1 / (1 + np.exp(-x @ [1.0, -0.5, 0.25, 0.0, 2.0]))).astype(np.float32)


def log_prior(weights):
    return -0.5 * jnp.sum(weights**2)


def log_likelihood(weights, batch):  # one number for each row
    logits = batch["x"] @ weights
    return batch["y"] * logits - jax.nn.softplus(logits)


target = eg.Posterior(log_prior, log_likelihood, data={"x": x, "y": y}, init=np.zeros(5, np.float32))
run = eg.sample(target)
print(run)

print("mean", run.posterior.mean(axis=(0, 1)).round(3))
print("sd  ", run.posterior.std(axis=(0, 1)).round(3))

# the same with settings of your own, and a check of the step
settings = dict(steps=20_000, warmup=1_000, step_size=5e-3, batch_size=500, estimator=eg.ControlVariates())
run = eg.sample(target, eg.sghmc(friction=50.0), **settings)
print(run.halve().diagnose())

print("mean", run.posterior.mean(axis=(0, 1)).round(3))
print("sd  ", run.posterior.std(axis=(0, 1)).round(3))
