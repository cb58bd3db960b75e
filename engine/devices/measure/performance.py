"""``rknntui perf run``: a model timed on a board, point by point, and kept in the history."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path

from engine.base.errors import (
    DeviceError,
    JobCancelledError,
    OutputError,
    RuntimeLibraryError,
    UsageError,
)
from engine.base.events import LogLine, Progress, Reporter
from engine.devices.board.model_file import ModelFile
from engine.devices.board.results import OpenModel
from engine.devices.board.runtime import BoardRuntime
from engine.devices.board.tensors import BoardInput, zero_input
from engine.devices.connected import BoardStages, connected
from engine.devices.measure.benchmark import (
    BenchmarkPlan,
    Cell,
    CellResult,
    CellTimes,
    cell_result,
    changes,
    plan_benchmark,
    run_benchmark,
)
from engine.devices.measure.benchmark_runs import fix_clocks_of, measure_on, state_by_agent
from engine.devices.measure.history import MeasuredRun, save_run
from engine.devices.measure.layer_times import LayerTimes, read_layer_times, time_layers
from engine.devices.measure.measured import memory_of
from engine.devices.measure.timings import percentile
from engine.devices.model_source import ModelSource
from engine.wire.devices import (
    PERF_LOOK,
    BoardAnswer,
    BoardMemory,
    LayerTime,
    MeasuredPoint,
    PerfLook,
    Performance,
    PerfParams,
)
from engine.wire.measured import Conditions

_CONNECT, _SEND = "Connect", "Send the model"
_MEASURE, _LAYERS = "Measure", "Time the layers"
_LAYERS_US = 5e6
"""Of a measurement, at least, between two timings of the layers, which are runs of their own."""
_LAYERS_SHARE = 10
"""So many times longer than such a timing it is measured before the next: a soak is no rest."""
_LOOKED_AT = 20_000
"""Times of which a look has the percentiles."""


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
        models = {variant.batch: Path(variant.model) for variant in params.batches}
        plan = plan_benchmark(
            chip,
            cores=params.cores,
            batches=(1, *models),
            threads=params.threads,
            warmup=params.warmup,
            loops=params.loops,
            seconds=params.seconds,
        )
        if not plan.cells:
            raise UsageError(
                "No point of the grid can be measured on this chip.",
                cause=" ".join(dict.fromkeys(omitted.reason for omitted in plan.left_out)),
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
        notes = fix_clocks_of(runtime, chip) if params.fix_clocks else []
        inputs = _inputs(opened)
        look = partial(state_by_agent, runtime, chip)
        head = board.head(opened)
        live = _Live(
            partial(time_layers, runtime, model, inputs) if params.layers else None,
            head,
            source,
            reporter,
        )
        measure = measure_on(
            runtime, {1: (model, inputs), **measured}, look, live.tell, reporter.finish_requested
        )
        cells: list[CellResult] = []
        taken = Measured(head, opened.file, source.title, cells, memory=memory_of(opened))
        text = None
        try:
            with stages.stage(_MEASURE) as stage:
                for result in run_benchmark(plan, measure):
                    cells.append(result)
                    live.so_far = None
                    reporter.emit(Progress(stage, len(cells), len(plan.cells), str(result.cell)))
                    if reporter.finish_requested():
                        notes.append("It was ended before its time.")
                        break
                _require_times(cells)
            if params.layers:
                with stages.stage(_LAYERS):
                    text = time_layers(runtime, model, inputs, warmup=params.warmup)
        except (DeviceError, JobCancelledError) as error:
            if live.so_far is not None:
                cells.append(cell_result(*live.so_far))
            if any(cell.timings for cell in cells):
                early = board.head(opened, *notes, f"It ended early: {error.what}")
                _keep_early(replace(taken, head=early), len(plan.cells), reporter)
            raise
        if params.fix_clocks:
            runtime.restore_clocks()
    table = LayerTimes() if text is None else read_layer_times(text, source.layers, source.told)
    head = board.head(opened, *notes, *table.notes)
    return kept_performance(replace(taken, head=head, table=table), plan, reporter)


class _Live:
    """Tells of a measurement while it goes on, and times the layers between its parts.

    Attributes:
        so_far: the point that is being measured, and its times; None between points.
    """

    def __init__(
        self,
        time_them: Callable[[], str] | None,
        head: BoardAnswer,
        source: ModelSource,
        reporter: Reporter,
    ) -> None:
        self._time_them, self._head, self._reporter = time_them, head, reporter
        self._layers, self._told = cache(source.layers), source.told
        self._next = 0.0
        self._last = (0, 0.0)
        self.so_far: tuple[Cell, CellTimes] | None = None

    def tell(self, cell: Cell, found: CellTimes) -> bool:
        """Tell a look; whether the layers were timed, for which the model is loaded anew."""
        count, elapsed = len(found.times), found.elapsed or 0.0
        if self.so_far is None:
            self._last, self._next = (0, 0.0), 0.0
        self.so_far = cell, found
        self._reporter.check_cancelled()
        rows: tuple[LayerTime, ...] = ()
        again = self._time_them is not None and elapsed >= self._next
        if again and self._time_them is not None:
            begun = time.monotonic()
            rows = read_layer_times(self._time_them(), self._layers, self._told).rows
            took = (time.monotonic() - begun) * 1e6
            self._next = elapsed + max(_LAYERS_US, _LAYERS_SHARE * took)
        since = count - self._last[0], max(elapsed - self._last[1], 1.0)
        self._last = count, elapsed
        times = sorted(found.times[-_LOOKED_AT:])
        median, p90, p99 = (percentile(times, share) for share in (50, 90, 99))
        look = PerfLook(
            **vars(self._head),
            at=round(elapsed / 1e6, 3),
            cores=cell.cores,
            threads=cell.threads,
            count=count,
            frames_per_second=since[0] * cell.batch * 1e6 / since[1],
            median=median,
            p90=p90,
            p99=p99,
            clocks=dict(found.after.clocks),
            celsius=dict(found.after.celsius),
            throttled=changes(found.before, found.after)[0],
            layers=rows,
        )
        self._reporter.emit(PERF_LOOK.event(look))
        return again


@dataclass(frozen=True)
class Measured:
    """What was measured of a model on a board.

    Attributes:
        head: where, and what is to be known of it.
        file, title: the model that ran, and what a list calls it.
        cells: what the points of a plan gave.
        table: of the layers.
        memory: of the model, or why it is not known.
    """

    head: BoardAnswer
    file: ModelFile
    title: str
    cells: Sequence[CellResult]
    table: LayerTimes = field(default_factory=LayerTimes)
    memory: tuple[BoardMemory | None, str] = (None, "")


def kept_performance(measured: Measured, plan: BenchmarkPlan, reporter: Reporter) -> Performance:
    """What was measured, for the user and for the history.

    Args:
        measured: all of it.
        plan: the points that were to be measured.
        reporter: told where the history cannot be written.
    """
    return Performance(
        **vars(measured.head),
        points=tuple(map(_point, measured.cells)),
        left_out=tuple(f"{omitted.cell}: {omitted.reason}" for omitted in plan.left_out),
        layers=measured.table.rows,
        text=measured.table.text,
        memory=measured.memory[0],
        memory_reason=measured.memory[1],
        kept=_keep(measured, reporter),
    )


def _require_times(cells: Sequence[CellResult]) -> None:
    """A run without a single time is no result, and is not kept.

    Raises:
        RuntimeLibraryError: every point failed; says why the first one did.
    """
    if not any(cell.timings for cell in cells):
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


def _point(result: CellResult) -> MeasuredPoint:
    """What the times of a point say, or why there are none."""
    cell, timings = result.cell, result.timings
    if timings is None:
        return MeasuredPoint(cell.cores, cell.threads, failed=result.failed, batch=cell.batch)
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
        batch=cell.batch,
    )


def _keep_early(measured: Measured, planned: int, reporter: Reporter) -> None:
    """Keep what a run had measured when it ended."""
    _keep(measured, reporter)
    summary = f"{len(measured.cells)} of {planned} points were measured and are kept"
    reporter.emit(LogLine(f"{summary}: see perf history.", "warning"))


def _keep(measured: Measured, reporter: Reporter) -> str:
    """Keep a run; the figures are the user's whatever becomes of the history."""
    head, file, cells = measured.head, measured.file, measured.cells
    versions = {"runtime": head.runtime, "driver": head.driver, "toolkit": file.toolkit}
    run = MeasuredRun(
        at=time.time(),
        title=measured.title,
        conditions=Conditions(
            model=file.sha256,
            chip=head.chip,
            device=head.device,
            versions={name: text for name, text in versions.items() if text},
            clocks=dict(cells[-1].after.clocks) if cells else {},
        ),
        label=head.label,
        cells=tuple(cells),
        table=measured.table.table,
        memory=measured.memory[0],
        notes=head.notes,
    )
    try:
        return save_run(run)
    except OutputError as error:
        reporter.emit(LogLine(f"The figures are not kept in the history: {error}", "warning"))
        return ""
