"""A quick look at an ONNX file: the views of its source graph straight from the protobuf."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import numpy as np
import onnx

from engine.base.errors import GraphError, SourceModelError
from engine.base.findings import Finding
from engine.base.text import printable, shape_text
from engine.frontends.onnx.axes import input_dims
from engine.frontends.onnx.clean import clean, unsupported
from engine.frontends.onnx.read import SourceFile, read_onnx
from engine.graph.ir.graph import Graph
from engine.graph.ir.skeleton import strip_weights
from engine.graph.ir.views import Groups, operator_name

__all__ = ["inspect_onnx", "source_graph"]


_INFERENCE_ERRORS = (onnx.shape_inference.InferenceError, RuntimeError, ValueError)


def source_graph(path: str | os.PathLike[str]) -> Graph:
    """The graph of a file as it is, for looking at nodes and tensors; it need not be loadable.

    Its nodes have the names that :func:`inspect_onnx` shows. It does not keep the rules of the
    engine's graphs (opset, sizes, operators), so no stage takes it.

    Raises:
        SourceModelError: missing, unreadable, no ONNX model, truncated, or malformed.
    """
    file = read_onnx(path)
    clean(file.proto)
    weights = strip_weights(file.proto.graph)
    try:
        proto = onnx.shape_inference.infer_shapes(file.proto, data_prop=True)
    except _INFERENCE_ERRORS:
        proto = file.proto
    try:
        return Graph.from_proto(proto, weights)
    except GraphError as error:
        raise SourceModelError(
            f"{file.path.name}: {error.what}", cause=error.cause, remedy=error.remedy
        ) from error


def inspect_onnx(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Model view and graph view of a file as it is: nothing is converted, cut or sized.

    Takes about a quarter of the time of :func:`engine.frontends.onnx.load_onnx`; weights in other
    files are not read. Models that cannot be loaded are shown too, with findings of
    severity ``error`` that say why not. Shapes come from ONNX's inference, -1 and ``?`` where it
    does not know them.

    Returns:
        The model view ``{kind, path, name, format, sha256, inputs, outputs, nodes, operators,
        parameters, weights_bytes, findings, recipe, summary}`` and the graph view
        ``{nodes, groups, inputs, outputs}`` (see :func:`engine.graph.ir.graph_view`).

    Raises:
        SourceModelError: missing, unreadable, no ONNX model, truncated, or without a graph.
    """
    file = read_onnx(path, weights=False)
    clean(file.proto)
    graph = file.proto.graph
    parameters, weights_bytes = _sizes(graph)
    ends = {"inputs": [_spec(v) for v in graph.input], "outputs": [_spec(v) for v in graph.output]}
    counts = Counter(operator_name(node.domain, node.op_type) for node in graph.node)
    model = {
        "kind": "onnx",
        "path": str(file.path),
        "name": file.path.name,
        "format": f"ONNX, opset {file.opset}, IR version {file.proto.ir_version}",
        "sha256": file.sha256,
        **ends,
        "nodes": len(graph.node),
        "operators": dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))),
        "parameters": parameters,
        "weights_bytes": weights_bytes,
        "findings": [finding.to_dict() for finding in _findings(file)],
        "recipe": None,
        "summary": None,
    }
    return model, {**_nodes(file.proto), **ends}


def _spec(value: onnx.ValueInfoProto) -> dict[str, Any]:
    shape, dtype = _type(value)
    return {"name": value.name, "shape": shape if shape is not None else [-1], "dtype": dtype}


def _type(value: onnx.ValueInfoProto) -> tuple[list[int] | None, str]:
    dims = input_dims(value)
    shape = None if dims is None else [d if isinstance(d, int) else -1 for d in dims]
    return shape, _dtype(value.type.tensor_type.elem_type)


def _dtype(element: int) -> str:
    name = _DTYPES.get(element)
    if name is None:
        try:
            name = str(np.dtype(onnx.helper.tensor_dtype_to_np_dtype(element)).name)
        except (KeyError, TypeError):
            name = "unknown"
        _DTYPES[element] = name
    return name


_DTYPES: dict[int, str] = {
    onnx.TensorProto.UNDEFINED: "unknown",
    onnx.TensorProto.STRING: "string",
}


def _sizes(graph: onnx.GraphProto) -> tuple[int, int]:
    parameters = weights_bytes = 0
    for tensor in graph.initializer:
        count = 1
        for dim in tensor.dims:
            count *= dim
        parameters += count
        weights_bytes += len(tensor.raw_data) or count * _item_bytes(tensor.data_type)
    return parameters, weights_bytes


def _item_bytes(element: int) -> int:
    try:
        return int(np.dtype(onnx.helper.tensor_dtype_to_np_dtype(element)).itemsize)
    except (KeyError, TypeError):
        return 0


def _findings(file: SourceFile) -> list[Finding]:
    graph = file.proto.graph
    findings = [
        Finding(
            code="unsupported-operator",
            severity="error",
            where=printable(node) or printable(op),
            what=f"Operator {printable(op, 100)} is not supported: {why}.",
            remedy="Replace it before exporting, or cut it off with 'inputs' or 'outputs'.",
        )
        for op, node, why in unsupported(graph, file.opset)[:20]
    ]
    for value in graph.input:
        dims = input_dims(value)
        if dims is None or any(isinstance(d, str) for d in dims[1:]):
            findings.append(
                Finding(
                    code="dynamic-size",
                    severity="warning",
                    where=printable(value.name),
                    what=f"The size of input {printable(value.name)!r} is dynamic.",
                    cause="An NPU needs fixed sizes.",
                    remedy="Give its size with 'input_size_list'.",
                )
            )
    return findings


def _shapes(proto: onnx.ModelProto) -> dict[str, tuple[str, str]]:
    """Tensor -> shape as text and dtype, from inference; what it cannot tell from the file."""
    known = {value.name: value for value in (*proto.graph.value_info, *proto.graph.output)}
    if any(name and name not in known for node in proto.graph.node for name in node.output[:1]):
        strip_weights(proto.graph)
        try:
            inferred = onnx.shape_inference.infer_shapes(proto, data_prop=True).graph
            known.update((v.name, v) for v in (*inferred.value_info, *inferred.output))
        except _INFERENCE_ERRORS:
            pass  # a look at a faulty model shows what there is; loading it says what is wrong
    # big graphs have few different types: as bytes they are looked up faster than they are read
    texts: dict[str, tuple[str, str]] = {}
    seen: dict[bytes, tuple[str, str]] = {}
    for name, value in known.items():
        key = value.type.SerializeToString()
        found = seen.get(key)
        if found is None:
            shape, dtype = _type(value)
            found = seen[key] = ("?" if shape is None else shape_text(shape), dtype)
        texts[name] = found
    return texts


def _nodes(proto: onnx.ModelProto) -> dict[str, Any]:
    groups = Groups()
    shapes = _shapes(proto)
    rows: list[list[Any]] = []
    for node in proto.graph.node:
        output = node.output[0] if node.output else ""
        shape, dtype = shapes.get(output, ("?", "unknown"))
        op = operator_name(node.domain, node.op_type)
        rows.append([node.name, op, output, shape, dtype, groups.number(node.name)])
    return {"nodes": rows, "groups": groups.names()}
