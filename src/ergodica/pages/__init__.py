"""HTML pages: one base template and one style sheet for all; each page is one file that asks nothing of the network.

A page is a Jinja2 template of its own package that extends `base.html.j2`. Whatever is put into it is escaped. Its
content security policy lets no style or script run but its own.
"""

import base64
import hashlib
import math
import unicodedata
from functools import cache
from importlib.resources import files
from typing import Any

import jinja2

# Characters that turn the direction of what follows: a word may be right-to-left, but not its neighbours.
DIRECTION_MARKS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
UNREADABLE_MARK = "\ufffd"


def render(package: str, **values: Any) -> str:
    """The page of a package: its `page.html.j2`, which extends the base template, with its `page.js`.

    Args:
        package: where the template and the script are, `ergodica.lda.report`.
        values: what the template shows; a string is escaped, unless it is `markupsafe.Markup`.
    """
    style, script = _text(__name__, "style.css"), _text(package, "page.js")
    template = _environment(package).get_template("page.html.j2")
    return template.render(style=style, script=script, digest=_digest, **values)


@cache
def _environment(package: str) -> jinja2.Environment:
    loader = jinja2.FunctionLoader(lambda name: _text(__name__ if name.startswith("base") else package, name))
    environment = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        keep_trailing_newline=True,
    )  # fmt: skip
    environment.filters |= {
        "number": number,
        "percent": percent,
        "duration": duration,
        "clipped": clipped,
        "signed": signed,
    }
    environment.tests["nan"] = math.isnan
    return environment


@cache
def _text(package: str, name: str) -> str:
    return files(package).joinpath(name).read_text("utf-8")


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def clipped(text: str, length: int) -> str:
    """The beginning of a text on one line, without control characters, surrogates and turns of direction."""
    begun = " ".join(text[: 4 * length].split())  # split before what is not printable goes: a newline is a space
    unreadable = {c for c in begun if c in DIRECTION_MARKS or unicodedata.category(c) in ("Cc", "Cs")}
    clean = "".join(UNREADABLE_MARK if c in unreadable else c for c in begun)
    is_whole = len(clean) <= length and len(text) <= 4 * length
    return clean if is_whole else clean[: length - 1].rstrip() + "…"


def width(text: str, size: float) -> float:
    """About how wide a text is in a sans-serif font of this size, in pixels; rather too wide than too narrow."""
    return size * sum(_ems(c) for c in text)


def _ems(character: str) -> float:
    if unicodedata.east_asian_width(character) in "WF" or character in "mwMW@%&<>+=~…":
        return 1.0
    return 0.72 if character.isupper() else 0.58


def number(value: float) -> str:
    """Three or more digits, thousands apart: 2,087; 12.3; 0.00456."""
    if not math.isfinite(value):
        return "not measured"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def percent(share: float) -> str:
    """A share with two digits that count: 12 %, 1.2 %, 0.12 %."""
    points = 100 * share
    digits = 0 if points >= 9.95 else 1 if points >= 0.995 else 2
    return f"{points:.{digits}f} %" if points >= 0.005 or points == 0 else "< 0.01 %"


def signed(value: float) -> str:
    """Two digits after the point, with the sign of mathematics: 0.12, −0.03."""
    return ("−" if value < 0 else "") + f"{abs(value):.2f}"


def duration(seconds: float) -> str:
    """12.3 s, 4 min 5 s, 2 h 13 min."""
    if seconds < 100:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
