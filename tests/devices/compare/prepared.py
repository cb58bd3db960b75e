"""Emulated boards that answer for comparison models, with the simulator's numbers made before."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx_ir as ir

from engine.accuracy.rows import Row
from engine.accuracy.three_way import board_rows
from engine.devices.emulator.emulator import BoardEmulator
from engine.devices.emulator.runtime.answers import Answers, TensorFacts, input_digest
from engine.graph.execute import Session
from engine.graph.ir import Graph, infer_shapes
from engine.pipeline.comparison_model import comparison_container, output_groups, with_outputs
from engine.pipeline.layers import quantized_of
from engine.pipeline.pipeline import Pipeline

STEPS = 20
"""How far a bent layer is off, in steps of its quantization."""


def bent(graph: Graph, tensor: str, steps: int = STEPS) -> Graph:
    """A QDQ graph one of whose 8-bit tensors is off, for every layer behind it too."""
    copy = graph.copy()
    value = copy.value(tensor)
    node = value.producer()
    assert node is not None
    assert node.op_type == "DequantizeLinear"
    scale, zero = (_constant(copy, place) for place in node.inputs[1:3])
    bounds = (np.array([-128, 127]) - zero) * scale
    value.name = f"{tensor}/straight"
    constants = {
        f"{tensor}/{name}": ir.Value(name=f"{tensor}/{name}", const_value=ir.tensor(number))
        for name, number in (
            ("offset", np.float32(scale * steps)),
            ("low", np.float32(bounds[0])),
            ("high", np.float32(bounds[1])),
        )
    }
    copy.model.graph.initializers.update(constants)
    offset, *limits = constants.values()
    added = ir.node("Add", [value, offset], name=f"{tensor}/bend")
    clipped = ir.node("Clip", [added.outputs[0], *limits], name=f"{tensor}/hold")
    added.outputs[0].name = f"{tensor}/moved"
    result = clipped.outputs[0]
    result.name, result.type, result.shape = tensor, value.type, value.shape
    for user, index in list(value.uses()):
        if user is not added:
            user.replace_input_with(index, result)
    outputs = copy.model.graph.outputs
    outputs[:] = [result if each is value else each for each in outputs]
    copy.model.graph.insert_after(node, [added, clipped])
    return infer_shapes(Graph(copy.model))


def _constant(graph: Graph, value: ir.Value | None) -> float:
    assert value is not None
    found = graph.constant(value.name or "")
    assert found is not None
    return float(found)


def tensors_of(
    pipeline: Pipeline, rows: Sequence[Row], feeds: Mapping[str, np.ndarray], bend: str = ""
) -> dict[str, np.ndarray]:
    """What the simulator gives for some rows, bent from a tensor on where one is named."""
    graph = pipeline.quantized.graph.graph
    graph = bent(graph, bend) if bend else graph
    names = [row.simulated or "" for row in rows]
    found = Session(with_outputs(graph, names, keep=False)).run(feeds)
    return {row.golden: found[row.simulated or ""] for row in rows}


def answers_for(
    pipeline: Pipeline,
    rows: Sequence[Row],
    feeds: Mapping[str, np.ndarray],
    *,
    generation: int = 2,
    bend: str = "",
    names: Mapping[str, str] | None = None,
) -> Answers:
    """What a stand-in library answers for a comparison model.

    Args:
        pipeline: of the build.
        rows: its outputs.
        feeds: the sample that it knows.
        generation: of the library.
        bend: the tensor from which on it is bent.
        names: tensor -> the name that its output has there.
    """
    found = tensors_of(pipeline, rows, feeds, bend)
    table = pipeline.quantized.table
    outputs, results = [], []
    for row in rows:
        array = np.asarray(found[row.golden], np.float32)
        name = (names or {}).get(row.golden, row.golden)
        params = table.get(row.golden)
        dims = tuple(array.shape)
        layout = "NCHW" if array.ndim == 4 else "UNDEFINED"
        if params is None or bend or params.dtype != "int8" or len(params.scale) > 1:
            outputs.append(TensorFacts(name, dims, "FLOAT32", layout, "NONE"))
            results.append(array.tobytes())
            continue
        scale, zero = np.float32(params.scale[0]), params.zero_point[0]
        integers = np.rint(array / scale).astype(np.int32) + zero
        facts = TensorFacts(name, dims, "INT8", layout, "AFFINE", 0, int(zero), float(scale))
        outputs.append(facts)
        results.append(integers.astype(np.int8).tobytes())
    inputs = []
    sent = []
    for spec in pipeline.quantized.graph.graph.inputs:
        n, c, h, w = spec.shape
        inputs.append(TensorFacts(spec.name, (n, h, w, c), "INT8", "NHWC", "AFFINE", 0, 0, 1.0))
        assert math.prod(spec.shape) == feeds[spec.name].size
        sent.append(np.ascontiguousarray(feeds[spec.name].transpose(0, 2, 3, 1)).tobytes())
    return Answers(
        tuple(inputs), tuple(outputs), {input_digest(sent): results}, generation=generation
    )


def prepare(
    made: BoardEmulator,
    library: Path,
    pipeline: Pipeline,
    feeds: Mapping[str, np.ndarray],
    folder: Path,
    *,
    bend: str = "",
) -> None:
    """Let a board answer for the comparison models of a build.

    Args:
        made: the board.
        library: the stand-in of its runtime library.
        pipeline: of the build.
        feeds: the sample.
        folder: for the containers, on this machine.
        bend: the tensor from which on it computes otherwise.
    """
    made.image.install_runtime(library)
    place = (made.root / made.image.library.lstrip("/")).parent / "answers"
    for number, rows in enumerate(output_groups(board_rows(quantized_of(pipeline)))):
        model = folder / f"{made.port}-{number}.rknn"
        model.write_bytes(comparison_container(pipeline, rows))
        generation = made.board.generation
        answers_for(pipeline, rows, feeds, generation=generation, bend=bend).into(place, model)
