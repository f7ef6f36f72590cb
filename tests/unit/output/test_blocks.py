"""Draws on disk as they come."""

import errno

import jax.numpy as jnp
import numpy as np
import pytest

from ergodica.errors import InputError
from ergodica.output import blocks
from ergodica.output.blocks import BlockFile


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.bool_, jnp.bfloat16])
@pytest.mark.parametrize("shape", [(), (2, 3), (0,)])
def test_what_is_appended_is_read_back(tmp_path, dtype, shape):
    file = BlockFile.open(tmp_path / "new", "layer/w", dtype, shape)
    items = np.random.default_rng(0).normal(size=(7, *shape)).astype(jnp.dtype(dtype))
    file.append(items[:4])
    again = BlockFile.open(tmp_path / "new", "layer/w", dtype, shape)
    again.append(items[4:])
    assert again.count == 7
    np.testing.assert_array_equal(again.read(), items)
    assert again.read().dtype == items.dtype
    np.testing.assert_array_equal(again.items(2, 5), items[2:5])
    again.truncate(2)
    np.testing.assert_array_equal(file.read(), items[:2])


def test_half_an_item_does_not_count_and_is_written_over(tmp_path):
    file = BlockFile.open(tmp_path, "w", np.float64, (2,))
    file.append(np.ones((3, 2)))
    with open(file.path, "ab") as raw:
        raw.write(b"torn by a kill")
    assert file.count == 3
    file.append(np.zeros((1, 2)))
    np.testing.assert_array_equal(file.read(), [[1, 1], [1, 1], [1, 1], [0, 0]])


def test_a_full_disk_is_one_line_and_what_was_there_stays(tmp_path, monkeypatch):
    file = BlockFile.open(tmp_path, "w", np.float64, ())
    file.append(np.ones(3))

    def full(opened, content):
        opened.write(content[:12])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(blocks, "_write_all", full)
    with pytest.raises(InputError, match="No space left on device"):
        file.append(np.zeros(5))
    assert file.path.stat().st_size == 24
    np.testing.assert_array_equal(file.read(), np.ones(3))


def test_other_draws_are_refused(tmp_path):
    file = BlockFile.open(tmp_path, "w", np.float64, (2,))
    with pytest.raises(InputError, match="expected float64"):
        file.append(np.zeros((3, 2), np.float32))
    with pytest.raises(InputError, match="holds 0 draws"):
        file.truncate(1)
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="could not write"):
        BlockFile.open(tmp_path / "file", "w", np.float64, ())


@pytest.mark.parametrize("shape", [(3,), ()])
def test_what_was_changed_on_disk_is_found(tmp_path, shape):
    file = BlockFile.open(tmp_path, "w", np.float32, shape)
    items = np.random.default_rng(0).normal(size=(7, *shape)).astype(np.float32)
    file.append(items[:5])
    noted, last = file.description(), file.last()
    file.append(items[5:])
    again = BlockFile.described(tmp_path, "w", noted)
    again.verify(5, noted["sha256"])
    np.testing.assert_array_equal(again.read_as_of(5, last), items[:5])
    again.go_back(5, last)
    again.append(items[5:])
    assert (again.digest(), again.description()) == (file.digest(), file.description())
    content = bytearray(file.path.read_bytes())
    content[5] ^= 8
    file.path.write_bytes(content)
    with pytest.raises(InputError, match=r"w\.bin is damaged: the checksum"):
        again.verify(5, noted["sha256"])
    with pytest.raises(InputError, match=r"w\.bin is damaged: the checksum"):
        list(file.pieces(2))
    file.path.write_bytes(content[:8])
    with pytest.raises(InputError, match=r"w\.bin is cut off: it holds \d draws, expected 5"):
        again.verify(5, noted["sha256"])


@pytest.mark.parametrize("left", [4, 5])
def test_a_last_item_that_was_withdrawn_after_the_checkpoint_is_as_it_was(tmp_path, left):
    """A kill between taking the draw back, putting another for it, and the next checkpoint."""
    file = BlockFile.open(tmp_path, "w", np.float64, (2,))
    items = np.arange(10.0).reshape(5, 2)
    file.append(items)
    noted, last = file.description(), file.last()
    file.truncate(4)
    if left == 5:
        file.append(np.zeros((1, 2)))
    again = BlockFile.described(tmp_path, "w", noted)
    again.verify(5, noted["sha256"])
    np.testing.assert_array_equal(again.read_as_of(5, last), items)
    assert again.count == left
    again.go_back(5, last)
    np.testing.assert_array_equal(again.read(), items)
    assert again.description() == noted
