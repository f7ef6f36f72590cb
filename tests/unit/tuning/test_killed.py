"""A tuned run that is stopped anywhere, and resumed, is bit for bit the one that was not; or it says why it is not."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import ergodica as eg
from ergodica.driver import checkpoint, loop
from ergodica.driver.part_folder import part_folder
from ergodica.output import blocks
from ergodica.tuning import ladder, tuned
from tests.attacks import damage
from tests.attacks.runs import SHORT_AT_FIRST
from tests.unit.tuning.runs import LOOSE, TARGET, Line, assert_same_bytes, run


class Killed(BaseException):
    """Nobody catches it: as abrupt as a process can end from within."""


@pytest.fixture(autouse=True, scope="module")
def busy():
    """Stretches of 16 steps, a checkpoint after each, and rungs that have to be lengthened."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ladder, "LENGTH_MARGIN", SHORT_AT_FIRST)
        patch.setattr(checkpoint, "SAVE_EVERY", 0.0)
        patch.setattr(loop, "_rates", {})
        patch.setattr(loop.Pace, "made", lambda *_: None)
        yield


@pytest.fixture(scope="module")
def whole(busy):
    return run()


def before_call(patch, place, name, act, matches=lambda *_: True, after=False):
    """`act()` once, before (or after) the first call of `place.name` whose arguments match."""
    real, acted = getattr(place, name), []

    def wrapped(*arguments, **named):
        is_it = not acted and matches(*arguments)
        if is_it and not after:
            acted.append(act())
        found = real(*arguments, **named)
        if is_it and after:
            acted.append(act())
        return found

    patch.setattr(place, name, wrapped)
    return acted


def kill():
    raise Killed


def file_is(name):
    return lambda path, *_: path.name == name


def block_of(rung, count):
    """The `count`-th block that is written to draws of this rung."""
    seen = []

    def matches(file, *_):
        seen.extend([1] if f"rung-{rung}.nc.part" in str(file.name) else [])
        return len(seen) == count

    return matches


def points():
    """What is called there, which calls are meant, and whether it is stopped after them."""
    return {
        "planning": (tuned, "settings_for", lambda *_: True, False),
        "the arrays of the plan": (tuned, "write_whole", file_is("plan.npz"), True),
        "the plan": (tuned, "write_whole", file_is("plan.json"), True),
        "witness": (blocks, "_write_all", block_of(0, 40), False),
        "answer": (blocks, "_write_all", block_of(1, 40), True),
        "before lengthening": (tuned, "write_whole", file_is("rung-1.json"), False),
        "after lengthening": (tuned, "write_whole", file_is("rung-1.json"), True),
        "the file": (eg.Run, "save", lambda *_: True, False),
        "the end": (eg.Run, "save", lambda *_: True, True),
    }


@pytest.mark.parametrize("point", points())
def test_killed_and_resumed(whole, tmp_path, monkeypatch, point):
    out, (place, name, matches, after) = tmp_path / "run.nc", points()[point]
    with monkeypatch.context() as patch:
        before_call(patch, place, name, kill, matches, after)
        with pytest.raises(Killed):
            run(out=out)
    assert_same_bytes(run(out=out, resume=True), whole)
    assert_same_bytes(eg.load(out), whole)
    assert os.listdir(tmp_path) == ["run.nc"]


@pytest.mark.parametrize(
    ("point", "number", "said"),
    [
        ("planning", signal.SIGINT, "Ctrl-C: stopped; the same call with resume=True"),
        ("planning", signal.SIGTERM, "SIGTERM: stopped; the same call with resume=True"),
        ("witness", signal.SIGINT, "Ctrl-C: stopped at step"),
        ("after lengthening", signal.SIGINT, "Ctrl-C: stopped at step"),
        ("the file", signal.SIGINT, "Ctrl-C: the run was at its end"),
    ],
)
def test_signals_say_how_to_resume(whole, tmp_path, monkeypatch, capsys, point, number, said):
    out, (place, name, matches, after) = tmp_path / "run.nc", points()[point]
    handler = signal.getsignal(number)
    with monkeypatch.context() as patch:
        before_call(patch, place, name, lambda: os.kill(os.getpid(), number), matches, after)
        with pytest.raises(KeyboardInterrupt if number == signal.SIGINT else SystemExit):
            run(out=out)
    assert signal.getsignal(number) is handler
    words = capsys.readouterr().err
    assert words.startswith(said)
    assert "--resume" in words or out.exists()
    assert len(words.splitlines()) == 1
    assert_same_bytes(run(out=out, resume=True), whole)


def test_stopped_when_a_rung_was_written_it_says_that_there_is_more(whole, tmp_path, monkeypatch, capsys):
    from ergodica.driver import run_file

    out = tmp_path / "run.nc"
    with monkeypatch.context() as patch:
        before_call(patch, run_file, "save_blocks", lambda: os.kill(os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            run(out=out)
    words = capsys.readouterr().err
    assert "rung-0.nc is finished, which is a part of the run; the same call with resume=True" in words
    with pytest.raises(eg.InputError, match=r"of a tuned run, .* parts of it are .*rung-0\.nc$"):
        eg.load(out)
    with pytest.raises(eg.InputError, match="holds an unfinished run"):
        run(out=out)
    assert_same_bytes(run(out=out, resume=True), whole)


def test_a_second_start_is_refused_and_harms_nothing(whole, tmp_path, monkeypatch):
    out, refused = tmp_path / "run.nc", []

    def again():
        with pytest.raises(eg.InputError, match="is being written by another process") as error:
            run(out=out, resume=True)
        refused.append(str(error.value))

    before_call(monkeypatch, tuned, "execute", again)
    assert_same_bytes(run(out=out), whole)
    assert len(refused) == 1


@pytest.fixture(scope="module")
def stopped(busy, tmp_path_factory):
    """The folder of a run that was stopped after its plan, and after its answer was to be lengthened."""
    out = tmp_path_factory.mktemp("stopped") / "run.nc"
    with pytest.MonkeyPatch.context() as patch:
        before_call(patch, tuned, "write_whole", kill, file_is("rung-1.json"), after=True)
        with pytest.raises(Killed):
            run(out=out)
    return part_folder(out)


def test_damage_to_a_plan_is_named(stopped, tmp_path):
    """Flipped bits, truncations, zeroed pages; what is read of a plan is what was written."""
    plan, scratch = tmp_path / "plan", tmp_path / "scratch"
    plan.mkdir()
    scratch.mkdir()
    for name in ("plan.json", "plan.npz", "rung-1.json"):
        (plan / name).write_bytes((stopped / name).read_bytes())
    request = tuned.Request(TARGET, accuracy=LOOSE)
    position = tuned.checked(request)
    identity = json.loads((plan / "plan.json").read_text())["identity"]

    def read(folder: Path):
        found = tuned._read_plan(request, position, identity, folder)
        return found.to_dict(), found.root, found.laplace.peak.point, tuned._lengths(folder / "rung-1.json", folder)

    trials = damage.attack(plan, read, scratch, trials=60)
    assert not [one for one in trials if not one.has_held]


def test_another_call_is_refused_and_the_default_accuracy_is_the_default(stopped):
    out = stopped.with_name("run.nc")
    with pytest.raises(eg.InputError, match=r"holds another run: accuracy"):
        run(out=out, resume=True, accuracy=None)
    one, other = (tuned._identity(tuned.Request(TARGET, accuracy=x), TARGET.init) for x in (None, eg.Accuracy()))
    assert one == other


def test_after_its_pilots_a_run_with_a_metropolis_test_is_resumed_with_the_users_tree(tmp_path, monkeypatch):
    """Chains of the next rung begin where those of the pilot ended: at positions of that tree, not of a file."""
    start = Line(np.zeros(2, np.float32), np.zeros((), np.float32))
    target = eg.Density(lambda q: jnp.sum(q.slope**2) / 2 + 50 * (q.level - 1) ** 2, init=start)
    expected, out = eg.sample(target, accuracy=LOOSE, progress=False), tmp_path / "run.nc"
    with monkeypatch.context() as patch:
        before_call(patch, blocks, "_write_all", kill, block_of(1, 3))
        with pytest.raises(Killed):
            eg.sample(target, accuracy=LOOSE, progress=False, out=out)
    found = eg.sample(target, accuracy=LOOSE, progress=False, out=out, resume=True)
    assert found.posterior.slope.tobytes() == expected.posterior.slope.tobytes()
    assert found.posterior.level.tobytes() == expected.posterior.level.tobytes()


@pytest.mark.long  # kills at chosen moments are above, more of them at random ones in benchmarks/attacks.py
def test_kill_9_at_random_moments(tmp_path):
    script = Path(__file__).parents[3] / "benchmarks" / "attacks.py"
    command = [sys.executable, script, "--only", "kills, tuned", "--trials", "4"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
