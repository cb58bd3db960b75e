"""Models on chips in words: estimates, checks, compilations."""

from __future__ import annotations

from engine.base.text import human_bytes, sanitize
from engine.reports.estimates import CostReport
from engine.reports.files import table_lines
from engine.reports.texts import words
from engine.wire.build_tables import AGREEMENT, COMPILED
from engine.wire.compile import Compiled, CompiledModels
from engine.wire.cost import AdviceAnswer, Calibrated, CheckAnswer, ChipEstimate, Chips, Estimates
from engine.wire.cost_tables import (
    BASIS,
    CHECKED,
    CHIP_FIGURES,
    CHIPS,
    KNOWN_CHIPS,
    TENSORS,
    interval_text,
    problem_lines,
)
from engine.wire.formats import CLOCK, DURATION, FACTOR, MILLISECONDS, RATE
from engine.wire.goal import ChipWays, Ways
from engine.wire.layer_tables import COMPILED as COMPILED_LAYERS
from engine.wire.layer_tables import COST, OFF_NPU
from engine.wire.layers import ENDS, layer_rows

_TENSORS = 30
"""Tensors that the text of a memory has."""


@words.register
def _advised(found: AdviceAnswer) -> list[str]:
    """Ways to make a model faster, the largest gain first."""
    lines = ["", f"To make it faster on {found.chip} (estimated):"]
    for row in found.advice:
        gain = "" if row.gain_ms is None else f" (saves {MILLISECONDS.text(row.gain_ms)} ms)"
        lines += [f"- {sanitize(row.title)}{gain}", f"  {sanitize(row.why, 600)}"]
        lines.append(f"  {sanitize(row.source)}: {sanitize(', '.join(row.layers[:4]), 200)}")
    if not found.advice:
        lines.append("- no advice of the manuals applies to this model")
    return lines


@words.register
def _ways_of_chip(found: ChipWays) -> list[str]:
    """What brings a chip nearer to a frame rate; of a smaller input with the interval."""
    lines = []
    for way in found.ways:
        rate = interval_text(way.fps, RATE) if way.input_sizes else RATE.text(way.fps.value)
        gain = MILLISECONDS.text(way.gain_ms)
        lines.append(f"{rate} FPS: {sanitize(way.what)} (−{gain} ms, estimated)")
    return lines or ["No tip of the manuals saves time here."]


@words.register
def _ways(found: Ways) -> list[str]:
    lines = [f"{sanitize(found.model)}: to reach {found.fps_asked:g} frames/s (estimated)"]
    for one in found.chips:
        lines += ["", f"{one.chip}:", *(f"  {line}" for line in _ways_of_chip(one))]
    return lines


def _side_by_side(found: Estimates) -> list[str]:
    """Chips side by side; a column says who does the frames a second that were asked for."""
    asked = f"; reaches {found.fps_asked:g} frames/s" if found.fps_asked else ""
    lines = [f"{sanitize(found.model)} (estimated; intervals hold nine in ten{asked})", ""]
    return [*lines, *table_lines(CHIPS, found.chips), *problem_lines(found.chips)]


@words.register
def _facts(found: Chips) -> list[str]:
    """The facts of chips, each with its source where there is one chip."""
    lines = table_lines(KNOWN_CHIPS, found.chips)
    if len(found.chips) == 1 and found.chips[0].figures:
        lines += ["", *table_lines(CHIP_FIGURES, found.chips[0].figures)]
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


def _cost_of_layers(found: Estimates) -> list[str]:
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


def _cost_of_memory(found: Estimates) -> list[str]:
    """The memory of a model on each chip."""
    lines: list[str] = []
    for estimate in found.chips:
        lines += [_head_line(estimate, found.model), _memory_text(estimate)]
        lines += problem_lines([estimate])
        spans = () if estimate.memory is None else estimate.memory.spans
        largest = sorted(spans, key=lambda span: span.start - span.end)[:_TENSORS]
        if len(largest) < len(spans):
            lines.append(f"the largest {len(largest)} of {len(spans)} tensors:")
        lines += [*table_lines(TENSORS, largest), ""]
    return lines[:-1]


@words.register
def _checked(answer: CheckAnswer) -> list[str]:
    lines = [f"{sanitize(answer.model)} (estimated)", "", *table_lines(CHECKED, answer.chips)]
    lines += [f"{one.chip}: {sanitize(one.problem)}" for one in answer.chips if one.problem]
    return lines + _off_lines(answer) + _warnings(answer)


def _warnings(answer: CheckAnswer) -> list[str]:
    """What crashes the compiler, with the chips of which that is so."""
    chips_of: dict[str, list[str]] = {}
    for one in answer.chips:
        for text in one.warnings:
            chips_of.setdefault(text, []).append(one.chip)
    lines = [f"warning: {', '.join(on)}: {sanitize(text, 400)}" for text, on in chips_of.items()]
    return ["", *lines] if lines else []


def _off_lines(answer: CheckAnswer) -> list[str]:
    """Layers that are not on the NPU, with the chips of which that is so."""
    chips_of: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for one in answer.chips:
        for row in layer_rows(one):
            values = OFF_NPU.record(row, chips=None)
            chips_of.setdefault(tuple(values.items()), []).append(one.chip)
    records = [dict(values) | {"chips": " ".join(on)} for values, on in chips_of.items()]
    lines = table_lines(OFF_NPU, records)
    return ["", *lines] if lines else []


@words.register
def _calibrated(found: Calibrated) -> list[str]:
    return [
        (
            f"{found.chip}: {MILLISECONDS.text(found.measured_ms)} ms measured in the run "
            f"{found.run}, {MILLISECONDS.text(found.estimated_ms)} ms estimated"
        ),
        f"Estimates of {found.chip} are multiplied by {FACTOR.text(found.factor)} from now on.",
        *found.notes,
    ]


_MOST = 40
_OF_COMPILED = COMPILED_LAYERS.pick("name", "op", "dtype", "placement")
_SAMPLES_OF = {
    "calibration": "calibration samples",
    "given": "samples given",
    "seeded": "values from a seed",
}


@words.register
def _compiled(result: CompiledModels) -> list[str]:
    compiled = [one for one in result.chips if one.path]
    lines = [sanitize(result.model)]
    lines += ["", *table_lines(COMPILED, compiled)] if compiled else []
    lines += [_ESTIMATED] if any(one.estimated_weight_bytes is not None for one in compiled) else []
    for one in result.chips:
        lines += ["", f"{one.chip}: {sanitize(one.path) or 'not compiled'}", *_details(one)]
    return lines


_ESTIMATED = (
    "estimated: the plan of the file that the compiler got; `chips` counts the model before it."
)


def _details(one: Compiled) -> list[str]:
    if one.problem:
        named = (("likely cause: ", one.cause), ("fix: ", one.remedy))
        parts = (("", one.problem), *named, ("What the toolkit printed: ", one.log))
        lines = [f"{title}{text}" for title, text in parts if text]
        return [f"  {line}" for line in [*lines, *_opinion(one)]]
    lines = []
    off = [row for row in layer_rows(one) if row.placement != "NPU" and row.first("op") not in ENDS]
    lines += table_lines(_OF_COMPILED, off[:_MOST], whole=True)
    if len(off) > _MOST:
        lines.append(f"and {len(off) - _MOST} more layers that are not on the NPU")
    lines += _opinion(one)
    for finding in one.findings:
        lines.append(f"{finding.severity}: {sanitize(finding.what, 400)}")
        if finding.severity != "info" and finding.remedy:
            lines.append(f"  fix: {sanitize(finding.remedy, 400)}")
    return [f"  {line}" for line in lines]


def _opinion(one: Compiled) -> list[str]:
    """The second opinion of the vendor's simulator."""
    rows = table_lines(AGREEMENT, one.outputs)
    if not rows:
        return []
    took = "" if one.opinion_seconds is None else f", {DURATION.text(one.opinion_seconds)}"
    title = f"simulated by the vendor and by us ({_SAMPLES_OF[one.samples_from]}{took}):"
    return [title, *rows]


@words.register
def _estimated(found: Estimates, kind: CostReport | None = None) -> list[str]:
    """Estimates in words.

    Args:
        found: of one chip or several.
        kind: ``chips`` sets them side by side, ``layers`` tells the cost of every layer, and
            ``tensors`` the memory; None: layers where there is one chip.
    """
    kind = kind or ("layers" if len(found.chips) == 1 else "chips")
    tell = {"layers": _cost_of_layers, "tensors": _cost_of_memory}.get(kind, _side_by_side)
    return tell(found)
