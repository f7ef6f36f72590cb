"""ergodica diagnose."""

import json
import os
from functools import partial

import numpy as np
import pytest

from ergodica.errors import InputError
from ergodica.output.files import save
from ergodica.output.labelled import datatree
from tests.cli.command import call
from tests.unit.diagnostics.chains import SETTINGS, autoregressive, statistics

TARGET = """
import jax.numpy as jnp
import ergodica as eg

target = eg.Density(lambda q: jnp.sum(q ** 2) / 2, init=jnp.zeros(3))
"""


@pytest.fixture(autouse=True)
def runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    good = autoregressive(draws=1000)
    save(datatree(good, statistics(draws=1000), SETTINGS), "good.nc")
    (tmp_path / "normal_target.py").write_text(TARGET)


run = partial(call, "diagnose")


def test_a_good_run_has_exit_code_0_and_says_what_was_not_looked_at():
    result = run("good.nc", "--target", "normal_target.py:target")
    assert result.exit_code == 0, result.output
    assert result.output.startswith("Diagnosis of 4 chains of 1,000 draws, 3 numbers (sghmc)")
    assert "Stein discrepancy" in result.output
    assert "Step-size bias was not looked at" in " ".join(result.output.split())


def test_an_undecided_one_has_exit_code_1():
    save(datatree(autoregressive(draws=1000), statistics(draws=1000), SETTINGS | {"starts": "one"}), "close.nc")
    result = run("close.nc", "--json")
    assert result.exit_code == 1
    found = json.loads(result.output)
    assert (found["passed"], found["undecided"]) == (False, True)
    assert all(check["passed"] for check in found["checks"])


def test_a_wrong_one_has_exit_code_1():
    wide = autoregressive(draws=1000, sd=1.5)
    save(datatree(wide, statistics(draws=1000, step_size=0.2), SETTINGS), "wide.nc")
    result = run("wide.nc", "--halved", "good.nc", "--json")
    assert result.exit_code == 1
    found = json.loads(result.output)
    assert [check["name"] for check in found["checks"] if not check["passed"]] == ["bias of sds"]
    assert np.allclose(found["figures"]["sd"], 1.5, rtol=0.1)


def test_something_that_is_no_target_is_one_line(tmp_path):
    (tmp_path / "wrong_target.py").write_text("target = 3")
    with pytest.raises(InputError, match=r"wrong_target\.py:target is int: expected an eg\.Density"):
        run("good.nc", "--target", "wrong_target.py:target")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda: os.truncate("good.nc", 5000), "good.nc is cut off"),
        (lambda: open("good.nc", "w").close(), "is not a netCDF file"),
        (lambda: os.remove("good.nc"), "there is no file"),
    ],
)
def test_bad_files_are_one_line(spoil, message):
    spoil()
    with pytest.raises(InputError, match=message) as caught:
        run("good.nc")
    assert "\n" not in str(caught.value)
