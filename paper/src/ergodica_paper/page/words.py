"""Words of the page: verdicts, numbers, and text in which `code` is marked."""

import html
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from markupsafe import Markup

# by sign and word, and not by colour alone
SIGNS = {
    "reproduced": ("yes", "✓"),
    "not reproduced": ("no", "✗"),
    "reproduced under conditions": ("partly", "◐"),
    "illustration, no verdict": ("open", "–"),
}

POWER = re.compile(r"(?<![\w.])(-?\d+(?:\.\d+)?)e([+-]?)0*(\d+)(?![\w.]\d)\b")
COMMON_POWER = re.compile(r"(\([-\d.,]+ ± [\d.,]+\))e([+-]?)0*(\d+)\b")  # (1.2 ± 0.3)e-5


def marked(text: str) -> Markup:
    """Escaped, with what stands in backquotes as code, and 1.2e-05 as a power of ten elsewhere."""
    parts = html.escape(text, quote=True).split("`")
    if len(parts) % 2 == 0:  # one that is not closed is no mark
        parts[-2:] = ["`".join(parts[-2:])]
    parts[::2] = [COMMON_POWER.sub(_times, POWER.sub(_power, part)) for part in parts[::2]]
    parts[1::2] = [f"<code>{part}</code>" for part in parts[1::2]]
    return Markup("".join(parts))


def _power(found: re.Match[str]) -> str:
    digits, _, exponent = found.groups()
    if float(digits) == 0 or (len(exponent) == 1 and int(exponent) <= 3):  # 4.7e-01 is better as 0.47
        return f"{Decimal(found[0]):f}" if float(digits) else "0"
    return _times(found)


def _times(found: re.Match[str]) -> str:
    number, sign, exponent = found.groups()
    times = "" if number == "1" else f"{number}·"
    return f'<span class="n">{times}10<sup>{"−" * (sign == "-")}{exponent}</sup></span>'


def counted(count: int, noun: str) -> str:
    """1 item, 2 items."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def first_sentence(text: str) -> str:
    """For those who cannot see a picture: its caption up to the first full stop."""
    return re.split(r"(?<=[.;])\s", text.replace("`", "").strip(), maxsplit=1)[0]


def sentence(text: str) -> str:
    """With a full stop, so that another one can follow."""
    return text if not text or text.endswith((".", "!", "?", ":")) else f"{text}."


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def cell(value: Any) -> str:
    """A plain value as people read it: three digits, thousands apart, lists in a row."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}" if abs(value) >= 10_000 else str(value)
    if isinstance(value, float):
        is_whole = value == round(value) and 1000 <= abs(value) < 1e15
        return f"{value:,.0f}" if is_whole or 1e4 <= abs(value) < 1e9 else f"{value:.3g}"
    if isinstance(value, list | tuple):
        return ", ".join(map(cell, value))
    return str(value)


def flat(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """Names and values of nested figures, one after another."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{before}{name}, ")
        else:
            yield f"{before}{name}", cell(value)
