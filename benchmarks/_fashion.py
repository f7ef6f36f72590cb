"""Fashion-MNIST by a network of 478,410 numbers: one optimised network, an ensemble, and a posterior's predictions, with
equal gradient evaluations. Used by networks.py; data from Debian's package dataset-fashion-mnist.
"""

import gzip
import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

import ergodica as eg

FOLDER = Path("/usr/share/datasets/fashion-mnist")
SIZES = (784, 400, 400, 10)
BATCH, GRADIENTS = 100, 12_000  # 20 epochs of 60,000 rows, for each method and seed
HELD_OUT = 10_000  # rows of the training set on which settings are chosen
BINS = 15
UNIT = 80.0  # of pixels, about their sd


class Rows(NamedTuple):
    x: np.ndarray
    y: np.ndarray


class Sampling(NamedTuple):
    """Settings of the posterior's run; all numbers of `GRADIENTS` are shared by the chains."""

    chains: int = 4
    optimised: float = 0.5  # part of a chain's gradients
    settle: float = 0.1
    rate: float = 1e-3  # of Adam
    is_decaying: bool = True  # it, to nothing
    step: float = 1e-3
    friction: float = 100.0
    width: float = 1.0  # of the prior, times fan-in^-1/2
    temperature: float = 1.0


class Found(NamedTuple):
    """Of one method and seed."""

    log_likelihood: float
    calibration: float
    accuracy: float
    seconds: float
    temperature: float = float("nan")
    r_hat: float = float("nan")


def _array(name: str, header: int) -> np.ndarray:
    with gzip.open(FOLDER / f"{name}.gz") as file:
        return np.frombuffer(file.read(), np.uint8, offset=header)


def data() -> tuple[Rows, Rows]:
    """Training and test rows, less the mean image: what all rows share is the stiffest direction of a network."""
    images = {part: _array(f"{part}-images-idx3-ubyte", 16).reshape(-1, 784) for part in ("train", "t10k")}
    mean = images["train"].mean(0)
    train, test = (
        Rows(((x - mean) / UNIT).astype(np.float32), _array(f"{part}-labels-idx1-ubyte", 8).astype(np.int32))
        for part, x in images.items()
    )
    return train, test


def network(key: Any, sizes: tuple[int, ...] = SIZES) -> list[dict[str, jax.Array]]:
    """Weights and biases of each layer, random."""
    pairs = zip(jax.random.split(key, len(sizes) - 1), sizes[:-1], sizes[1:], strict=True)
    return [{"w": jax.random.normal(k, (n, m)) * np.sqrt(2 / n), "b": jnp.zeros(m)} for k, n, m in pairs]


def logits(layers: list[dict[str, jax.Array]], x: jax.Array) -> jax.Array:
    for layer in layers[:-1]:
        x = jax.nn.relu(x @ layer["w"] + layer["b"])
    return x @ layers[-1]["w"] + layers[-1]["b"]


def log_likelihood(layers: Any, rows: Rows) -> jax.Array:
    return -optax.softmax_cross_entropy_with_integer_labels(logits(layers, rows.x), rows.y)


def probabilities(layers: Any, x: jax.Array) -> jax.Array:
    return jax.nn.softmax(logits(layers, x))


def log_prior(width: float, layers: Any) -> jax.Array:
    """Of every number Student's t with 2 degrees of freedom, of scale width / sqrt(fan-in), for biases 1: most weights of
    such a network are small and some are not."""
    total = jnp.zeros(())
    for layer in layers:
        scales = {"w": width / np.sqrt(len(layer["w"])), "b": 1.0}
        total -= 1.5 * sum(jnp.sum(jnp.log1p(layer[name] ** 2 / (2 * scale**2))) for name, scale in scales.items())
    return total


def judged(p: np.ndarray, y: np.ndarray, seconds: float, *more: float) -> Found:
    """Mean log likelihood, expected calibration error (15 bins of equal width) and accuracy of probabilities."""
    sure, is_right = p.max(1), p.argmax(1) == y
    place = np.minimum((sure * BINS).astype(int), BINS - 1)
    error = sum(abs(np.sum(sure[place == k] - is_right[place == k])) for k in range(BINS)) / len(y)
    score = float(np.mean(np.log(np.maximum(p[np.arange(len(y)), y], 1e-30))))
    return Found(score, float(error), float(np.mean(is_right)), seconds, *more)


# -- optimised networks ----------------------------------------------------------------------------------


@partial(jax.jit, static_argnums=(0, 1))
def _fitted(steps: int, is_decaying: bool, rate: float, key: Any, rows: Rows) -> Any:
    schedule = optax.cosine_decay_schedule(rate, steps) if is_decaying else rate
    optimiser = optax.adam(schedule)
    layers = network(key)
    epoch = len(rows.x) // BATCH

    def loss(layers: Any, batch: Rows) -> jax.Array:
        return -jnp.mean(log_likelihood(layers, batch))

    def one(i: jax.Array, carry: Any) -> Any:
        layers, state, order = carry
        order = jax.lax.cond(
            i % epoch == 0, lambda: jax.random.permutation(jax.random.fold_in(key, i), len(rows.x)), lambda: order
        )
        at = jax.lax.dynamic_slice_in_dim(order, (i % epoch) * BATCH, BATCH)
        gradient = jax.grad(loss)(layers, jax.tree.map(lambda leaf: leaf[at], rows))
        updates, state = optimiser.update(gradient, state)
        return optax.apply_updates(layers, updates), state, order

    return jax.lax.fori_loop(0, steps, one, (layers, optimiser.init(layers), jnp.arange(len(rows.x))))[0]


def adam(train: Rows, test: Rows, seed: int, count: int, rate: float, is_decaying: bool) -> Found:
    """The averaged probabilities of `count` networks, which share the gradients."""
    begin, p = time.perf_counter(), 0.0
    on_device = jax.tree.map(jnp.asarray, train)
    for member in range(count):
        key = jax.random.key(1_000 * seed + member)
        layers = _fitted(GRADIENTS // count, is_decaying, rate, key, on_device)
        p = p + np.asarray(jax.jit(probabilities)(layers, test.x), np.float64) / count
    return judged(np.asarray(p), test.y, time.perf_counter() - begin)


# -- a posterior's predictions ---------------------------------------------------------------------------


def posterior(train: Rows, test: Rows, seed: int, settings: Sampling, thin: int = 50) -> Found:
    """Predictions averaged over the draws of chains that begin at optimised networks."""
    begin = time.perf_counter()
    each = GRADIENTS // settings.chains
    optimised, settle = int(each * settings.optimised), int(each * settings.settle)
    rate = optax.cosine_decay_schedule(settings.rate, optimised) if settings.is_decaying else settings.rate
    target = eg.Posterior(partial(log_prior, settings.width), log_likelihood, train, init=network(jax.random.key(0)))
    run = eg.sample(
        target,
        eg.preconditioned(eg.sghmc(friction=settings.friction)),
        network,
        steps=each - optimised - settle,
        step_size=settings.step,
        batch_size=BATCH,
        chains=settings.chains,
        seed=seed,
        temperature=settings.temperature,
        warmup=eg.Optimise(optax.adam(rate), steps=optimised, settle=settle),
        thin=thin,
        keep={"test": eg.mean(probabilities, test.x)},
        progress=False,
    )
    kept = run.kept["test"]
    heat = float(np.mean(run.stats["kinetic_temperature"]))
    r_hat = float(np.nanmedian(kept.r_hat))
    return judged(kept.mean, test.y, time.perf_counter() - begin, heat / settings.temperature, r_hat)
