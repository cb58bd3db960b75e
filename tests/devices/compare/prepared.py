"""Compiled models that emulated boards answer for, with the simulator's numbers made before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from engine.accuracy.rows import Row
from engine.accuracy.three_way import board_rows
from engine.graph.execute import Session
from engine.pipeline.board import BoardChoice
from engine.pipeline.comparison_model import with_outputs
from engine.pipeline.layers import quantized_of
from engine.pipeline.pipeline import Pipeline
from engine.pipeline.stages.container import content_of
from rknntui_emulator.runtime.answers import Answers, TensorFacts, input_digest
from rknntui_emulator.simulated.bend import bent_graph, read_bend
from tests.devices.faulty_board import FaultyBoard

__all__ = ["install"]


def install(
    made: FaultyBoard,
    library: Path,
    model: Path,
    build: Pipeline,
    *,
    rows: Sequence[Row] = (),
    bend: str = "",
    names: Mapping[str, str] | None = None,
) -> BoardChoice:
    """Let a board answer for a compiled model that gives layers of the build.

    Args:
        made: the board.
        library: the stand-in of its runtime library.
        model: the compiled model; what it holds plays no part.
        build: whose layers it gives, for the first calibration sample.
        rows: which; all where none are named.
        bend: a layer that gives wrong values.
        names: tensor -> the name that its output has there.
    """
    chosen = rows or board_rows(quantized_of(build))
    made.knows(library, _answers(build, chosen, bend, names or {}), model)
    return BoardChoice(made.address, made.board.chip, model)


def _answers(build: Pipeline, rows: Sequence[Row], bend: str, names: Mapping[str, str]) -> Answers:
    sample = next(iter(build.feeds(build.dataset.first(1))))
    tensors = _tensors(build, rows, sample, bend)
    outputs: list[TensorFacts] = []
    results: list[bytes] = []
    for row, array in zip(rows, tensors, strict=True):
        params = build.quantized.table[row.golden]
        integers = np.asarray(params.quantize(array), np.int8)
        layout = "NCHW" if array.ndim == 4 else "UNDEFINED"
        outputs.append(
            TensorFacts(
                names.get(row.golden, row.golden),
                array.shape,
                layout=layout,
                zero_point=params.zero_point[0],
                scale=float(np.float32(params.scale[0])),
            )
        )
        results.append(integers.tobytes())
    sent = [np.ascontiguousarray(array.transpose(0, 2, 3, 1)) for array in sample.values()]
    inputs = tuple(TensorFacts(name, array.shape) for name, array in zip(sample, sent, strict=True))
    digest = input_digest([array.tobytes() for array in sent])
    return Answers(inputs, tuple(outputs), {digest: results})


def _tensors(
    build: Pipeline, rows: Sequence[Row], sample: Mapping[str, np.ndarray], bend: str
) -> list[np.ndarray]:
    names = [row.simulated or "" for row in rows]
    graph = with_outputs(build.quantized.graph.graph, names, keep=False)
    if bend:
        layers = build.quantized.layers
        found = read_bend(bend, layers)
        graph = bent_graph(content_of(build, graph), layers, found)
    tensors = Session(graph).run(sample)
    return [tensors[name] for name in names]
