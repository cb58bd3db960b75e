"""``rknntui perf --device``: a model timed on a board, point by point, and kept in the history."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

from engine.base.errors import (
    DeviceError,
    JobCancelledError,
    OutputError,
    RuntimeLibraryError,
    UsageError,
)
from engine.base.events import LogLine, Progress, Reporter
from engine.devices.board.results import OpenModel
from engine.devices.board.runtime import BoardRuntime
from engine.devices.board.tensors import BoardInput, zero_input
from engine.devices.connected import Connected, connected
from engine.devices.measure.benchmark import CellResult, plan_benchmark, run_benchmark
from engine.devices.measure.benchmark_runs import fix_clocks_of, measure_on, state_by_agent
from engine.devices.measure.history import save_run
from engine.devices.measure.layer_times import LayerTimes, read_layer_times, time_layers
from engine.devices.measure.measured_point import measured_point
from engine.devices.measure.measured_run import Conditions, MeasuredRun
from engine.devices.measure.memory import memory_of
from engine.devices.model_source import ModelSource
from engine.devices.stages import BoardStages
from engine.wire.devices import Performance, PerfParams

__all__ = ["measure_performance"]

_CONNECT, _SEND = "Connect", "Send the model"
_MEASURE, _LAYERS = "Measure", "Time the layers"


def measure_performance(params: PerfParams, source: ModelSource, reporter: Reporter) -> Performance:
    """Time a model on a board; inputs are zeros.

    Args:
        params: what to measure.
        source: the model; its layers are looked for once the times are there.
        reporter: told of the stages.

    Raises:
        EngineError: there is no such board, it cannot run this model, or it is lost meanwhile.
    """
    titles = (_CONNECT, _SEND, _MEASURE, *([_LAYERS] if params.layers else []))
    stages = BoardStages(reporter, titles)
    with ExitStack() as held:
        with stages.stage(_CONNECT):
            board = held.enter_context(connected(params.device))
            chip, check = board.chip, reporter.check_cancelled
        models = {each.batch: Path(each.model) for each in params.batches}
        plan = plan_benchmark(
            chip,
            cores=params.cores,
            batches=(1, *models),
            built=(1, *models),
            threads=params.threads,
            warmup=params.warmup,
            loops=params.loops,
            seconds=params.seconds,
        )
        if not plan.cells:
            raise UsageError(
                "No point of the grid can be measured on this chip.",
                cause=" ".join(dict.fromkeys(each.reason for each in plan.left_out)),
                remedy="Choose other cores, batches or threads.",
            )
        model = held.enter_context(source.file_for(board))
        with stages.stage(_SEND) as stage:
            runtime = BoardRuntime(board.transport, chip=chip, check=check)
            held.enter_context(closing(runtime))
            measured = {
                batch: (path, _inputs(runtime.open(path, moved=stages.sending(stage)), batch))
                for batch, path in models.items()
            }
            opened = runtime.open(model, moved=stages.sending(stage))
            notes = [*opened.notes]
        if params.fix_clocks:
            notes += fix_clocks_of(runtime, chip)
        inputs = _inputs(opened)
        look = partial(state_by_agent, runtime, chip)
        measure = measure_on(runtime, {1: (model, inputs), **measured}, look)
        cells: list[CellResult] = []
        text = None
        try:
            with stages.stage(_MEASURE) as stage:
                for result in run_benchmark(plan, measure):
                    cells.append(result)
                    reporter.emit(Progress(stage, len(cells), len(plan.cells), str(result.cell)))
                _require_times(cells)
            if params.layers:
                with stages.stage(_LAYERS):
                    text = time_layers(runtime, model, inputs, warmup=params.warmup)
        except (DeviceError, JobCancelledError) as error:
            if any(each.timings for each in cells):
                early = (*notes, f"It ended early: {error.what}")
                _keep(_measured(source, board, opened, cells, LayerTimes(), early), reporter)
                told = f"{len(cells)} of {len(plan.cells)} points were measured and are kept"
                reporter.emit(LogLine(f"{told}: see perf --history.", "warning"))
            raise
        if params.fix_clocks:
            runtime.restore_clocks()
    table = LayerTimes() if text is None else read_layer_times(text, source.layers, source.told)
    notes += table.notes
    return Performance(
        label=board.label,
        device=str(board.address),
        chip=chip,
        runtime=opened.api_version,
        driver=opened.driver_version,
        points=tuple(map(measured_point, cells)),
        left_out=tuple(f"{each.cell}: {each.reason}" for each in plan.left_out),
        layers=table.rows,
        text=table.text,
        memory=memory_of(opened, board.label).figures,
        notes=tuple(notes),
        kept=_keep(_measured(source, board, opened, cells, table, notes), reporter),
    )


def _require_times(cells: Sequence[CellResult]) -> None:
    """A run without a single time is no result, and is not kept.

    Raises:
        RuntimeLibraryError: every point failed; says why the first one did.
    """
    if not any(each.timings for each in cells):
        raise RuntimeLibraryError(
            "Nothing was measured: the board refused to run the model at every point.",
            cause=cells[0].failed if cells else "",
            remedy="Try `rknntui run`; if that fails too, run `rknntui doctor --device`.",
        )


def _inputs(opened: OpenModel, batch: int = 1) -> list[BoardInput]:
    """Zeros for a model.

    Raises:
        UsageError: it is not for as many frames as somebody said.
    """
    frames = opened.inputs[0].shape[0] if opened.inputs else 1
    if batch > 1 and frames != batch:
        raise UsageError(
            f"{opened.file.path.name} is for {frames} frames at once, not for {batch}.",
            remedy=f"Build it with rknn_batch_size={batch}, or say {frames}.",
        )
    return [zero_input(attributes) for attributes in opened.inputs]


def _measured(
    source: ModelSource,
    board: Connected,
    opened: OpenModel,
    cells: Sequence[CellResult],
    table: LayerTimes,
    notes: Sequence[str],
) -> MeasuredRun:
    """As the history keeps it."""
    return MeasuredRun(
        at=time.time(),
        title=source.title,
        conditions=_conditions(opened, board, cells),
        label=board.label,
        cells=tuple(cells),
        table=table.table,
        memory=memory_of(opened, board.label).use,
        notes=tuple(notes),
    )


def _conditions(opened: OpenModel, board: Connected, cells: Sequence[CellResult]) -> Conditions:
    versions = {"runtime": opened.api_version, "driver": opened.driver_version}
    if opened.file.toolkit:
        versions["toolkit"] = opened.file.toolkit
    return Conditions(
        model=opened.file.sha256,
        chip=board.chip,
        device=str(board.address),
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
