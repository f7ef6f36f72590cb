"""Learning from a stream: what is kept, when to stop, and runs that were stopped and resumed, bit for bit."""

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ergodica.driver import checkpoint
from ergodica.driver.checkpoint import Checkpoint, Saved
from ergodica.errors import InputError, NonFiniteError
from ergodica.lda import chains, demo
from ergodica.lda.corpus import Corpus, Documents
from ergodica.lda.expanded_mean import ExpandedMean
from ergodica.lda.samplers import Learner
from ergodica.lda.settings import settings_of
from ergodica.lda.store import KeptDraws
from ergodica.lda.stream import DocumentStream
from tests.unit.lda import small
from tests.unit.lda.small import DOCUMENTS, assert_same_bytes, evaluate_often, model


class Killed(BaseException):
    """Nobody catches it: as abrupt as a process can end from within."""


@pytest.fixture
def busy(monkeypatch):
    evaluate_often(monkeypatch)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An unbroken run."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    with pytest.MonkeyPatch.context() as patch:
        evaluate_often(patch)
        model().fit(DOCUMENTS, out=folder)
    return folder


def at_step(monkeypatch, number, happen):
    """Something happens when the step of that number begins."""
    original = Learner.step

    def step(self, batch):
        if self.steps == number:
            happen()
        original(self, batch)

    monkeypatch.setattr(Learner, "step", step)


def test_killed_by_the_system_and_resumed(whole, tmp_path, busy):
    code = [sys.executable, str(Path(__file__).with_name("killed.py")), str(tmp_path / "run"), "11"]
    assert subprocess.run(code, capture_output=True).returncode == -signal.SIGKILL
    assert (tmp_path / "run/checkpoint/checkpoint.npz").exists()
    model().fit(DOCUMENTS, out=tmp_path / "run", resume=True)
    assert_same_bytes(whole, tmp_path / "run")
    assert not (tmp_path / "run/checkpoint").exists()


@pytest.mark.parametrize("written", [("draw-1.npy", 0), ("checkpoint.npz", 3), ("topics.csv", 0)])
def test_killed_while_it_writes(whole, tmp_path, busy, monkeypatch, written):
    """Half of a file is on the disk: of a draw, a checkpoint, or of the run itself."""
    name, before = written
    folder, calls, original = tmp_path / "run", iter(range(10**9)), checkpoint.write_whole

    def write(path, writer):
        if path.name == name and next(calls) == before:
            path.with_name(f".{path.name}.1.part").write_bytes(b"half")
            raise Killed
        return original(path, writer)

    with monkeypatch.context() as patch:
        for place in ("ergodica.driver.checkpoint.write_whole", "ergodica.lda.run_files.write_whole"):
            patch.setattr(place, write)
        save = Checkpoint.save
        # each before the next batch: else their number would depend on the speed of the disk
        patch.setattr(Checkpoint, "save", lambda self, snapshot, wait: save(self, snapshot, True))
        with pytest.raises(Killed):
            model().fit(DOCUMENTS, out=folder)
    model().fit(DOCUMENTS, out=folder, resume=True)
    assert_same_bytes(whole, folder)
    assert not list(folder.glob(".*"))


@pytest.mark.parametrize(("number", "raised"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)])
def test_a_signal_lets_the_batch_finish(whole, tmp_path, monkeypatch, capsys, number, raised):
    evaluate_often(monkeypatch)
    at_step(monkeypatch, 7, lambda: os.kill(os.getpid(), number))
    with pytest.raises(raised):
        model().fit(DOCUMENTS, out=tmp_path / "run")
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "the batch is finished and saved" in said
    assert "--resume" in said
    assert checkpoint.read_checkpoint(tmp_path / "run/checkpoint").arrays["steps"] == 8
    monkeypatch.undo()
    evaluate_often(monkeypatch)
    model().fit(DOCUMENTS, out=tmp_path / "run", resume=True)
    assert_same_bytes(whole, tmp_path / "run")


@pytest.mark.parametrize("name", ["checkpoint.npz", "draws.npz"])
def test_a_full_disk_is_one_line_and_can_be_resumed(whole, tmp_path, monkeypatch, name):
    """While learning, and at the end of a run too short for a checkpoint."""
    evaluate_often(monkeypatch)
    replace = os.replace

    def full(source, path):
        if Path(path).name == name:
            raise OSError(errno.ENOSPC, "No space left on device")
        replace(source, path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        patch.setattr(checkpoint, "SAVE_EVERY", 0.0 if name == "checkpoint.npz" else np.inf)
        with pytest.raises(InputError, match=r"could not write .*: No space left on device"):
            model().fit(DOCUMENTS, out=tmp_path / "run")
    model().fit(DOCUMENTS, out=tmp_path / "run", resume=True)
    assert_same_bytes(whole, tmp_path / "run")


def test_nothing_is_overwritten(whole, tmp_path):
    before = (whole / "run.json").read_bytes()
    with pytest.raises(InputError, match=r"holds a run: --resume"):
        model().fit(DOCUMENTS, out=whole)
    with pytest.raises(InputError, match=r"holds another run: sweeps \(6 there, 7 here\) differs"):
        model(sweeps=7).fit(DOCUMENTS, out=whole, resume=True)
    with pytest.raises(InputError, match="the corpus or its order differs"):
        model().fit(demo.documents(150), out=whole, resume=True)
    again = model().fit(DOCUMENTS, out=whole, resume=True)
    assert again.figures_["steps"] == 18
    assert (whole / "run.json").read_bytes() == before
    (tmp_path / "note.txt").write_text("mine")
    with pytest.raises(InputError, match="holds other files and no run"):
        model().fit(DOCUMENTS, out=tmp_path)
    with pytest.raises(InputError, match="is a file"):
        model().fit(DOCUMENTS, out=tmp_path / "note.txt")
    with pytest.raises(InputError, match="needs the folder"):
        model().fit(DOCUMENTS, resume=True)


def test_a_damaged_checkpoint_is_refused(tmp_path):
    (tmp_path / "run/checkpoint").mkdir(parents=True)
    (tmp_path / "run/checkpoint/checkpoint.npz").write_bytes(b"PK not a zip")
    with pytest.raises(InputError, match=r"checkpoint\.npz is damaged .*: to start over, .* rm -r .*run/checkpoint$"):
        model().fit(DOCUMENTS, out=tmp_path / "run", resume=True)
    np.savez(tmp_path / "run/checkpoint/checkpoint.npz", plain=np.array(json.dumps({"format": 1, "draws": []})))
    with pytest.raises(InputError, match=r"written by version 0\.1\.0 .* finish it with that version, or "):
        model().fit(DOCUMENTS, out=tmp_path / "run", resume=True)
    assert os.listdir(tmp_path / "run") == ["checkpoint"]


def there(folder):
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in paths}


@pytest.fixture
def stopped(tmp_path, busy, monkeypatch):
    """The folder of a run that was stopped after eight batches."""
    with monkeypatch.context() as patch:
        at_step(patch, 7, lambda: os.kill(os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            model().fit(DOCUMENTS, out=tmp_path / "run")
    return tmp_path / "run"


def test_what_was_drawn_is_compared_with_its_checkpoint_and_kept_without_it(stopped):
    draw = next((stopped / "checkpoint").glob("draw-*.npy"))
    content = draw.read_bytes()
    draw.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(InputError, match=rf"{draw.name} is damaged \(its checksum does not match\)"):
        model().fit(DOCUMENTS, out=stopped, resume=True)
    (stopped / "checkpoint/checkpoint.npz").unlink()
    before = there(stopped)
    with pytest.raises(InputError, match=rf"holds draws .* but no checkpoint/checkpoint\.npz.* rm -r {stopped}$"):
        model().fit(DOCUMENTS, out=stopped, resume=True)
    assert there(stopped) == before


@pytest.mark.parametrize("resume", [False, True])
def test_a_second_start_touches_nothing(tmp_path, monkeypatch, resume):
    """It comes when the first has looked at the folder, and has written nothing yet."""
    folder, original = tmp_path / "run", small.LDA._stream

    def stream(*arguments, **more):
        monkeypatch.setattr(small.LDA, "_stream", original)
        before = there(tmp_path)
        with pytest.raises(InputError, match=rf"run is being written by another process \(pid {os.getpid()}\)"):
            model().fit(DOCUMENTS, out=folder, resume=resume)
        assert there(tmp_path) == before
        raise InputError("the corpus cannot be read")

    monkeypatch.setattr(small.LDA, "_stream", stream)
    with pytest.raises(InputError, match="the corpus cannot be read"):
        model().fit(DOCUMENTS, out=folder)
    assert os.listdir(tmp_path) == []


def test_a_folder_that_was_there_stays(tmp_path):
    with pytest.raises(InputError):
        model(held_out=1000).fit(DOCUMENTS, out=tmp_path)
    assert os.listdir(tmp_path) == []


def test_non_finite_topics_stop_the_run_and_keep_what_was_good(tmp_path, monkeypatch):
    original, calls = ExpandedMean.gradient, iter(range(10**9))

    def gradient(self, *arguments):
        return original(self, *arguments) * np.float32(np.inf if next(calls) == 5 else 1)

    monkeypatch.setattr(ExpandedMean, "gradient", gradient)
    learning = model()
    with pytest.raises(NonFiniteError, match=r"not finite after step 5 \(step size [0-9.e-]+\)"):
        learning.fit(DOCUMENTS, out=tmp_path / "run")
    assert np.isfinite(learning.components_).all()
    assert learning.figures_["steps"] == 5
    assert "step 5" in small.LDA.load(tmp_path / "run").figures_["stopped"]


def test_draws_are_from_the_second_half():
    for total in (1, 2, 7, 40, 1000):
        draws = KeptDraws(5, (1, 25))
        for step in range(1, total + 1):
            if draws.is_due(step):
                draws.add(step, np.full((1, 25), step))
            assert len(draws.held) <= 10
        chosen = draws.chosen(total)
        assert all(2 * step >= total and np.all(phi == step) for step, phi in chosen.items())
        assert len(chosen) == min(5, total // 2 + 1)
        assert len(set(np.diff(list(chosen)))) <= 3
    assert KeptDraws(20, (60 << 18, 1)).wanted == 1


def test_the_size_of_the_corpus_and_the_number_of_passes(monkeypatch):
    monkeypatch.setattr("ergodica.lda.stream.ENOUGH_DOCUMENTS", 100)

    def read(given, **changes):
        settings = {"held_out": 10, "batch_size": 30, "passes": None, "size": None, "seed": 0}
        stream = DocumentStream(given, demo.vocabulary(), **(settings | changes))
        batches = []
        while (batch := stream.next()) is not None:
            batches.append(batch)
        return [len(batch.documents) for batch in batches], [batch.size for batch in batches], stream

    documents = demo.documents(50)
    lengths, sizes, stream = read(documents)
    assert (sum(lengths), set(sizes), stream.expected_total()) == (120, {40}, 120)  # three passes of 40: 100 or more
    assert read(documents, size=3.3e6)[1] == [3.3e6] * 4
    assert sum(read(documents, passes=2)[0]) == 80
    words = demo.vocabulary().words
    texts = [" ".join(words[number] for number in document) for document in documents]
    lengths, sizes, stream = read(iter(texts))
    assert (lengths, sizes) == ([30, 10], [40, 40])  # read once; one group is all of it
    assert sum(read(texts)[0]) == 120
    corpus = Corpus(documents, demo.vocabulary(), passes=2, batch_size=25)
    assert read(corpus)[0] == [25] * 4
    with pytest.raises(InputError, match="another vocabulary"):
        DocumentStream(Corpus(texts), ["a", "b"], held_out=0, batch_size=1, passes=1, size=None, seed=0)


def test_a_step_does_not_depend_on_what_was_drawn_ahead():
    settings = settings_of(model().get_params())
    one, two = (chains.begin(settings, model().get_params(), demo.vocabulary()) for _ in range(2))
    stream = DocumentStream(DOCUMENTS, None, held_out=0, batch_size=20, passes=1, size=None, seed=0)
    batches = [stream.next() for _ in range(3)]
    for batch in batches:
        one.step(batch)
        saved = two.snapshot()
        two.step(batch)
        two.restore(
            Saved(saved.arrays, saved.record), dict(two.draws.held)
        )  # back, and again without the numbers drawn ahead
        two.step(batch)
    np.testing.assert_array_equal(one.learner.theta, two.learner.theta)
    assert one.learner.theta.dtype == np.float32


def test_only_history_grows_with_the_stream():
    learning = chains.begin(settings_of(model().get_params()), model().get_params(), demo.vocabulary())
    learning.hold_out(DOCUMENTS.take(range(5)))
    sizes = []
    batch = chains.DocumentBatch(Documents.of([[0, 1, 2]]), 0, 10)
    for number in range(60):
        learning.step(batch._replace(visit=number))
        arrays = (*learning.snapshot().arrays.values(), *learning.draws.held.values())
        sizes.append(sum(array.nbytes for array in arrays))
    assert max(sizes[10:]) == max(sizes[30:])
