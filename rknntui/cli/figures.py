"""Figures of a run, on this machine or on a board, as lines for people."""

from __future__ import annotations

from collections.abc import Sequence

from engine import sanitize
from engine.wire.board import SystemMemory
from engine.wire.build import SimulatedOutput
from engine.wire.build_tables import LARGEST, OUTPUTS
from engine.wire.devices import BoardMemory, ModelOnBoard
from engine.wire.formats import SIZE
from engine.wire.layers import BOARD, LayerFigures, layer_rows
from rknntui.cli.output import table_lines


def where_line(device: str, chip: str, runtime: str, driver: str, label: str) -> str:
    """Which board with which software, and what its figures are."""
    where = f"{sanitize(device)}: {chip}, runtime {sanitize(runtime)}"
    return f"{where}{f', driver {sanitize(driver)}' if driver else ''} ({label})"


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
