"""Whether the threads that read ahead end with what started them: import the fixture where streams are opened."""

import gc
import threading
import time
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    gc.collect()
    deadline = time.monotonic() + 5
    while any(thread.name == "ergodica-read-ahead" for thread in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
