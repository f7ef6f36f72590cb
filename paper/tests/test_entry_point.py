"""`ergodica reproduce` is there because this package is installed, and loads no more than its items need."""

import subprocess
import sys
from importlib.metadata import entry_points

from ergodica.cli.group import ENTRY_POINTS
from ergodica_paper.command import reproduce_command
from tests.cli import command

# The command as it is typed, with every module of the item loaded and its run, which takes minutes, made short.
ONE_DIMENSIONAL = """
import dataclasses, importlib, pkgutil, sys
from ergodica.cli import commands
from ergodica_paper import items, one_dimensional
from ergodica_paper.result import Result
for module in pkgutil.walk_packages(one_dimensional.__path__, "ergodica_paper.one_dimensional."):
    importlib.import_module(module.name)
one_dimensional.ITEM = dataclasses.replace(one_dimensional.ITEM, run=lambda ask: Result(["Nothing."]))
commands(["reproduce", "one-dimensional", "--out", sys.argv[1]], standalone_mode=False)
print(*sorted(name for name in sys.modules if name.startswith(("ergodica.lda", "ergodica_paper.lda", "numba"))))
"""


def test_the_entry_point_is_the_command():
    (found,) = entry_points(group=ENTRY_POINTS, name="reproduce")
    assert found.load() is reproduce_command


def test_it_is_in_the_list_of_commands():
    assert "reproduce " in command.call("--help").stdout


def test_one_dimensional_loads_nothing_of_topic_models(tmp_path):
    arguments = [sys.executable, "-c", ONE_DIMENSIONAL, str(tmp_path / "report")]
    run = subprocess.run(arguments, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr
    assert (tmp_path / "report" / "index.html").exists()
    assert run.stdout.splitlines()[-1] == ""
