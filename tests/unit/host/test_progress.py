"""A bar is there after a while, whether or not it was told anything, and only where somebody looks."""

import io
import sys
import time

from ergodica.host import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def shown(monkeypatch, after, is_terminal=True):
    stream = Terminal() if is_terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress, "SHOWN_AFTER", after)
    with progress.waiting("auditing"):
        time.sleep(0.4)
    return "auditing" in stream.getvalue()


def test_a_bar_is_shown_when_it_takes_long(monkeypatch):
    assert shown(monkeypatch, 0.05)
    assert not shown(monkeypatch, 60.0)
    assert not shown(monkeypatch, 0.05, is_terminal=False)
