"""docs/paper/errata.md is what the library's tools say today."""

from pathlib import Path

import pytest

from ergodica_paper.errata import document as errata

ROOT = Path(__file__).parents[2]
PARTS = (ROOT / errata.PAGE).read_text(encoding="utf-8").removesuffix("\n").split("\n\n## ")


# The samplers of these are certified and audited one by one in tests/laws, test_certify_sde.py and test_wrong_steps.py:
# a minute less here. `make errata ARGS=--check` compares the whole page.
ELSEWHERE = (errata.SECTIONS[0], errata.naive_sgrhmc, errata.own_batch)
HERE = [section for section in errata.SECTIONS if section not in ELSEWHERE]


@pytest.mark.parametrize("section", HERE, ids=lambda section: section.__name__)
def test_section_is_what_the_tools_say(section):
    assert "## " + PARTS[1 + errata.SECTIONS.index(section)] == section(), "run make errata"


def test_nothing_else_is_on_the_page():
    assert len(PARTS) == len(errata.SECTIONS) + 2
    assert PARTS[0] == errata.HEAD
    assert "## " + PARTS[-1] == errata.TAIL


def test_check_sees_a_page_that_was_changed(monkeypatch, tmp_path):
    monkeypatch.setattr(errata, "PAGE", tmp_path / "errata.md")
    monkeypatch.setattr(errata, "SECTIONS", (errata.schedule,))
    monkeypatch.setattr("sys.argv", ["document.py"])
    errata.main()
    monkeypatch.setattr("sys.argv", ["document.py", "--check"])
    errata.main()
    errata.PAGE.write_text(errata.PAGE.read_text(encoding="utf-8").replace("12.6", "12.7"), encoding="utf-8")
    with pytest.raises(SystemExit, match="run make errata"):
        errata.main()
