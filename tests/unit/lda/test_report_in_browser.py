"""The page in headless Chromium: its script runs, topics are found and chosen, labels do not overlap on any width."""

import json
import re
import shutil
import subprocess

import pytest

from ergodica.lda.report import write_report
from tests.unit.lda.report_runs import write_run

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine: apt-get install chromium")

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


def browse(path, profile, width=1400):
    """The document after its scripts ran, and what the browser had to say."""
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--enable-logging=stderr"]
    window = [f"--user-data-dir={profile}", f"--window-size={width},900", "--dump-dom", path.as_uri()]
    found = subprocess.run([str(BROWSER), *options, *window], capture_output=True, text=True, timeout=120, check=True)
    return found.stdout, [line for line in found.stderr.splitlines() if "CONSOLE" in line]


def act(page, profile, width):
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page.read_text("utf-8"))
    copy = page.with_name("acted.html")
    copy.write_text(text.replace("</body>", f"<script>{ACTIONS}</script></body>"), encoding="utf-8")
    document, complaints = browse(copy, profile, width)
    assert complaints == []
    seen = re.search(r'data-seen="([^"]*)"', document)
    assert seen is not None
    return json.loads(seen[1].replace("&quot;", '"'))


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    return write_report(write_run(tmp_path_factory.mktemp("run"), topics=16))


def test_the_script_runs_under_the_policy_of_the_page(page, tmp_path):
    document, complaints = browse(page, tmp_path)
    assert complaints == []
    assert '<html lang="en" dir="ltr" class="ready">' in document


@pytest.mark.parametrize("width", [1400, 500])
def test_topics_are_found_chosen_and_labelled(page, tmp_path, width):
    seen = act(page, tmp_path, width)
    assert seen["width"] == width
    assert seen["wider"] <= 0
    assert seen["labels"] >= 24
    assert (seen["hidden"], seen["outside"]) == (0, 0)
    assert (seen["first"], seen["opened"], seen["again"]) == (12, 16, 16)
    assert {"0", "8"} <= set(seen["bridge"]) < set(map(str, range(16)))  # in others it comes late by chance
    assert set(seen["bold"]) == {"bridge"}
    assert len(seen["bold"]) + len(seen["also"]) == len(seen["bridge"])
    assert seen["nothing"] == [0, "No topic has such a word among its 30 most probable."]
    assert {"ARTICLE3", "g3"} <= set(seen["chosen"])
    assert set(re.findall(r"\d+", "".join(seen["chosen"]))) == {"3"}
    assert seen["bar"].startswith("Topic 3: ")
    assert seen["cleared"] == [0, True]
    assert {"ARTICLE5", "g5"} <= set(seen["clicked"])
