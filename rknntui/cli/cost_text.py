"""Estimates as lines for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from engine import human_bytes, sanitize
from engine.wire.cost import (
    AdviceAnswer,
    ChipEstimate,
    ChipFacts,
    Estimates,
)
from engine.wire.cost_tables import (
    BASIS,
    CHIP_FIGURES,
    CHIPS,
    KNOWN_CHIPS,
    TENSORS,
    interval_text,
    problem_lines,
)
from engine.wire.formats import CLOCK, MILLISECONDS, RATE
from engine.wire.layers import COST, layer_rows
from rknntui.cli.output import table_lines

_TENSORS = 30
"""Tensors that the text of a memory has."""


def advice_lines(answers: Iterable[AdviceAnswer]) -> list[str]:
    """Ways to make a model faster, the largest gain first."""
    lines: list[str] = []
    for one in answers:
        lines += ["", f"To make it faster on {one.chip} (estimated):"]
        for row in one.advice:
            gain = "" if row.gain_ms is None else f" (saves {MILLISECONDS.text(row.gain_ms)} ms)"
            lines += [f"- {sanitize(row.title)}{gain}", f"  {sanitize(row.why, 600)}"]
            lines.append(f"  {sanitize(row.source)}: {sanitize(', '.join(row.layers[:4]), 200)}")
        if not one.advice:
            lines.append("- no advice of the manuals applies to this model")
    return lines


def chip_lines(found: Estimates) -> list[str]:
    """Chips side by side; a column says who does the frames a second that were asked for."""
    asked = f"; reaches {found.fps_asked:g} frames/s" if found.fps_asked else ""
    lines = [f"{sanitize(found.model)} (estimated; intervals hold nine in ten{asked})", ""]
    return [*lines, *table_lines(CHIPS, found.chips), *problem_lines(found.chips)]


def facts_lines(chips: Sequence[ChipFacts]) -> list[str]:
    """The facts of chips, each with its source where there is one chip."""
    lines = table_lines(KNOWN_CHIPS, chips)
    if len(chips) == 1 and chips[0].figures:
        lines += ["", *table_lines(CHIP_FIGURES, chips[0].figures)]
    return lines


def _head_line(estimate: ChipEstimate, model: str) -> str:
    clock = f", {CLOCK.text(1e6 * estimate.npu_mhz)}" if estimate.npu_mhz else ""
    plural = "s" if estimate.cores > 1 else ""
    batch = f", batch {estimate.batch}" if estimate.batch > 1 else ""
    return (
        f"{sanitize(model)} on {estimate.chip}: {estimate.dtype}, "
        f"{estimate.cores} core{plural}{batch}{clock} "
        "(estimated)"
    )


def layer_cost_lines(found: Estimates) -> list[str]:
    """Every chip with its layers, one after the other."""
    lines: list[str] = []
    for estimate in found.chips:
        lines += [_head_line(estimate, found.model)]
        if estimate.time_ms is not None:
            lines.append(
                f"time {interval_text(estimate.time_ms, MILLISECONDS)} ms, "
                f"frames/s {interval_text(estimate.fps, RATE)}: "
                f"{BASIS.get(estimate.confidence, estimate.confidence)}"
            )
        if estimate.memory is not None:
            lines.append(_memory_text(estimate))
        table = table_lines(COST, layer_rows(estimate), whole=True)
        lines += [*([""] if table else []), *table, *problem_lines([estimate]), ""]
    return lines[:-1]


def _memory_text(estimate: ChipEstimate) -> str:
    memory = estimate.memory
    if memory is None:
        return "memory: not known"
    return (
        f"memory: weights {human_bytes(memory.weight)}, internal tensors "
        f"{human_bytes(memory.internal)}, total {human_bytes(memory.total)} (estimated)"
    )


def memory_cost_lines(found: Estimates) -> list[str]:
    """The memory of a model on each chip."""
    lines: list[str] = []
    for estimate in found.chips:
        lines += [
            _head_line(estimate, found.model),
            _memory_text(estimate),
            *problem_lines([estimate]),
        ]
        spans = () if estimate.memory is None else estimate.memory.spans
        largest = sorted(spans, key=lambda span: span.start - span.end)[:_TENSORS]
        if len(largest) < len(spans):
            lines.append(f"the largest {len(largest)} of {len(spans)} tensors:")
        lines += [*table_lines(TENSORS, largest), ""]
    return lines[:-1]
