"""Tensors of every layer of one run, a file each: what ``NN_LAYER_DUMP=1`` asks of a simulator.

Source: [RKNN-TS 1.4.0, 2]. It shows neither names nor
format of the files: ``layer_0003_NAME.npy`` in the order of the graph, float32 in the model's
layout, is ours.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import onnx_ir as ir

from engine.accuracy.analyse import chunks
from engine.accuracy.rows import INPUT, Row
from engine.accuracy.runners import SimulatedRunner
from engine.accuracy.snapshot import file_names
from engine.base.files import atomic_write
from engine.graph.ir import Graph, spec_of
from engine.graph.layers import LayerMap

__all__ = ["dump_layers"]

_ROUNDING = ("QuantizeLinear", "Constant")


def dump_layers(
    graph: Graph,
    layers: LayerMap,
    feeds: Mapping[str, np.ndarray],
    folder: Path,
    *,
    threads: int = 1,
) -> tuple[Path, ...]:
    """Run a float or QDQ graph once and write what every layer gives.

    Quantized tensors are written as the next layer sees them, dequantized; layers that are fused
    into the next one have no file.

    Returns:
        The files, in the order of the graph. Earlier dumps of the same names are replaced.

    Raises:
        SimulationError: the graph does not run.
        OutputError: a file cannot be written.
    """
    rows = list(_rows(graph, layers))
    names = file_names([row.label for row in rows])
    parts = chunks(rows)
    side = SimulatedRunner(graph, layers, parts, threads)
    files: list[Path] = []
    known: dict[str, np.ndarray] = {}
    for index, part in enumerate(parts):
        found = side.run(index, feeds, known)
        for row in part:
            stream = io.BytesIO()
            np.save(stream, np.asarray(found[row.simulated or ""]), allow_pickle=False)
            path = folder / f"layer_{len(files):04d}_{names[row.label]}.npy"
            atomic_write(path, stream.getvalue(), overwrite=True)
            files.append(path)
    return tuple(files)


def _rows(graph: Graph, layers: LayerMap) -> Iterator[Row]:
    labels = {one.value: one.tensor for key, one in layers.stored.items() if key == one.tensor}
    hidden = {one.value for one in layers.stored.values()} - labels.keys()
    hidden |= {one.computed for one in layers.stored.values() if one.computed != one.tensor}
    for value in graph.model.graph.inputs:
        if spec_of(value).dtype == "float32":
            yield _row(value, INPUT, labels)
    for node in graph.nodes:
        if node.op_type in _ROUNDING or _of_constant(node):
            continue
        for value in node.outputs:
            name = value.name or ""
            shown = name and name not in hidden and name not in layers.inner
            if shown and spec_of(value).dtype == "float32":
                yield _row(value, node.op_type, labels)


def _of_constant(node: ir.Node) -> bool:
    """Whether a node only reads a weight."""
    first = node.inputs[0] if node.inputs else None
    return node.op_type in ("DequantizeLinear", "Cast") and (
        first is None or first.const_value is not None
    )


def _row(value: ir.Value, op: str, labels: Mapping[str, str]) -> Row:
    name = value.name or ""
    label = labels.get(name, name)
    size = 4 * math.prod(max(dim, 1) for dim in spec_of(value).shape)
    return Row(label, op, label, name, name, size)
