"""Estimates as lines for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from engine import human_bytes, sanitize
from engine.wire.cost import (
    AdviceAnswer,
    ChipEstimate,
    ChipFacts,
    Estimates,
    Interval,
)
from rknntui.chip_facts import BASIS, CHIP_COLUMNS, chip_cells, figure_name, interval_text
from rknntui.cli.output import table

__all__ = [
    "advice_lines",
    "chip_lines",
    "facts_lines",
    "judged",
    "layer_cost_lines",
    "memory_cost_lines",
    "problem_lines",
]

_TENSORS = 30
"""Tensors that the text of a memory has."""


def advice_lines(answers: Iterable[AdviceAnswer]) -> list[str]:
    """Ways to make a model faster, the largest gain first."""
    lines: list[str] = []
    for one in answers:
        lines += ["", f"To make it faster on {one.chip} (estimated):"]
        for row in one.advice:
            gain = "" if row.gain_ms is None else f" (saves {row.gain_ms:.3f} ms)"
            lines += [f"- {sanitize(row.title)}{gain}", f"  {sanitize(row.why, 600)}"]
            lines.append(f"  {sanitize(row.source)}: {sanitize(', '.join(row.layers[:4]), 200)}")
        if not one.advice:
            lines.append("- no advice of the manuals applies to this model")
    return lines


def chip_lines(found: Estimates) -> list[str]:
    """Chips side by side; a column says who does the frames a second that were asked for."""
    shown = list(CHIP_COLUMNS)
    rows = [list(chip_cells(each)) for each in found.chips]
    if found.fps_asked:
        shown.insert(4, f"{found.fps_asked:g} fps")
        rows = [
            [*row[:4], each.reaches or "-", *row[4:]]
            for row, each in zip(rows, found.chips, strict=True)
        ]
    lines = [f"{sanitize(found.model)} (estimated; intervals hold nine in ten)", ""]
    return [*lines, *table(shown, rows), *problem_lines(found.chips)]


def judged(found: Estimates, frames: float) -> Estimates:
    """With :attr:`ChipEstimate.reaches` of so many frames a second."""
    chips = tuple(replace(each, reaches=_reaches(each.fps, frames)) for each in found.chips)
    return replace(found, chips=chips, fps_asked=frames)


def _reaches(fps: Interval | None, frames: float) -> str:
    if fps is None:
        return ""
    if fps.low >= frames:
        return "yes"
    return "maybe" if fps.high >= frames else "no"


def problem_lines(chips: Iterable[ChipEstimate]) -> list[str]:
    """Why a chip has no estimate, and what the others leave out; equal ones together."""
    told: dict[str, list[str]] = {}
    for each in chips:
        for text in (f"{each.problem} {each.remedy}".strip(), *each.warnings, *each.notes):
            if text:
                told.setdefault(text, []).append(each.chip)
    return [f"{', '.join(names)}: {sanitize(text)}" for text, names in told.items()]


def facts_lines(chips: Sequence[ChipFacts]) -> list[str]:
    """The facts of chips, each with its source where there is one chip."""
    columns = ("chip", "generation", "toolkit", "cores", "dtypes", "basis")
    rows = [
        [
            each.name,
            str(each.generation),
            each.toolkit,
            str(each.npu_cores),
            " ".join(each.dtypes),
            each.confidence,
        ]
        for each in chips
    ]
    lines = table(columns, rows)
    if len(chips) == 1:
        figures = [[figure_name(f.name), f.value, f.source] for f in chips[0].figures]
        lines += ["", *table(("figure", "value", "source"), figures)] if figures else []
    return lines


def _head_line(each: ChipEstimate, model: str) -> str:
    clock = f", {each.npu_mhz:.0f} MHz" if each.npu_mhz else ""
    plural = "s" if each.cores > 1 else ""
    batch = f", batch {each.batch}" if each.batch > 1 else ""
    return (
        f"{sanitize(model)} on {each.chip}: {each.dtype}, {each.cores} core{plural}{batch}{clock} "
        "(estimated)"
    )


def layer_cost_lines(found: Estimates) -> list[str]:
    """Every chip with its layers, one after the other."""
    lines: list[str] = []
    for each in found.chips:
        lines += [_head_line(each, found.model)]
        if each.time_ms is not None:
            lines.append(
                f"time {interval_text(each.time_ms, 2)} ms, frames/s {interval_text(each.fps, 1)}: "
                f"{BASIS.get(each.confidence, each.confidence)}"
            )
        if each.memory is not None:
            lines.append(_memory_text(each))
        lines += [*_layer_table(each), *problem_lines([each]), ""]
    return lines[:-1]


def _layer_table(each: ChipEstimate) -> list[str]:
    columns = (
        "layer",
        "op",
        "type",
        "on",
        "time µs",
        "bound",
        "DDR cycles",
        "NPU cycles",
        "total cycles",
        "read",
        "name",
    )
    rows = [
        [
            sanitize(row.id, 50),
            row.op,
            row.dtype,
            row.target,
            f"{row.time_ms * 1000:.1f}",
            row.bound,
            str(row.ddr_cycles),
            str(row.npu_cycles),
            str(row.total_cycles),
            human_bytes(row.read_bytes),
            sanitize(row.name, 80),
        ]
        for row in each.layers
    ]
    return ["", *table(columns, rows)] if rows else []


def _memory_text(each: ChipEstimate) -> str:
    memory = each.memory
    if memory is None:
        return "memory: not known"
    return (
        f"memory: weights {human_bytes(memory.weight)}, internal tensors "
        f"{human_bytes(memory.internal)}, total {human_bytes(memory.total)} (estimated)"
    )


def memory_cost_lines(found: Estimates) -> list[str]:
    """The memory of a model on each chip."""
    lines: list[str] = []
    for each in found.chips:
        lines += [_head_line(each, found.model), _memory_text(each), *problem_lines([each])]
        spans = () if each.memory is None else each.memory.spans
        columns = ("tensor", "size", "start", "end", "layers")
        largest = sorted(spans, key=lambda span: span.start - span.end)[:_TENSORS]
        rows = [
            [
                sanitize(span.tensor, 60),
                human_bytes(span.end - span.start),
                str(span.start),
                str(span.end),
                f"{span.first} to {span.last}",
            ]
            for span in largest
        ]
        if len(largest) < len(spans):
            lines.append(f"the largest {len(largest)} of {len(spans)} tensors:")
        lines += [*table(columns, rows), ""]
    return lines[:-1]
