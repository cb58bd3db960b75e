"""What Dataset says about a dataset and about the channels of one sample: lines of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from engine import printable
from rknntui.widgets.facts_line import Fact

if TYPE_CHECKING:
    from rknntui.widgets.paint import Line

__all__ = ["channel_lines", "facts_text"]

_SLACK = 1e-3


def facts_text(path: str | None, facts: Mapping[str, Any] | None) -> tuple[Fact, ...]:
    """One line: how much, which sizes, whether a build would stop, where."""
    if not path:
        return (Fact("no dataset"),)
    parts = []
    if facts is not None:
        parts.append(Fact(f"{facts['samples']} samples"))
        if facts["files"] != facts["samples"]:
            parts.append(Fact(f"{facts['files']} files", rank=1))
        sizes = [f"{size} ×{count}" for size, count in facts["sizes"][:3]]
        if len(facts["sizes"]) > 3:
            sizes.append(f"{len(facts['sizes']) - 3} more sizes")
        parts += [Fact(size, rank=1) for size in sizes]
        bad = len(facts["problems"])
        parts.append(Fact(f"✗ {bad} problems" if bad else "✓ no problems"))
    parts.append(Fact(printable(path, 300), (printable(path.rpartition("/")[2], 80),), 2))
    return tuple(parts)


def channel_lines(
    channels: Sequence[Mapping[str, float]],
    expected: Sequence[Sequence[float]],
    width: int,
) -> list[Line]:
    """A line a channel: what reaches the network, and the expected range (from mean and std)."""
    if not channels:
        return [[("more than 16 channels: no statistics", "dim")]]
    wide = width >= 46
    head = f"{'ch':>2} {'min':>7} {'max':>7}" + (f" {'mean':>7} {'std':>7}" if wide else "")
    lines: list[Line] = [[(head + "  expected", "head")]]
    for index, channel in enumerate(channels):
        text = f"{index:>2} {channel['minimum']:>7.3g} {channel['maximum']:>7.3g}"
        if wide:
            text += f" {channel['mean']:>7.3g} {channel['std']:>7.3g}"
        line: Line = [(text, "")]
        if index < len(expected):
            low, high = expected[index]
            slack = _SLACK * max(1.0, high - low)
            inside = low - slack <= channel["minimum"] and channel["maximum"] <= high + slack
            sign = ("  ✓ ", "good") if inside else ("  ✗ ", "bad")
            line += [sign, (f"{low:.3g}..{high:.3g}", "")]
        lines.append(line)
    return lines
