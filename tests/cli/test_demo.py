import json
import subprocess
import sys

RUN = [sys.executable, "-c", "from ergodica.cli import main; main()"]


def ergodica(*arguments):
    return subprocess.run([*RUN, *arguments], capture_output=True, text=True, timeout=300)


def test_demo_leaves_a_picture_and_figures_near_the_truth(tmp_path):
    done = ergodica("demo", "--out", str(tmp_path / "report"), "--steps", "4000", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (tmp_path / "report" / "demo.png").read_bytes().startswith(b"\x89PNG")
    truth = found["samplers"].pop("truth")
    assert set(found["samplers"]) == {"SGLD", "SGHMC", "gSGRHMC"}
    for row in found["samplers"].values():
        assert all(abs(a - b) < 0.3 for a, b in zip(row["sd"], truth["sd"], strict=True))


def test_bad_input_is_one_line_and_exit_code_2(tmp_path):
    (tmp_path / "file").write_text("")
    done = ergodica("demo", "--out", str(tmp_path / "file" / "report"), "--steps", "100")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert ergodica("demo", "--steps", "1").returncode == 2
    assert ergodica("nonsense").returncode == 2


def test_version():
    assert ergodica("--version").stdout.startswith("ergodica")
