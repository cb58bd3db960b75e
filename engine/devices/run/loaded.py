"""A model that is loaded on a board for the time of one job, and what it takes there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from engine.base.errors import RuntimeLibraryError, UsageError
from engine.base.events import Reporter
from engine.base.text import sanitize
from engine.devices.board.results import OpenModel
from engine.devices.board.runtime import BoardRuntime
from engine.devices.connected import BoardStages, Connected, connected
from engine.devices.measure.benchmark import CORE_MASKS, core_problem
from engine.devices.measure.benchmark_runs import state_by_agent
from engine.devices.measure.measured import memory_of, memory_text
from engine.devices.model_source import ModelSource
from engine.facts import chip as chip_facts
from engine.wire.board import MemoryParams, MemoryReport
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
    perf: bool = False,
    look: Callable[[Path], object] | None = None,
) -> Iterator[Loaded]:
    """Connect to a board and load a model there, for the time of the block.

    Args:
        device: address of the board; None for the only one there is.
        model: what is to run.
        stages: of the job; :data:`CONNECT` and :data:`SEND` are told.
        reporter: asked whether to stop.
        cores: of :data:`engine.wire.devices.CORES`.
        perf: have the runtime time each layer.
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
            opened = runtime.open(path, perf=perf, core_mask=mask, moved=moved)
        yield Loaded(board, path, runtime, opened, mask)


def _core_mask(cores: str, chip: str) -> int | None:
    """``core_mask`` of a choice of cores; None where the runtime chooses.

    Raises:
        UsageError: there is no such choice, or the chip does not have these cores.
    """
    if cores not in CORE_MASKS:
        raise UsageError(
            f"There is no choice of cores {sanitize(cores, 40)!r}.",
            remedy=f"Choose of {', '.join(CORE_MASKS)}.",
        )
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
