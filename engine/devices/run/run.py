"""``rknntui run``: one sample on a board, its outputs, its time, and where they come from."""

from __future__ import annotations

import statistics
from pathlib import Path

from engine.base.events import Progress, Reporter
from engine.devices.board.results import OpenModel, RunProgress
from engine.devices.connected import BoardStages
from engine.devices.measure.layer_times import LayerTimes, read_layer_times, time_layers
from engine.devices.measure.measured import memory_of
from engine.devices.model_source import ModelSource
from engine.devices.run.inputs import board_inputs, require_files, require_inputs
from engine.devices.run.loaded import CONNECT, SEND, loaded
from engine.simulate.outputs import figures_of_output, output_files, save_outputs
from engine.wire.board import Ran, RunParams

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
    return Ran(
        **vars(board.head(opened, *notes, *by_clock, *table.notes)),
        outputs=tuple(
            figures_of_output(name, array, params.top, board.label)
            for name, array in zip(names, arrays, strict=True)
        ),
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
