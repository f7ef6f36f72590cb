"""The page in headless Chromium: its script runs, topics are found and chosen, labels do not overlap on any width."""

import re

import pytest

from ergodica.lda.report import write_report
from tests.browser import browse, seen
from tests.unit.lda.report_runs import write_run

# What a person does and sees, put at the end of a copy of the page that lets it run.
ACTIONS = """
const seen = {}, all = (selector) => [...document.querySelectorAll(selector)];
const shown = () => all(".topic").filter((card) => card.getClientRects().length).map((card) => card.dataset.topic);
const chosen = () => all(".on").map((part) => part.tagName + part.dataset.topic).sort();
const type = (text) => { const field = document.getElementById("filter"); field.value = text;
  field.dispatchEvent(new Event("input")); };
const boxes = (selector) => all(selector).map((part) => part.getBoundingClientRect()).filter((box) => box.width);
const meet = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
  && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 2;
const labels = boxes(".spot:not(.crowded) text");
seen.width = innerWidth;
seen.wider = document.documentElement.scrollWidth - innerWidth;
seen.labels = labels.length;
seen.hidden = labels.filter((a, i) => labels.some((b, j) => i < j && meet(a, b))).length;
seen.outside = labels.filter((a) => a.left < 0 || a.right > innerWidth).length;
seen.first = shown().length;
document.getElementById("all").click();
seen.opened = shown().length;
type("BRID"); seen.bridge = shown(); seen.bold = all("li.match").map((row) => row.firstChild.textContent);
seen.also = all(".also").map((line) => line.textContent);
type("nosuchword"); seen.nothing = [shown().length, document.getElementById("found").textContent];
type(""); seen.again = shown().length;
document.querySelector("#topic-3 button").click();
seen.chosen = chosen(); seen.bar = document.getElementById("chosen").innerText;
document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
seen.cleared = [chosen().length, document.getElementById("chosen").hidden];
document.querySelector('.spot[data-topic="5"] circle').dispatchEvent(new MouseEvent("click", { bubbles: true }));
seen.clicked = chosen();
document.body.dataset.seen = JSON.stringify(seen);
"""


def act(page, profile, width):
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page.read_text("utf-8"))
    copy = page.with_name("acted.html")
    copy.write_text(text.replace("</body>", f"<script>{ACTIONS}</script></body>"), encoding="utf-8")
    document, complaints = browse(copy, profile, width)
    assert complaints == []
    return seen(document)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    return write_report(write_run(tmp_path_factory.mktemp("run"), topics=16))


def test_the_script_runs_under_the_policy_of_the_page(page, tmp_path):
    document, complaints = browse(page, tmp_path, 1400)
    assert complaints == []
    assert '<html lang="en" dir="ltr" class="ready">' in document


@pytest.mark.parametrize("width", [1400, 500])
def test_topics_are_found_chosen_and_labelled(page, tmp_path, width):
    found = act(page, tmp_path, width)
    assert found["width"] == width
    assert found["wider"] <= 0
    assert found["labels"] >= 24
    assert (found["hidden"], found["outside"]) == (0, 0)
    assert (found["first"], found["opened"], found["again"]) == (12, 16, 16)
    assert {"0", "8"} <= set(found["bridge"]) < set(map(str, range(16)))  # in others it comes late by chance
    assert set(found["bold"]) == {"bridge"}
    assert len(found["bold"]) + len(found["also"]) == len(found["bridge"])
    assert found["nothing"] == [0, "No topic has such a word among its 30 most probable."]
    assert {"ARTICLE3", "g3"} <= set(found["chosen"])
    assert set(re.findall(r"\d+", "".join(found["chosen"]))) == {"3"}
    assert found["bar"].startswith("Topic 3: ")
    assert found["cleared"] == [0, True]
    assert {"ARTICLE5", "g5"} <= set(found["clicked"])
