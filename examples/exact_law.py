"""Choose a step size without a run: the exact bias of SGHMC on a linear regression, for several batch sizes.

With a path, as in `python examples/exact_law.py bias.png`, it draws a picture as well.
"""

import sys

import jax.numpy as jnp
import numpy as np

import ergodica as eg

rng = np.random.default_rng(0)
x = rng.normal(size=(5_000, 3))
y = x @ [1.0, -0.5, 0.25] + rng.normal(size=5_000)


def log_prior(weights):
    return -0.5 * jnp.sum(weights**2)


def log_likelihood(weights, batch):
    return -0.5 * (batch["y"] - batch["x"] @ weights) ** 2


target = eg.Posterior(log_prior, log_likelihood, data={"x": x, "y": y}, init=np.zeros(3))
recipe = eg.sghmc(friction=100.0)
steps = [0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03]

laws = eg.exact_law(recipe, target, steps, batch_size=[None, 2_000, 500, 100])
print(laws)
print("\nthe same with the noise of the batches compensated")
print(eg.exact_law(recipe, target, steps, batch_size=[2_000, 500, 100], compensate=True))
if len(sys.argv) > 1:
    laws.plot(sys.argv[1])
