"""A sample that runs on a board again and again, with the layers timed and the memory looked at."""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path

from engine.base.errors import UsageError
from engine.base.events import Reporter
from engine.devices.connected import BoardStages
from engine.devices.measure.benchmark_runs import state_by_agent
from engine.devices.measure.layer_times import read_layer_times
from engine.devices.model_source import ModelSource
from engine.devices.run.inputs import board_inputs, require_files, require_inputs
from engine.devices.run.loaded import CONNECT, SEND, loaded, memory_now
from engine.wire.board import LIVE_LOOK, Lived, LiveLook, LiveParams

_RUN = "Run again and again"
_LEAST_HERTZ, _MOST_HERTZ = 0.1, 10.0
_CHECK_SECONDS = 0.1
_LONGEST_SECONDS = 24 * 3600.0
"""One whose workbench was killed holds the board no longer than a day."""


def run_live(params: LiveParams, model: ModelSource, reporter: Reporter) -> Lived:
    """Run a sample until the job is asked to finish, or cancelled; each run is a ``LIVE_LOOK``.

    It ends by itself after a day. The board stays connected and the model loaded meanwhile.

    Raises:
        EngineError: as a run, or there is no such rate.
    """
    if not _LEAST_HERTZ <= params.hertz <= _MOST_HERTZ:
        raise UsageError(
            f"A board does not run {params.hertz:g} times a second here.",
            remedy=f"Choose {_LEAST_HERTZ:g} to {_MOST_HERTZ:g}.",
        )
    files = [Path(path) for path in params.inputs]
    require_files(files)
    stages = BoardStages(reporter, (CONNECT, SEND, _RUN))
    layers = cache(model.layers)
    held = loaded(
        params.device,
        model,
        stages,
        reporter,
        cores=params.cores,
        perf=True,
        look=lambda path: require_inputs(path, files),
    )
    with held as ready:
        board, runtime, opened = ready.board, ready.runtime, ready.opened
        inputs, notes = board_inputs(
            files, opened.inputs, model.preprocess, generation=opened.generation
        )
        with stages.stage(_RUN):
            begun, runs = time.monotonic(), 0
            while (at := time.monotonic() - begun) < _LONGEST_SECONDS:
                if reporter.finish_requested():
                    break
                ran = runtime.run(inputs, outputs=False)
                table = read_layer_times(ran.perf or "", layers, model.told)
                memory, reason = memory_now(runtime, opened)
                look = LiveLook(
                    **vars(board.head(opened, *notes, *table.notes)),
                    at=round(at, 3),
                    milliseconds=(ran.run_us or ran.wall_us)[0] / 1000,
                    layers=table.rows,
                    memory=memory,
                    memory_reason=reason,
                    system=state_by_agent(runtime, board.chip).memory,
                )
                reporter.emit(LIVE_LOOK.event(look))
                runs += 1
                _wait(begun + at + 1 / params.hertz, reporter)
    return Lived(runs)


def _wait(until: float, reporter: Reporter) -> None:
    """Until a time of the monotonic clock, or the end of the job."""
    while (left := until - time.monotonic()) > 0 and not reporter.finish_requested():
        reporter.check_cancelled()
        time.sleep(min(left, _CHECK_SECONDS))
    reporter.check_cancelled()
