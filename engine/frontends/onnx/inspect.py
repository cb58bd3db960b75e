"""A quick look at an ONNX file, straight from the protobuf, and the pre-flight of a load."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache, partial
from math import prod
from typing import Any

import onnx
import onnx_ir as ir

from engine.base.errors import SourceModelError
from engine.base.findings import Finding
from engine.base.text import sanitize
from engine.frontends.onnx.axes import fix_inputs, input_dims, running_sizes
from engine.frontends.onnx.canonicalize import canonicalize, unsupported
from engine.frontends.onnx.control import is_structural
from engine.frontends.onnx.details import DAMAGES, SourceInspection
from engine.frontends.onnx.read import (
    SourceFile,
    external_locations,
    read_onnx,
    told_files,
    told_opset,
)
from engine.frontends.onnx.tensors import sort_nodes
from engine.frontends.source import SourceLayer, SourceModel, SourceSummary, SourceTensor
from engine.graph.ir.custom import CustomOperators, assign_custom_domain
from engine.graph.ir.graph import no_collection
from engine.graph.ir.naming import OPSET
from engine.graph.ir.opsets import NEWEST_OPSET
from engine.graph.ir.shapes import infer_bounded
from engine.graph.ir.spec import dtype_name
from engine.graph.ir.views import attribute_text, operator_name
from engine.graph.ir.weightless import strip_weights
from engine.wire.model import GraphView, ModelView

_INFERENCE_ERRORS = (onnx.shape_inference.InferenceError, RuntimeError, ValueError)


def inspect_onnx(path: str | os.PathLike[str]) -> tuple[ModelView, GraphView]:
    """Model view and graph view of a file as it is: nothing is converted, cut or sized.

    Takes about a quarter of the time of :func:`engine.frontends.onnx.load_onnx`; weights in other
    files are not read. Models that cannot be loaded are shown too, with findings of
    severity ``error`` that say why not, as far as a look can tell. A dynamic batch is 1, as it will
    be; other shapes come from ONNX's inference, -1 and ``?`` where it does not know them.

    Raises:
        SourceModelError: missing, unreadable, no ONNX model, truncated, or without a graph.
    """
    look = inspect_file(path)
    return look.model, look.graph


@no_collection()
def inspect_file(
    path: str | os.PathLike[str],
    *,
    sizes: Sequence[Sequence[int]] | None = None,
    initial: Sequence[Any] | None = None,
    operators: CustomOperators | None = None,
) -> SourceInspection:
    """:func:`inspect_onnx`, with the details of nodes and tensors on demand.

    Args:
        path: the file.
        sizes, initial: ``input_size_list`` and ``input_initial_val`` of a load; what they settle
            is no finding.
        operators: custom operators that are registered.

    Raises:
        SourceModelError: missing, unreadable, no ONNX model, truncated, or without a graph.
    """
    file = read_onnx(path, weights=False)
    elsewhere = external_locations(file.proto.graph, file.proto.functions)
    canonicalize(file.proto)
    graph = file.proto.graph
    assign_custom_domain(file.proto, operators)
    refused = unsupported(graph, file.opset, operators)
    opset = f"A build brings the model from opset {file.opset} to {OPSET}."
    findings = (
        *told_files(file.path.name, elsewhere),
        *_unsupported(refused),
        *_ordered(graph),
        *_sized(file.proto, sizes, initial),
        *_flow(file),
        *told_opset(file.path.name, file.opset, opset),
    )
    parameters, weights_bytes = _sizes(graph)
    weights = strip_weights(graph)
    types = _types(file.proto)
    summary = SourceSummary(
        framework="onnx",
        format=file.format,
        version=_versions(file.opset, file.proto.ir_version),
        files=file.files[:1],
        inputs=tuple(_tensor(v) for v in graph.input if v.name not in weights),
        outputs=tuple(_tensor(types.get(v.name, v)) for v in graph.output),
        layers=_layers(graph, types, {node: why for _, node, why in refused}),
        findings=findings,
        parameters=parameters,
        weights_bytes=weights_bytes,
    )
    return SourceInspection(file.path, file.proto, weights, types, summary)


def _tensor(value: onnx.ValueInfoProto) -> SourceTensor:
    return SourceTensor(value.name, *_type(value))


def _type(value: onnx.ValueInfoProto) -> tuple[tuple[int, ...] | None, str]:
    dims = input_dims(value)
    shape = None if dims is None else tuple(d if isinstance(d, int) else -1 for d in dims)
    return shape, _dtype(value.type.tensor_type.elem_type)


@cache
def _dtype(element: int) -> str:
    try:
        return dtype_name(ir.DataType(element))
    except ValueError:
        return "unknown"


def _sizes(graph: onnx.GraphProto) -> tuple[int, int]:
    parameters = weights_bytes = 0
    for tensor in graph.initializer:
        count, kind = prod(tensor.dims), ir.DataType(tensor.data_type)
        parameters += count
        bits = 0 if kind == ir.DataType.STRING else kind.bitwidth
        weights_bytes += len(tensor.raw_data) or count * bits // 8
    return parameters, weights_bytes


def _unsupported(refused: Sequence[tuple[str, str, str]]) -> list[Finding]:
    return [
        Finding(
            code="unsupported-operator",
            severity="error",
            where=sanitize(node) or sanitize(op),
            what=f"Operator {sanitize(op, 100)} is not supported: {why}.",
            remedy="Replace it before exporting, or cut it off with 'inputs' or 'outputs'.",
        )
        for op, node, why in refused[:20]
    ]


def _flow(file: SourceFile) -> list[Finding]:
    counts = Counter(node.op_type for node in file.proto.graph.node if is_structural(node))
    if not counts:
        return []
    listed = ", ".join(f"{op} ({count})" for op, count in counts.most_common(5))
    what = (
        f"The model has {listed}: loading makes a fixed list of operators of it, or says why it "
        "cannot."
    )
    cause = "An NPU runs the same operators every time."
    return [Finding("control-flow", "info", file.path.name, what, cause)]


def _ordered(graph: onnx.GraphProto) -> list[Finding]:
    """Put the nodes in order, as loading does; a graph with a circle stays as it is."""
    try:
        sort_nodes(graph)
    except SourceModelError as error:
        return [Finding.of_error("no-order", "the graph", error)]
    return []


def _sized(
    proto: onnx.ModelProto,
    sizes: Sequence[Sequence[int]] | None,
    initial: Sequence[Any] | None,
) -> list[Finding]:
    """Fix dynamic batches, as loading does; a model with other dynamic sizes stays as it is."""
    graph = proto.graph
    try:
        findings = fix_inputs(graph, sizes, initial, partial(running_sizes, proto))
    except SourceModelError as error:
        names = [value.name for value in graph.input if not _static(value)]
        return [Finding.of_error("dynamic-size", sanitize(", ".join(names), 200), error)]
    if findings or sizes or initial:
        # what the file says of inner tensors was for the dynamic size
        del graph.value_info[:]
        for value in graph.output:
            if not _static(value):
                value.type.tensor_type.ClearField("shape")
    return findings


def _static(value: onnx.ValueInfoProto) -> bool:
    dims = input_dims(value)
    return dims is not None and all(isinstance(dim, int) for dim in dims)


def _types(proto: onnx.ModelProto) -> dict[str, onnx.ValueInfoProto]:
    """Tensor -> what is known of it: from the file, or from inference where that lacks some."""
    graph = proto.graph
    known = {value.name: value for value in (*graph.value_info, *graph.output)}
    whole = all(name in known for node in graph.node for name in node.output[:1] if name)
    if not whole or not all(map(_static, graph.output)):
        try:
            inferred = infer_bounded(proto).graph
            known.update((v.name, v) for v in (*inferred.value_info, *inferred.output))
        except _INFERENCE_ERRORS:
            pass  # a look at a faulty model shows what there is; loading it says what is wrong
    return known


def _layers(
    graph: onnx.GraphProto, types: Mapping[str, onnx.ValueInfoProto], refused: Mapping[str, str]
) -> tuple[SourceLayer, ...]:
    layers: list[SourceLayer] = []
    # big graphs have few different types: as bytes they are looked up faster than they are read
    seen: dict[bytes, tuple[tuple[int, ...] | None, str]] = {}
    for node in graph.node:
        value = types.get(node.output[0]) if node.output else None
        kind: tuple[tuple[int, ...] | None, str] = (None, "unknown")
        if value is not None:
            key = value.type.SerializeToString()
            if key not in seen:
                seen[key] = _type(value)
            kind = seen[key]
        layers.append(
            SourceLayer(
                node.name,
                operator_name(node.domain, node.op_type),
                tuple(node.input),
                tuple(node.output),
                tuple((a.name, _text(a)) for a in node.attribute),
                *kind,
                refused.get(node.name, ""),
            )
        )
    return tuple(layers)


# spec: RKNN-Toolkit2 2.3.0 reads ONNX 1.7.0 to 1.17.0, RKNN-Toolkit 1.2 to 1.4 up to ONNX 1.4.1;
# opsets and IR versions of releases as in onnx/docs/Versioning.md
_VENDOR_OPSETS = (("RKNN-Toolkit2 2.3", "up to 22"), ("RKNN-Toolkit 1.4", "up to 9"))
_VENDOR_IR = (("RKNN-Toolkit2 2.3", "up to 10"), ("RKNN-Toolkit 1.4", "up to 3"))


def inspect(source: SourceModel) -> SourceSummary:
    """What an ONNX file holds; nothing is converted, weights in other files are not read.

    Raises:
        SourceModelError: missing, unreadable, no ONNX model, truncated, or without a graph.
    """
    options = source.options
    seen = inspect_file(
        source.model,
        sizes=None if options.inputs else options.input_size_list,
        initial=None if options.inputs else options.input_initial_val,
        operators=options.operators,
    )
    findings = seen.summary.findings
    if options.inputs:  # which are cut, and have other sizes
        findings = tuple(f for f in findings if f.code != "dynamic-size")
    return replace(seen.summary, findings=findings)


def _versions(opset: int, ir_version: int) -> tuple[tuple[str, str, str], ...]:
    rows = [("opset", str(opset), f"1 to {NEWEST_OPSET}")]
    rows += [(f"opset, for {tool}", str(opset), limit) for tool, limit in _VENDOR_OPSETS]
    rows.append(("IR version", str(ir_version), f"up to {onnx.IR_VERSION}"))
    rows += [(f"IR version, for {tool}", str(ir_version), limit) for tool, limit in _VENDOR_IR]
    return tuple(rows)


def _text(attribute: onnx.AttributeProto) -> str:
    if attribute.HasField("g"):
        return f"a graph of {len(attribute.g.node)} nodes"
    if attribute.t.data_location == onnx.TensorProto.EXTERNAL:
        return "in another file"  # which a look does not read
    if attribute.HasField("t") or attribute.tensors or attribute.ByteSize() > _SHORT:
        return _value_text(attribute)
    return _short_text(attribute.SerializeToString())


_SHORT = 128
"""Bytes of an attribute that is kept with its text."""


@lru_cache(4096)
def _short_text(attribute: bytes) -> str:
    """Of pads and strides, which are the same in most layers."""
    return _value_text(onnx.AttributeProto.FromString(attribute))


def _value_text(attribute: onnx.AttributeProto) -> str:
    try:
        return attribute_text(ir.serde.deserialize_attribute(attribute))
    except (ir.serde.SerdeError, *DAMAGES):
        return "damaged"
