"""ergodica certify."""

import json

import pytest
from click.testing import CliRunner

from ergodica.cli import commands
from ergodica.verify.specimens import SAMPLERS
from tests.selection import long_unless

OWN = """
import jax.numpy as jnp
import ergodica as eg
recipe = eg.sghmc()
silent = eg.sgld(jnp.array([1.0, 0.0]))
target = eg.gallery.gaussian(3)
pair = (recipe, target)
"""


@pytest.mark.parametrize("name", long_unless(SAMPLERS, "sgld", "sghmc", "sgrhmc"))
def test_every_name_passes(name):
    result = CliRunner().invoke(commands, ["certify", name, "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert json.loads(result.output)[name]["passed"]


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "own_sampler.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("own")
def test_module_recipe():
    result = CliRunner().invoke(commands, ["certify", "own_sampler.py:recipe", "--target", "own_sampler.py:target"])
    assert result.exit_code == 0, result.output
    assert "PASSED" in result.output
    assert "3 position" in result.output


@pytest.mark.usefixtures("own")
def test_exit_code_one_when_it_does_not_pass():
    result = CliRunner().invoke(commands, ["certify", "own_sampler.py:silent"])
    assert result.exit_code == 1
    assert "NOT PASSED" in result.output


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nothing", "there are sgld"),
        ("own_sampler.py:missing", "has no 'missing'"),
        ("absent_module:recipe", "no module"),
        ("own_sampler.py:target", "eg.Recipe"),
    ],
)
def test_bad_input(name, words):
    result = CliRunner().invoke(commands, ["certify", name])
    assert words in str(result.exception)
