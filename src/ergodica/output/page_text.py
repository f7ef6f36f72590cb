"""Strings for a page: foreign text made harmless, numbers as people read them."""

import html
import math
import unicodedata

# Characters that turn the direction of what follows: a word may be right-to-left, but not its neighbours.
TURNING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
BROKEN = "\ufffd"


def clipped(text: str, length: int) -> str:
    """The beginning of a text on one line, without control characters, surrogates and turns of direction."""
    begun = " ".join(text[: 4 * length].split())  # split before what is not printable goes: a newline is a space
    clean = "".join(BROKEN if c in TURNING or unicodedata.category(c) in ("Cc", "Cs") else c for c in begun)
    is_whole = len(clean) <= length and len(text) <= 4 * length
    return clean if is_whole else clean[: length - 1].rstrip() + "…"


def escaped(text: str) -> str:
    """For element content and for attributes in either kind of quotes."""
    return html.escape(text, quote=True)


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


def duration(seconds: float) -> str:
    """12.3 s, 4 min 5 s, 2 h 13 min."""
    if seconds < 100:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
