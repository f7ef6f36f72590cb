"""Fixtures that several tests of the driver share."""

import pytest

from ergodica.driver import checkpoint, loop
from tests.unit.driver.runs import run


@pytest.fixture
def busy(monkeypatch):
    """A checkpoint after every step."""
    monkeypatch.setattr(checkpoint, "SAVE_EVERY", 0.0)
    monkeypatch.setattr(loop, "STRETCH_SECONDS", 0.0)
    monkeypatch.setattr(loop, "FIRST_COUNTS", (1,))


@pytest.fixture(scope="module")
def whole():
    """A run that nobody disturbed."""
    return run()
