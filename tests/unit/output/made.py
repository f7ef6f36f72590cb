"""Draws with a known answer, to be written and read."""

import numpy as np

from ergodica.output.labelled import Moments


def posterior(chains=2, draws=30):
    rng = np.random.default_rng(1)
    return {
        "layer": {"w": rng.normal(size=(chains, draws, 3, 2)).astype(np.float32), "b": rng.normal(size=(chains, draws))}
    }


def stats(chains=2, draws=30):
    rng = np.random.default_rng(2)
    diverging = np.zeros((chains, draws), bool)
    diverging[1, -3:] = True
    steps = np.broadcast_to(np.full(draws, 0.1), (chains, draws))
    return {"diverging": diverging, "potential": rng.normal(size=(chains, draws)), "step_size": steps}


def settings():
    return {
        "recipe": "sghmc",
        "steps": 30,
        "batch_size": None,
        "share_batches": True,
        "temperature": 1.0,
        "seed": 2**63 + 5,  # more than an attribute's whole number holds
        "versions": {"ergodica": "0.1.0", "jax": "0.10.2"},
        "note": "x" * 100_000,  # more than HDF5's 64 kB for attributes of fixed length
        "empty": "",
    }


def moments():
    mean = {"w": np.arange(6.0).reshape(2, 3)}
    return Moments(np.array([30, 29]), mean, {"w": mean["w"] + 1})
