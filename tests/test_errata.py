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


# The first section's samplers are certified one by one in tests/laws/test_certify_sde.py: half a minute less here.
@pytest.mark.parametrize("place", range(1, len(ERRATA.SECTIONS)), ids=[each.__name__ for each in ERRATA.SECTIONS[1:]])
def test_section_is_what_the_tools_say(place):
    assert "## " + PARTS[1 + place] == ERRATA.SECTIONS[place](), "run make errata"


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
