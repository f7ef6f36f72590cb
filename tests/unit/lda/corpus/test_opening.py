"""Bytes from files: several streams, cut off, damaged, hostile."""

import bz2
import gzip
import io
import os
import random
import sys
import tracemalloc
import types

import pytest

from ergodica.errors import InputError
from ergodica.lda.corpus.opening import BLOCK_BYTES, Opened
from ergodica.lda.corpus.tally import Tally
from tests.unit.lda.corpus.dumps import write

# Numbers that do not repeat: 800 kB, several pieces and blocks when packed.
TEXT = b"\n".join(b"%d" % number for number in random.Random(1).choices(range(10**12), k=60_000))
PACK = {"bz2": lambda data: bz2.compress(data, 2), "gz": lambda data: gzip.compress(data, 1, mtime=0)}


def read(path, tally=None, start=0):
    opened = Opened(str(path), Tally() if tally is None else tally, start)
    try:
        return list(opened.chunks())
    finally:
        opened.close()


def joined(chunks):
    return b"".join(chunk.data for chunk in chunks)


@pytest.mark.parametrize("suffix", ["txt", "bz2", "gz"])
def test_plain_and_packed(tmp_path, suffix):
    tally = Tally()
    path = tmp_path / f"x.{suffix}"
    path.write_bytes(PACK.get(suffix, bytes)(TEXT))
    chunks = read(path, tally)
    assert joined(chunks) == TEXT
    assert max(len(chunk.data) for chunk in chunks) <= BLOCK_BYTES
    assert tally.notes() == []
    opened = Opened(str(path), tally)
    assert (opened.position, opened.total) == (0, path.stat().st_size)
    joined(opened.chunks())
    assert opened.position == opened.total
    opened.close()


@pytest.mark.parametrize("suffix", ["bz2", "gz"])
def test_all_streams_are_read_and_each_is_a_place_to_start_again(tmp_path, suffix):
    parts = [TEXT[k : k + 100_000] for k in range(0, len(TEXT), 100_000)]
    packed = [PACK[suffix](part) for part in parts]
    path = tmp_path / f"x.{suffix}"
    path.write_bytes(b"".join(packed) + b"\0" * 1000)  # filled up with zeros, as on tapes
    tally = Tally()
    chunks = read(path, tally)
    assert joined(chunks) == TEXT
    assert tally.notes() == []
    starts = [sum(map(len, packed[:k])) for k in range(len(packed))]
    assert [chunk.restart for chunk in chunks if chunk.restart is not None] == starts
    assert joined(read(path, start=starts[3])) == b"".join(parts[3:])


@pytest.mark.parametrize("suffix", ["bz2", "gz"])
def test_a_file_cut_off_gives_what_came_before(tmp_path, suffix):
    packed = PACK[suffix](TEXT)
    for size in (len(packed) - 1, 2 * len(packed) // 3):
        path = tmp_path / f"x.{suffix}"
        path.write_bytes(packed[:size])
        tally = Tally()
        got = joined(read(path, tally))
        assert TEXT.startswith(got)
        assert len(got) >= 0.3 * len(TEXT)
        assert tally.notes() == [
            f"files cut off or damaged (what came before is kept): 1; first: {path}, cut off at byte {size:,}"
        ]


@pytest.mark.parametrize("suffix", ["bz2", "gz"])
def test_a_damaged_file_gives_what_came_before(tmp_path, suffix):
    whole = PACK[suffix](TEXT)
    broken = bytearray(PACK[suffix](TEXT))
    broken[len(broken) // 2 : len(broken) // 2 + 200] = b"\xff" * 200
    path = tmp_path / f"x.{suffix}"
    path.write_bytes(whole + bytes(broken))
    tally = Tally()
    assert joined(read(path, tally)).startswith(TEXT)
    assert tally.counts["cut_off"] == 1
    path.write_bytes(whole + b"something else")
    assert joined(read(path, tally)) == TEXT
    assert tally.counts["trailing"] == 1


def test_what_expands_without_measure_is_refused_in_bounded_memory(tmp_path):
    bombs = {"bz2": bz2.compress(bytes(10_000_000)) * 5, "gz": gzip.compress(bytes(50_000_000), 9)}
    assert 100_000 * len(bombs["bz2"]) < 50_000_000
    for suffix, bomb in bombs.items():
        (tmp_path / f"x.{suffix}").write_bytes(bomb)
        refused_in_bounded_memory(str(tmp_path / f"x.{suffix}"))


def refused_in_bounded_memory(path):
    opened = Opened(path, Tally())
    tracemalloc.start()
    with pytest.raises(InputError, match="expands more than 500 : 1 near byte") as caught:
        sum(len(chunk.data) for chunk in opened.chunks())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    opened.close()
    assert peak < 4_000_000
    assert "\n" not in str(caught.value)


def test_names_that_lie(tmp_path):
    path = tmp_path / "x.bz2"
    path.write_bytes(b"plain text")
    with pytest.raises(InputError, match="is not bz2, whatever its name says: it begins with b'plain te'"):
        Opened(str(path), Tally())
    assert joined(read(write(tmp_path, "packed.bz2", TEXT)[:-4] + ".bz2")) == TEXT
    with pytest.raises(InputError, match="there is no file or folder"):
        Opened(str(tmp_path / "none"), Tally())


def test_standard_input(monkeypatch):
    packed = bz2.compress(TEXT)
    monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(buffer=io.BytesIO(packed)))
    opened = Opened("-", Tally())
    assert joined(opened.chunks()) == TEXT
    assert (opened.name, opened.total, opened.position) == ("standard input", None, len(packed))
    opened.close()


def test_indexed_bzip2_is_used_where_it_is_installed(tmp_path, monkeypatch):
    """With a stand-in: it is not among the packages the tests need."""
    calls = []

    def open_parallel(path, parallelization):
        calls.append(parallelization)
        return bz2.open(path)

    monkeypatch.setitem(sys.modules, "indexed_bzip2", types.SimpleNamespace(open=open_parallel))
    tally = Tally()
    path = tmp_path / "x.bz2"
    path.write_bytes(PACK["bz2"](TEXT))
    assert joined(read(path, tally)) == TEXT
    assert calls == [os.cpu_count()]
    path.write_bytes(bz2.compress(bytes(10_000_000)) * 5)
    with pytest.raises(InputError, match="expands more than 500"):
        read(path)
    path.write_bytes(PACK["bz2"](TEXT) + b"BZh9 damaged" * 100)
    assert joined(read(path, tally)) == TEXT
