"""Fewer bootstraps than in use: enough for p-values of 0.002."""

import pytest


@pytest.fixture(autouse=True)
def _few_bootstraps(monkeypatch):
    monkeypatch.setattr("ergodica.diagnostics.stein.BOOTSTRAP_COUNT", 999)
