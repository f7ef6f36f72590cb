"""The list of topics and the sample documents, as HTML."""

import math
from collections.abc import Iterable, Sequence

from ergodica.lda.report.content import Content, Document
from ergodica.lda.topics import Topic, Word
from ergodica.output.page_text import clipped, escaped, percent

COLOURS = 6  # classes c0 ... c5 of the style sheet
NAMED = 0.06  # the smallest part of a bar in which a number can be read


def topic_card(topic: Topic, words: int, searched: int, largest: float) -> str:
    """A topic: number, share, its first words as bars with bands; the filter searches some more."""
    scale = max([1e-12, *(max(word.probability, word.high) for word in topic.words[:words])])
    rows = "\n".join(_row(word, scale) for word in topic.words[:words])
    known = escaped("\n".join(word.word for word in topic.words[:searched]))
    return (
        f'<article class="topic" id="topic-{topic.number}" data-topic="{topic.number}" data-words="{known}">\n'
        f'<h3><button type="button" aria-pressed="false">Topic {topic.number}</button>{_share(topic, largest)}</h3>\n'
        f"<ol>\n{rows}\n</ol>\n</article>"
    )


def _share(topic: Topic, largest: float) -> str:
    if math.isnan(topic.share):
        return ""
    width = 100 * topic.share / max(largest, 1e-12)
    return f'<svg class="share"><rect width="{width:.1f}%" height="100%"/></svg><span>{percent(topic.share)}</span>'


def _row(word: Word, scale: float) -> str:
    mean, low, high = (f"{100 * value / scale:.1f}%" for value in (word.probability, word.low, word.high))
    band, figures = "", percent(word.probability)
    if word.high > word.low:
        band = f'<line x1="{low}" x2="{high}" y1="50%" y2="50%"/>'
        figures += f" ({percent(word.low)} to {percent(word.high)})"
    bar = f'<svg><rect width="{mean}" height="100%"/>{band}</svg>'
    return f'<li title="{figures}"><bdi>{escaped(word.word)}</bdi>{bar}<span>{percent(word.probability)}</span></li>'


def documents(content: Content) -> str:
    """The sample documents, each with its bar of shares and what the parts are."""
    topics = {topic.number: topic for topic in content.topics}
    colours = _colours(content.samples)
    return "\n".join(_document(document, topics, colours) for document in content.samples)


def _colours(samples: Iterable[Document]) -> dict[int, int]:
    """A colour for each topic named, the same everywhere, and where it can be had none twice in a document."""
    together: dict[int, set[int]] = {}
    for document in samples:
        numbers = [number for number, _ in document.parts]
        for number in numbers:
            together.setdefault(number, set()).update(numbers)
    colours: dict[int, int] = {}
    for number, others in together.items():
        taken = [colours[other] for other in others if other in colours]
        colours[number] = min(range(COLOURS), key=lambda colour: (taken.count(colour), _used(colours, colour), colour))
    return colours


def _used(colours: dict[int, int], colour: int) -> int:
    return list(colours.values()).count(colour)


def _document(document: Document, topics: dict[int, Topic], colours: dict[int, int]) -> str:
    start, bars = 0.0, []
    for number, share in document.parts:
        bars.append(_part(number, start, share, colours[number]))
        start += share
    chips = "".join(_chip(number, share, topics.get(number), colours[number]) for number, share in document.parts)
    if document.rest >= 0.005:
        chips += f'<li class="rest"><span>others {percent(document.rest)}</span></li>'
    names = [f"topic {number} {percent(share)}" for number, share in document.parts]
    return (
        f'<article class="document">\n<p><bdi>{escaped(document.text)}</bdi></p>\n'
        f'<svg class="shares" role="img" aria-label="{escaped(", ".join(names))}">{"".join(bars)}</svg>\n'
        f'<ul class="chips">{chips}</ul>\n</article>'
    )


def _part(number: int, start: float, share: float, colour: int) -> str:
    text = ""
    if share >= NAMED:
        text = f'<text x="{100 * (start + share / 2):.2f}%" y="50%">{number}</text>'
    return (
        f'<g class="part c{colour}" data-topic="{number}"><title>Topic {number}: {percent(share)}</title>'
        f'<rect x="{100 * start:.2f}%" width="{100 * share:.2f}%" height="100%"/>{text}</g>'
    )


def _chip(number: int, share: float, topic: Topic | None, colour: int) -> str:
    words: Sequence[Word] = topic.words[:2] if topic else ()
    label = ", ".join(f"<bdi>{escaped(clipped(word.word, 16))}</bdi>" for word in words)
    return (
        f'<li><button type="button" data-topic="{number}"><i class="c{colour}"></i>'
        f"<b>{number}</b> {label} {percent(share)}</button></li>"
    )
