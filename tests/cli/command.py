"""The command line as the tests call it."""

import sys

import pytest
from click.testing import CliRunner

from ergodica.cli import commands, main


def call(*arguments, input=None):
    """The result of `ergodica ...`; an exception that the command does not turn into an exit code is raised."""
    result = CliRunner().invoke(commands, [*map(str, arguments)], input=input)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def complaint(capsys, monkeypatch, *arguments):
    """What the entry point says on stderr: one line, exit code 2."""
    monkeypatch.setattr(sys, "argv", ["ergodica", *map(str, arguments)])
    with pytest.raises(SystemExit) as end:
        main()
    said = capsys.readouterr().err
    assert end.value.code == 2, said
    assert said.startswith("ergodica: ")
    assert said.count("\n") == 1
    return said
