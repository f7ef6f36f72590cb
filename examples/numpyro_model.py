"""A NumPyro model on 20,000 rows: sampled in minibatches without settings, and predictions with their uncertainty."""

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist

import ergodica as eg
from ergodica.interop import numpyro as bridge

rng = np.random.default_rng(0)
x = rng.normal(size=(20_000, 5)).astype(np.float32)
y = (rng.uniform(size=20_000) < 1 / (1 + np.exp(-x @ [1.0, -0.5, 0.25, 0.0, 2.0]))).astype(np.float32)


def model(x, y):
    weights = numpyro.sample("weights", dist.Normal(0, 1).expand([5]).to_event(1))
    with numpyro.plate("rows", len(x)):
        numpyro.sample("y", dist.Bernoulli(logits=x @ weights), obs=y)


target = bridge.target(model, x=x, y=y, rows=("x", "y"))  # minibatches of these
run = eg.sample(target)
chances = run.predict(lambda sites, rows: jax.nn.sigmoid(rows @ sites["weights"]), x[:1_000], reduce=[0.05, 0.5, 0.95])

print(run)
for low, middle, high in chances[:, :3].T:
    print(f"chance of a 1: {middle:.3f}, between {low:.3f} and {high:.3f} with 90 % probability")
