"""A run that kills itself in the middle of a batch: `python killed.py folder batch`. Called again it goes on."""

import os
import signal
import sys
from pathlib import Path

import jax

jax.config.update("jax_enable_x64", True)
sys.path.insert(0, str(Path(__file__).parents[3]))

from ergodica.lda.learner import Learner  # noqa: E402
from tests.unit.lda.small import DOCUMENTS, look_often, model  # noqa: E402

if __name__ == "__main__":
    out, batch = sys.argv[1:]
    look_often()
    step = Learner.step

    def last_step(self, given):
        if self.steps == int(batch):
            os.kill(os.getpid(), signal.SIGKILL)
        step(self, given)

    Learner.step = last_step
    model().fit(DOCUMENTS, out=out, resume=True)
