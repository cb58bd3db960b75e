"""What boards did, in words: runs of a model, timings, memory, a watch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from engine.base.text import human_bytes, sanitize
from engine.reports.files import table_lines
from engine.reports.gates import point_name
from engine.reports.texts import words
from engine.wire.board import MemoryReport, Ran, SystemMemory
from engine.wire.board_tables import (
    BOARDS,
    COMPARED_LAYERS,
    COMPARED_POINTS,
    POINTS,
    WATCHED,
    watched_rows,
)
from engine.wire.build import SimulatedOutput
from engine.wire.build_tables import LARGEST, OUTPUTS
from engine.wire.devices import BoardAnswer, BoardMemory, Listing, ModelOnBoard, Performance
from engine.wire.doctor import Check
from engine.wire.formats import CELSIUS, CLOCK, DURATION, MILLISECONDS, SIZE
from engine.wire.layer_tables import BOARD
from engine.wire.layers import LayerFigures, layer_rows
from engine.wire.measured import RunsCompared
from engine.wire.monitor import Monitored


def where_line(answer: BoardAnswer) -> str:
    """Which board with which software, and what its figures are."""
    where = f"{sanitize(answer.device)}: {answer.chip}, runtime {sanitize(answer.runtime)}"
    driver = f", driver {sanitize(answer.driver)}" if answer.driver else ""
    return f"{where}{driver} ({answer.label})"


def output_lines(outputs: Sequence[SimulatedOutput]) -> list[str]:
    """The outputs as a table, then the largest values of each."""
    lines = table_lines(OUTPUTS, outputs)
    for output in outputs:
        largest = [LARGEST.record(row, rank=rank) for rank, row in enumerate(output.top, 1)]
        if largest:
            lines += ["", f"largest values of {sanitize(output.name)}:"]
            lines += table_lines(LARGEST, largest)
    return lines


def memory_line(memory: BoardMemory | None, label: str, reason: str = "") -> str:
    """What a model takes, by kind."""
    if memory is None:
        return f"memory: {sanitize(reason)}"
    parts = (
        ("weights", memory.weight),
        ("internal tensors", memory.internal),
        ("other", memory.other),
        ("total", memory.total),
    )
    sizes = ", ".join(f"{name} {SIZE.text(size)}" for name, size in parts)
    if memory.sram:
        sizes += f", SRAM {SIZE.text(memory.sram)} ({SIZE.text(memory.sram_free)} free)"
    return f"memory: {sizes} ({label})" + (f"; {memory.note}" if memory.note else "")


def system_line(system: SystemMemory | None) -> str:
    """The memory of the whole board."""
    if system is None or system.total is None:
        return "system: the kernel does not tell its memory"
    available = "?" if system.available is None else SIZE.text(system.available)
    text = f"system: {available} of {SIZE.text(system.total)} available with the model loaded"
    if system.cma_total:
        text += f", CMA {SIZE.text(system.cma_free or 0)} of {SIZE.text(system.cma_total)}"
    return text


def layer_lines(answer: ModelOnBoard) -> list[str]:
    """The runtime's table, with the layers of the build where one is known."""
    rows = [BOARD.record(row, name=_names(row)) for row in layer_rows(answer)]
    return ["", *table_lines(BOARD, rows, whole=True)] if rows else []


def _names(row: LayerFigures) -> str | None:
    """All layers of the build that a step computes."""
    also = () if row.measured is None else row.measured.also
    return " + ".join((row.id, *also)) if row.id else None


@words.register
def _ran(found: Ran) -> list[str]:
    lines = [where_line(found), *output_lines(found.outputs)]
    if found.milliseconds is not None:
        lines.append(
            f"{MILLISECONDS.text(found.milliseconds)} ms an inference on the board ({found.label})"
        )
    lines.append(memory_line(found.memory, found.label, found.memory_reason))
    lines += layer_lines(found)
    lines += [f"wrote {path}" for path in found.saved]
    return lines + [sanitize(note) for note in found.notes]


@words.register
def _memory(usage: MemoryReport) -> list[str]:
    lines = [where_line(replace(usage, driver=""))]
    lines += usage.text.splitlines() or [memory_line(None, usage.label, usage.reason)]
    if usage.memory is not None and usage.memory.sram:
        lines.append(memory_line(usage.memory, usage.label))
    if not usage.text:
        lines.append(f"model file: {human_bytes(usage.model_bytes)}")
    if usage.system is not None or usage.allocated is None:
        lines.append(system_line(usage.system))
    return lines


@words.register
def _listed(listing: Listing) -> list[str]:
    # without adb there may be boards by other ways; a server that does not serve hides some
    no_server = any(notice.code == "adb-server" for notice in listing.notices)
    none = [] if no_server else ["No board found."]
    lines = table_lines(BOARDS, listing.devices) or none
    for device in listing.devices:
        notes = () if device.usable else filter(None, (device.what, device.cause, device.remedy))
        lines += [f"{device.id}: {note}" for note in (*notes, *device.warnings)]
    lines += [f"{notice.what} {notice.remedy}".strip() for notice in listing.notices]
    return lines


@words.register
def _timed(measurements: Performance) -> list[str]:
    lines = [where_line(measurements), "", *table_lines(POINTS, measurements.points)]
    for point in measurements.points:
        name = point_name(point)
        clocks = [f"{part} {CLOCK.text(hertz)}" for part, hertz in point.clocks.items()]
        warm = [f"{zone} {CELSIUS.text(celsius)}" for zone, celsius in point.celsius.items()]
        if clocks or warm:
            lines.append(f"{name}: {', '.join([*clocks, *warm])}")
        lines += [f"{name}: {sanitize(note)}" for note in (*point.notes, point.failed) if note]
    lines += [f"left out, {sanitize(reason)}" for reason in measurements.left_out]
    if measurements.memory is not None:
        lines.append(memory_line(measurements.memory, measurements.label))
    lines += layer_lines(measurements)
    lines += [sanitize(note) for note in measurements.notes]
    return lines + ([f"kept as {measurements.kept}"] if measurements.kept else [])


@words.register
def _runs(found: RunsCompared) -> list[str]:
    first, second = found.labels
    lines = [f"first {first}, second {second}"]
    lines += [f"not equal: {sanitize(text)}" for text in found.differs]
    points = table_lines(COMPARED_POINTS, found.points)
    lines += ["", *points] if points else ["No point was measured in both."]
    layers = table_lines(COMPARED_LAYERS, found.layers)
    return lines + (["", *layers] if layers else [])


@words.register
def _watched(summary: Monitored) -> list[str]:
    lines = []
    for board in summary.boards:
        facts = board.facts
        what = ", ".join(text for text in (facts.chip, facts.model) if text)
        label = f" ({facts.label})" if board.samples else ""
        missed = f", {board.missed} missed" if board.missed else ""
        lines.append("")
        lines.append(
            f"{sanitize(facts.device, 80)}: {f'{sanitize(what)}, ' if what else ''}"
            f"{board.samples} samples{missed}{label}"
        )
        lines += table_lines(WATCHED, watched_rows(board))
    lines += ["", DURATION.text(summary.seconds)]
    if summary.recorded:
        lines.append(f"recorded to {sanitize(summary.recorded)}")
    return lines + [sanitize(note) for note in summary.notes]


@words.register
def _checked(check: Check) -> list[str]:
    lines = [f"{check.state:<4} {check.name}: {check.found}"]
    if check.state == "ok":
        return lines
    if check.remedy:
        first, *rest = check.remedy.split("\n")
        lines.append(f"     fix: {first}")
        lines += [f"          {line}" for line in rest]
    return lines + [f"     run: {command}" for command in check.commands]
