"""Step sizes: the schedules, and that a run sees the same bits however long it is."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import ergodica as eg
from ergodica.driver import cyclical, polynomial
from ergodica.driver.schedules import BLOCK_STEPS, StepSizes


def test_polynomial_and_cyclical_sizes():
    t = np.array([0, 5, 50, 4000])
    np.testing.assert_allclose([float(polynomial(0.1, 10, 0.55)(x)) for x in t], 0.1 * (1 + t / 10) ** -0.55)
    sizes = np.array([float(cyclical(0.5, period=10, smallest=0.1)(x)) for x in range(25)])
    assert sizes[0] == sizes[10] == sizes[20] == 0.5
    assert (np.diff(sizes[:10]) < 0).all()
    assert sizes.min() > 0.1
    assert float(cyclical(0.5, period=10)(9)) > 0.005


@pytest.mark.parametrize(
    "wrong",
    [lambda: polynomial(0, 1, 1), lambda: polynomial(1, 1, -1), lambda: cyclical(0.1, 1), lambda: cyclical(0.1, 9, 1)],
)
def test_bad_schedules(wrong):
    with pytest.raises(eg.InputError):
        wrong()


@pytest.mark.parametrize(
    "schedule",
    [polynomial(0.1, 10, 0.55), optax.exponential_decay(0.1, 1000, 0.9), lambda t: 0.1 / (1 + t) ** 0.3, 0.25],
)
def test_sizes_do_not_depend_on_how_they_are_asked_for(schedule):
    short, longer = StepSizes(schedule, 100), StepSizes(schedule, 2 * BLOCK_STEPS)
    np.testing.assert_array_equal(short.between(3, 100), longer.between(0, BLOCK_STEPS + 5)[3:100])
    assert short.digest(100) == longer.digest(100)
    whole = longer.between(0, BLOCK_STEPS + 5)
    np.testing.assert_array_equal(whole[BLOCK_STEPS - 2 :], longer.between(BLOCK_STEPS - 2, BLOCK_STEPS + 5))


def test_a_table_of_sizes_will_do_and_a_bad_one_is_named():
    table = np.linspace(0.1, 0.2, 50)
    np.testing.assert_array_equal(StepSizes(lambda t: float(table[t]), 50).between(0, 50), table)
    with pytest.raises(eg.InputError, match="schedule gives nan at step 7"):
        StepSizes(lambda t: jnp.where(t == 7, jnp.nan, 0.1), 50)
    with pytest.raises(eg.InputError, match=f"gives -1 at step {3 * BLOCK_STEPS - 1}"):
        StepSizes(lambda t: jnp.where(t == 3 * BLOCK_STEPS - 1, -1.0, 0.1), 3 * BLOCK_STEPS)
    with jax.enable_x64(False), pytest.raises(eg.InputError, match=r"float32 can hold, got 1e\+300"):
        StepSizes(1e300, 50)
