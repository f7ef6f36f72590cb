"""Ctrl-C does not wait for threads that compute or read."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from ergodica.driver import engine
from ergodica.host import threads
from tests.unit.driver.runs import run


def test_results_and_errors_come_back_and_threads_end():
    pool = threads.Threads(2, "test")
    assert [pool.submit(pow, 2, k).result(10) for k in range(5)] == [1, 2, 4, 8, 16]
    with pytest.raises(ZeroDivisionError):
        pool.submit(divmod, 1, 0).result(10)
    workers = list(pool._threads)
    pool.close()
    assert not any(thread.is_alive() for thread in workers)
    dropped = threads.Threads(1, "test")
    dropped.submit(int).result(10)
    (worker,) = dropped._threads
    del dropped
    worker.join(10)
    assert not worker.is_alive()


def test_a_second_ctrl_c_does_not_wait_for_what_is_being_computed(tmp_path, monkeypatch, capsys):
    release = threading.Event()

    def press_twice():
        for _ in range(2):
            time.sleep(0.1)
            os.kill(os.getpid(), signal.SIGINT)

    def endless(*arguments):
        if not pressing.is_alive():
            pressing.start()
        release.wait(60)
        raise RuntimeError("stopped")

    pressing = threading.Thread(target=press_twice)
    begin = time.monotonic()
    with monkeypatch.context() as patch:
        patch.setattr(engine, "run_chunk", endless)
        with pytest.raises(KeyboardInterrupt):
            run(out=tmp_path / "run.nc", chains=1)
    assert time.monotonic() - begin < 30  # on a busy machine; it waited for the minute
    assert capsys.readouterr().err.startswith("Ctrl-C: stopped at once; ")
    release.set()
    pressing.join()


LEFT_AT_WORK = """
import runpy, sys, time
threads = runpy.run_path(sys.argv[1])
pool = threads["Threads"](1, "test")
try:
    pool.submit(time.sleep, 60)
    time.sleep(0.05)
    print("begun")
    raise {error}
finally:
    pool.close()
"""


@pytest.mark.parametrize(("error", "code"), [("KeyboardInterrupt", 130), ("SystemExit(143)", 143)])
def test_a_process_does_not_wait_for_them_at_its_end(error, code):
    script = LEFT_AT_WORK.format(error=error)
    done = subprocess.run(
        [sys.executable, "-c", script, threads.__file__], capture_output=True, text=True, timeout=50, check=False
    )
    assert (done.returncode, done.stdout) == (code, "begun\n")
