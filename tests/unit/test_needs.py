"""What a test lacks is skipped, and fails where it was promised; a fork's CI has promised nothing."""

import pytest

from tests.needs import missing


def test_without_a_promise_a_test_is_skipped(monkeypatch):
    monkeypatch.delenv("ERGODICA_NEEDS", raising=False)
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.skip.Exception, match="no data here"):
        missing("data", "no data here")


def test_what_was_promised_fails(monkeypatch):
    monkeypatch.setenv("ERGODICA_NEEDS", "browser, data")
    with pytest.raises(pytest.fail.Exception, match="no data here"):
        missing("data", "no data here")
    with pytest.raises(pytest.skip.Exception, match="no paper here"):
        missing("paper", "no paper here")


def test_an_unknown_promise_is_refused(monkeypatch):
    monkeypatch.setenv("ERGODICA_NEEDS", "data,browsers")
    with pytest.raises(pytest.UsageError, match="'browsers': expected some of data, browser, paper"):
        missing("data", "no data here")
