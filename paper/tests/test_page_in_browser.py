"""The page in headless Chromium: nothing in the console, pictures shown, links that lead somewhere, on a phone too."""

import json
import re
from pathlib import Path

import pytest

from ergodica_paper.reproduce import Asked, reproduce
from paper.tests.fakes import fake
from tests import browser

# A window cannot be as narrow as a phone, but a frame can; one made of the page's own text may be looked into.
LOOK = """
const frame = document.querySelector("iframe");
frame.addEventListener("load", () => {
  const page = frame.contentDocument, seen = {}, all = (selector) => [...page.querySelectorAll(selector)];
  const root = page.documentElement, width = frame.contentWindow.innerWidth;
  seen.width = width;
  seen.ready = root.classList.contains("ready");
  seen.wider = root.scrollWidth - width;
  const reaches = (x) => x.getBoundingClientRect().right > width + 1;
  seen.outside = all("main > section, article, figure, pre, p").filter(reaches).map((x) => x.outerHTML.slice(0, 80));
  seen.images = all("img").map((x) => [x.complete && x.naturalWidth > 0, x.getBoundingClientRect().width <= width]);
  seen.broken = all('a[href^="#"]').map((x) => x.hash.slice(1)).filter((name) => !page.getElementById(name));
  page.querySelector(".frame").click();
  seen.large = [page.querySelector(".frame img").getBoundingClientRect().width > 700, root.scrollWidth - width];
  all("details").forEach((x) => { x.open = true; });
  seen.opened = root.scrollWidth - width;
  document.body.dataset.seen = JSON.stringify(seen);
});
frame.srcdoc = TEXT;
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("report") / "report"
    reproduce([fake("theorem-1"), fake("one-dimensional")], Asked(out), is_whole=True)
    return out


def test_the_script_runs_under_the_policy_of_the_page(folder, tmp_path):
    document, complaints = browser.browse(folder / "index.html", tmp_path)
    assert complaints == []
    assert '<html lang="en" dir="ltr" class="ready">' in document


@pytest.mark.parametrize("width", [1200, 390])
def test_pictures_links_and_width(folder, tmp_path, width):
    page = (folder / "index.html").read_text("utf-8")
    text = json.dumps(page).replace("</", "<\\/")
    frame = tmp_path / "frame.html"
    frame.write_text(
        f'<!DOCTYPE html><meta charset="utf-8"><body><iframe style="border:0" width="{width}" height="800"></iframe>'
        f"<script>{LOOK.replace('TEXT', text)}</script></body>"
    )
    document, complaints = browser.browse(frame, tmp_path / "profile", 1300, "--virtual-time-budget=5000")
    assert complaints == []
    seen = browser.seen(document)
    assert (seen["width"], seen["ready"]) == (width, True)
    assert (seen["wider"], seen["opened"], seen["outside"]) == (0, 0, [])
    assert seen["images"] == [[True, True]] * 2
    assert seen["broken"] == []
    assert seen["large"] == [True, 0]


def test_files_that_are_linked_are_there(folder):
    links = set(re.findall(r'href="([^#"][^"]*)"', (folder / "index.html").read_text("utf-8")))
    assert len(links) == 2 * 4
    assert all(Path(folder / link).is_file() for link in links)
