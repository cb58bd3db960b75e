"""A small model that the stand-ins of the runtime library know, and what comes out of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from engine.devices.board.runtime import BoardRuntime
from engine.devices.board.tensors import Array, BoardInput
from engine.devices.measure.perf_report import PerfRow
from rknntui_emulator.runtime.answers import (
    Answers,
    Memory,
    TensorFacts,
    input_digest,
)

IMAGE = np.arange(48, dtype=np.int8).reshape(1, 4, 4, 3)
SCORES = np.array([[-128, -28, 0, 100, 127]], np.int8)
ZERO, SCALE = -28, 0.25
OLD_IMAGE = IMAGE.astype(np.uint8)
OLD_SCORES = np.array([[0, 28, 100, 200, 255]], np.uint8)


def stored(path: Path, array: Array) -> Path:
    """An array as a file."""
    np.save(path, array)
    return path


def perf_row(
    number: int, name: str, op: str = "", cycles: Sequence[int] = (), **more: Any
) -> PerfRow:
    """A row of a report, whose operator stands in its name where none is given.

    ``cycles`` are those of the memory, of the NPU and of both, as the reports have them.
    """
    more |= dict(zip(("ddr_cycles", "npu_cycles", "total_cycles"), cycles, strict=False))
    return PerfRow(number, op=op or name.partition(":")[0], name=name, **more)


NPU = {"dtype": "INT8", "target": "NPU"}
SHAPES: dict[str, Any] = {"inputs": ((1, 3, 4, 4),), "outputs": ((1, 5),)}
ROW = perf_row(1, "Conv:conv1", cycles=(9, 8, 9), microseconds=120, **NPU, **SHAPES)


def answers(**changes: Any) -> Answers:
    """What the stand-in knows of a small model."""
    known: dict[str, Any] = {
        "inputs": (TensorFacts("image", (1, 4, 4, 3), "INT8", "NHWC", "AFFINE", 0, -128, 0.5),),
        "outputs": (TensorFacts("scores", (1, 5), "INT8", "UNDEFINED", "AFFINE", 0, ZERO, SCALE),),
        "results": {input_digest([IMAGE.tobytes()]): (SCORES.tobytes(),)},
        "layers": (ROW,),
        "run_us": (700,),
        "memory": Memory(3698688, 1756160, 5939200),
        "platform": "rk3588",
    }
    return Answers(**(known | changes))


def first_answers(**changes: Any) -> Answers:
    """What the stand-in of generation 1 knows of a small model."""
    known: dict[str, Any] = {
        "generation": 1,
        "platform": "",
        "inputs": (TensorFacts("image", (1, 4, 4, 3), "UINT8", "NHWC", "AFFINE", 0, 128, 0.5),),
        "outputs": (TensorFacts("scores", (1, 5), "UINT8", "NCHW", "AFFINE", 0, 28, SCALE),),
        "results": {input_digest([OLD_IMAGE.tobytes()]): (OLD_SCORES.tobytes(),)},
    }
    return answers(**(known | changes))


def check_results(
    runtime: BoardRuntime, image: Array = IMAGE, scores: Array = SCORES, zero: int = ZERO
) -> None:
    result = runtime.run([BoardInput(image)], loops=3, warmup=1)
    expected = (scores.astype(np.float32) - zero) * SCALE
    np.testing.assert_array_equal(result.outputs[0].array, expected)
    assert len(result.wall_us) == 3
    assert result.run_us == (700.0,) * 3
    whole = runtime.run([BoardInput(image)], want_float=False)
    np.testing.assert_array_equal(whole.outputs[0].array, scores)
