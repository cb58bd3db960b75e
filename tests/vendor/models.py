"""Small models and samples as files, for a compiler."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

__all__ = ["dataset", "onnx_model", "save_model"]

Shapes = Mapping[str, Sequence[int | str] | None]


def onnx_model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Shapes,
    outputs: Shapes,
    constants: Mapping[str, np.ndarray],
    opset: int = 17,
    name: str = "net",
) -> onnx.ModelProto:
    """An ONNX model of float32 ends; where an output has no shape all are inferred."""
    ends = [
        [helper.make_tensor_value_info(end, TensorProto.FLOAT, row[end]) for end in row]
        for row in (inputs, outputs)
    ]
    stored = [numpy_helper.from_array(np.asarray(array), n) for n, array in constants.items()]
    graph = helper.make_graph(nodes, name, *ends, stored)
    opsets = [helper.make_opsetid("", opset)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8 if opset < 20 else 9)
    return onnx.shape_inference.infer_shapes(model) if None in outputs.values() else model


def save_model(path: Path, *parts: Any, **more: Any) -> Path:
    """Write an :func:`onnx_model`."""
    onnx.save(onnx_model(*parts, **more), path)
    return path


def dataset(folder: Path, samples: Iterable[Sequence[np.ndarray]]) -> Path:
    """Write samples, an array for each input, and the list of them."""
    lines = []
    for at, arrays in enumerate(samples):
        names = [folder / f"{at}_{place}.npy" for place in range(len(arrays))]
        for name, array in zip(names, arrays, strict=True):
            np.save(name, array.astype(np.float32))
        lines.append(" ".join(map(str, names)) + "\n")
    path = folder / "dataset.txt"
    path.write_text("".join(lines), encoding="utf-8")
    return path
