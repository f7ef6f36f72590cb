"""Batches for compiled chunks: in order, in memory that goes round."""

import jax.numpy as jnp
import numpy as np
import pytest

import ergodica as eg
from ergodica.data import batches, npy
from ergodica.data.stream import open_stream
from ergodica.driver import streamed
from ergodica.driver.streamed import Feed

ROWS = np.arange(12_000.0).reshape(4000, 3)


def source(kind, folder):
    if kind == "iterable":
        return batches([{"x": ROWS[i : i + 40], "y": ROWS[i : i + 40, 0]} for i in range(0, 4000, 40)], 4000)
    np.save(folder / "x.npy", ROWS)
    np.save(folder / "y.npy", ROWS[:, 0].copy())
    return npy({"x": folder / "x.npy", "y": folder / "y.npy"})


@pytest.mark.parametrize("kind", ["npy", "iterable"])
@pytest.mark.parametrize("chains", [1, 3])
def test_chains_take_turns_and_memory_goes_round(kind, chains, tmp_path):
    data = source(kind, tmp_path)
    with open_stream(data, 40) as stream:
        expected = stream.next(50 * chains * 20)
    feed = Feed(open_stream(data, 40), chains)
    places, held = set(), []
    for chunk in range(20):
        count = 50 if chunk != 10 else 30  # one is cut short
        handed = feed.take(count, 0 if chunk == 9 else 50 if chunk != 19 else 0, 50)
        for chain, part in enumerate(handed):
            for name, leaf in part.items():
                if chunk < 10:
                    first = chunk * 50 * chains + chain
                    wanted = expected[name][first : first + 50 * chains : chains]
                    np.testing.assert_array_equal(leaf, wanted)
                assert leaf.shape[0] == 50
                assert not leaf[count:].any()
                assert leaf.ctypes.data % 64 == 0  # else compiled code copies it
                places.add(leaf.ctypes.data)
        held.append(handed)  # as JAX does on a busy machine, some time after the results are there
    feed.close()
    # of each of two leaves one in use, and one that is read ahead
    assert len(places) == 2 * chains * 2


def test_a_chunk_is_over_before_its_memory_is_written_again(tmp_path, monkeypatch):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(4000, 3)))

    def log_likelihood(q, rows):
        return -jnp.sum((rows - q[None]) ** 2, axis=1) / 2

    target = eg.Posterior(lambda q: -q @ q / 2, log_likelihood, npy(tmp_path / "x.npy"), init=np.zeros(3))
    settings = {"steps": 600, "step_size": 1e-5, "batch_size": 100, "chains": 3, "progress": False}
    in_one = eg.sample(target, eg.sgld(), **settings).posterior
    monkeypatch.setattr(streamed, "HANDED_BYTES", 10 * 3 * 100 * 24)  # ten steps at a time
    np.testing.assert_array_equal(eg.sample(target, eg.sgld(), **settings).posterior, in_one)
