"""docs/paper/errata.md is what the library's tools say today."""

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "docs" / "paper" / "errata.py"


def load():
    spec = importlib.util.spec_from_file_location("errata", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ERRATA = load()
PARTS = ERRATA.PAGE.read_text(encoding="utf-8").removesuffix("\n").split("\n\n## ")


# The samplers of these are certified and audited one by one in tests/laws, test_certify_sde.py and test_wrong_steps.py:
# a minute less here. `make errata ARGS=--check` compares the whole page.
ELSEWHERE = (ERRATA.SECTIONS[0], ERRATA.naive_sgrhmc, ERRATA.own_batch)
HERE = [section for section in ERRATA.SECTIONS if section not in ELSEWHERE]


@pytest.mark.parametrize("section", HERE, ids=lambda section: section.__name__)
def test_section_is_what_the_tools_say(section):
    assert "## " + PARTS[1 + ERRATA.SECTIONS.index(section)] == section(), "run make errata"


def test_nothing_else_is_on_the_page():
    assert len(PARTS) == len(ERRATA.SECTIONS) + 2
    assert PARTS[0] == ERRATA.HEAD
    assert "## " + PARTS[-1] == ERRATA.TAIL


def test_check_sees_a_page_that_was_changed(monkeypatch, tmp_path):
    monkeypatch.setattr(ERRATA, "PAGE", tmp_path / "errata.md")
    monkeypatch.setattr(ERRATA, "SECTIONS", (ERRATA.schedule,))
    monkeypatch.setattr("sys.argv", ["errata.py"])
    ERRATA.main()
    monkeypatch.setattr("sys.argv", ["errata.py", "--check"])
    ERRATA.main()
    ERRATA.PAGE.write_text(ERRATA.PAGE.read_text(encoding="utf-8").replace("12.6", "12.7"), encoding="utf-8")
    with pytest.raises(SystemExit, match="run make errata"):
        ERRATA.main()
