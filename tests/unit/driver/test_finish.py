"""The end of a run and who may write it: one process at a time, nothing half written, and the run asked for."""

import json
import os
import shutil
import signal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodica as eg
from ergodica.driver import checkpoint, load, run_file
from ergodica.driver.identity import step_digest
from ergodica.driver.keeping import Keeping
from ergodica.driver.part_folder import part_folder
from ergodica.host.lock import Lock
from ergodica.output import blocks, files
from tests.unit.driver.runs import ROWS, TARGET, assert_same_bytes, log_likelihood, log_prior, run

pytestmark = pytest.mark.usefixtures("busy")

LAST = 7 * 60 - 1  # the last block that a run writes, step by step


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("finished") / "run.nc"
    run(out=out)
    return out


@pytest.fixture
def out(tmp_path):
    return tmp_path / "run.nc"


def at_block(patch, call, act):
    """`act` is called after the `call`-th write of a block."""
    original = blocks.BlockFile.append
    calls = iter(range(10**9))

    def append(self, block):
        original(self, block)
        if next(calls) == call:
            act(self)

    patch.setattr(blocks.BlockFile, "append", append)


def stopped(out, call=139, **arguments):
    """A run that was stopped by Ctrl-C: at step 20, if not told otherwise."""
    with pytest.MonkeyPatch.context() as patch:
        at_block(patch, call, lambda file: signal.raise_signal(signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            run(out=out, **arguments)


def one_line(raised):
    assert len(str(raised.value).splitlines()) == 1


def test_a_second_process_is_refused_and_the_first_goes_on(whole, out, monkeypatch):
    def second(file):
        with pytest.raises(eg.InputError, match=rf"written by another process \(pid {os.getpid()}\)") as raised:
            run(out=out, resume=True)
        one_line(raised)

    at_block(monkeypatch, 100, second)
    assert_same_bytes(run(out=out), whole)
    assert os.listdir(out.parent) == ["run.nc"]


def test_draws_that_somebody_cut_do_not_become_a_file(out, monkeypatch):
    at_block(monkeypatch, LAST, lambda file: file.truncate(3))
    with pytest.raises(eg.InputError, match="has 3 draws, not 60"):
        run(out=out)
    assert os.listdir(out.parent) == ["run.nc.part"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"recipe": eg.sgld()}, "the model"),
        ({"step_size": 2e-2}, "the step size differs"),
        ({"target": eg.Posterior(log_prior, log_likelihood, ROWS + 1, init=TARGET.init)}, "the data differs"),
        ({"steps": 90}, r"steps \(60 there, 90 here\) differs"),
    ],
)
def test_a_finished_run_is_given_for_the_same_one_only(finished, change, words):
    before = finished.read_bytes()
    with pytest.raises(eg.InputError, match=words) as raised:
        run(out=finished, resume=True, **change)
    one_line(raised)
    assert finished.read_bytes() == before


def test_a_file_that_does_not_say_what_it_is_of_is_refused(whole, out):
    whole.save(out)
    with pytest.raises(eg.InputError, match="does not say what it was made of"):
        run(out=out, resume=True)


def test_a_finished_run_of_version_0_1_0_is_refused_by_that_name(out, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("ergodica.output.labelled.FILE_FORMAT", 1)
        patch.setattr(files, "_seal", lambda path: None)
        run(out=out)
    before = out.read_bytes()
    words = r"of version 0\.1\.0 .* is unknown.*: give another `out`$"
    with pytest.raises(eg.InputError, match=words) as raised:
        run(out=out, resume=True)
    one_line(raised)
    assert out.read_bytes() == before
    assert os.listdir(out.parent) == ["run.nc"]


def test_a_kill_while_the_folder_is_removed_is_in_nobodys_way(whole, out, monkeypatch):
    class Killed(BaseException):
        pass

    def half(folder, ignore_errors):
        (folder / checkpoint.CHECKPOINT_FILE).unlink()
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", half)
        with pytest.raises(Killed):
            run(out=out)
    assert out.exists()
    left = [path.name for path in out.parent.iterdir() if path != out]
    assert len(left) == 1
    kept = shutil.move(out, out.with_name("kept.nc"))
    shutil.copytree(out.with_name(left[0]), out.with_name(".other.nc.1.part"))  # of another file
    assert_same_bytes(run(out=out), whole)
    assert sorted(os.listdir(out.parent)) == [".other.nc.1.part", "kept.nc", "run.nc"]
    assert_same_bytes(load(kept), whole)


def test_an_empty_folder_is_no_unfinished_run(whole, out):
    part_folder(out).mkdir()
    assert_same_bytes(run(out=out), whole)
    assert os.listdir(out.parent) == ["run.nc"]


def test_of_two_folders_beside_a_finished_run_its_own_is_removed(finished, whole, out):
    folder = part_folder(out)
    for seed in (0, 1):
        stopped(out, seed=seed)
        shutil.copy(finished, out)
        assert_same_bytes(run(out=out, resume=True), whole)
        assert folder.exists() == (seed == 1)
        out.unlink()


def test_a_full_disk_at_the_very_end(whole, out, monkeypatch):
    def full(*arguments):
        raise RuntimeError("Can't decrement id\n(errno = 28, error message = 'No space left on device', buf = 0)")

    with monkeypatch.context() as patch:
        patch.setattr(files, "_write_blocks", full)
        with pytest.raises(eg.InputError, match=r"run\.nc: No space left on device; .* resume=True") as raised:
            run(out=out)
    one_line(raised)
    assert os.listdir(out.parent) == ["run.nc.part"]
    assert_same_bytes(run(out=out, resume=True), whole)


def test_a_signal_while_the_file_is_written_waits_for_it(whole, out, monkeypatch, capsys):
    original = files._write_blocks

    def write(*arguments):
        signal.raise_signal(signal.SIGTERM)
        original(*arguments)
        monkeypatch.setattr(files, "_write_blocks", original)

    monkeypatch.setattr(files, "_write_blocks", write)
    with pytest.raises(SystemExit) as raised:
        run(out=out)
    assert raised.value.code == 143
    assert capsys.readouterr().err == f"SIGTERM: the run was at its end; {out} has all of it\n"
    assert os.listdir(out.parent) == ["run.nc"]
    assert_same_bytes(load(out), whole)


def test_a_second_signal_does_not_wait_and_says_how_to_go_on(whole, out, monkeypatch, capsys):
    with monkeypatch.context() as patch:
        at_block(patch, 100, lambda file: [signal.raise_signal(signal.SIGINT) for _ in range(2)])
        with pytest.raises(KeyboardInterrupt):
            run(out=out)
    words = capsys.readouterr().err
    assert words.startswith("Ctrl-C: stopped at once; ")
    assert "resume=True" in words
    stale = out.with_name(".run.nc.4711.part")  # of a process that was killed in the final write
    stale.touch()
    assert_same_bytes(run(out=out, resume=True), whole)
    assert os.listdir(out.parent) == ["run.nc"]


@pytest.mark.parametrize("make", [list, iter], ids=["list", "iterator"])
def test_batches_from_an_iterable_are_taken_up(out, make):
    def target():
        parts = [ROWS[i : i + 7] for i in range(0, 60, 7)] * 30
        return eg.Posterior(log_prior, log_likelihood, eg.data.batches(make(parts), 60), init=TARGET.init)

    expected = run(target=target())
    assert expected.settings["batches"] == "as given"
    stopped(out, target=target())
    assert_same_bytes(run(target=target(), out=out, resume=True), expected)


def test_nan_found_on_the_way_leaves_nothing(out):
    rows = np.zeros((2_001, 2))
    rows[1, 1] = np.nan  # not among those that are looked at beforehand
    np.save(out.parent / "rows.npy", rows)
    data = eg.data.npy(out.parent / "rows.npy")
    with pytest.raises(eg.InputError, match="is nan in row 1"):
        run(target=eg.Posterior(log_prior, log_likelihood, data, init=TARGET.init), out=out)
    assert os.listdir(out.parent) == ["rows.npy"]


def spoil_manifest(arrays):
    manifest = json.loads(str(arrays["record"]))
    manifest["journal"]["seconds"] += 1
    arrays["record"] = np.array(json.dumps(manifest))


def spoil_state(arrays):
    arrays["leaf 0"] = arrays["leaf 0"] + 1


@pytest.mark.parametrize("spoil", [spoil_manifest, spoil_state])
def test_a_damaged_checkpoint_is_one_line(out, spoil):
    stopped(out)
    path = part_folder(out) / checkpoint.CHECKPOINT_FILE
    with np.load(path) as file:
        arrays = dict(file)
    spoil(arrays)
    np.savez(path, **arrays)
    with pytest.raises(eg.InputError, match=r"checkpoint\.npz is damaged \(its checksum does not match\)") as raised:
        run(out=out, resume=True)
    one_line(raised)


def test_draws_are_compared_with_the_checkpoint_and_none_is_cut_before(out):
    stopped(out)
    folder = part_folder(out)
    with open(folder / "sample_stats.potential.bin", "r+b") as file:
        file.write(b"\0")
    with open(folder / "posterior.mean.bin", "ab") as file:
        file.write(bytes(160))  # of a step after the checkpoint
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for read in (lambda: run(out=out, resume=True), lambda: load(out)):
        with pytest.raises(eg.InputError, match=r"potential\.bin is damaged: the checksum of its 20 draws") as raised:
            read()
        one_line(raised)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_bit_that_flips_before_the_file_is_made_does_not_become_a_draw(out, monkeypatch):
    def flip(file):
        content = bytearray(file.path.read_bytes())
        content[3] ^= 1
        file.path.write_bytes(content)

    at_block(monkeypatch, LAST, flip)
    with pytest.raises(eg.InputError, match=r"accepted\.bin is damaged: the checksum of its 60 draws") as raised:
        run(out=out)
    one_line(raised)
    assert os.listdir(out.parent) == ["run.nc.part"]


def test_draws_without_their_checkpoint_are_refused_and_kept(out):
    stopped(out)
    folder = part_folder(out)
    (folder / checkpoint.CHECKPOINT_FILE).unlink()
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(eg.InputError, match=rf"but no checkpoint\.npz.*: to start over, .* rm -r {folder}$") as raised:
        run(out=out, resume=True)
    one_line(raised)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_run_killed_before_its_first_checkpoint_starts_over(out, whole):
    folder = part_folder(out)
    folder.mkdir()
    (folder / "posterior.mean.bin").touch()
    assert_same_bytes(run(out=out, resume=True), whole)


@pytest.mark.parametrize(("place", "resume"), [("read_checkpoint", True), ("plan_of", False), ("on_disk", True)])
def test_a_second_start_at_any_moment_touches_nothing(out, monkeypatch, whole, resume, place):
    """The second comes while the first looks, composes, or makes its files: the lock is held before all of these."""
    if place == "read_checkpoint":
        stopped(out)
    original, seen = getattr(run_file, place), []

    def there():
        paths = [path for path in out.parent.rglob("*") if path.is_file()]
        return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in paths}

    def while_another_starts(*arguments):
        monkeypatch.setattr(run_file, place, original)
        before = there()
        with pytest.raises(eg.InputError, match=rf"written by another process \(pid {os.getpid()}\)") as raised:
            run(out=out, resume=resume)
        one_line(raised)
        assert there() == before
        seen.append(place)
        return original(*arguments)

    monkeypatch.setattr(run_file, place, while_another_starts)
    assert_same_bytes(run(out=out, resume=place == "read_checkpoint"), whole)
    assert seen == [place]
    assert os.listdir(out.parent) == ["run.nc"]


def test_a_finished_run_is_looked_at_under_the_lock(finished, out):
    shutil.copy(finished, out)
    with Lock.beside(out), pytest.raises(eg.InputError, match="written by another process"):
        run(out=out, resume=True)
    run(out=out, resume=True)
    assert os.listdir(out.parent) == ["run.nc"]


def test_a_long_name_is_written(out):
    out = out.with_name("r" * 247 + ".nc")
    run(out=out)
    assert os.listdir(out.parent) == [out.name]


@pytest.mark.parametrize("length", [251, 300])
def test_a_name_that_is_too_long_is_refused_before_the_first_step(out, length, monkeypatch):
    monkeypatch.setattr(run_file, "plan_of", None)
    with pytest.raises(eg.InputError, match=rf"has {length + 5} bytes, and a name may have 255 there") as raised:
        run(out=out.with_name("r" * (length - 3) + ".nc"))
    one_line(raised)
    assert os.listdir(out.parent) == []


def test_to_look_at_an_unfinished_run_writes_nothing(out):
    stopped(out)
    folder = part_folder(out)
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert load(out).posterior["mean"].shape == (2, 20, 2)
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_moments_so_far_can_be_looked_at(out):
    stopped(out, call=59, keep="moments")
    # without the last draw: what follows it is not known yet
    part, expected = load(out), run(keep="moments", steps=9).moments
    np.testing.assert_array_equal(part.moments.count, [9, 9])
    np.testing.assert_array_equal(part.moments.mean["mean"], expected.mean["mean"])
    np.testing.assert_array_equal(part.moments.variance["mean"], expected.variance["mean"])


def test_whole_numbers_of_numpy_are_whole_numbers(whole, out):
    assert_same_bytes(run(steps=np.int64(60), chains=np.int32(2), out=out), whole)


def test_constants_within_a_users_own_jit_are_looked_at():
    def digest(weight):
        weights = jnp.asarray([1.0, weight])
        inner = jax.jit(lambda q, rows: -jnp.sum((rows - q["mean"][None]) ** 2 * weights[None], axis=1))
        kernel = eg.Kernel(eg.Posterior(log_prior, inner, ROWS, init=TARGET.init), eg.sgld())
        state = kernel.init(TARGET.init, jax.random.key(0))
        return step_digest(kernel, state, jax.ShapeDtypeStruct((6, 2), jnp.float64), Keeping.of("draws"))

    assert digest(2.0) == digest(2.0)
    assert digest(2.0) != digest(3.0)


def test_the_file_is_not_begun_on_a_disk_without_room_for_it(whole, out, monkeypatch):
    def full(handle, start, length):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:  # HDF5 would crash the process while it closes the file
        patch.setattr(os, "posix_fallocate", full)
        patch.setattr(files, "_write_blocks", None)
        with pytest.raises(eg.InputError, match=r"run\.nc: No space left on device; .* resume=True") as raised:
            run(out=out)
    one_line(raised)
    assert_same_bytes(run(out=out, resume=True), whole)
