"""Bars, spans, curves and points as SVG, by hand: no script, no font or file from outside."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import TypeGuard

from engine.base.text import human_bytes, sanitize
from engine.report import sqnr_text
from engine.reports.builds import Priced, pareto_front
from engine.wire.cost import ChipEstimate, Estimates
from engine.wire.cost_tables import interval_text
from engine.wire.formats import FIGURE, MILLISECONDS, RATE
from engine.wire.model import RangeRow

_WIDTH, _LABEL, _ROW = 900, 250, 20
_COLOURS = {
    "compute": "#3b6fb6",
    "memory": "#c9822b",
    "activation": "#8a5fb0",
    "attention": "#3f8f6b",
    "cpu": "#b5423c",
    "start": "#7a7a7a",
    "nothing": "#b8b8b8",
}
"""Colour of what most of a layer's time is."""
_LAYERS, _TENSORS = 60, 400
"""Bars and tensors that a picture shows; the largest."""


@dataclass(frozen=True)
class _Bar:
    label: str
    value: float
    text: str
    colour: str
    low: float | None = None
    high: float | None = None


def picture(found: Estimates, kind: str) -> str:
    """One SVG for everything that is asked for.

    Args:
        found: the estimates.
        kind: ``chips``: their frame rates; ``layers``: the layers' times of the first chip;
            ``tensors``: its memory over time; ``roofline``: the rates of its layers.
    """
    if kind == "chips" or not found.chips:
        return chip_bars(found)
    draw = {"layers": layer_bars, "roofline": roofline}.get(kind, memory_map)
    return draw(found.chips[0], found.model)


def chip_bars(found: Estimates) -> str:
    """Frames a second of each chip, with intervals."""
    bars = []
    for one in found.chips:
        name = f"{one.chip} {one.dtype}"
        if one.fps is None:
            bars.append(_Bar(name, 0.0, one.problem or "not known", "#b8b8b8"))
            continue
        rate = one.fps
        text = f"{interval_text(rate, RATE)}, {one.confidence}"
        bars.append(_Bar(name, rate.value, text, "#3b6fb6", rate.low, rate.high))
    return _bars(f"{found.model}: frames a second (estimated)", bars)


def layer_bars(one: ChipEstimate, model: str) -> str:
    """Milliseconds of the layers that take longest, in the order of execution."""
    longest = sorted(one.layers, key=lambda row: -row.time_ms)[:_LAYERS]
    kept = {id(row) for row in longest}
    rows = [row for row in one.layers if id(row) in kept]
    bars = [
        _Bar(
            row.id,
            row.time_ms,
            f"{MILLISECONDS.text(row.time_ms)} ms, {row.bound}, {row.op} on {row.target}",
            _COLOURS[row.bound],
        )
        for row in rows
    ]
    more = f", the longest {len(rows)} of {len(one.layers)}" if len(rows) < len(one.layers) else ""
    return _bars(f"{model} on {one.chip}: time of each layer (estimated{more})", bars)


def _bars(title: str, bars: Sequence[_Bar]) -> str:
    most = max((bar.high or bar.value for bar in bars), default=0.0) or 1.0
    room = _WIDTH - _LABEL - 330
    parts = []
    for at, bar in enumerate(bars):
        top = 40 + at * _ROW
        middle = top + _ROW / 2
        width = bar.value / most * room
        parts.append(_text(_LABEL - 8, middle + 4, _short(bar.label, 38), "end"))
        parts.append(
            f'<rect x="{_LABEL}" y="{top + 3}" width="{round(width, 1)}" height="{_ROW - 6}" '
            f'fill="{bar.colour}"/>'
        )
        end = width
        if bar.low is not None and bar.high is not None:
            low, end = bar.low / most * room, bar.high / most * room
            parts.append(
                f'<path d="M{round(_LABEL + low, 1)} {middle} H{round(_LABEL + end, 1)}" '
                'stroke="#222222"/>'
            )
        parts.append(_text(_LABEL + max(end, width) + 6, middle + 4, _short(bar.text, 70)))
    return _svg(title, parts, 50 + len(bars) * _ROW)


def memory_map(one: ChipEstimate, model: str) -> str:
    """Tensors in internal memory: layers from left to right, addresses from top to bottom."""
    title = f"{model} on {one.chip}: internal memory over time (estimated)"
    memory = one.memory
    if memory is None or not memory.spans:
        return _blank(title, "no tensors are known")
    spans = sorted(memory.spans, key=lambda span: span.start - span.end)[:_TENSORS]
    base = min(span.start for span in memory.spans)
    size = max(max(span.end for span in memory.spans) - base, 1)
    steps = max(span.last for span in memory.spans) + 1
    wide, high = _WIDTH - 40, 420
    parts = []
    for at, span in enumerate(spans):
        x, width = 20 + span.first / steps * wide, (span.last - span.first + 1) / steps * wide
        y, height = 40 + (span.start - base) / size * high, (span.end - span.start) / size * high
        shade = ("#3b6fb6", "#6d95c9", "#3f8f6b", "#c9822b", "#8a5fb0")[at % 5]
        name = escape(_short(span.tensor, 100), quote=False)
        parts.append(
            f'<rect x="{round(x, 1)}" y="{round(y, 1)}" width="{round(width, 1)}" '
            f'height="{round(max(height, 0.5), 1)}" '
            f'fill="{shade}" fill-opacity="0.7" stroke="#ffffff" stroke-width="0.5">'
            f"<title>{name}: {human_bytes(span.end - span.start)}</title></rect>"
        )
    sizes = f"{human_bytes(memory.internal)} internal, {human_bytes(memory.weight)} weights"
    parts.append(_text(20, 40 + high + 20, f"{sizes}; {len(one.layers)} layers from left to right"))
    return _svg(title, parts, 40 + high + 40)


def _svg(title: str, parts: Iterable[str], height: float) -> str:
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {round(height)}" '
        f'width="{_WIDTH}" height="{round(height)}" font-family="sans-serif" font-size="11">\n'
        f"<title>{escape(_short(title, 200), quote=False)}</title>\n"
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n'
        f"{_text(20, 24, _short(title, 120), size=14)}\n{body}\n</svg>\n"
    )


def _blank(title: str, why: str) -> str:
    return _svg(title, [_text(20, 60, why)], 80)


def _text(x: float, y: float, text: str, anchor: str = "start", size: int = 11) -> str:
    return (
        f'<text x="{round(x, 1)}" y="{round(y, 1)}" text-anchor="{anchor}" font-size="{size}" '
        f'fill="#222222">{escape(text, quote=False)}</text>'
    )


def _short(text: str, length: int) -> str:
    clean = sanitize(text, 1000)
    return clean if len(clean) <= length else f"…{clean[-length + 1 :]}"


# Charts of a build: along its layers, under the roof of its chip, over its channels.

_MOST_LAYERS, _HIGH = 2000, 260
_WIDE, _BASE = _WIDTH - 90, 50 + _HIGH


def round_values(low: float, high: float) -> list[float]:
    """Values of an axis, read at once: three to nine, 1, 2 or 5 times a power of ten apart."""
    rough = (high - low or 1.0) / 8
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(times * power for times in (1, 2, 5, 10) if times * power >= rough)
    digits = max(0, -math.floor(math.log10(step)))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(at * step, digits) for at in range(first, last + 1)]


def _levels(low: float, high: float, up: Callable[[float], float]) -> list[str]:
    """Lines across with their values."""
    parts = []
    for value in round_values(low, high):
        parts.append(f'<path d="M60 {up(value)} H{60 + _WIDE}" stroke="#e4e4e4"/>')
        parts.append(_text(52, up(value) + 4, FIGURE.text(value), "end"))
    return parts


def _dot(at: tuple[float, float], style: str, said: str) -> str:
    title = f"<title>{escape(said, quote=False)}</title>"
    return f'<circle cx="{at[0]}" cy="{at[1]}" {style}>{title}</circle>'


@dataclass(frozen=True)
class Series:
    """A figure of each layer in their order; None where it is not known."""

    name: str
    values: Sequence[float | None]
    colour: str


def curves(title: str, unit: str, series: Sequence[Series]) -> str:
    """Lines over the layers in the order of execution, with gaps where nothing is known."""
    known = [one for one in series if any(map(_finite, one.values))]
    if not known:
        return _blank(title, "nothing is known")
    values = [value for one in known for value in filter(_finite, one.values)]
    low, high = min(0.0, *values), max(*values, 1e-9)
    count = max(len(one.values) for one in known)
    step = _WIDE / max(1, count - 1)

    def place(value: float) -> float:
        return round(_BASE - (value - low) / (high - low or 1.0) * _HIGH, 1)

    parts = _levels(low, high, place)
    for number, one in enumerate(known):
        pieces, pen = [], "M"
        for at, figure in enumerate(one.values[:_MOST_LAYERS]):
            if _finite(figure):
                pieces.append(f"{pen}{round(60 + at * step, 1)} {place(figure)}")
            pen = "L" if _finite(figure) else "M"
        path = " ".join([*pieces, "h0.1"])
        style = f'fill="none" stroke="{one.colour}" stroke-width="1.5" stroke-linecap="round"'
        parts.append(f'<path d="{path}" {style}/>')
        left = 60 + 220 * number
        parts.append(f'<rect x="{left}" y="36" width="12" height="4" fill="{one.colour}"/>')
        parts.append(_text(left + 18, 42, _short(one.name, 32)))
    parts.append(_text(60, _BASE + 20, f"{unit}; {count} layers from left to right"))
    return _svg(title, parts, _BASE + 34)


def _finite(value: float | None) -> TypeGuard[float]:
    # Below the largest: that differences of two are finite, too.
    return value is not None and abs(value) < 1e300


def roofline(one: ChipEstimate, model: str) -> str:
    """A point for each layer that multiplies, below what its intensity allows; both axes log10."""
    title = f"{model} on {one.chip}: roofline (estimated)"
    points = [(row, row.intensity, row.gops) for row in one.layers]
    known = [(row, x, y) for row, x, y in points if x and y]
    if not known or not one.peak_gops or not one.bandwidth_gbs:
        return _blank(title, "no layer of this model multiplies")
    peak, ridge = one.peak_gops, one.peak_gops / one.bandwidth_gbs
    xs, ys = [*(x for _, x, _ in known), ridge], [*(y for _, _, y in known), peak]
    left, right = math.floor(math.log10(min(xs))), math.ceil(math.log10(max(xs)) + 0.1)
    low, high = math.floor(math.log10(min(ys))), math.ceil(math.log10(max(ys)) + 0.1)

    def place(x: float, y: float) -> tuple[float, float]:
        across = (math.log10(x) - left) / (right - left)
        up = (math.log10(y) - low) / (high - low)
        return round(60 + across * _WIDE, 1), round(_BASE - min(1.0, max(0.0, up)) * _HIGH, 1)

    start = max(10.0**left, 10.0**low / one.bandwidth_gbs)
    corners = [(start, start * one.bandwidth_gbs), (ridge, peak), (10.0**right, peak)]
    roof = " L".join("{} {}".format(*place(*corner)) for corner in corners)
    parts = [f'<path d="M{roof}" fill="none" stroke="#222222"/>']
    ups = ((power, place(10.0**left, 10.0**power)[1]) for power in range(low, high + 1))
    parts += [_text(52, y + 4, f"{10.0**power:g}", "end") for power, y in ups]
    steps = ((power, place(10.0**power, 10.0**low)[0]) for power in range(left, right + 1))
    parts += [_text(x, _BASE + 14, f"{10.0**power:g}", "middle") for power, x in steps]
    for row, x, y in known:
        said = f"{_short(row.id, 100)}: {FIGURE.text(y)} GOPS, {row.bound}"
        style = f'r="3" fill="{_COLOURS[row.bound]}" fill-opacity="0.8"'
        parts.append(_dot(place(x, y), style, said))
    parts.append(_text(60, _BASE + 30, "operations a byte, from left to right; GOPS upwards"))
    return _svg(title, parts, _BASE + 44)


def front_chart(points: Sequence[Priced], chip: str, chosen: str = "") -> str:
    """A point for each build and variant: lowest SQNR over time; the undominated ones joined."""
    title = f"Error against time: lowest SQNR (simulated), ms on {chip} (estimated)"
    if not points:
        return _blank(title, "no build has both figures")
    finite = [one.lowest for _, one in points if math.isfinite(one.lowest)]
    times, equal = [time for time, _ in points], max(finite, default=0.0) + 6
    left, right = min(times) * 0.98, max(times) * 1.02
    low = min([*finite, equal]) - 1
    high = max(finite) + 1 if len(finite) == len(points) else equal

    def place(time: float, db: float) -> tuple[float, float]:
        up = (min(db, equal) - low) / (high - low)
        return round(60 + (time - left) / (right - left) * _WIDE, 1), round(_BASE - up * _HIGH, 1)

    parts = _levels(low, high, lambda db: place(left, db)[1])
    for time in round_values(left, right):
        across = place(time, low)[0]
        parts.append(_text(across, _BASE + 14, FIGURE.text(time), "middle"))
    best = pareto_front(points)
    line = [place(time, one.lowest) for time, one in best]
    steps = "".join(f" H{x} V{y}" for x, y in line[1:])
    parts.append(f'<path d="M{line[0][0]} {line[0][1]}{steps}" fill="none" stroke="#3f8f6b"/>')
    for point in points:
        edge = "#3f8f6b" if point in best else "#7a7a7a"
        fill, size = ("#ffffff" if point[1].variant else edge), 4
        if point[1].id == chosen:
            edge, size = "#222222", 6
        said = f"{point[1].name}: {sqnr_text(point[1].lowest)}, {MILLISECONDS.text(point[0])} ms"
        at = place(point[0], point[1].lowest)
        style = f'r="{size}" fill="{fill}" stroke="{edge}"'
        parts.append(_dot(at, style, _short(said, 200)))
    said = "ms to the right, dB upwards; on the line: nothing as fast is better"
    said += "; hollow: a variant; ringed: this build"
    parts.append(_text(60, _BASE + 30, said))
    return _svg(title, parts, _BASE + 44)


def channel_bars(ranges: Sequence[RangeRow], model: str) -> str:
    """How unlike the channels of a tensor are: its largest scale over its smallest."""
    spread = [
        (row.scale_max / row.scale, row)
        for row in ranges
        if row.scales > 1 and row.scale and row.scale_max
    ]
    spread.sort(key=lambda one: -one[0])
    bars = [
        _Bar(row.tensor, ratio, f"{FIGURE.text(ratio)} times, {row.scales} channels", "#8a5fb0")
        for ratio, row in spread[:_LAYERS]
    ]
    title = f"{model}: largest over smallest scale of the channels (simulated)"
    return _bars(title, bars) if bars else _blank(title, "one scale each")
