"""What a board says of a model and of its runs, as types, each checked as it is read.

Times are in microseconds, sizes in bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from engine.base.peers.far import Message
from engine.base.plain import JsonObject
from engine.devices.board.answers import (
    amount,
    listed,
    mapping,
    text,
    times,
    whole,
)
from engine.devices.board.model_file import ModelFile
from engine.devices.board.tensors import BoardOutput, TensorAttributes, read_attributes


@dataclass(frozen=True)
class DeviceMemory:
    """``rknn_mem_size`` of an open model, in bytes.

    Attributes:
        weight, internal: weights, and the largest need of activations.
        dma: all that was allocated for the NPU, these two included; 0 where not told.
        sram, sram_free: of the chip's own memory.
    """

    weight: int
    internal: int
    dma: int
    sram: int
    sram_free: int


@dataclass(frozen=True)
class OpenModel:
    """A model that a board has loaded.

    Attributes:
        file: which one.
        library: path of the runtime library on the board.
        generation: of that library, 1 or 2.
        api_version, driver_version: as the runtime says them.
        inputs, outputs: what it takes and gives.
        memory: what it takes; None where the runtime has no such query.
        notes: what a user should know of this board.
    """

    file: ModelFile
    library: str
    generation: int
    api_version: str
    driver_version: str
    inputs: tuple[TensorAttributes, ...]
    outputs: tuple[TensorAttributes, ...]
    memory: DeviceMemory | None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class RunProgress:
    """How far a run is: inferences done of all, and the times of the latest in microseconds."""

    done: int
    total: int
    wall_us: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class RunResult:
    """What a run gave.

    Attributes:
        outputs: of the last inference; empty where they were not asked for.
        wall_us: time of each inference by the board's clock.
        run_us: the same as the runtime measures it; empty where it does not.
        elapsed_us: from the begin of the first timed inference to the end of the last, of all
            threads together.
        perf: the runtime's own table of layers, as it is written, for a parser; None without one.
    """

    outputs: tuple[BoardOutput, ...]
    wall_us: tuple[float, ...]
    run_us: tuple[float, ...]
    elapsed_us: float
    perf: str | None


@dataclass(frozen=True)
class ClocksChanged:
    """Which files of the clocks were written, and which not, with the reason."""

    changed: tuple[str, ...]
    refused: tuple[tuple[str, str], ...]


def read_open_model(file: ModelFile, answer: JsonObject, note: str) -> OpenModel:
    """What `open` answers."""
    memory: Any = answer.get("memory")
    notes = [text({"note": line}, "note", 500) for line in listed(answer, "notes", 100)]
    return OpenModel(
        file=file,
        library=text(answer, "library"),
        generation=whole(answer, "generation", 1, 2),
        api_version=text(answer, "api_version"),
        driver_version=text(answer, "driver_version"),
        inputs=read_attributes(answer, "inputs"),
        outputs=read_attributes(answer, "outputs"),
        memory=None if memory is None else read_memory(mapping(memory, "memory")),
        notes=(*notes, note) if note else tuple(notes),
    )


def read_memory(data: JsonObject) -> DeviceMemory:
    """What `memory` answers."""
    names = ("weight", "internal", "dma", "sram", "sram_free")
    return DeviceMemory(*(amount(data, name) for name in names))


def told_progress(
    progress: Callable[[RunProgress], object], total: int, before: int
) -> Callable[[Message], object]:
    """What takes the progress of a part of a run and tells it as a type.

    Args:
        progress: takes it.
        total: inferences of the whole run.
        before: those of the parts before.
    """

    def tell(message: Message) -> None:
        done = whole(message, "done", 0, total - before)
        progress(RunProgress(before + done, total, times(message, "wall_us", total)))

    return tell


def read_clocks(answer: JsonObject) -> ClocksChanged:
    """What `write_clocks` and `restore_clocks` answer."""
    pairs = [refusal for refusal in listed(answer, "refused", 1000) if isinstance(refusal, list)]
    return ClocksChanged(
        tuple(text({"path": name}, "path") for name in listed(answer, "changed", 1000)),
        tuple(
            (text({"path": pair[0]}, "path"), text({"reason": pair[1]}, "reason"))
            for pair in pairs
            if len(pair) == 2
        ),
    )
