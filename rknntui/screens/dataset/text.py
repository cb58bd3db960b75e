"""What Dataset says about a dataset and about the channels of one sample: lines of text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine import sanitize
from rknntui.widgets.facts_line import Fact

if TYPE_CHECKING:
    from engine.wire.dataset import Channel, DatasetFacts
    from rknntui.widgets.strips import Line

_SLACK = 1e-3


def facts_text(path: str, facts: DatasetFacts | None) -> tuple[Fact, ...]:
    """One line: how much, which sizes, whether a build would stop, where."""
    if not path:
        return (Fact("no dataset"),)
    parts = []
    if facts is not None:
        parts.append(Fact(f"{facts.samples} samples"))
        if facts.files != facts.samples:
            parts.append(Fact(f"{facts.files} files", rank=1))
        sizes = [f"{size} ×{count}" for size, count in facts.sizes[:3]]
        if len(facts.sizes) > 3:
            sizes.append(f"{len(facts.sizes) - 3} more sizes")
        parts += [Fact(size, rank=1) for size in sizes]
        bad = len(facts.problems)
        parts.append(Fact(f"✗ {bad} problems" if bad else "✓ no problems"))
    parts.append(Fact(sanitize(path, 300), (sanitize(path.rpartition("/")[2], 80),), 2))
    return tuple(parts)


def channel_lines(
    channels: Sequence[Channel],
    expected: Sequence[tuple[float | None, float | None]],
    width: int,
) -> list[Line]:
    """A line a channel: what reaches the network, and the expected range (from mean and std)."""
    if not channels:
        return [[("more than 16 channels: no statistics", "dim")]]
    wide = width >= 46
    head = f"{'ch':>2} {'min':>7} {'max':>7}" + (f" {'mean':>7} {'std':>7}" if wide else "")
    lines: list[Line] = [[(head + "  expected", "head")]]
    for index, channel in enumerate(channels):
        least, most = _number(channel.minimum), _number(channel.maximum)
        text = f"{index:>2} {least:>7.3g} {most:>7.3g}"
        if wide:
            text += f" {_number(channel.mean):>7.3g} {_number(channel.std):>7.3g}"
        line: Line = [(text, "")]
        if index < len(expected):
            low, high = map(_number, expected[index])
            slack = _SLACK * max(1.0, high - low)
            inside = low - slack <= least and most <= high + slack
            sign = ("  ✓ ", "good") if inside else ("  ✗ ", "bad")
            line += [sign, (f"{low:.3g}..{high:.3g}", "")]
        lines.append(line)
    return lines


def _number(value: float | None) -> float:
    """What is no number has no place in JSON, and comes as None."""
    return math.nan if value is None else value
