"""Pages: whatever is put into one is escaped, its colours can be read, its text is cut and its numbers are short."""

import itertools
import re
import sys
from importlib.resources import files

import jinja2
import pytest
from markupsafe import Markup

from ergodica.pages import clipped, duration, percent, render

TEMPLATE = """{% extends "base.html.j2" %}
{% block title %}{{ name }}{% endblock %}
{% block kind %}test-page{% endblock %}
{% block header %}<p title="{{ name }}">{{ name }}</p>{% endblock %}
{% block main %}{{ inner }}{% endblock %}
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package with a template and a script of its own."""
    folder = tmp_path / "pages_of_a_test"
    folder.mkdir()
    for name, text in {"__init__.py": "", "page.html.j2": TEMPLATE, "page.js": "let a = 1 < 2;"}.items():
        (folder / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    yield folder.name
    sys.modules.pop(folder.name, None)


def test_what_is_put_into_a_page_is_escaped(package):
    page = render(package, name="\"><script>alert('1')</script>", inner=Markup("<b>bold</b>"))
    assert page.count("<script>") == 1
    assert "<script>let a = 1 < 2;</script>" in page
    assert '<p title="&#34;&gt;&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;">' in page
    assert "<b>bold</b>" in page


def test_a_value_that_is_missing_is_an_error(package):
    with pytest.raises(jinja2.UndefinedError, match="inner"):
        render(package, name="a page")


def test_text_is_cut_and_numbers_are_short():
    assert clipped("a \n b\x00", 10) == "a b\ufffd"
    assert clipped("x" * 50, 10) == "x" * 9 + "…"
    assert [percent(x) for x in (0.4567, 0.0123, 0.00123, 1e-6, 0)] == ["46 %", "1.2 %", "0.12 %", "< 0.01 %", "0.00 %"]
    assert [duration(s) for s in (1.234, 245, 8000)] == ["1.23 s", "4 min 5 s", "2 h 13 min"]


def _luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    dark, light = sorted([_luminance(one), _luminance(other)])
    return (light + 0.05) / (dark + 0.05)


def test_text_can_be_read_in_light_and_dark():
    style = files("ergodica.pages").joinpath("style.css").read_text("utf-8")
    schemes = [
        dict(re.findall(r"--([\w-]+): (#\w{6})", block)) for block in re.findall(r":root \{(.*?)\}", style, re.S)
    ]
    assert len(schemes) == 2
    for scheme in schemes:
        for text, ground in itertools.product(("ink", "soft", "link"), ("paper", "raised")):
            assert contrast(scheme[text], scheme[ground]) >= 4.5, (text, ground)
        pairs = ("single", "paper"), ("averaged", "paper"), ("ink", "bar"), ("ink", "chosen-fill"), ("no", "no-fill")
        for text, ground in pairs:
            assert contrast(scheme[text], scheme[ground]) >= 4.5, (text, ground)
