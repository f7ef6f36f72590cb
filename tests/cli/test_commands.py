"""The command itself."""

import sys

import pytest

from ergodica.cli import main


def ergodica(monkeypatch, *arguments):
    """The exit code of the command, through its entry point."""
    monkeypatch.setattr(sys, "argv", ["ergodica", *arguments])
    with pytest.raises(SystemExit) as raised:
        main()
    return raised.value.code or 0


def test_bad_input_is_one_line_and_exit_code_2(monkeypatch, capsys):
    assert ergodica(monkeypatch, "nonsense") == 2
    assert "Traceback" not in capsys.readouterr().err


def test_version(monkeypatch, capsys):
    assert ergodica(monkeypatch, "--version") == 0
    assert capsys.readouterr().out.startswith("ergodica")
