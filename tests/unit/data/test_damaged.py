"""Damaged files of data: one line, whatever NumPy or Arrow make of them, and other numbers only where nothing shows."""

import random

import numpy as np
import pytest

from ergodica.data import npy, parquet
from ergodica.errors import InputError
from ergodica.lda.corpus import Vocabulary

ROWS = np.random.default_rng(3).normal(size=(300, 2)).astype(np.float32)


def refused(read):
    with pytest.raises(InputError) as caught:
        read()
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"(300, 2)", b"(300, 2 "),  # TokenError
        (b"'descr': '<f4'", b"'descr': 3.14 "),  # TypeError
        (b"'<f4'", b"'<\xff4'"),  # UnicodeDecodeError
        (b"(300, 2)", b"(-30, 2)"),
        (b"(300, 2)", b"(9**9**9"),
        (b"{'descr'", b"{[[[[[[["),
        (b"\x01\x00v", b"\x01\x00\x05"),  # a header of five bytes
    ],
)
def test_a_damaged_header_of_npy(tmp_path, old, new):
    path = tmp_path / "x.npy"
    np.save(path, ROWS)
    whole = path.read_bytes()
    assert old in whole
    path.write_bytes(whole.replace(old, new, 1))
    assert str(path) in refused(lambda: npy(path).read(0, 300))


def written(path, has_checksums):
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.table({"a": ROWS[:, 0], "b": ROWS[:, 1]})
    pyarrow.parquet.write_table(table, path, row_group_size=100, write_page_checksum=has_checksums)
    return path.read_bytes()


def test_damage_to_parquet_with_checksums_is_found_or_changes_nothing(tmp_path):
    path, chance = tmp_path / "x.parquet", random.Random(7)
    whole = written(path, True)
    for trial in range(60):
        data, at = bytearray(whole), chance.randrange(len(whole))
        if trial % 3 == 0:
            data[at] ^= 1 << chance.randrange(8)
        elif trial % 3 == 1:
            del data[at:]
        else:
            data[at : at + 100] = bytes(len(data[at : at + 100]))
        path.write_bytes(data)
        try:
            found = parquet(path, ["a", "b"]).read(0, 300).tobytes()
        except InputError as error:
            found = str(error)
        assert found == ROWS.tobytes() or (isinstance(found, str) and "\n" not in found)


def test_parquet_without_checksums_says_so(tmp_path):
    path = tmp_path / "x.parquet"
    written(path, False)
    with pytest.warns(UserWarning, match=r"x\.parquet has no page checksums.*write_page_checksum=True"):
        parquet(path)


def test_words_that_are_no_text():
    assert "as word 2" in refused(lambda: Vocabulary(["river", "\ud800"]))
