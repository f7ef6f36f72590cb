"""Damage to what an unfinished run left is found and named, or changes nothing; 300 trials: benchmarks/attacks.py."""

import signal

import pytest

import ergodica as eg
from ergodica.driver import loop
from ergodica.output import blocks
from tests.attacks import damage
from tests.unit.driver.runs import run


def test_random_damage(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "STRETCH_SECONDS", 0.0)
    monkeypatch.setattr(loop, "FIRST_COUNTS", (1,))
    original, calls = blocks.BlockFile.append, iter(range(10**9))

    def append(self, block):
        original(self, block)
        if next(calls) == 139:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(blocks.BlockFile, "append", append)
        with pytest.raises(KeyboardInterrupt):
            run(out=tmp_path / "run.nc")
    (tmp_path / "copies").mkdir()
    trials = damage.attack(
        tmp_path / "run.nc.part", lambda folder: eg.load(str(folder).removesuffix(".part")), tmp_path / "copies", 40
    )
    assert all(trial.has_held for trial in trials), damage.told(trials)
