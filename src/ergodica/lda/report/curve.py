"""The perplexity curve: single and averaged against documents read, the unigram's as a line."""

import math
from collections.abc import Callable

import numpy as np

from ergodica.lda.report.content import Content
from ergodica.output.page_text import number

POINTS = 400  # of a curve; more cannot be seen
LEFT, RIGHT, TOP, BOTTOM = 52, 74, 32, 42  # margins
APART = 14.0  # between the names at the ends of the curves
LOGARITHMIC = 5.0  # largest over smallest, from which on the axis is logarithmic

Scale = Callable[[float], float]


def curve_svg(content: Content, size: tuple[int, int], name: str) -> str:
    """The curves on a canvas of this size, or an empty string where nothing was measured."""
    curves = {label: _points(content, label) for label in ("single", "averaged")}
    values = np.concatenate([points[:, 1] for points in curves.values()])
    if not len(values):
        return ""
    unigram = content.perplexity["unigram"]
    values = values if math.isnan(unigram) else np.append(values, unigram)
    wide, high = size
    last = max(float(points[:, 0].max()) for points in curves.values() if len(points))
    x_ticks = _round_numbers(0.0, last, 5 if wide > 500 else 3)
    y_ticks, y_of = _vertical(values, TOP, high - BOTTOM)
    x_of = _linear(0.0, max(last, 1.0), LEFT, wide - RIGHT)
    parts = [
        _axes(x_ticks, y_ticks, x_of, y_of, wide, high),
        _unigram(unigram, y_of, wide),
        *(_line(label, points, x_of, y_of) for label, points in curves.items()),
        _names(curves, unigram, y_of, wide, high),
    ]
    drawn = "\n".join(part for part in parts if part)
    return (
        f'<svg class="curve {name}" viewBox="0 0 {wide} {high}" role="img" '
        f'aria-label="Perplexity against documents read">\n{drawn}\n</svg>'
    )


def _points(content: Content, label: str) -> np.ndarray:
    points = np.column_stack([content.history["documents"], content.history[label]])
    points = points[np.isfinite(points).all(axis=1)]
    if len(points) > POINTS:
        points = points[np.linspace(0, len(points) - 1, POINTS).round().astype(int)]
    return points


def _linear(low: float, high: float, start: float, end: float) -> Scale:
    return lambda value: start + (value - low) / (high - low) * (end - start)


def _vertical(values: np.ndarray, top: float, bottom: float) -> tuple[list[float], Scale]:
    low, high = float(values.min()), float(values.max())
    if low > 0 and high > LOGARITHMIC * low:
        ticks = _decades(low, high)
        scale = _linear(math.log(min(low, ticks[0])), math.log(max(high, ticks[-1])), bottom, top)
        return ticks, lambda value: scale(math.log(value))
    spread = max(high - low, 0.02 * abs(high), 1e-9)
    low, high = max(0.0, low - 0.08 * spread), high + 0.08 * spread
    return _round_numbers(low, high, 5), _linear(low, high, bottom, top)


def _decades(low: float, high: float) -> list[float]:
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [digit * 10.0**e for e in exponents for digit in (1, 2, 5)]
    inside = [tick for tick in ticks if low <= tick <= high]
    return inside[:: max(1, len(inside) // 8)]


def _round_numbers(low: float, high: float, count: int) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten, about `count` of them."""
    rough = max(high - low, 1e-9) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(digit * power for digit in (1, 2, 5, 10) if digit * power >= rough * 0.999)
    return [step * k for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def _axes(x_ticks: list[float], y_ticks: list[float], x_of: Scale, y_of: Scale, wide: int, high: int) -> str:
    foot, end = high - BOTTOM, wide - RIGHT
    rows = [
        f'<line class="grid" x1="{LEFT}" x2="{end}" y1="{y_of(t):.1f}" y2="{y_of(t):.1f}"/>'
        f'<text class="tick" text-anchor="end" x="{LEFT - 6}" y="{y_of(t) + 4:.1f}">{_tick(t)}</text>'
        for t in y_ticks
    ]
    columns = [
        f'<line class="axis" x1="{x_of(t):.1f}" x2="{x_of(t):.1f}" y1="{foot}" y2="{foot + 4}"/>'
        f'<text class="tick" text-anchor="middle" x="{x_of(t):.1f}" y="{foot + 16}">{_tick(t)}</text>'
        for t in x_ticks
    ]
    frame = f'<line class="axis" x1="{LEFT}" x2="{end}" y1="{foot}" y2="{foot}"/>'
    names = (
        f'<text class="unit" x="{LEFT}" y="14">perplexity per word (lower is better)</text>'
        f'<text class="unit" text-anchor="middle" x="{(LEFT + end) / 2:.1f}" y="{high - 6}">documents read</text>'
    )
    return "\n".join([*rows, *columns, frame, names])


def _tick(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) else f"{value:,.4g}"


def _line(label: str, points: np.ndarray, x_of: Scale, y_of: Scale) -> str:
    if not len(points):
        return ""
    places = [f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in points]
    path = f'<polyline class="{label}" points="{" ".join(places)}"/>'
    if len(points) > 40:
        return path
    dots = (
        f'<circle class="{label}" cx="{place.split(",")[0]}" cy="{place.split(",")[1]}" r="2.5">'
        f"<title>{label}: {number(float(y))} after {x:,.0f} documents</title></circle>"
        for place, (x, y) in zip(places, points, strict=True)
    )
    return path + "".join(dots)


def _unigram(value: float, y_of: Scale, wide: int) -> str:
    if math.isnan(value):
        return ""
    return f'<line class="unigram" x1="{LEFT}" x2="{wide - RIGHT}" y1="{y_of(value):.1f}" y2="{y_of(value):.1f}"/>'


def _names(curves: dict[str, np.ndarray], unigram: float, y_of: Scale, wide: int, high: int) -> str:
    ends = {label: y_of(float(points[-1, 1])) for label, points in curves.items() if len(points)}
    if not math.isnan(unigram):
        ends["unigram"] = y_of(unigram)
    heights: list[float] = []
    for y in sorted(ends.values()):
        heights.append(max(y, heights[-1] + APART) if heights else y)
    heights = [y - max(0.0, heights[-1] - (high - BOTTOM)) for y in heights]
    return "".join(
        f'<text class="name {label}" x="{wide - RIGHT + 6}" y="{y + 4:.1f}">{label}</text>'
        for label, y in zip(sorted(ends, key=lambda label: ends[label]), heights, strict=True)
    )
