"""Chains with a known law, right and wrong ones: standard normals with autocorrelation a."""

from types import SimpleNamespace

import numpy as np


def autoregressive(chains=4, draws=2000, size=3, a=0.5, seed=0, mean=0.0, sd=1.0):
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(chains, draws, size))
    x = np.empty_like(noise)
    x[:, 0] = noise[:, 0]
    for t in range(1, draws):
        x[:, t] = a * x[:, t - 1] + np.sqrt(1 - a**2) * noise[:, t]
    return mean + sd * x


def statistics(chains=4, draws=2000, temperature=1.0, accepted=1.0, step_size=0.1):
    rng = np.random.default_rng(3)
    return {
        "diverging": np.zeros((chains, draws), bool),
        "kinetic_temperature": temperature * rng.chisquare(10, size=(chains, draws)) / 10,
        "accepted": rng.random((chains, draws)) < accepted,
        "step_size": np.full((chains, draws), step_size),
    }


def a_run(draws, stats, settings=None, moments=None):
    return SimpleNamespace(posterior=draws, stats=stats, settings=settings or {}, moments=moments)


SETTINGS = {
    "recipe": "sghmc", "integrator": "Splitting", "temperature": 1.0, "batch_size": 100, "friction": 1.0,
    "starts": "dispersed",
}  # fmt: skip
