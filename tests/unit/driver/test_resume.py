"""Checkpoints: a run that was stopped, in whatever way, goes on to the same bytes, or says why it does not."""

import errno
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import ergodica as eg
from ergodica.driver import checkpoint, draws, engine, load, loop
from ergodica.driver.part_folder import part_folder
from ergodica.gradients.control import Svrg
from ergodica.host import seal
from ergodica.output import blocks
from tests.unit.driver.killed import LONG
from tests.unit.driver.runs import ROWS, TARGET, assert_same_bytes, log_likelihood, log_prior, run


class Killed(BaseException):
    """Nobody catches it: as abrupt as a process can end from within."""


def killed_at(monkeypatch, call, **arguments):
    """The run, killed in the middle of its `call`-th write of a block."""
    calls = iter(range(10**9))
    original = blocks._write_all

    def write(file, content):
        if next(calls) == call:
            file.write(memoryview(content)[: max(1, len(content) // 2)])
            raise Killed
        original(file, content)

    monkeypatch.setattr(blocks, "_write_all", write)
    with pytest.raises(Killed):
        run(**arguments)
    monkeypatch.setattr(blocks, "_write_all", original)


def signal_at(monkeypatch, call, number):
    """The signal comes in the middle of the `call`-th write of a block."""
    original = blocks.BlockFile.append
    calls = iter(range(10**9))

    def append(self, block):
        if next(calls) == call:
            os.kill(os.getpid(), number)
        original(self, block)

    monkeypatch.setattr(blocks.BlockFile, "append", append)


def test_small_chunks_and_a_file_change_no_byte(whole, busy, tmp_path):
    assert_same_bytes(run(), whole)
    out = tmp_path / "run.nc"
    assert_same_bytes(run(out=out), whole)
    assert_same_bytes(load(out), whole)
    assert os.listdir(tmp_path) == ["run.nc"]


@pytest.mark.parametrize("call", [0, 3, 150, 401])
def test_killed_in_a_write_and_resumed(whole, busy, tmp_path, monkeypatch, call):
    out = tmp_path / "run.nc"
    killed_at(monkeypatch, call, out=out)
    part = load(out)
    drawn = part.posterior["mean"].shape[1]
    assert drawn <= call // 7  # those of the last checkpoint
    np.testing.assert_array_equal(part.posterior["mean"], whole.posterior["mean"][:, :drawn])
    with pytest.raises(eg.InputError, match="holds an unfinished run"):
        run(out=out)
    assert_same_bytes(run(out=out, resume=True), whole)
    assert_same_bytes(run(out=out, resume=True), whole)  # finished already: it is read
    assert os.listdir(tmp_path) == ["run.nc"]


@pytest.mark.parametrize("call", [60, 150, 401])
def test_rows_of_the_thermometer_are_put_together_at_the_same_steps(busy, tmp_path, monkeypatch, call):
    """16 rows, of one step, then of two, then of four; killed before and after that."""
    for module, name, value in ((draws, "SUM_NUMBERS", 0), (draws, "FIRST_STRETCH", 1)):
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(engine, "chunk_length", lambda *_: 20)
    whole = run()
    assert list(whole.temperatures.steps) == [4] * 15
    out = tmp_path / "run.nc"
    killed_at(monkeypatch, call, out=out)
    assert_same_bytes(run(out=out, resume=True), whole)
    assert_same_bytes(load(out), whole)


@pytest.mark.long  # kills at chosen moments are above, at random ones in benchmarks/attacks.py
def test_kill_9_at_random_moments(tmp_path):
    out = tmp_path / "run.nc"
    rng = np.random.default_rng(3)
    # compiled once for all of them
    cache = {"JAX_COMPILATION_CACHE_DIR": str(tmp_path / "cache"), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    environment = os.environ | cache | {"JAX_PLATFORMS": "cpu", "JAX_ENABLE_X64": "1", "NPROC": "1"}
    for attempt in range(3):
        wait = rng.uniform(0.05, 0.7) if attempt < 2 else 100.0
        command = [sys.executable, Path(__file__).with_name("killed.py"), out, str(wait)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        if done.returncode == 0:
            break
        assert part_folder(out).is_dir()
    assert_same_bytes(load(out), run(**LONG))


@pytest.mark.parametrize(("number", "error"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)])
def test_signals_finish_the_chunk_save_and_say_how_to_go_on(whole, busy, tmp_path, capsys, monkeypatch, number, error):
    out = tmp_path / "run.nc"
    signal_at(monkeypatch, 100, number)
    before = signal.getsignal(number)
    with pytest.raises(error) as raised:
        run(out=out)
    assert signal.getsignal(number) is before
    if error is SystemExit:
        assert raised.value.code == 143
    words = capsys.readouterr().err
    assert "stopped at step 15 of 60" in words
    assert "resume=True" in words
    assert len(words.splitlines()) == 1
    assert_same_bytes(run(out=out, resume=True), whole)


def test_a_full_disk_is_one_line_and_the_run_so_far_is_intact(whole, busy, tmp_path, monkeypatch):
    out = tmp_path / "run.nc"
    original = blocks._write_all
    calls = iter(range(10**9))

    def write(file, content):
        if next(calls) > 200:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        original(file, content)

    monkeypatch.setattr(blocks, "_write_all", write)
    with pytest.raises(eg.InputError, match=r"(?s)^could not write .*No space left on device; .* resume=True[^\n]*$"):
        run(out=out)
    monkeypatch.setattr(blocks, "_write_all", original)
    assert load(out).posterior["mean"].shape[1] <= 28
    assert_same_bytes(run(out=out, resume=True), whole)


def test_a_folder_that_cannot_be_written_is_named_before_the_first_step(tmp_path, monkeypatch):
    with pytest.raises(eg.InputError, match="no folder"):
        run(out=tmp_path / "nowhere" / "run.nc")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(eg.InputError, match="read-only"):
        run(out=tmp_path / "run.nc")


def test_nothing_is_overwritten(tmp_path):
    out = tmp_path / "run.nc"
    out.write_text("mine")
    with pytest.raises(eg.InputError, match="exists already"):
        run(out=out)
    with pytest.raises(eg.InputError, match="not a netCDF file"):
        run(out=out, resume=True)
    assert out.read_text() == "mine"
    folder = tmp_path / "other.nc.part"
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(eg.InputError, match=r"notes\.txt and no checkpoint"):
        run(out=tmp_path / "other.nc", resume=True)
    assert os.listdir(folder) == ["notes.txt"]


def test_resume_needs_a_file_and_begins_afresh_where_there_is_none(whole, tmp_path):
    with pytest.raises(eg.InputError, match="give its name as `out`"):
        run(resume=True)
    assert_same_bytes(run(out=tmp_path / "run.nc", resume=True), whole)


OTHER = eg.Posterior(log_prior, lambda q, rows: 2 * log_likelihood(q, rows), ROWS, init=TARGET.init)
MOVED = eg.Posterior(log_prior, log_likelihood, ROWS + 1e-9, init=TARGET.init)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A run stopped at step 20, to be copied."""
    out = tmp_path_factory.mktemp("stopped") / "run.nc"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "STRETCH_SECONDS", 0.0)
        patch.setattr(loop, "FIRST_COUNTS", (1,))
        signal_at(patch, 139, signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            run(out=out)
    return out


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seed": 1}, r"seed \(0 there, 1 here\) differs"),
        ({"batch_size": 8}, r"batch_size \(6 there, 8 here\)"),
        ({"thin": 2}, "thin"),
        ({"temperature": 2.0}, "temperature"),
        ({"step_size": 2e-2}, "the step size differs"),
        ({"recipe": eg.sghmc(2.0)}, "the recipe's numbers differs"),
        ({"recipe": eg.sgld()}, "the model"),
        ({"target": OTHER}, "the model"),
        ({"target": MOVED}, "the data differs"),
        ({"chains": 3}, "chains"),
        ({"steps": 10}, "at step 20 already"),
    ],
)
def test_another_run_is_refused_by_name(stopped, change, words):
    before = (part_folder(stopped) / checkpoint.CHECKPOINT_FILE).read_bytes()
    with pytest.raises(eg.InputError, match=words):
        run(out=stopped, resume=True, **change)
    assert (part_folder(stopped) / checkpoint.CHECKPOINT_FILE).read_bytes() == before


def test_damaged_and_foreign_checkpoints_are_one_line(stopped, tmp_path):
    folder = tmp_path / "run.nc.part"
    content = (part_folder(stopped) / checkpoint.CHECKPOINT_FILE).read_bytes()
    for bad in (content[: len(content) // 2], b"", b"PK\x03\x04 something else", b"hello"):
        folder.mkdir(exist_ok=True)
        (folder / checkpoint.CHECKPOINT_FILE).write_bytes(bad)
        with pytest.raises(eg.InputError, match="not a checkpoint"):
            run(out=tmp_path / "run.nc", resume=True)
    for record, words in (
        (seal.sealed({"format": 99}), "has format 99 and this ergodica reads 3"),
        ({"format": 1}, r"written by version 0\.1\.0 .* cannot continue: finish it with that version, or .* rm -r "),
        ({"format": 2}, "its checksum does not match"),
    ):
        np.savez(folder / checkpoint.CHECKPOINT_FILE, manifest=np.array(json.dumps(record)))
        before = (folder / checkpoint.CHECKPOINT_FILE).read_bytes()
        with pytest.raises(eg.InputError, match=words):
            run(out=tmp_path / "run.nc", resume=True)
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == {checkpoint.CHECKPOINT_FILE: before}


def test_another_version_is_a_warning(stopped, whole, tmp_path, monkeypatch):
    from ergodica.driver import build

    copy = tmp_path / "run.nc.part"
    copy.mkdir()
    for path in part_folder(stopped).iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(build, "versions", lambda: {**whole.settings["versions"], "jax": "0.99"})
    with pytest.warns(UserWarning, match=r"other versions \(jax .* -> 0\.99\)"):
        assert_same_bytes(run(out=tmp_path / "run.nc", resume=True), whole)


def test_more_steps_extend_a_run_that_was_stopped(stopped, tmp_path):
    copy = tmp_path / "run.nc.part"
    copy.mkdir()
    for path in part_folder(stopped).iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    assert_same_bytes(run(out=tmp_path / "run.nc", resume=True, steps=90), run(steps=90))


def test_moments_references_orders_and_groups_are_taken_up(busy, tmp_path, monkeypatch):
    way = {"keep": "moments", "thin": 3, "estimator": Svrg(refresh=25), "batches": "epochs", "share_batches": True}
    expected = run(**way).moments
    killed_at(monkeypatch, 70, out=tmp_path / "run.nc", **way)
    run(out=tmp_path / "run.nc", resume=True, **way)
    again = load(tmp_path / "run.nc").moments
    np.testing.assert_array_equal(again.count, [20, 20])
    assert again.mean["mean"].tobytes() == expected.mean["mean"].tobytes()
    assert again.variance["mean"].tobytes() == expected.variance["mean"].tobytes()


def test_external_targets_take_up_their_batches(busy, tmp_path, monkeypatch):
    def target():
        def gradient(q, batch, seed):
            return {"mean": q["mean"] + 0.1 * batch}

        return eg.External(gradient, np.random.default_rng(4).normal(size=(500, 2)), init=TARGET.init)

    expected = run(target=target(), batch_size=None, steps=30)
    out = tmp_path / "run.nc"
    killed_at(monkeypatch, 90, target=target(), batch_size=None, steps=30, out=out)
    assert_same_bytes(run(target=target(), batch_size=None, steps=30, out=out, resume=True), expected)


def test_in_a_thread_of_the_users_it_runs_as_well(whole, tmp_path):
    found = []
    thread = threading.Thread(target=lambda: found.append(run(out=tmp_path / "run.nc")))
    thread.start()
    thread.join()
    assert_same_bytes(found[0], whole)
