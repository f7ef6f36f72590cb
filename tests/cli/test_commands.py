"""The command itself."""

import subprocess
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


INTERRUPTED_IMPORT = """
import os, signal, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "jax":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
from ergodica.cli import main
main()
"""


def test_ctrl_c_while_jax_is_imported_is_one_line_and_130():
    command = [sys.executable, "-c", INTERRUPTED_IMPORT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "ergodica: stopped by Ctrl-C while it was being loaded\n"
