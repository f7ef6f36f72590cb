"""A run that kills itself in the middle of a batch: `python killed.py folder batch`. Called again it resumes."""

import os
import signal
import sys
import time
from pathlib import Path

import jax
import pytest

jax.config.update("jax_enable_x64", True)
sys.path.insert(0, str(Path(__file__).parents[3]))

from ergodica.lda.samplers import Learner  # noqa: E402
from tests.unit.lda.small import DOCUMENTS, evaluate_often, model  # noqa: E402

if __name__ == "__main__":
    out, batch = sys.argv[1:]
    evaluate_often(pytest.MonkeyPatch())
    step = Learner.step

    def last_step(self, given):
        if self.steps == int(batch):
            # The first checkpoint is written meanwhile, on a busy machine for longer than the steps take.
            for _ in range(600):
                if (Path(out) / "checkpoint/checkpoint.npz").exists():
                    break
                time.sleep(0.1)
            os.kill(os.getpid(), signal.SIGKILL)
        step(self, given)

    Learner.step = last_step
    model().fit(DOCUMENTS, out=out, resume=True)
