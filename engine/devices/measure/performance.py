"""``rknntui perf --device``: a model timed on a board, point by point, and kept in the history."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

from engine.base.errors import DeviceError, OutputError
from engine.base.events import LogLine, Progress, Reporter, StageFinished, StageStarted
from engine.devices.agent.bundle import bundle
from engine.devices.board.results import OpenModel
from engine.devices.board.runtime import BoardRuntime
from engine.devices.board.tensors import zero_input
from engine.devices.choose import choose
from engine.devices.measure.benchmark import CellResult, plan_benchmark, run_benchmark
from engine.devices.measure.benchmark_runs import fix_clocks_of, measure_on, state_by_agent
from engine.devices.measure.history import save_run
from engine.devices.measure.measured import Label, MemoryUse
from engine.devices.measure.measured_run import Conditions, MeasuredRun
from engine.devices.measure.perf_report import PerfReport
from engine.devices.measure.perf_text import parse_perf_text
from engine.devices.probe.identify import identify
from engine.devices.reach import reach
from engine.devices.transport import Transport
from engine.wire.devices import (
    BoardMemory,
    LayerTime,
    MeasuredPoint,
    Performance,
    PerfParams,
)

__all__ = ["measure_performance"]

_STAGES = ("Connect", "Load the model", "Measure", "Time the layers")


def measure_performance(params: PerfParams, reporter: Reporter) -> Performance:
    """Time a compiled model on a board; inputs are zeros.

    Raises:
        EngineError: there is no such board, it cannot run this model, or it is lost meanwhile.
    """
    model = Path(params.model)
    count = len(_STAGES) - (not params.layers)
    with _stage(reporter, 0, count):
        address = choose(params.device)
        board = reach(address)
    with closing(board):
        identity = identify(board)
        label: Label = "emulated" if identity.emulated else "measured"
        chip = identity.chip
        if chip is None:
            raise DeviceError(
                f"The chip of {address} is not known.",
                cause=identity.note or "Its device tree names none that has an NPU of Rockchip.",
                remedy=f"See `rknntui doctor --device {address}`.",
            )
        plan = plan_benchmark(
            chip,
            cores=params.cores,
            threads=params.threads,
            warmup=params.warmup,
            loops=params.loops,
            seconds=params.seconds,
        )
        check = reporter.check_cancelled
        with closing(BoardRuntime(board, bundle().content, chip=chip, check=check)) as runtime:
            with _stage(reporter, 1, count):
                opened = runtime.open(model)
                notes = [*opened.notes]
            if params.fix_clocks:
                notes += fix_clocks_of(runtime, chip)
            inputs = [zero_input(attributes) for attributes in opened.inputs]
            look = partial(state_by_agent, runtime, chip)
            measure = measure_on(runtime, {1: (model, inputs)}, look)
            with _stage(reporter, 2, count) as name:
                cells = []
                for result in run_benchmark(plan, measure):
                    cells.append(result)
                    reporter.emit(Progress(name, len(cells), len(plan.cells), str(result.cell)))
            report = None
            if params.layers:
                with _stage(reporter, 3, count):
                    runtime.open(model, perf=True)
                    text = runtime.run(inputs, warmup=params.warmup, outputs=False).perf or ""
                    report = parse_perf_text(text)
            if params.fix_clocks:
                runtime.restore_clocks()
        memory = _memory(opened, label)
        return Performance(
            label=label,
            device=str(address),
            chip=chip,
            runtime=opened.api_version,
            driver=opened.driver_version,
            points=tuple(_point(cell) for cell in cells),
            left_out=tuple(f"{each.cell}: {each.reason}" for each in plan.left_out),
            layers=() if report is None else _layers(report),
            text="" if report is None else text,
            memory=None
            if memory is None
            else BoardMemory(
                memory.weight, memory.internal, memory.other, memory.total, memory.note
            ),
            notes=tuple(notes),
            kept=_keep(
                MeasuredRun(
                    at=time.time(),
                    title=model.name,
                    conditions=_conditions(opened, chip, board, cells),
                    label=label,
                    cells=tuple(cells),
                    memory=memory,
                    notes=tuple(notes),
                ),
                reporter,
            ),
        )


@contextmanager
def _stage(reporter: Reporter, index: int, count: int) -> Iterator[str]:
    name = f"board-{index}"
    begun = time.perf_counter()
    reporter.emit(StageStarted(name, _STAGES[index], index, count))
    yield name
    reporter.emit(StageFinished(name, round(time.perf_counter() - begun, 3)))


def _point(result: CellResult) -> MeasuredPoint:
    cell, timings = result.cell, result.timings
    if timings is None:
        return MeasuredPoint(cell.cores, cell.threads, failed=result.failed)
    return MeasuredPoint(
        cell.cores,
        cell.threads,
        timings.count,
        timings.minimum,
        timings.median,
        timings.p90,
        timings.p99,
        timings.maximum,
        timings.low,
        timings.high,
        result.frames_per_second,
        dict(result.after.clocks),
        dict(result.after.celsius),
        result.throttled,
        result.notes,
    )


def _layers(report: PerfReport) -> tuple[LayerTime, ...]:
    return tuple(
        LayerTime(row.id, row.name, row.op, row.dtype, row.target, row.microseconds, row.traffic)
        for row in report.rows
    )


def _memory(opened: OpenModel, label: Label) -> MemoryUse | None:
    found = opened.memory
    if found is None:
        return None
    return MemoryUse.of(weight=found.weight, internal=found.internal, dma=found.dma, label=label)


def _conditions(
    opened: OpenModel, chip: str, board: Transport, cells: list[CellResult]
) -> Conditions:
    versions = {"runtime": opened.api_version, "driver": opened.driver_version}
    if opened.file.toolkit:
        versions["toolkit"] = opened.file.toolkit
    return Conditions(
        model=opened.file.sha256,
        chip=chip,
        device=f"{board.kind}:{board.name}",
        versions={name: text for name, text in versions.items() if text},
        clocks=dict(cells[-1].after.clocks) if cells else {},
    )


def _keep(run: MeasuredRun, reporter: Reporter) -> str:
    """The figures are the user's whatever becomes of the history."""
    try:
        return save_run(run)
    except OutputError as error:
        reporter.emit(LogLine(f"The figures are not kept in the history: {error}", "warning"))
        return ""
