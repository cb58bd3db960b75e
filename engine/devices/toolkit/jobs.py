"""``run``, ``perf`` and ``memory`` on a board that only the toolkit of generation 1 reaches."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np

from engine.base.errors import (
    EngineError,
    JobCancelledError,
    RuntimeLibraryError,
    UsageError,
)
from engine.base.events import Progress, Reporter
from engine.devices.address import Address
from engine.devices.board.tensors import zero_input
from engine.devices.connected import BoardStages
from engine.devices.measure.benchmark import (
    BenchmarkPlan,
    Cell,
    CellTimes,
    plan_benchmark,
    run_benchmark,
)
from engine.devices.measure.layer_times import LayerTimes, layer_times_of
from engine.devices.measure.measured import memory_text
from engine.devices.measure.performance import Measured, kept_performance
from engine.devices.model_source import ModelSource
from engine.devices.run.inputs import board_inputs, require_files
from engine.devices.toolkit.board import ToolkitBoard, memory_by_toolkit, toolkit_board
from engine.facts import chip
from engine.simulate.outputs import output_files, save_outputs
from engine.toolkit.toolkit import RemoteRKNN
from engine.wire.board import MemoryReport, Ran, RunParams
from engine.wire.devices import Performance, PerfParams

_OPEN, _RUN, _LAYERS = "Open the board with the toolkit", "Run", "Time the layers"
_MEASURE, _LOOK = "Measure", "Look at the memory"
_LOOPS = 10
_NO_MEMORY = "not asked for: rknntui memory has the toolkit count allocations in a run of its own."


def run_by_job(address: Address, params: RunParams, source: ModelSource, reporter: Reporter) -> Ran:
    """One sample: once for the outputs, then ``loops`` times for the time.

    Raises:
        EngineError: a file does not fit, there is no such board or no toolkit for it, or it fails.
    """
    _only_auto(params.cores)
    paths = [Path(path) for path in params.inputs]
    require_files(paths)
    stages = BoardStages(reporter, (_OPEN, _RUN, *([_LAYERS] if params.layers else [])))
    with ExitStack() as held:
        with stages.stage(_OPEN):
            board = held.enter_context(_board(address, source, reporter))
            inputs, notes = board_inputs(paths, board.inputs, source.preprocess, generation=1)
            first = held.enter_context(ExitStack())
            rknn = first.enter_context(board.session())
        with stages.stage(_RUN) as stage:
            arrays = board.run(rknn, inputs)
            names = _names(board, arrays)
            folder = None if params.save is None else Path(params.save)
            targets = output_files(names, folder, force=params.force)
            files = dict(zip(targets, arrays, strict=False))
            saved = save_outputs(files, reporter, force=params.force)
            times = list(_times(board, rknn, params.loops, stage, reporter))
        first.close()  # one object at a time: the board has one NPU
        table = _layers(board, source, stages) if params.layers else LayerTimes()
    figures, floats = source.figures(names, arrays, paths, params.top, "measured")
    return Ran(
        **vars(board.head(*notes, *table.notes, *floats)),
        outputs=figures,
        milliseconds=statistics.median(times) / 1000,
        layers=table.rows,
        memory_reason=_NO_MEMORY,
        saved=saved,
    )


def memory_by_job(address: Address, source: ModelSource, reporter: Reporter) -> MemoryReport:
    """What a model takes on the board.

    Raises:
        EngineError: there is no such board or no toolkit for it, or it fails.
    """
    stages = BoardStages(reporter, (_OPEN, _LOOK))
    with ExitStack() as held:
        with stages.stage(_OPEN):
            board = held.enter_context(_board(address, source, reporter))
            rknn = held.enter_context(board.session(memory=True))
        with stages.stage(_LOOK):
            board.run(rknn, [zero_input(attributes) for attributes in board.inputs])
            allocated = board.memory(rknn)
    return MemoryReport(
        **vars(board.head()),
        text=memory_text(allocated, board.file.size, "measured"),
        model_bytes=board.file.size,
        allocated=allocated,
    )


def with_allocations(report: MemoryReport, source: ModelSource, reporter: Reporter) -> MemoryReport:
    """A report with what the toolkit tells of it, where the runtime of generation 1 tells nothing.

    Without a toolkit, or where it fails, the report is as it was, with the reason.
    """
    facts = chip(report.chip)
    address = Address.parse(report.device)
    if report.memory is not None or facts is None or facts.generation != 1 or source.path is None:
        return report
    if address.kind != "adb":
        return replace(report, reason=f"{report.reason} The toolkit reaches boards by adb and NTB.")
    try:
        allocated = memory_by_toolkit(source.path, address, report.chip, reporter)
    except JobCancelledError:
        raise
    except EngineError as error:
        return replace(report, reason=f"{report.reason} {error.what} {error.remedy}")
    text = memory_text(allocated, report.model_bytes, report.label)
    return replace(report, text=text, reason="", allocated=allocated)


def perf_by_job(
    address: Address, params: PerfParams, source: ModelSource, reporter: Reporter
) -> Performance:
    """Time a model on the board by ``eval_perf``, again and again; inputs are the toolkit's own.

    Raises:
        EngineError: there is no such board or no toolkit for it, or it fails.
    """
    stages = BoardStages(reporter, (_OPEN, _MEASURE, *([_LAYERS] if params.layers else [])))
    if params.batches:
        raise UsageError(
            "Models for several frames are not measured through the vendor's toolkit.",
            remedy="Measure each model by itself.",
        )
    with ExitStack() as held:
        with stages.stage(_OPEN):
            board = held.enter_context(_board(address, source, reporter))
            first = held.enter_context(ExitStack())
            rknn = first.enter_context(board.session())
        plan = plan_benchmark(
            board.chip,
            cores=params.cores,
            threads=params.threads,
            warmup=params.warmup,
            loops=params.loops or (None if params.seconds else _LOOPS),
            seconds=params.seconds,
        )
        with stages.stage(_MEASURE) as stage:

            def measure(cell: Cell, plan: BenchmarkPlan) -> CellTimes:
                if cell.threads != 1:
                    raise RuntimeLibraryError(
                        "The toolkit runs one inference at a time.",
                        remedy="Measure with one thread, or a board over adb.",
                    )
                if plan.loops is not None:
                    return CellTimes(list(_times(board, rknn, plan.loops, stage, reporter)))
                return CellTimes(list(_for_seconds(board, rknn, plan.seconds or 0.0, reporter)))

            cells = tuple(run_benchmark(plan, measure))
        first.close()
        table = _layers(board, source, stages) if params.layers else LayerTimes()
    unfixed = ("The clocks were not fixed: the toolkit has no way to do it.",)
    head = board.head(*(unfixed if params.fix_clocks else ()), *table.notes)
    measured = Measured(head, board.file, source.title, cells, table)
    return kept_performance(measured, plan, reporter)


def _board(
    address: Address, source: ModelSource, reporter: Reporter
) -> AbstractContextManager[ToolkitBoard]:
    if source.path is None:
        raise UsageError(
            f"A recipe cannot run on {address}.",
            cause="A board runs code for its NPU, and the vendor's toolkit makes that.",
            remedy="Compile the build with the vendor's toolkit, and give the .rknn that it makes.",
        )
    return toolkit_board(address, source.path, reporter)


def _layers(board: ToolkitBoard, source: ModelSource, stages: BoardStages) -> LayerTimes:
    with stages.stage(_LAYERS), board.session(perf=True) as rknn:
        return layer_times_of(board.report(rknn), source.layers, told=source.told)


def _only_auto(cores: str) -> None:
    if cores != "auto":
        raise UsageError(
            f"The cores {cores!r} cannot be chosen.",
            cause="Chips of generation 1 have one core.",
            remedy="Leave cores at auto.",
        )


def _names(board: ToolkitBoard, arrays: list[np.ndarray]) -> list[str]:
    names = board.output_names if len(board.output_names) == len(arrays) else ()
    return [name or f"output{at}" for at, name in enumerate(names or [""] * len(arrays))]


def _times(
    board: ToolkitBoard, rknn: RemoteRKNN, loops: int, stage: str, reporter: Reporter
) -> Iterator[float]:
    for done in range(loops):
        yield float(board.time(rknn)["total_time"])
        reporter.emit(Progress(stage, done + 1, loops, "evaluations"))


def _for_seconds(
    board: ToolkitBoard, rknn: RemoteRKNN, seconds: float, reporter: Reporter
) -> Iterator[float]:
    end = time.monotonic() + seconds
    while True:
        yield float(board.time(rknn)["total_time"])
        reporter.check_cancelled()
        if time.monotonic() >= end:
            return
