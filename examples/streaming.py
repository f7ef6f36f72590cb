"""Sample data that stay on disk, be interrupted, and go on to the same bytes."""

import os
import shutil
import signal
import tempfile
import threading
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import ergodica as eg

folder = Path(tempfile.mkdtemp())
rng = np.random.default_rng(0)
x = rng.normal(size=(200_000, 8)).astype(np.float32)
y = (rng.uniform(size=200_000) < 1 / (1 + np.exp(-x @ np.linspace(-1, 1, 8)))).astype(np.float32)
np.save(folder / "x.npy", x)
np.save(folder / "y.npy", y)


def log_prior(weights):
    return -0.5 * jnp.sum(weights**2)


def log_likelihood(weights, batch):
    logits = batch["x"] @ weights
    return batch["y"] * logits - jax.nn.softplus(logits)


data = eg.data.npy({"x": folder / "x.npy", "y": folder / "y.npy"})  # nothing is read yet, and never all at once
target = eg.Posterior(log_prior, log_likelihood, data, init=np.zeros(8, np.float32))


def sample(out, resume=False):
    return eg.sample(
        target,
        eg.sghmc(friction=300.0),
        steps=10_000,
        warmup=1_000,
        thin=10,
        step_size=eg.polynomial(3e-4, 10_000, 0.33),
        batch_size=500,
        estimator=eg.ControlVariates(),  # finds a mode first; plain batches of 500 would widen the law here
        chains=2,
        out=folder / out,
        resume=resume,
    )


def press_ctrl_c():
    """As somebody may who wants the machine for something else: once there are some draws."""
    draws = folder / "run.nc.part" / "posterior.position.bin"
    while not (draws.exists() and draws.stat().st_size > 1_000):
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)


threading.Thread(target=press_ctrl_c, daemon=True).start()
try:
    sample("run.nc")
except KeyboardInterrupt:
    so_far = eg.load(folder / "run.nc")
    print(f"interrupted; {so_far.posterior.shape[1]} draws of each chain are on disk")

run = sample("run.nc", resume=True)
unbroken = sample("unbroken.nc")
print("same bytes as an unbroken run:", run.posterior.tobytes() == unbroken.posterior.tobytes())
print("mean", run.posterior.mean(axis=(0, 1)).round(2))
print("sd  ", run.posterior.std(axis=(0, 1)).round(4))
shutil.rmtree(folder)
