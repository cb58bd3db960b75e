"""What Chips says on its top line and below its views, and what can be done there."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from engine import sanitize
from engine.wire.cost import CostCheckParams, WhatIf
from engine.wire.cost_tables import BASIS
from engine.wire.flags import words_of
from engine.wire.formats import CHANGE, COUNT, DURATION, MILLISECONDS, RATE, SIZE, range_of
from engine.wire.table import since
from rknntui.keys.actions import key_text
from rknntui.keys.commandline import command_for
from rknntui.screens.chips.estimates import scenario_words
from rknntui.widgets.one_line import Fact
from rknntui.widgets.wrap import wrap

if TYPE_CHECKING:
    from engine.wire.cost import AdviceAnswer, ChipCheck, ChipEstimate, Estimates
    from engine.wire.layers import LayerFigures
    from engine.wire.table import Record
    from rknntui.screens.chips.estimates import Want
    from rknntui.session.state import Session
    from rknntui.widgets.strips import Line


def top_facts(
    found: Estimates | None,
    chip: ChipEstimate | None,
    before: ChipEstimate | None,
    scenario: WhatIf,
    *,
    asking: bool,
    error: str,
) -> tuple[Fact, ...]:
    """The chip that is looked at, what is varied, and whether figures are on their way.

    Args:
        found: all chips.
        chip: the one that is looked at.
        before: it, with the recipe as it is; None where nothing is varied.
        scenario: what is varied.
        asking: whether answers are missing.
        error: why one is.
    """
    if error:
        return (Fact(f"✗ {sanitize(error, 300)}"),)
    parts: list[Fact] = []
    if chip is not None:
        parts.append(Fact(sanitize(chip.chip, 40)))
        parts += _figures(chip, before)
    if words := scenario_words(scenario):
        reset = f"what if {words} ({key_text('chips.reset')} resets)"
        parts.append(Fact(reset, (f"what if {words}",)))
    if asking or found is None:
        parts.append(Fact("estimating …", rank=1))
    else:
        parts.append(Fact(f"{len(found.chips)} chips in {DURATION.text(found.seconds)}", rank=3))
    return (*parts, Fact("estimated"))


def _figures(chip: ChipEstimate, before: ChipEstimate | None) -> list[Fact]:
    if chip.problem:
        return [Fact("no estimate")]
    parts = []
    if chip.fps is not None:
        now = f"{RATE.text(chip.fps.value)} FPS"
        old = before.fps if before is not None else None
        moved = since(chip.fps.value, old.value if old is not None else None)
        parts.append(Fact(now + (f" ({CHANGE.text(moved)})" if moved is not None else "")))
    if chip.time_ms is not None:
        parts.append(Fact(f"{MILLISECONDS.text(chip.time_ms.value)} ms", rank=2))
    return parts


def chip_lines(chip: ChipEstimate | None, width: int) -> list[Line]:
    """Why there are no figures, or how sure they are and what they leave out."""
    if chip is None:
        return []
    name = sanitize(chip.chip, 40)
    if chip.problem:
        lines = _told(f"{name}: {chip.problem}", width, "warn")
        return lines + (_told(f"Fix: {chip.remedy}", width, "good") if chip.remedy else [])
    sure = BASIS.get(chip.confidence, chip.confidence)
    parts = [f"{name}, {chip.dtype}: {sure}."]
    if chip.time_ms is not None:
        ends = (chip.time_ms.low, chip.time_ms.high)
        parts.append(f"{range_of(MILLISECONDS).text(ends)} ms in nine of ten cases.")
    return _warned(chip, width) + _told(" ".join(parts), width) + _notes(chip, width)


def _warned(estimate: ChipEstimate | ChipCheck, width: int) -> list[Line]:
    """What the vendor's compiler is known to fail at, before anything else."""
    return [line for text in estimate.warnings for line in _told(f"! {text}", width, "warn")]


def _notes(chip: ChipEstimate, width: int) -> list[Line]:
    return [line for note in chip.notes for line in _told(note, width)]


_WHERE = {"none": "refused", "unknown": "not known where"}


def layer_lines(row: LayerFigures | None, chip: ChipEstimate | None, width: int) -> list[Line]:
    """What a narrow table has no column for, of the layer under the cursor."""
    if chip is None or chip.problem:
        return chip_lines(chip, width)
    if row is None or row.estimated is None:
        return []
    layer = row.estimated
    lines: list[Line] = []
    if layer.reason:
        style = "bad" if layer.target == "none" else "warn"
        where = _WHERE.get(layer.target, f"on {layer.target}")
        lines += _told(f"{where}: {layer.reason}", width, style)
        lines += _told(f"Fix: {layer.remedy}", width, "good") if layer.remedy else []
    parts = [layer.name, f"{layer.shapes_in} → {layer.shape_out or '–'}"]
    if layer.macs:
        parts.append(f"{COUNT.text(layer.macs)} MACs")
    parts.append(f"{SIZE.text(layer.read_bytes + layer.write_bytes)} moved")
    if layer.npu_cycles or layer.ddr_cycles:
        npu, ddr = COUNT.text(layer.npu_cycles), COUNT.text(layer.ddr_cycles)
        parts.append(f"cycles: NPU {npu}, DDR {ddr}")
    return lines + _told(" · ".join(parts), width)


def memory_lines(chip: ChipEstimate | None, width: int) -> list[Line]:
    """Totals, and the keys of the chart."""
    if chip is None or chip.memory is None:
        return chip_lines(chip, width)
    memory = chip.memory
    text = (
        f"internal {SIZE.text(memory.internal)} + weights {SIZE.text(memory.weight)}; "
        f"whole {SIZE.text(memory.total)}. ←→ another layer, p the peak."
    )
    if not memory.spans:
        text += " No tensors are known for this chip."
    return _told(text, width)


def check_lines(record: Record | None, found: ChipCheck | None, width: int) -> list[Line]:
    """How many layers where; rule and fix of the layer under the cursor, whole."""
    if found is None:
        return []
    if found.problem:
        return _told(f"{found.chip}: {found.problem}", width, "warn")
    on_cpu = (
        f"{found.unknown_layers} not known where"
        if found.cpu_layers is None
        else f"{found.cpu_layers} on the CPU"
    )
    counts = (
        f"{found.chip}, {found.dtype}: {found.npu_layers} on the NPU, {on_cpu}, "
        f"{found.refused_layers} refused."
    )
    off = found.cpu_layers or found.unknown_layers
    bad = "bad" if found.refused_layers else "warn" if off else "good"
    lines = _warned(found, width) + _told(counts, width, bad)
    if record is not None:
        lines += _told(f"{record['printed']}: {record['reason'] or ''}", width)
        lines += _told(f"Fix: {record['remedy']}", width, "good") if record["remedy"] else []
    return lines


def advice_lines(record: Record | None, found: AdviceAnswer | None, width: int) -> list[Line]:
    """The reason of the advice under the cursor, its layers and its source."""
    if found is None or record is None:
        return []
    lines = _told(record["why"], width)
    if record["layers"]:
        few, more = record["layers"][:4], len(record["layers"]) - 4
        names = ", ".join(few) + (f" and {more} more" if more > 0 else "")
        lines += _told(f"Layers: {names}", width)
    return lines + (_told(f"Source: {record['source']}", width, "dim") if record["source"] else [])


def _told(text: str, width: int, style: str = "dim") -> list[Line]:
    return [[(row, style)] for row in wrap(sanitize(text, 2000), width)]


# The command line that says what a view of Chips shows.

_VERBS = {"Chips": "chips", "Memory": "memory", "Check": "check"}


def command_line(session: Session, want: Want) -> list[str]:
    """The words; empty where nothing is open."""
    verb = _VERBS.get(want.view, "perf estimate")
    words = command_for(verb, session)
    if not words:
        return []
    chips = () if want.view == "Chips" else (want.chip, *want.others)
    asked = replace(want.scenario, chips=chips)
    if verb == "check":
        return [*words, *words_of(CostCheckParams, {"chips": chips, "dtype": asked.dtype})]
    if verb == "memory":  # that of one core
        asked = replace(asked, cores=1)
    return [*words, *words_of(WhatIf, vars(asked))]
