"""The tables of boards: their list, measured points, memory, samples of a watch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from engine.wire.board import BoardState, MemoryReport
from engine.wire.devices import MeasuredPoint
from engine.wire.formats import (
    CELSIUS,
    CHANGE,
    CLOCK,
    LOAD,
    MICROSECONDS,
    MILLISECONDS,
    NAME,
    NUMBER,
    SIZE,
    TENTHS,
    WATTS,
    Format,
    state_of,
)
from engine.wire.measured import PointChange
from engine.wire.monitor import BoardSummary, Span
from engine.wire.table import (
    BATCH,
    CHIP,
    CORES_USED,
    DEVICE,
    FRAMES,
    LAYER,
    MARK,
    MEANING,
    MEDIAN_MS,
    MODEL,
    SIZED,
    STATE,
    THREADS,
    Column,
    Meaning,
    Table,
    accent,
)

_SIGNS: dict[str, tuple[str, Meaning]] = {
    "ready": ("✓", "good"),
    "not asked": ("?", "accent"),
    "connecting": ("?", "accent"),
    "needs the vendor's toolkit": ("!", "warn"),
    "recovery": ("!", "warn"),
    "sideload": ("!", "warn"),
    "bootloader": ("!", "warn"),
    "flash mode": ("!", "warn"),
}
CLEAR = {True: "clear", False: "within the spread", None: "too few runs"}
"""Whether a difference is clear -> in words."""


def state_sign(state: str | None) -> tuple[str, Meaning]:
    """Sign and meaning of the state of a board; a state that is not known is a problem."""
    return _SIGNS.get(state or "", ("✗", "bad"))


def _ms(key: str) -> Callable[[Any], float | None]:
    """Microseconds of a board as ms."""

    def value(row: Any) -> float | None:
        micros: float | None = getattr(row, key)
        return None if micros is None else micros / 1000

    return value


def _batch(row: MeasuredPoint | PointChange) -> int | None:
    return row.batch if row.batch > 1 else None


# fmt: off
BOARDS = Table("boards", "A board in reach.", (
    MARK.but(width=2),
    DEVICE.but(key="id", help="Its name for --device.", width=20, grow=2),
    STATE.but(format=state_of(lambda state: state_sign(state)[0]), help="Whether you can use it.",
              width=14, style=lambda state: state_sign(state)[1]),
    CHIP.but(help="The chip, once the board was asked.", value=None, width=7, from_width=1),
    MODEL.but(help="What the board says that it is.", width=12, grow=1, from_width=50,
              value=lambda board: board.model or board.product or board.device or None),
    Column("kind", "via", help="How it is reached.", width=5, from_width=76),
    Column("address", format=NAME, help="USB port or network address, where the name lacks it.",
           value=lambda board: None if board.id.endswith(board.address) else board.address,
           width=12, grow=1, from_width=70),
))

POINTS = Table("points", "A choice of cores and threads, and the times of its runs.", (
    CORES_USED,
    BATCH.but(help="Inferences at once; a time is of all of them.", value=_batch, from_width=1),
    THREADS,
    Column("count", "runs", NUMBER, "Runs that were timed."),
    MEDIAN_MS.but(value=_ms("median")),
    Column("minimum_ms", "min ms", MILLISECONDS, "The shortest run.", _ms("minimum")),
    Column("p90_ms", "p90 ms", MILLISECONDS, "Nine in ten runs took no longer.", _ms("p90")),
    Column("p99_ms", "p99 ms", MILLISECONDS, "99 in 100 runs took no longer.", _ms("p99")),
    Column("maximum_ms", "max ms", MILLISECONDS, "The longest run.", _ms("maximum")),
    FRAMES.but(help="Frames a second, of all threads together.", value="frames_per_second"),
))

COMPARED_POINTS = Table("compared-points", "A point that two runs measured.", (
    CORES_USED,
    BATCH.but(value=_batch, from_width=1),
    THREADS,
    Column("before_ms", "first ms", MILLISECONDS, "The median of the first run.", _ms("before")),
    Column("after_ms", "second ms", MILLISECONDS, "The median of the second run.", _ms("after")),
    Column("change", format=CHANGE, help="The second median against the first."),
    Column("clear", "difference is", help="Clear: the 95 % intervals of both medians lie apart.",
           value=lambda point: CLEAR[point.clear]),
))

COMPARED_LAYERS = Table("compared-layers", "A layer that one of two runs timed.", (
    LAYER.but(grow=1),
    Column("before_us", "first µs", MICROSECONDS, "Its time in the first run.", "before"),
    Column("after_us", "second µs", MICROSECONDS, "Its time in the second run.", "after"),
))

MEMORY = Table("memory", "A kind of memory, on a board.", (
    Column("part", "memory of", help="Which memory.", width=16),
    SIZED,
    Column("bar", name="bar", value=None, only="screen", width=20, style=accent, from_width=60),
    MEANING.but(help="What is in it.", width=16, grow=1),
))

WATCHED = Table("watched", "A figure of a board that was watched.", (
    Column("part", "figure of board", help="Which figure, with its unit."),
    Column("minimum", "lowest", TENTHS, "The smallest value."),
    Column("mean", "average", TENTHS, "The mean of all values."),
    Column("maximum", "highest", TENTHS, "The largest value."),
))
# fmt: on


def memory_rows(report: MemoryReport) -> Iterator[dict[str, Any]]:
    """The records of :data:`MEMORY`; ``of`` is the whole that a size is part of, or None."""
    memory, system = report.memory, report.system
    rows: list[tuple[str, int | None, int | None, str]] = []
    if memory is not None:
        whole = memory.total
        rows += [
            ("weights", memory.weight, whole, "constants of the model"),
            ("internal", memory.internal, whole, "tensors between layers"),
            ("other", memory.other, whole, "inputs, outputs, commands"),
            ("whole model", memory.total, whole, "all of it on the board"),
        ]
        if memory.sram:
            rows.append(("SRAM, free", memory.sram_free, memory.sram, "of the chip itself"))
    else:
        rows.append(("whole model", None, None, "not available on this runtime"))
    if report.model_bytes:
        rows.append(("model file", report.model_bytes, None, "as stored"))
    if system is not None:
        total = system.total
        rows += [
            ("system, total", total, None, "memory of the board"),
            ("system, available", system.available, total, "for new programs"),
        ]
        rest = [
            ("CMA, total", system.cma_total, None, "contiguous memory"),
            ("CMA, free", system.cma_free, system.cma_total, "for NPUs without an IOMMU"),
            ("swap, total", system.swap_total, None, "on a disk or compressed"),
            ("swap, free", system.swap_free, system.swap_total, ""),
        ]
        rows += [row for row in rest if row[1] is not None]  # many kernels have none
    for part, size, of, about in rows:
        yield {"part": part, "size": size, "of": of, "about": about}


class BoardFigure(NamedTuple):
    """One figure of a look at a board.

    Attributes:
        name: which, as ``NPU 0`` for the load of a core, ``DDR clock``, ``temperature``.
        value: in the unit of ``format``.
        format: how it reads.
        whole: what is all of it: 100 of a load, the memory of the board; 0 where there is no such.
    """

    name: str
    value: float
    format: Format
    whole: float = 0.0


def state_figures(state: BoardState) -> Iterator[BoardFigure]:
    """What a look told: loads, clocks, the NPU's temperature, memory in use, power."""
    loads = state.npu_load or ()
    for core, load in enumerate(loads):
        yield BoardFigure(f"NPU {core}" if len(loads) > 1 else "NPU", load, LOAD, 100.0)
    clocks = {"NPU": state.npu_clock, "DDR": state.ddr_clock}
    clocks["CPU"] = max((hertz for _, hertz in state.cpu_clocks or ()), default=None)
    for part, hertz in clocks.items():
        if hertz is not None:
            yield BoardFigure(f"{part} clock", float(hertz), CLOCK)
    if (celsius := state.npu_celsius) is not None:
        yield BoardFigure("temperature", celsius, CELSIUS, 100.0)
    memory = state.memory
    if memory is not None and memory.total and memory.available is not None:
        used = float(memory.total - memory.available)
        yield BoardFigure("memory", used, SIZE, float(memory.total))
    for power in state.powers or ():
        yield BoardFigure(f"power {power.sensor}", power.watts, WATTS)


def watched_rows(board: BoardSummary) -> Iterator[dict[str, Any]]:
    """The records of :data:`WATCHED`."""
    loads = board.npu_load
    rows: list[tuple[str, Span | None, float]] = [
        (f"NPU load{f', core {core}' if len(loads) > 1 else ''}, %", span, 1.0)
        for core, span in enumerate(loads)
    ]
    rows += [
        ("NPU clock, MHz", board.npu_clock, 1e-6),
        ("temperature, C", board.celsius, 1.0),
        ("memory used, MiB", board.memory_used, 2.0**-20),
    ]
    rows += [(f"power, {sensor}, W", span, 1.0) for sensor, span in board.power.items()]
    for part, span, factor in rows:
        values = {} if span is None else vars(span)
        yield {"part": part, **{name: value * factor for name, value in values.items()}}
