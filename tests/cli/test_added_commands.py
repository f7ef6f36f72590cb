"""Commands that other distributions bring: found by their entry points, and only when they are needed."""

from importlib.metadata import EntryPoint, EntryPoints

import click
import pytest

from ergodica.cli import group
from tests.cli import command


@click.command(name="greet")
def greet():
    """Say hello."""
    click.echo("hello")


@pytest.fixture
def installed(monkeypatch):
    """Replaces the entry points that are installed; returns the list of times they were looked up."""
    lookups = []

    def install(*points):
        def look_up(group):  # as importlib.metadata names it
            lookups.append(group)
            return EntryPoints(points)

        monkeypatch.setattr(group, "entry_points", look_up)
        return lookups

    return install


GREET = EntryPoint("greet", f"{__name__}:greet", group.ENTRY_POINTS)


def test_a_command_of_another_distribution(installed):
    lookups = installed(GREET)
    assert command.call("greet").stdout == "hello\n"
    assert set(lookups) == {"ergodica.commands"}
    assert "Say hello." in command.call("--help").stdout


def test_ours_do_not_look_for_others(installed):
    lookups = installed(GREET)
    assert command.call("sample", "--help").exit_code == 0
    assert lookups == []


def test_ours_come_first(installed):
    installed(EntryPoint("sample", f"{__name__}:greet", group.ENTRY_POINTS))
    assert "hello" not in command.call("sample", "--help").stdout


def test_without_the_paper_reproduce_says_what_to_install(installed, capsys, monkeypatch):
    installed()
    said = command.complaint(capsys, monkeypatch, "reproduce", "map", "--quick")
    assert "pip install ergodica-paper" in said
    assert "make install" in said
    assert "reproduce" not in command.call("--help").stdout


def test_a_name_that_nobody_has(installed):
    installed()
    result = command.call("reproduction")
    assert result.exit_code == 2
    assert "No such command 'reproduction'" in result.stderr
