"""Damage to the folder of a run is found and named, or changes nothing; 300 trials: benchmarks/attacks.py."""

import os
import signal

import pytest

from ergodica.lda import LDA
from ergodica.lda.run_files import read_unfinished
from ergodica.lda.samplers import Learner
from tests.attacks import damage
from tests.unit.lda.small import DOCUMENTS, learnt, model


def test_random_damage_to_a_finished_run(tmp_path):
    learnt().save(tmp_path / "run")
    (tmp_path / "copies").mkdir()
    trials = damage.attack(tmp_path / "run", lambda folder: vars(LDA.load(folder)), tmp_path / "copies", 40)
    assert all(trial.has_held for trial in trials), damage.told(trials)


def test_random_damage_to_a_checkpoint(tmp_path, monkeypatch):
    original = Learner.step

    def step(self, batch):
        if self.steps == 7:
            os.kill(os.getpid(), signal.SIGINT)
        original(self, batch)

    monkeypatch.setattr(Learner, "step", step)
    with pytest.raises(KeyboardInterrupt):
        model().fit(DOCUMENTS, out=tmp_path / "run")
    (tmp_path / "copies").mkdir()
    trials = damage.attack(tmp_path / "run", read_unfinished, tmp_path / "copies", 40)
    assert all(trial.has_held for trial in trials), damage.told(trials)
