"""ergodica plot."""

from click.testing import CliRunner

from ergodica.cli import commands
from ergodica.output.files import save
from ergodica.output.labelled import datatree
from tests.unit.diagnostics.chains import SETTINGS, autoregressive, statistics


def test_pictures_are_left_in_the_folder(tmp_path):
    save(datatree(autoregressive(draws=100, size=1), statistics(draws=100), SETTINGS), tmp_path / "run.nc")
    arguments = ["plot", str(tmp_path / "run.nc"), "-o", str(tmp_path / "pictures")]
    result = CliRunner().invoke(commands, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    assert {path.name for path in (tmp_path / "pictures").iterdir()} == {
        "trace.png",
        "marginals.png",
        "running_mean.png",
    }
    assert "no bias against step" in result.output
