"""The page in headless Chromium: topics are chosen by mouse and keyboard, words move, things are found; on a phone."""

import json
import re

import pytest

from ergodica.lda.report import write_report
from tests.browser import browse, seen
from tests.unit.lda.report_runs import write_run

# What a person does and sees, put at the end of a copy of the page that lets it run.
ACTIONS = """
const seen = {}, all = (selector) => [...document.querySelectorAll(selector)];
const isShown = (part) => part.getClientRects().length > 0, one = (selector) => all(selector).filter(isShown)[0];
const title = () => document.getElementById("panel-title").textContent;
const words = () => all("#panel-words bdi").map((word) => word.textContent);
const set = (id, value, kind) => { const field = document.getElementById(id); field.value = value;
  field.dispatchEvent(new Event(kind, { bubbles: true })); };
const press = (part, key) => part.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
const click = (part) => part.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true }));
const boxes = (selector) => all(selector).map((part) => part.getBoundingClientRect()).filter((box) => box.width);
const meet = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
  && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 2;
const wider = () => document.documentElement.scrollWidth - innerWidth;
const labels = boxes(".spot:not(.crowded) text"), data = JSON.parse(document.getElementById("data").textContent);
seen.width = innerWidth;
seen.wider = [wider()];
seen.labels = labels.length;
seen.hidden = labels.filter((a, i) => labels.some((b, j) => i < j && meet(a, b))).length;
seen.outside = labels.filter((a) => a.left < 0 || a.right > innerWidth).length;
seen.largest = [title(), "Topic " + data.topics[0].n];

click(one('.spot[data-topic="5"]').querySelector("circle"));
seen.spot = [title(), location.hash, all(".on").map((part) => part.dataset.topic)];
seen.bars = ["rect.mine", "rect.overall", "line"].map((kind) => all("#panel-words " + kind).length);
const top = document.getElementById("panel").getBoundingClientRect().top;
seen.inView = top >= -1 && top < innerHeight;
seen.probable = words();
set("relevance", "0", "input"); seen.particular = words(); seen.weight = document.getElementById("weight").textContent;
set("relevance", "1", "input"); seen.back = words();
seen.time = all("#panel-time rect").length;
seen.typical = all("#panel-documents > li").map((entry) => entry.querySelector("h4").textContent);
seen.links = all("#panel-documents h4 a").map((link) => [link.protocol, link.rel]);

const first = one('.pick[data-topic="5"]'); first.focus();
seen.tabStops = [all(".pick[tabindex='0']").length, all(".spot[tabindex='0']").filter(isShown).length];
press(first, "ArrowDown"); seen.down = [title(), document.activeElement.dataset.topic];
press(document.activeElement, "ArrowUp"); seen.up = title();
press(document.activeElement, "End"); seen.end = [title(), "Topic " + data.topics.at(-1).n];
click(document.getElementById("next")); seen.next = title();

set("query", "BRID", "input");
seen.word = all("#results h4").map((name) => name.textContent);
seen.wider.push(wider());
click(one('#results a[data-topic="0"]')); seen.chosen = [title(), one("#panel-words .match bdi").textContent];
seen.closed = document.getElementById("results").hidden;
set("query", "letter 17 about", "input"); seen.title = all("#results h4").map((name) => name.textContent);
set("query", "doc-011", "input"); seen.id = all("#results h4").map((name) => name.textContent);
set("query", "nosuchword", "input"); seen.nothing = document.getElementById("found").textContent;
press(document.getElementById("query"), "Escape"); seen.cleared = document.getElementById("query").value;

set("order", "number", "change"); seen.order = all(".topic").map((row) => Number(row.dataset.topic));
all("details").forEach((part) => { part.open = true; });
seen.wider.push(wider());
document.body.dataset.seen = JSON.stringify(seen);
"""
# A window cannot be as narrow as a phone, but a frame can; one made of the page's own text may be looked into.
FRAME = """<!DOCTYPE html><meta charset="utf-8"><body><iframe style="border:0" width="390" height="800"></iframe>
<script>
const frame = document.querySelector("iframe");
frame.addEventListener("load", () => { document.body.dataset.seen = frame.contentDocument.body.dataset.seen; });
frame.srcdoc = TEXT;
</script></body>"""


def act(page, folder, width):
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page.read_text("utf-8"))
    text = text.replace("</body>", f"<script>{{{ACTIONS}}}</script></body>")
    if width < 500:
        text = FRAME.replace("TEXT", json.dumps(text).replace("</", "<\\/"))
    copy = folder / "acted.html"
    copy.write_text(text, encoding="utf-8")
    document, complaints = browse(copy, folder / "profile", max(width, 500), "--virtual-time-budget=5000")
    assert complaints == []
    return seen(document)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    told = {"coherence": {"npmi": [0.1] * 16, "documents": 40}, "warnings": ["Topic 3 is empty: " + "x" * 300]}
    return write_report(write_run(tmp_path_factory.mktemp("run"), topics=16, **told))


def test_the_script_runs_under_the_policy_of_the_page(page, tmp_path):
    document, complaints = browse(page, tmp_path, 1400)
    assert complaints == []
    assert '<html lang="en" dir="ltr" class="ready">' in document


@pytest.mark.parametrize("width", [1400, 390])
def test_topics_are_chosen_words_move_and_things_are_found(page, tmp_path, width):
    found = act(page, tmp_path, width)
    assert found["width"] == width
    assert max(found["wider"]) <= 0
    assert found["labels"] >= 24
    assert (found["hidden"], found["outside"]) == (0, 0)
    assert found["largest"][0] == found["largest"][1]
    _check_topic(found)
    _check_keyboard(found)
    _check_search(found)
    assert found["order"] == list(range(16))


def _check_topic(found):
    assert found["spot"][:2] == ["Topic 5", "#topic-5"]
    assert set(found["spot"][2]) == {"5"}
    assert found["bars"] == [20, 20, 20]
    assert found["inView"]
    assert found["probable"] == found["back"] != found["particular"]
    assert found["weight"] == "0"
    assert found["time"] == 8  # years that have documents
    assert found["typical"]
    assert all(link == ["https:", "noopener noreferrer"] for link in found["links"])


def _check_keyboard(found):
    assert found["tabStops"] == [1, 1]
    assert found["down"][0] == f"Topic {found['down'][1]}" != "Topic 5"
    assert found["up"] == "Topic 5"
    assert found["end"][0] == found["end"][1]
    assert found["next"] == found["largest"][0]  # after the last comes the first


def _check_search(found):
    assert found["word"][0] == "bridge"
    assert found["chosen"] == ["Topic 0", "bridge"]
    assert found["closed"]
    assert found["title"][0].startswith("Letter 17 about")
    assert len(found["id"]) == 1
    assert found["nothing"] == "No word of the topics and no sample document matches."
    assert found["cleared"] == ""
