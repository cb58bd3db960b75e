"""What a runtime's performance text holds, as types. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.wire.devices import TimedStep
from engine.wire.record import record

Dialect = Literal[
    "generation 1",
    "generation 2, 1.1",
    "generation 2, to 1.5",
    "generation 2, from 1.6",
    "total",
    "unknown",
]
TotalKind = Literal["operators", "run", "average"]


@record
class PerfRow(TimedStep):
    """One row of the table of layers; ``op`` is the first of several (generation 1).

    Attributes:
        id: its number in the table.
        ops: all of them.
        inputs, outputs: shapes, inputs with weights and bias behind them.
        shapes_cut: whether the runtime left shapes out (``...``).
        mac_usage: percent of the multipliers in use, per core.
        workload: percent of the work that each core did.
        uid: of generation 1; None where it is empty.
    """

    id: int
    ops: tuple[str, ...] = ()
    inputs: tuple[tuple[int, ...], ...] = ()
    outputs: tuple[tuple[int, ...], ...] = ()
    shapes_cut: bool = False
    mac_usage: tuple[float, ...] = ()
    workload: tuple[float, ...] = ()
    uid: int | None = None


@dataclass(frozen=True)
class OperatorTotal:
    """A row of the ranking: all calls of one operator. Times in microseconds, share in percent;
    None where not printed.
    """

    op: str
    calls: int | None = None
    cpu: float | None = None
    gpu: float | None = None
    npu: float | None = None
    total: float | None = None
    share: float | None = None


@dataclass(frozen=True)
class Clocks:
    """Clocks of a part in Hz, one for each of its groups; empty where the board has not told."""

    part: str
    hertz: tuple[int, ...]


@dataclass(frozen=True)
class Unread:
    """A line that could not be read, or not whole. ``line`` counts from 1; 0 is the whole text."""

    line: int
    why: str
    text: str = ""


@dataclass(frozen=True)
class PerfReport:
    """What a runtime measured. Everything in it was measured on the board that printed it.

    Attributes:
        dialect: which runtime's form it has.
        rows: the layers, in the order of the table.
        microseconds: the total; None where there is none.
        total_kind: what the total is: the sum over ``operators`` (slower than a run without
            ``perf_debug``), one ``run``, or the ``average`` of several; None without a total.
        frames_per_second: as printed; None where it is not.
        npu_clock: in Hz, as printed beside the rate (generation 1).
        traffic: bytes read and written in all; None where not printed.
        ranking: totals by operator.
        clocks: what the board ran at.
        unread: what could not be read.
    """

    dialect: Dialect
    rows: tuple[PerfRow, ...] = ()
    microseconds: float | None = None
    total_kind: TotalKind | None = None
    frames_per_second: float | None = None
    npu_clock: int | None = None
    traffic: int | None = None
    ranking: tuple[OperatorTotal, ...] = ()
    clocks: tuple[Clocks, ...] = ()
    unread: tuple[Unread, ...] = ()
