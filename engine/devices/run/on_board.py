"""A model that is loaded on a board for the time of one job: what it takes, and its runs."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from engine.base.errors import RuntimeLibraryError, UsageError
from engine.base.events import Progress, Reporter
from engine.devices.board.results import OpenModel, RunProgress
from engine.devices.board.runtime import BoardRuntime
from engine.devices.connected import BoardStages, Connected, connected
from engine.devices.measure.benchmark import CORE_MASKS, core_problem
from engine.devices.measure.benchmark_runs import state_by_agent
from engine.devices.measure.layer_times import LayerTimes, read_layer_times, time_layers
from engine.devices.measure.measured import memory_of, memory_text
from engine.devices.model_source import ModelSource
from engine.devices.run.inputs import board_inputs, require_files, require_inputs
from engine.facts import chip as chip_facts
from engine.simulate.outputs import output_files, save_outputs
from engine.wire.board import MemoryParams, MemoryReport, Ran, RunParams
from engine.wire.devices import BoardMemory

CONNECT, SEND = "Connect", "Send the model"
"""The first two stages of such a job."""


@dataclass(frozen=True)
class Loaded:
    """A model on a board.

    Attributes:
        board: what it is.
        path: the model's file on this machine.
        runtime: what runs it.
        opened: what it takes and gives.
        mask: of the NPU cores that run it; None where the runtime chooses.
    """

    board: Connected
    path: Path
    runtime: BoardRuntime
    opened: OpenModel
    mask: int | None


@contextmanager
def loaded(
    device: str | None,
    model: ModelSource,
    stages: BoardStages,
    reporter: Reporter,
    *,
    cores: str = "auto",
    look: Callable[[Path], object] | None = None,
) -> Iterator[Loaded]:
    """Connect to a board and load a model there, for the time of the block.

    Args:
        device: address of the board; None for the only one there is.
        model: what is to run.
        stages: of the job; :data:`CONNECT` and :data:`SEND` are told.
        reporter: asked whether to stop.
        cores: of :data:`engine.wire.devices.CORES`.
        look: shown the model's file before it is sent; what it raises ends the job there.

    Raises:
        EngineError: there is no such board, or it cannot run this model.
    """
    with ExitStack() as held:
        with stages.stage(CONNECT):
            board = held.enter_context(connected(device))
            mask = _core_mask(cores, board.chip)
        path = held.enter_context(model.file_for(board))
        if look is not None:
            look(path)
        with stages.stage(SEND) as stage:
            check = reporter.check_cancelled
            runtime = BoardRuntime(board.transport, chip=board.chip, check=check)
            held.enter_context(closing(runtime))
            moved = stages.sending(stage)
            opened = runtime.open(path, core_mask=mask, moved=moved)
        yield Loaded(board, path, runtime, opened, mask)


def _core_mask(cores: str, chip: str) -> int | None:
    """``core_mask`` of a choice of cores; None where the runtime chooses.

    Raises:
        UsageError: the chip does not have these cores.
    """
    mask, facts = CORE_MASKS[cores], chip_facts(chip)
    problem = core_problem(mask, facts) if facts else ""
    if problem:
        raise UsageError(
            f"The cores {cores} do not fit {chip}.", cause=problem, remedy="Leave cores at auto."
        )
    return mask or None  # a chip with one core has no call for it


_LOOK = "Look at the memory"


def memory_on_board(params: MemoryParams, model: ModelSource, reporter: Reporter) -> MemoryReport:
    """What a model takes on a board, once it is loaded there.

    Raises:
        EngineError: there is no such board, it cannot run this model, or it is lost meanwhile.
    """
    stages = BoardStages(reporter, (CONNECT, SEND, _LOOK))
    with loaded(params.device, model, stages, reporter) as ready:
        board, opened = ready.board, ready.opened
        with stages.stage(_LOOK):
            memory, reason = memory_now(ready.runtime, opened)
            state = state_by_agent(ready.runtime, board.chip)
    return MemoryReport(
        **vars(board.head(opened)),
        memory=memory,
        reason=reason,
        text="" if memory is None else memory_text(memory, opened.file.size, board.label),
        model_bytes=opened.file.size,
        system=state.memory,
    )


def memory_now(runtime: BoardRuntime, opened: OpenModel) -> tuple[BoardMemory | None, str]:
    """What the open model takes now; as it was loaded where the runtime does not tell that."""
    try:
        now = None if opened.memory is None else runtime.memory()
    except RuntimeLibraryError:
        now = None
    return memory_of(opened, now)


# ``rknntui run``: one sample on a board, its outputs, its time, and where they come from.

_RUN, _LAYERS = "Run", "Time the layers"


def run_on_board(params: RunParams, model: ModelSource, reporter: Reporter) -> Ran:
    """Run one sample on a board: once for the outputs, then ``loops`` times for the time.

    Raises:
        EngineError: a file cannot be read or does not fit, there is no such board, it cannot run
            this model, or it is lost meanwhile.
    """
    paths = [Path(path) for path in params.inputs]
    require_files(paths)
    folder = None if params.save is None else Path(params.save)

    def look(path: Path) -> None:
        names = require_inputs(path, paths)
        if folder is not None and folder.is_dir():
            output_files(names, folder, force=params.force)

    stages = BoardStages(reporter, (CONNECT, SEND, _RUN, *([_LAYERS] if params.layers else [])))
    with loaded(params.device, model, stages, reporter, cores=params.cores, look=look) as ready:
        board, runtime, opened = ready.board, ready.runtime, ready.opened
        inputs, notes = board_inputs(
            paths, opened.inputs, model.preprocess, generation=opened.generation
        )
        names = _names(opened)
        targets = output_files(names, folder, force=params.force)
        with stages.stage(_RUN) as stage:
            outputs = runtime.run(inputs).outputs
            arrays = [output.channels_first for output in outputs]
            # written at once: they are there whatever becomes of the board
            files = dict(zip(targets, arrays, strict=False))
            saved = save_outputs(files, reporter, force=params.force)

            def tell(far: RunProgress, stage: str = stage) -> None:
                reporter.emit(Progress(stage, far.done, far.total, "inferences"))

            timed = runtime.run(inputs, loops=params.loops, outputs=False, progress=tell)
        text = None
        if params.layers:
            with stages.stage(_LAYERS):
                text = time_layers(runtime, ready.path, inputs, core_mask=ready.mask)
    table = LayerTimes() if text is None else read_layer_times(text, model.layers, model.told)
    memory, reason = memory_of(opened)
    by_clock = () if timed.run_us else (_BY_CLOCK,)
    figures, floats = model.figures(names, arrays, paths, params.top, board.label)
    return Ran(
        **vars(board.head(opened, *notes, *by_clock, *table.notes, *floats)),
        outputs=figures,
        milliseconds=statistics.median(timed.run_us or timed.wall_us) / 1000,
        layers=table.rows,
        memory=memory,
        memory_reason=reason,
        saved=saved,
    )


_BY_CLOCK = "The runtime tells no time: it is that of the board's clock around an inference."


def _names(opened: OpenModel) -> list[str]:
    """What the outputs are called; one without a name by its place."""
    return [output.name or f"output{output.index}" for output in opened.outputs]
