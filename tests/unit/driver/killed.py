"""A run that kills itself after some seconds: `python killed.py out seconds`. Called again it goes on where it was."""

import os
import signal
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from ergodica.driver import checkpoint, loop
from ergodica.driver.engine import Engine
from tests.unit.driver.runs import run

LONG = {"steps": 600, "thin": 4}


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    out, seconds = sys.argv[1:]
    checkpoint.SAVE_EVERY, loop.STRETCH_SECONDS = 0.0, 2e-3
    advance = Engine.advance

    def first_advance(*arguments):
        # the first chunk compiles: the clock begins after it
        visits = advance(*arguments)
        Engine.advance = advance
        timer = threading.Timer(float(seconds), kill)
        timer.daemon = True
        timer.start()
        return visits

    Engine.advance = first_advance
    run(**LONG, out=out, resume=True)
