"""What a model takes on a board, as the wire has it, or why that is not known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.devices.measure.measured import Label, MemoryUse, memory_not_available
from engine.wire.devices import BoardMemory

if TYPE_CHECKING:
    from engine.devices.board.results import DeviceMemory, OpenModel

__all__ = ["ModelMemory", "memory_of"]


@dataclass(frozen=True)
class ModelMemory:
    """The figures of ``rknn_mem_size``.

    Attributes:
        use: in the manual's forms; None where the runtime has no such query.
        figures: the same, for the wire.
        reason: why there are none.
    """

    use: MemoryUse | None = None
    figures: BoardMemory | None = None
    reason: str = ""


def memory_of(opened: OpenModel, label: Label, found: DeviceMemory | None = None) -> ModelMemory:
    """What a model takes on a board.

    Args:
        opened: as it was loaded.
        label: ``emulated`` where the board is.
        found: asked anew; None for what the runtime said when the model was loaded.
    """
    memory = found or opened.memory
    if memory is None:
        if opened.generation == 1:
            error = memory_not_available()
            return ModelMemory(reason=f"not available on this runtime: {error.cause}")
        return ModelMemory(reason="not available on this runtime: it has no query for memory.")
    use = MemoryUse.of(weight=memory.weight, internal=memory.internal, dma=memory.dma, label=label)
    figures = BoardMemory(
        use.weight, use.internal, use.other, use.total, use.note, memory.sram, memory.sram_free
    )
    return ModelMemory(use, figures)
