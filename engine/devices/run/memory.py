"""``rknntui memory``: what a model takes on a board, and what the board has left with it."""

from __future__ import annotations

from engine.base.errors import RuntimeLibraryError
from engine.base.events import Reporter
from engine.devices.board.results import OpenModel
from engine.devices.board.runtime import BoardRuntime
from engine.devices.measure.benchmark_runs import state_by_agent
from engine.devices.measure.measured import memory_text
from engine.devices.measure.memory import memory_of
from engine.devices.model_source import ModelSource
from engine.devices.run.loaded import CONNECT, SEND, loaded
from engine.devices.stages import BoardStages
from engine.wire.board import MemoryParams, MemoryReport
from engine.wire.devices import BoardMemory

__all__ = ["memory_now", "memory_on_board"]

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
