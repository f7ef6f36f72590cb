"""The page of a report, as text."""

import html.parser
import re
from pathlib import Path

import pytest

from ergodica_paper import store
from ergodica_paper.page import write_page
from ergodica_paper.page.words import cell, first_sentence, flat, marked, sentence
from ergodica_paper.record import Circumstances
from ergodica_paper.result import Ask
from ergodica_paper.summary import count_words, write_summary
from paper.tests.fakes import fake, found

QUICK = Circumstances(
    "quick", 7, None, {"ergodica": "0.1.0"}, "2026-11-16T12:00:00+00:00", 1.5, "ergodica reproduce map --quick --seed 7"
)


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    for name in ("map", "theorem-1"):
        store.write(folder, fake(name), found(name, Ask(seed=7)), QUICK)
    return folder, store.read_all(folder)


@pytest.fixture(scope="module")
def page(records):
    return write_page(*records).read_text("utf-8")


class Tags(html.parser.HTMLParser):
    """Ids and links of a page, and whether every element that is opened is closed."""

    VOID = frozenset({"meta", "img", "br"})

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.links, self.images = [], [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag not in self.VOID:
            self.open.append(tag)
        self.ids += [given["id"]] if "id" in given else []
        self.links += [given["href"]] if "href" in given else []
        self.images += [given] if tag == "img" else []

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_whole_and_asks_nothing_of_the_network(page, records):
    tags = Tags(page)
    assert len(tags.ids) == len(set(tags.ids))
    for link in tags.links:
        assert link.removeprefix("#") in tags.ids if link.startswith("#") else (records[0] / link).is_file(), link
    assert len(tags.images) == 2
    assert all(image["src"].startswith("data:image/") for image in tags.images)
    assert {image["alt"] for image in tags.images} == {"Bias against step size, a straight line."}
    assert not re.search(r"(?:src|href)=.?(?:https?:|//)", page)


def test_items_in_the_order_of_the_table_and_what_is_missing(page):
    assert page.index('<section class="item" id="theorem-1">') < page.index('<section class="item" id="map">')
    missing = page[page.index('id="missing"') :]
    assert "<code>errata</code>" in missing
    assert "<code>map</code>" not in missing


def test_every_claim_with_its_verdict_in_words_on_top_and_below(page):
    top, below = page.split("</section>", 1)
    assert re.findall(r'<h3 class="kind" id="kind-(\w+)">([\w ]+)</h3>', top) == [
        ("paper", "What the paper says"), ("print", "Formulas as printed"), ("ours", "What we found"),
    ]  # fmt: skip
    assert top.index('id="kind-print"') < top.index("#claim-map-1") < top.index('id="kind-ours"')
    for name in ("map", "theorem-1"):
        for i in range(4):
            assert f'<a href="#claim-{name}-{i}">Claim {i} of {name} &amp; &lt;others&gt; holds</a>' in top
            assert f'<article class="claim" id="claim-{name}-{i}">' in below
            assert f"<b>Reproduced if:</b> Rule {i} of {name}.</p>" in below
    assert len(re.findall('<td><span class="badge no">', top)) == 2
    assert '<i aria-hidden="true">✗</i> <b>2</b> not reproduced</span>' in page


def test_what_stands_with_an_item(page):
    assert "ergodica reproduce map --quick --seed 7" in page
    assert "src/ergodica/samplers/langevin.py" in page
    assert "<b>2 runs became non-finite</b>" in page
    assert "<th>naive gSGRHMC at step 0.04</th><td>2</td>" in page
    assert "<th>samples</th><td>300,000</td>" in page
    assert "<th>by sampler, SGLD</th><td>0.1, nan</td>" in page
    assert "theirs <small>the paper’s</small></th>" in page
    assert page.count("steps below 0.01") == 2
    assert page.index('id="claim-map-0"') < page.index('id="map-bias"') < page.index('id="claim-map-1"')


def test_a_large_figure_is_in_the_page_as_png(records, monkeypatch):
    assert Path(records[0] / "figures/map-bias.svg").stat().st_size > 1000
    monkeypatch.setattr("ergodica_paper.page.item.LARGEST_SVG", 1000)
    tags = Tags(write_page(*records).read_text("utf-8"))
    assert all(image["src"].startswith("data:image/png") for image in tags.images)


def test_a_page_without_items(tmp_path):
    tags = Tags(write_page(tmp_path, []).read_text("utf-8"))
    assert tags.ids == ["missing"]


def test_summary_for_the_documentation(records):
    lines = write_summary(*records).read_text("utf-8").splitlines()
    assert count_words(records[1]) == (
        "what the paper says: 2 reproduced, 2 illustration, no verdict; formulas as printed: 2 not reproduced; "
        "what we found: 2 reproduced under conditions"
    )
    table = [line for line in lines if line.startswith("| reproduced")]
    assert len(table) == 4
    assert all(line.count(" | ") == 3 for line in table)
    assert any("Conditions: steps below 0.01" in line for line in table)
    assert "| `map` | quick | 7 | none | 2026-11-16T12:00:00+00:00 | 1.5 s | naive gSGRHMC at step 0.04: 2 |" in lines


def test_words():
    assert [cell(x) for x in (3, 12345, 0.123456, 123456.7, 2000.0, 1e-9, True, None, [1, 0.5], "nan")] == [
        "3", "12,345", "0.123", "123,457", "2,000", "1e-09", "yes", "–", "1, 0.5", "nan",
    ]  # fmt: skip
    assert marked("`a < b` & c") == "<code>a &lt; b</code> &amp; c"
    assert marked("7.5e-06 ± 4e+05, `1e-3`, a1e5") == (
        '<span class="n">7.5·10<sup>−6</sup></span> ± <span class="n">4·10<sup>5</sup></span>, <code>1e-3</code>, a1e5'
    )
    assert marked("4.70e-01, 1.01e+03, 0.0e+00, -2e-02") == "0.470, 1010, 0, -0.02"
    assert marked("below 1e-06") == 'below <span class="n">10<sup>−6</sup></span>'
    assert marked("by (-1.2 ± 0.3)e-05 nats") == 'by <span class="n">(-1.2 ± 0.3)·10<sup>−5</sup></span> nats'
    assert marked("don`t") == "don`t"
    assert first_sentence("One `two`. Three.") == "One two."
    assert (sentence("one"), sentence("one."), sentence("")) == ("one.", "one.", "")
    assert list(flat({"a": {"b": 1, "c": {"d": 2}}, "e": 3})) == [("a, b", "1"), ("a, c, d", "2"), ("e", "3")]
