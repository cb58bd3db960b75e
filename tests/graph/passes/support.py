"""Run two graphs on the same feeds and say how far apart they are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import version_converter

from engine.graph.ir import OPSET, Graph, infer_shapes
from tests.graph.models import as_it_stands

LEVELS = (0, 1, 2, 3)


def run(graph: Graph, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The graph's outputs by name."""
    names = [spec.name for spec in graph.outputs]
    return dict(zip(names, as_it_stands(graph.to_proto(), feeds, *names), strict=True))


def random_feeds(graph: Graph, seed: int = 0) -> dict[str, np.ndarray]:
    """Normal floats, small integers, for every input of a graph with known shapes."""
    rng = np.random.default_rng(seed)
    feeds = {}
    for spec in graph.inputs:
        if spec.dtype.startswith("float"):
            feeds[spec.name] = rng.normal(size=spec.shape).astype(spec.dtype)
        else:
            feeds[spec.name] = rng.integers(0, 8, size=spec.shape).astype(spec.dtype)
    return feeds


def distance(reference: np.ndarray, other: np.ndarray) -> float:
    """The largest difference relative to the range of the reference; infinite where one is NaN.

    Equal infinities and NaN in the same places are equal. A range below a thousandth of the values
    themselves is within a few hundred steps of float32: their magnitude stands for it.
    """
    assert reference.shape == other.shape
    assert reference.dtype == other.dtype
    if reference.size == 0:
        return 0.0
    a, b = reference.astype(np.float64), other.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if same.all():
        return 0.0
    finite = np.isfinite(a)
    if not np.isfinite(b[~same]).all() or not finite[~same].all():
        return float("inf")
    span, magnitude = float(np.ptp(a[finite])), float(np.abs(a[finite]).max())
    if span < 1e-3 * magnitude:
        span = magnitude
    return float(np.abs(a[~same] - b[~same]).max() / (span or 1.0))


def furthest(reference: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]) -> float:
    """The largest distance over all outputs; names and order must be the same."""
    assert list(reference) == list(other)
    return max(distance(reference[name], other[name]) for name in reference)


def load(path: Path, proto: onnx.ModelProto | None = None) -> Graph:
    """An ONNX file at the pinned opset, without the checks and bounds of the real frontend."""
    model = onnx.load(path) if proto is None else proto
    held = {tensor.name for tensor in model.graph.initializer}
    kept = [value for value in model.graph.input if value.name not in held]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    if model.opset_import[0].version != OPSET:
        model = version_converter.convert_version(model, OPSET)
    model.ir_version = 10
    return infer_shapes(Graph.from_proto(model))


def with_random_weights(model: onnx.ModelProto, seed: int = 0) -> onnx.ModelProto:
    """Random initializers in place of the ``ConstantOfShape`` weights of ``zoo/shapes``.

    Matrices and kernels are He-scaled (normal, variance 2 / fan-in), vectors are small; what is
    meant as a variance or a scale (BatchNormalization's inputs 1 and 4) is positive.
    """
    rng = np.random.default_rng(seed)
    graph = model.graph
    constants = {t.name: onnx.numpy_helper.to_array(t) for t in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant":
            constants[node.output[0]] = onnx.numpy_helper.to_array(node.attribute[0].t)
    positive = {
        node.input[i]
        for node in graph.node
        if node.op_type in ("BatchNormalization", "LayerNormalization")
        for i in (1, 4)
        if i < len(node.input)
    }
    positive |= {node.input[1] for node in graph.node if node.op_type in ("Pow", "Div", "Reshape")}
    kept, made = [], []
    for node in graph.node:
        shape = constants.get(node.input[0]) if node.op_type == "ConstantOfShape" else None
        if shape is None:
            kept.append(node)
            continue
        value = next((onnx.numpy_helper.to_array(a.t) for a in node.attribute), np.zeros(1, "f4"))
        dims = [int(d) for d in shape]
        if value.dtype != np.float32:
            made.append((node.output[0], np.full(dims, value.ravel()[0], value.dtype)))
        elif node.output[0] in positive:
            made.append((node.output[0], rng.uniform(0.5, 1.5, dims).astype(np.float32)))
        elif len(dims) < 2:
            made.append((node.output[0], (rng.normal(size=dims) * 0.1).astype(np.float32)))
        else:
            fan_in = int(np.prod(dims[1:])) if len(dims) > 2 else max(dims)
            scale = np.sqrt(2.0 / fan_in)
            made.append((node.output[0], (rng.normal(size=dims) * scale).astype(np.float32)))
    del graph.node[:]
    graph.node.extend(kept)
    graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in made)
    return model


def operators(graph: Graph) -> list[str]:
    """Operator types in order."""
    return [node.op_type for node in graph.nodes]
