"""What a model takes on a board, or why that is not known."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from engine.devices.measure.measured import memory_not_available, memory_use
from engine.wire.devices import BoardMemory

if TYPE_CHECKING:
    from engine.devices.board.results import DeviceMemory, OpenModel

__all__ = ["memory_of"]


def memory_of(opened: OpenModel, now: DeviceMemory | None = None) -> tuple[BoardMemory | None, str]:
    """What a model takes on a board; None and the reason where the runtime has no such query.

    Args:
        opened: as it was loaded.
        now: asked anew; None for what the runtime said when the model was loaded.
    """
    told = now or opened.memory
    if told is not None:
        memory = memory_use(weight=told.weight, internal=told.internal, dma=told.dma)
        return replace(memory, sram=told.sram, sram_free=told.sram_free), ""
    why = memory_not_available().cause if opened.generation == 1 else "it has no query for memory."
    return None, f"not available on this runtime: {why}"
