"""Figures of a run, on this machine or on a board, as lines for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from engine import human_bytes, not_finite, sanitize, shape_text, sqnr_text
from engine.wire.board import SystemMemory
from engine.wire.build import SimulatedOutput
from engine.wire.devices import BoardMemory, LayerTime
from engine.wire.rounding import RoundedLayer, RoundedOutput
from rknntui.cli.output import table

__all__ = [
    "layer_lines",
    "memory_line",
    "output_lines",
    "rounding_text",
    "system_line",
    "where_line",
]


def where_line(device: str, chip: str, runtime: str, driver: str, label: str) -> str:
    """Which board with which software, and what its figures are."""
    told = f"{sanitize(device)}: {chip}, runtime {sanitize(runtime)}"
    return f"{told}{f', driver {sanitize(driver)}' if driver else ''} ({label})"


def rounding_text(layer: RoundedLayer | RoundedOutput | None) -> str:
    """How far other roundings move a tensor, in dB without the unit; empty where nobody looked."""
    return "" if layer is None else sqnr_text(layer.rounding_db, unit=False, digits=1)


def output_lines(outputs: Iterable[SimulatedOutput]) -> list[str]:
    """Each output with its largest values."""
    lines = []
    for output in outputs:
        lines.append(
            f"{sanitize(output.name)}  {shape_text(output.shape)}  {output.dtype}  "
            f"{output.label}  min {_number(output.minimum)}  "
            f"max {_number(output.maximum)}  mean {_number(output.mean)}"
        )
        if output.not_finite:
            lines.append(f"  {not_finite(output.not_finite)}; the numbers are of the others")
        lines += [f"  [{t.index:>6}] {t.value:.6f}" for t in output.top]
    return lines


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"


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
    told = ", ".join(f"{name} {human_bytes(size)}" for name, size in parts)
    if memory.sram:
        told += f", SRAM {human_bytes(memory.sram)} ({human_bytes(memory.sram_free)} free)"
    return f"memory: {told} ({label})" + (f"; {memory.note}" if memory.note else "")


def system_line(system: SystemMemory | None) -> str:
    """The memory of the whole board."""
    if system is None or system.total is None:
        return "system: the kernel does not tell its memory"
    available = "?" if system.available is None else human_bytes(system.available)
    told = f"system: {available} of {human_bytes(system.total)} available with the model loaded"
    if system.cma_total:
        told += f", CMA {human_bytes(system.cma_free or 0)} of {human_bytes(system.cma_total)}"
    return told


def layer_lines(layers: Sequence[LayerTime]) -> list[str]:
    """The runtime's table, with the layers of the build where one is known."""
    if not layers:
        return []
    known = any(row.layer for row in layers)
    head = ["id", *(["layer"] if known else [])]
    head += ["op", "type", "on", "time µs", "traffic", "runtime's name"]
    rows = []
    for row in layers:
        ids = " + ".join((row.layer, *row.also)) if row.layer else "-"
        rows.append(
            [
                str(row.id),
                *([sanitize(ids, 60)] if known else []),
                row.op,
                row.dtype,
                row.target,
                "-" if row.microseconds is None else f"{row.microseconds:.0f}",
                "-" if row.traffic is None else human_bytes(row.traffic),
                sanitize(row.name, 80),
            ]
        )
    return ["", *table(head, rows)]
