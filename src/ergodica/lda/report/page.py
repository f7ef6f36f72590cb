"""The page itself: one HTML file that asks nothing of the network and runs no script but its own."""

import base64
import hashlib
import math
from functools import cache
from importlib.resources import files

from ergodica.lda.report.cards import documents, topic_card
from ergodica.lda.report.content import Content
from ergodica.lda.report.curve import POINTS, curve_svg
from ergodica.lda.report.layout import distances, scaled
from ergodica.lda.report.topic_map import map_svg
from ergodica.output.page_text import duration, escaped, number

LARGEST = 4_500_000  # bytes
# words shown and words searched of each topic: the first that make a page small enough
DETAIL = ((10, 30), (6, 15), (4, 8), (2, 4))
WIDE_MAP, NARROW_MAP = (640, 600), (350, 680)
WIDE_CURVE, NARROW_CURVE = (860, 320), (350, 260)


def page(content: Content) -> str:
    """The page as text."""
    rest, text = _rest(content), ""
    for shown, searched in DETAIL:
        text = _document(content, _topics(content, shown, searched), rest)
        if len(text.encode()) <= LARGEST:
            break
    return text


@cache
def _asset(name: str) -> str:
    return files("ergodica.lda.report").joinpath(name).read_text("utf-8")


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _document(content: Content, topics: str, rest: str) -> str:
    style, script = _asset("page.css"), _asset("page.js")
    policy = (
        f"default-src 'none'; style-src 'sha256-{_digest(style)}'; script-src 'sha256-{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return f"""<!DOCTYPE html>
<html lang="en" dir="ltr">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>{content.total_topics:,} topics</title>
<style>{style}</style>
</head>
<body>
{_header(content)}
<main>
<div class="beside">
{topics}
{rest}
</main>
<aside id="chosen" hidden><span></span><a data-to="card" href="#topics">words</a><a href="#map">map</a>
<button type="button">clear</button></aside>
<script>{script}</script>
</body>
</html>
"""


def _header(content: Content) -> str:
    facts = [f"{content.words:,} words", content.sampler, f"preset {content.preset}", duration(content.seconds)]
    line = " · ".join(f"<bdi>{escaped(fact)}</bdi>" for fact in facts)
    return f"""<header>
<h1>{content.total_topics:,} topics from {content.documents:,} documents read</h1>
<p class="facts">{line}</p>
{_figures(content)}
<nav><a href="#topics">Topics</a> <a href="#map">Map</a> <a href="#perplexity">Perplexity</a>
<a href="#documents">Documents</a> <a href="#settings">Settings</a></nav>
</header>"""


def _figures(content: Content) -> str:
    figures = content.perplexity
    if all(math.isnan(value) for value in figures.values()):
        return '<p class="note">No documents were held out, so there is no perplexity.</p>'
    names = (("single", "single (one draw)"), ("averaged", "averaged over draws"), ("unigram", "unigram (no topics)"))
    tiles = "".join(f"<div><dt>{name}</dt><dd>{number(figures[key])}</dd></div>" for key, name in names)
    held = f"{content.held_out:,} held-out documents"
    return f'<p class="note">Perplexity on {held} (lower is better)</p>\n<dl class="tiles">{tiles}</dl>'


def _topics(content: Content, shown: int, searched: int) -> str:
    largest = max((topic.share for topic in content.topics if not math.isnan(topic.share)), default=0.0)
    cards = "\n".join(topic_card(topic, shown, searched, largest) for topic in content.topics)
    return f"""<section id="topics">
<h2>Topics</h2>
<p class="note">{_about_topics(content, shown)}</p>
<p class="search"><label for="filter">Among their {searched} most probable words, one begins with</label>
<input id="filter" type="search" autocomplete="off" spellcheck="false" data-searched="{searched}"></p>
<p id="found" class="note" role="status"></p>
<div class="cards">
{cards}
</div>
<p><button type="button" id="all" hidden>Show all {len(content.topics):,} topics</button></p>
</section>"""


def _about_topics(content: Content, shown: int) -> str:
    is_known = not math.isnan(content.topics[0].share)
    order = "By share of the words of the sample documents. " if is_known else "By number; no shares are known. "
    if len(content.topics) < content.total_topics:
        order += f"The first {len(content.topics):,} of {content.total_topics:,} are listed. "
    bars = f"Bars: probability of the {shown} most probable words, scaled to the topic. "
    if content.band:
        return f"{order}{bars}Lines: 5 to 95 % over {content.draws} draws; {escaped(content.band)}."
    return f"{order}{bars}Too few draws were kept for bands."


def _rest(content: Content) -> str:
    return "\n".join([_map(content), "</div>", _curve(content), _samples(content), _settings(content)])


def _map(content: Content) -> str:
    points = scaled(distances(content.mapped))
    some = "" if len(points) == content.total_topics else f"The {len(points)} largest topics. "
    maps = map_svg(content, points, WIDE_MAP, "wide") + "\n" + map_svg(content, points, NARROW_MAP, "narrow")
    return f"""<section id="map">
<h2>Map of topics</h2>
<p class="note">{some}Near each other: alike in their words (classical scaling of Jensen-Shannon distances, then evened
out and moved apart so that labels can be read: not to scale). Area: share, the smallest drawn larger. Choose a circle
to see its words.</p>
{maps}
</section>"""


def _curve(content: Content) -> str:
    drawn = [curve_svg(content, WIDE_CURVE, "wide"), curve_svg(content, NARROW_CURVE, "narrow")]
    body = "\n".join(drawn) if drawn[0] else '<p class="note">It was not measured while the run went on.</p>'
    total = len(content.history["documents"])
    some = f"{POINTS} of {total:,} evaluations are drawn." if total > POINTS else ""
    return f"""<section id="perplexity">
<h2>Perplexity</h2>
<p class="note">Single: the state at that moment. Averaged: predictions averaged over all evaluations so far. Unigram:
every word by its frequency, with no topics. Only figures for the same {content.words:,} words can be compared.
{some}</p>
{body}
</section>"""


def _samples(content: Content) -> str:
    count, total = len(content.samples), content.total_samples
    some = "" if count == total else f"The first {count} of {total:,} that the run kept. "
    note = (
        f"{some}Their first words that are in the vocabulary, and their topics; topics of one colour are told apart by "
        "their number."
    )
    body = documents(content) if count else '<p class="note">The run kept none.</p>'
    return f"""<section id="documents">
<h2>Sample documents</h2>
<p class="note">{note}</p>
<div class="documents">
{body}
</div>
</section>"""


def _settings(content: Content) -> str:
    rows = "\n".join(
        f"<tr><th><bdi>{escaped(name)}</bdi></th><td><bdi>{escaped(value)}</bdi></td></tr>"
        for name, value in content.settings
    )
    return f"""<section id="settings">
<h2>Settings</h2>
<details><summary>Settings, seed, timings and versions</summary>
<div class="scroll"><table>
{rows}
</table></div></details>
</section>"""
