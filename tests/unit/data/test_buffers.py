"""Memory is used again when nobody holds it, and only then."""

import jax
import numpy as np

from ergodica.data.buffers import Pool


def test_used_again_when_it_is_dropped():
    pool = Pool()
    first = pool.array((100, 3), np.float32)
    place = first.ctypes.data
    assert first.shape == (100, 3)
    assert first.dtype == np.float32
    assert place % 64 == 0
    del first
    assert pool.array((90, 3), np.float32).ctypes.data == place


def test_not_while_a_view_is_held():
    pool = Pool()
    first = pool.array((100,), np.float64)
    first[:] = 7
    view = first.reshape(10, 10)[2:4]
    del first
    pool.array((100,), np.float64)[:] = 0
    assert (view == 7).all()


def test_not_while_jax_holds_it_without_a_copy():
    pool = Pool()
    first = pool.array((1000,), np.float32)
    first[:] = 7
    held = jax.device_put(first)
    del first
    for _ in range(3):
        pool.array((1000,), np.float32)[:] = 0
    assert (np.asarray(held) == 7).all()


def test_two_at_a_time_and_memory_much_too_large_is_given_back():
    pool = Pool()
    both = [pool.array((50,), np.int64), pool.array((50,), np.int64)]
    assert both[0].ctypes.data != both[1].ctypes.data
    both.clear()
    pool.array((4,), np.int64)
    assert len(pool.idle) == 1
    assert pool.array((0, 3), float).shape == (0, 3)


def test_memory_comes_back_after_the_pool_is_gone():
    array = Pool().array((10,), np.int64)
    array[:] = 3
    assert array.sum() == 30
