"""Bars and spans as SVG, by hand: no script, no font or file from outside."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from engine import human_bytes, sanitize
from engine.wire.cost import ChipEstimate, Estimates
from engine.wire.cost_tables import interval_text
from engine.wire.formats import MILLISECONDS, RATE

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
            ``tensors``: its memory over time.
    """
    if kind == "chips" or not found.chips:
        return chip_bars(found)
    draw = layer_bars if kind == "layers" else memory_map
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
        return _svg(title, [_text(20, 60, "no tensors are known")], 80)
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
        name = escape(_short(span.tensor, 100))
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
        f"<title>{escape(_short(title, 200))}</title>\n"
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n'
        f"{_text(20, 24, _short(title, 120), size=14)}\n{body}\n</svg>\n"
    )


def _text(x: float, y: float, text: str, anchor: str = "start", size: int = 11) -> str:
    return (
        f'<text x="{round(x, 1)}" y="{round(y, 1)}" text-anchor="{anchor}" font-size="{size}" '
        f'fill="#222222">{escape(text)}</text>'
    )


def _short(text: str, length: int) -> str:
    clean = sanitize(text, 1000)
    return clean if len(clean) <= length else f"…{clean[-length + 1 :]}"
