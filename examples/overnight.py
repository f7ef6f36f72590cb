"""Leave a run to itself: draws go to disk as they come, a stopped run goes on, and ArviZ reads what it leaves."""

import os
import tempfile

import arviz as az
import jax
import jax.numpy as jnp
import numpy as np

import ergodica as eg

os.chdir(tempfile.mkdtemp())
rng = np.random.default_rng(0)
x = rng.normal(size=(20_000, 5)).astype(np.float32)
y = (rng.uniform(size=20_000) < 1 / (1 + np.exp(-x @ [1.0, -0.5, 0.25, 0.0, 2.0]))).astype(np.float32)


def log_prior(weights):
    return -0.5 * jnp.sum(weights**2)


def log_likelihood(weights, batch):
    logits = batch["x"] @ weights
    return batch["y"] * logits - jax.nn.softplus(logits)


target = eg.Posterior(log_prior, log_likelihood, data={"x": x, "y": y}, init=np.zeros(5, np.float32))
run = eg.sample(target, out="run.nc", resume=True)
print(run.diagnose())
print(az.summary(az.from_netcdf("run.nc")))
