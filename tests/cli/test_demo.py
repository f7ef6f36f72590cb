"""`ergodica demo`, and the command itself."""

import json
import sys

import pytest

from ergodica.cli import main


def ergodica(monkeypatch, *arguments):
    """The exit code of the command, through its entry point."""
    monkeypatch.setattr(sys, "argv", ["ergodica", *arguments])
    with pytest.raises(SystemExit) as raised:
        main()
    return raised.value.code or 0


def test_demo_leaves_a_picture_and_figures_near_the_truth(tmp_path, monkeypatch, capsys):
    assert ergodica(monkeypatch, "demo", "--out", str(tmp_path / "report"), "--steps", "4000", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (tmp_path / "report" / "demo.png").read_bytes().startswith(b"\x89PNG")
    truth = found["samplers"].pop("truth")
    assert set(found["samplers"]) == {"SGLD", "SGHMC", "gSGRHMC"}
    for row in found["samplers"].values():
        assert all(abs(a - b) < 0.3 for a, b in zip(row["sd"], truth["sd"], strict=True))


def test_bad_input_is_one_line_and_exit_code_2(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("")
    assert ergodica(monkeypatch, "demo", "--out", str(tmp_path / "file" / "report"), "--steps", "100") == 2
    assert "Traceback" not in capsys.readouterr().err
    assert ergodica(monkeypatch, "demo", "--steps", "1") == 2
    assert ergodica(monkeypatch, "nonsense") == 2


def test_version(monkeypatch, capsys):
    assert ergodica(monkeypatch, "--version") == 0
    assert capsys.readouterr().out.startswith("ergodica")
