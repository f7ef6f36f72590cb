"""Noise that is held for several steps is found, with its period; momenta, trends and slow variables are not noise."""

import numpy as np
import pytest

from ergodica.verify.audit.chains import Rung
from ergodica.verify.audit.noise import PATH_STEPS, noise

CHAINS, DIM = 128, 2


class Recorded:
    """Chains that replay a path (steps, chains, dim), as its features."""

    def path(self, states, word, first, step_size, steps):
        return states[first : first + steps]


def found(path, finer=None):
    """What `noise` finds in positions at a step size, and at half of it."""
    rungs = [Rung(h, x, np.zeros(2), slice(0, DIM)) for h, x in ((0.2, path), (0.1, path if finer is None else finer))]
    return noise(Recorded(), *rungs, DIM)


def jumps(seed):
    return np.random.default_rng(seed).normal(size=(PATH_STEPS + 8, CHAINS, DIM))


def held(values, period):
    return values[np.arange(len(values)) // period * period]


def walk(steps, pull=0.1):
    """x <- (1 - pull) x + step."""
    x = [np.zeros((CHAINS, DIM))]
    for step in steps:
        x.append((1 - pull) * x[-1] + step)
    return np.stack(x[1:])


@pytest.mark.parametrize("period", [2, 3, 5, 10])
def test_a_key_or_batch_that_is_held_is_found_with_its_period(period):
    """Half of the noise is held, half is fresh."""
    result = found(walk(jumps(1) + held(jumps(2), period)))
    assert result.p_value < 1e-10
    assert result.period == period
    assert not result.is_redrawn


@pytest.mark.parametrize("seed", [3, 4, 5])
def test_fresh_noise_passes(seed):
    """False alarm 1e-4."""
    assert found(walk(jumps(seed))).p_value > 1e-4


def test_momentum_colored_noise_and_a_trend_pass():
    """Correlated at every lag, but not by the step number. False alarm 1e-4."""
    momentum = walk(jumps(6), pull=0.05)
    trend = np.linspace(1, 3, PATH_STEPS + 8)[:, None, None]
    assert found(walk(momentum), 0.5 * walk(momentum)).p_value > 1e-4
    assert found(walk(trend * jumps(7))).p_value > 1e-4


def test_a_momentum_that_is_drawn_anew_every_few_steps_is_not_an_error():
    velocity = held(jumps(8), 8) + 0.01 * walk(jumps(9), pull=0.0)
    result = found(np.cumsum(0.2 * velocity, axis=0), np.cumsum(0.1 * velocity, axis=0))
    assert result.is_second_order
    assert result.is_redrawn or result.p_value > 1e-4


def test_steps_of_different_sizes_in_turn_are_a_cycle():
    size = 0.2 + 0.8 * np.cos(np.pi * np.arange(PATH_STEPS + 8) / 10) ** 2
    x = [np.zeros((CHAINS, DIM))]
    for h, step in zip(0.2 * size, jumps(11), strict=True):
        x.append((1 - h) * x[-1] + np.sqrt(2 * h) * step)
    result = found(np.stack(x[1:]))
    assert result.p_value > 1e-4 or result.is_cycle
    flipped = walk(jumps(12))
    flipped[np.arange(len(flipped)) // 4 % 2 == 1] *= -1
    assert found(flipped).p_value < 1e-10
    assert found(flipped).is_cycle
    assert not found(walk(jumps(1) + held(jumps(2), 4))).is_cycle


def test_coordinates_that_move_in_turn_pass():
    """The products are exactly 0."""
    path = jumps(13)
    for n in range(1, len(path)):
        path[n, :, n % DIM] = path[n - 1, :, n % DIM]
    assert found(path).p_value == 1.0


def test_paths_that_leave_the_finite_numbers_are_not_judged():
    path = walk(jumps(10))
    path[100, 3] = np.nan
    assert found(path) is None
