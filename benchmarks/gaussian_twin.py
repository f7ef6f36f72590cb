"""What a chain on the logistic posterior should give: the law of the same discrete chain on its Gaussian twin.

The twin has the posterior's mode and curvature, and Gaussian gradient noise with the covariance V that the batches have
at the mode. SGLD on it is linear, and `eg.exact_law` has its law. SGNHT is not: its thermostat multiplies the momentum,
and at the step sizes used here it is still rising when a run ends (from friction A to A + eps V / 2, thirty times as
much, at a rate of about one in a unit of time; a run is 12). No stationary law would do, so the twin itself is run: in
NumPy and float64, step by step as each library documents its scheme, many chains for as long as the benchmark's.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import ergodica as eg
from benchmarks import logistic
from ergodica.verify.discrete.law import DiscreteLaw

CHAINS = 32  # of a twin that is run


class Moments(NamedTuple):
    """Means and log standard deviations of the position (dim,), and standard errors of each."""

    mean: np.ndarray
    mean_error: np.ndarray
    deviation: np.ndarray
    deviation_error: np.ndarray

    @classmethod
    def of_runs(cls, means: np.ndarray, deviations: np.ndarray) -> "Moments":
        """From those of each run, (runs, dim).

        Standard errors are pooled over the coordinates, which the data make alike: those of a few runs alone would be
        so uncertain that nothing could be far off in units of them.
        """

        def error(values: np.ndarray) -> np.ndarray:
            pooled = np.sqrt(np.mean(values.var(axis=0, ddof=1)) / len(values))
            return np.full(values.shape[1], pooled)

        return cls(means.mean(0), error(means), deviations.mean(0), error(deviations))

    @classmethod
    def of_draws(cls, draws: np.ndarray) -> "Moments":
        """From draws (runs, draws, dim)."""
        return cls.of_runs(draws.mean(1), np.log(draws.std(1)))

    def off(self, expected: "Moments") -> float:
        """The largest difference of a mean or a standard deviation, in standard errors."""
        means = (self.mean - expected.mean) / np.hypot(self.mean_error, expected.mean_error)
        deviations = (self.deviation - expected.deviation) / np.hypot(self.deviation_error, expected.deviation_error)
        return float(np.max(np.abs([means, deviations])))


class Twin(NamedTuple):
    """The mode, the curvature there, and the examples' gradients (N, dim) at it, less their mean."""

    mode: np.ndarray
    curvature: np.ndarray
    gradients: np.ndarray

    @classmethod
    def of(cls, rows: logistic.Data, mode: np.ndarray, covariance: np.ndarray) -> "Twin":
        x = np.asarray(rows.x, np.float64)
        gradients = (1 / (1 + np.exp(-x @ mode)) - rows.y)[:, None] * x
        return cls(mode, np.linalg.inv(covariance), gradients - gradients.mean(0))

    def gathered(self, batch: int) -> np.ndarray:
        """V of rows drawn with replacement: N^2 / n times the covariance of one."""
        return len(self.gradients) ** 2 / batch * np.cov(self.gradients.T, bias=True)

    def shuffled(self, batch: int) -> np.ndarray:
        """V of windows of a shuffled copy, on average over shuffles: each run has one of its own."""
        return self.gathered(batch) * (1 - batch / len(self.gradients))

    def windows(self, batch: int) -> np.ndarray:
        """V of windows of the rows as they stand, over all offsets: one order, the same in all runs."""
        n = len(self.gradients)
        sums = np.cumsum(
            np.concatenate([np.zeros((1, self.gradients.shape[1])), self.gradients, self.gradients[:batch]]), 0
        )
        return (n / batch) ** 2 * np.cov((sums[batch : batch + n] - sums[:n]).T, bias=True)

    def sgld(self, noise: np.ndarray, step_size: float) -> Moments:
        """Exact, by `eg.exact_law`."""
        dim = len(self.mode)
        target = eg.Density(lambda q: q @ (self.curvature @ q) / 2, init=np.zeros(dim))
        law = eg.exact_law(eg.sgld(), target, step_size, gradient_noise=noise, compensate=False)
        assert isinstance(law, DiscreteLaw)
        return Moments(self.mode, np.zeros(dim), np.log(np.diag(law.covariance)) / 2, np.zeros(dim))

    def sgnht(self, step: "Step", noise: np.ndarray, steps: int, seed: int = 0) -> Moments:
        """By running it from the mode; the first quarter is left out, as of the benchmark's runs."""
        rng, root = np.random.default_rng(seed), np.linalg.cholesky(noise).T
        shape = CHAINS, len(self.mode)

        def gradient(position: np.ndarray) -> np.ndarray:
            return position @ self.curvature + rng.standard_normal(shape) @ root

        position, momentum, thermostat = np.zeros(shape), rng.standard_normal(shape), None
        total, squares = np.zeros((2, *shape))
        for i in range(steps):
            normal = rng.standard_normal(shape)
            position, momentum, thermostat = step(position, momentum, thermostat, gradient, normal)
            if i >= steps // 4:
                total += position
                squares += position**2
        count = steps - steps // 4
        means = total / count
        return Moments.of_runs(self.mode + means, np.log(squares / count - means**2) / 2)


Step = Callable[..., tuple[np.ndarray, np.ndarray, np.ndarray]]


def splitting(friction: float, h: float) -> Step:
    """ABOBA with half steps of the thermostat about the friction: `eg.Splitting`."""
    decay = np.exp(-friction * h)

    def step(q, r, xi, gradient, normal):
        xi = np.full((len(q), 1), friction) if xi is None else xi
        kick = -h / 2 * gradient(q + h / 2 * r)
        q, r = q + h / 2 * r, r + kick
        xi = xi + h / 2 * (np.mean(r**2, axis=1, keepdims=True) - 1)
        r = np.exp(-h / 2 * (xi - friction)) * r
        r = decay * r + np.sqrt(1 - decay**2) * normal
        r = np.exp(-h / 2 * (xi - friction)) * r
        xi = xi + h / 2 * (np.mean(r**2, axis=1, keepdims=True) - 1)
        r = r + kick
        return q + h / 2 * r, r, xi

    return step


def euler(friction: float, h: float) -> Step:
    """Position, momentum, thermostat, one after the other, the gradient from the start: blackjax.sgmcmc.diffusions."""

    def step(q, r, xi, gradient, normal):
        xi = np.full((len(q), 1), friction) if xi is None else xi
        force = -gradient(q)
        q = q + h * r
        r = (1 - xi * h) * r + h * force + np.sqrt(2 * friction * h) * normal
        return q, r, xi + h * (np.mean(r**2, axis=1, keepdims=True) - 1)

    return step
