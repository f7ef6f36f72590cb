"""Streams: every row equally often, the same batches again from a cursor, and threads that come to an end."""

import multiprocessing
import threading
import time

import numpy as np
import pytest

from ergodica.data import Stream, batches, npy, open_stream
from ergodica.data import source as sources
from ergodica.data import stream as streams
from ergodica.data.source import Source
from ergodica.errors import InputError
from ergodica.phase import BatchPair
from tests.read_ahead import no_thread_is_left  # noqa: F401

N = 103


class Numbers(Source):
    """Row k is the number k, in blocks of ten; `fails_at`: a block that cannot be read."""

    def __init__(self, fails_at=None, error=None):
        self.size, self.fails_at, self.error, self.reads = N, fails_at, error, 0

    def fetch(self, start, stop):
        self.reads += 1
        if self.fails_at is not None and start == self.fails_at:
            raise self.error
        return {"k": np.arange(start, stop), "square": np.arange(start, stop)[:, None] ** 2}

    def edges(self):
        return np.append(np.arange(0, N, 10), N)


@pytest.fixture(autouse=True)
def small_buffer(monkeypatch):
    monkeypatch.setattr(streams, "SHUFFLED_BYTES", 30 * 16)  # three blocks at a time


def numbers(stream, count):
    return stream.next(count)["k"]


def test_every_row_once_an_epoch_across_short_ends():
    with Stream(Numbers(), 7, seed=1) as stream:
        got = numbers(stream, 2 * N)  # seven epochs twice over: no batch is short
        assert got.shape == (2 * N, 7)
        rows = got.reshape(-1)
        for epoch in range(14):
            assert sorted(rows[epoch * N : (epoch + 1) * N]) == list(range(N))
        assert len({tuple(rows[e * N : (e + 1) * N]) for e in range(14)}) == 14
        np.testing.assert_array_equal(stream.next(3)["square"][..., 0] ** 0.5 % 1, 0)


def test_shuffled_across_blocks_not_only_within():
    with Stream(Numbers(), 10, seed=0) as stream:
        first = numbers(stream, 1)[0]
    assert len({k // 10 for k in first}) > 1
    firsts = []
    for seed in range(40):
        with Stream(Numbers(), 10, seed) as stream:
            firsts.append(numbers(stream, 1)[0])
    # 40 x 10 rows: the mean of 51 has standard error 1.5; 5 of them is a false alarm once in a million
    assert abs(np.mean(firsts) - 51) < 7.5


@pytest.mark.parametrize("is_paired", [False, True])
def test_a_cursor_gives_the_same_batches(is_paired):
    def flat(batch):
        return np.concatenate([part["k"].reshape(-1) for part in (batch if is_paired else [batch])])

    with Stream(Numbers(), 8, seed=3, is_paired=is_paired) as stream:
        cursors, parts = [], []
        for _ in range(60):  # more than two epochs, groups ended and cut
            cursors.append(stream.cursor)
            parts.append(flat(stream.next(1)))
        whole = np.stack(parts)
        assert all(type(value) is int for value in cursors[-1].values())
        for at in (0, 1, 12, 13, 27, 59):
            with Stream(Numbers(), 8, seed=3, is_paired=is_paired) as other:
                other.seek(cursors[at])
                assert other.cursor == cursors[at]
                np.testing.assert_array_equal(np.stack([flat(other.next(1)) for _ in range(60 - at)]), whole[at:])
        stream.seek(cursors[5])
        np.testing.assert_array_equal(flat(stream.next(1)), whole[5])
    with Stream(Numbers(), 8, seed=4, is_paired=is_paired) as other:
        assert (flat(other.next(1)) != whole[0]).any()


def test_pairs_come_from_independent_orders():
    with Stream(Numbers(), 8, seed=3, is_paired=True) as stream:
        pair = stream.next(2 * N)
    assert isinstance(pair, BatchPair)
    assert pair.first["k"].shape == pair.second["k"].shape == (2 * N, 4)
    for part in pair:
        assert (np.bincount(part["k"].reshape(-1)) == 8).all()
    together = np.mean([len(set(a) & set(b)) for a, b in zip(pair.first["k"], pair.second["k"], strict=True)])
    assert 0.05 < together < 0.3  # 4 x 4 / 103 = 0.16 when independent; disjoint halves would have 0


def test_a_batch_as_large_as_the_data_and_chunks_of_any_length():
    with Stream(Numbers(), N, seed=0) as stream:
        assert (np.sort(numbers(stream, 3), axis=1) == np.arange(N)).all()
        assert numbers(stream, 0).shape == (0, N)
    whole, parts = Stream(Numbers(), 5, seed=0), Stream(Numbers(), 5, seed=0)
    np.testing.assert_array_equal(
        numbers(whole, 50), np.concatenate([numbers(parts, count) for count in (1, 9, 30, 10)])
    )


@pytest.mark.parametrize(
    ("error", "match"),
    [
        (InputError("row 3 is NaN"), "^row 3 is NaN$"),
        (OSError(5, "Input/output error"), "^reading ahead failed: OSError: .*Input/output error$"),
        (RuntimeError("two\nlines"), "^reading ahead failed: RuntimeError: two lines$"),
    ],
)
def test_errors_of_the_thread_arrive_in_the_caller(error, match):
    with Stream(Numbers(fails_at=50, error=error), 5) as stream:
        with pytest.raises(InputError, match=match):
            stream.next(3 * N)
        with pytest.raises(InputError, match=match):
            stream.next(1)


def test_little_is_read_ahead():
    source = Numbers()
    with Stream(source, 5) as stream:
        stream.next(1)
        time.sleep(0.3)
        # the group in hand, two waiting and one being read, of three blocks each, and the examples
        assert source.reads <= 12 + 4


def test_groups_go_round_in_four_pieces_of_memory_whoever_holds_them():
    held = []

    class Watched(Numbers):
        def read_into(self, start, stop, leaves, at):
            held.append(leaves)
            super().read_into(start, stop, leaves, at)

    with Stream(Watched(), 5, seed=1) as stream, Stream(Numbers(), 5, seed=1) as other:
        expected = numbers(other, 3 * N)
        for first in range(0, 3 * N, 3):
            np.testing.assert_array_equal(numbers(stream, 3), expected[first : first + 3])
            if first % 30 == 0:
                time.sleep(0.01)  # by now all is read that can be read ahead
    assert len({leaves[0].ctypes.data for leaves in held}) == 4


def test_a_stream_that_is_dropped_ends_its_thread():
    stream = Stream(Numbers(), 5)
    stream.next(1)
    assert any(thread.name == "ergodica-read-ahead" for thread in threading.enumerate())
    del stream  # the fixture waits for the thread


def test_a_closed_stream_says_so():
    stream = Stream(Numbers(), 5)
    stream.next(1)
    stream.close()
    stream.close()
    with pytest.raises(InputError, match="stream was closed"):
        stream.next(100)


@pytest.mark.parametrize(
    ("cursor", "match"),
    [
        ({"batches": 3}, "is not of this stream"),
        ({"epoch": 0, "group": 99, "row": 0}, "it has 4 groups"),
        ({"epoch": 0, "group": 0, "row": 5000}, "the group has 30 rows"),
    ],
)
def test_a_foreign_cursor(cursor, match):
    def follow(stream):
        stream.seek(cursor)
        stream.next(1)

    with Stream(Numbers(), 5) as stream, pytest.raises(InputError, match=match):
        follow(stream)


def test_batch_sizes():
    for n in (0, N + 1):
        with pytest.raises(InputError, match=f"batch_size is {n}: expected a whole number of data rows, from 1 to {N}"):
            Stream(Numbers(), n)


def _in_child(stream, answers):
    answers.put(stream.next(2)["k"])
    stream.close()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning", "ignore:.*fork:RuntimeWarning")
def test_after_a_fork_the_child_reads_for_itself():
    context = multiprocessing.get_context("fork")
    with Stream(Numbers(), 8, seed=2) as stream:
        stream.next(1)
        answers = context.SimpleQueue()
        child = context.Process(target=_in_child, args=(stream, answers))
        child.start()
        got = answers.get()
        child.join(20)
        assert child.exitcode == 0
        np.testing.assert_array_equal(got, numbers(stream, 2))


def test_files(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "BLOCK_BYTES", 4 * 8)
    np.save(tmp_path / "k.npy", np.arange(N))
    with open_stream(npy(tmp_path / "k.npy"), 6, seed=1) as stream:
        rows = stream.next(N).reshape(-1)
    assert (np.bincount(rows) == 6).all()


class TestBatches:
    def parts(self):
        return [np.arange(0, 8), np.arange(8, 16), np.arange(16, 20)]  # the last one is short

    def test_a_short_last_batch_goes_on_with_the_next_epoch(self):
        with open_stream(batches(self.parts(), size=20), 8) as stream:
            rows = stream.next(5)
        assert rows.shape == (5, 8)
        assert (np.bincount(rows.reshape(-1)) == 2).all()

    def test_another_batch_size_and_pairs(self):
        with open_stream(batches(self.parts(), size=20), 4, is_paired=True) as stream:
            pair = stream.next(5)
        assert pair.first.shape == pair.second.shape == (5, 2)
        assert (np.bincount(np.concatenate([pair.first, pair.second]).reshape(-1)) == 1).all()

    @pytest.mark.parametrize("renewable", [True, False])
    def test_seek_skips_forward(self, renewable):
        parts = self.parts() * 5
        whole = open_stream(batches(parts, size=20), 8).next(8)
        stream = open_stream(batches(parts if renewable else iter(parts), size=20), 8)
        stream.seek({"batches": 3, "iterated": 3, "rows": 4})
        np.testing.assert_array_equal(stream.next(5), whole[3:])
        assert stream.cursor == {"batches": 8, "iterated": 9, "rows": 4}
        back = {"batches": 2, "iterated": 2, "rows": 0}
        if renewable:
            stream.seek(back)
            np.testing.assert_array_equal(stream.next(1)[0], whole[2])
        else:
            with pytest.raises(InputError, match="batch 2 was requested, but the iterator is at 8"):
                stream.seek(back)
        with pytest.raises(InputError, match="not of a stream of batches"):
            stream.seek({"epoch": 1})

    @pytest.mark.parametrize("is_iterator", [False, True])
    @pytest.mark.parametrize("batch_size", [3, 2, 7])
    def test_an_iterable_that_can_seek_does_so_in_its_own_batches(self, is_iterator, batch_size):
        class Seeking:
            place = 0

            def __iter__(self):
                return self if is_iterator else (next(self) for _ in iter(int, 1))

            def __next__(self):
                self.place += 1
                return np.arange(3) + 3 * (self.place - 1)

            def seek(self, count):
                self.place = count

        def opened():
            return open_stream(batches(Seeking(), size=20), batch_size)

        with opened() as stream:
            stream.source.first()  # a look at it takes nothing away
            whole = stream.next(9)
            np.testing.assert_array_equal(whole.reshape(-1), np.arange(9 * batch_size))
        with opened() as stream, opened() as other:
            stream.source.first()
            stream.next(5)
            other.source.first()
            other.next(1)
            other.seek(stream.cursor)
            np.testing.assert_array_equal(other.next(4), whole[5:])

    def test_an_iterator_that_runs_out(self):
        with open_stream(batches(iter(self.parts()), size=20), 8) as stream:
            stream.next(1)
            with pytest.raises(InputError, match="ran out after 1"):
                stream.next(5)

    def test_errors_in_the_iterable(self):
        def broken():
            yield np.arange(3)
            raise OSError("gone")

        with open_stream(batches(broken(), size=20), 3) as stream, pytest.raises(InputError, match="OSError: gone"):
            stream.next(5)
