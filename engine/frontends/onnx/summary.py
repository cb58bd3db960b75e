"""The pre-flight of an ONNX model: what a load is going to meet."""

from __future__ import annotations

import onnx
import onnx_ir as ir

from engine.frontends.onnx.details import SourceInspection
from engine.frontends.onnx.inspect import inspect_file
from engine.frontends.source import SourceModel
from engine.frontends.summary import SourceLayer, SourceSummary, SourceTensor
from engine.graph.ir.opsets import NEWEST_OPSET
from engine.graph.ir.views import attribute_text, operator_name
from engine.wire.graph import Tensor

__all__ = ["inspect"]

# spec: RKNN-Toolkit2 2.3.0 reads ONNX 1.7.0 to 1.17.0, RKNN-Toolkit 1.2 to 1.4 up to ONNX 1.4.1;
# opsets and IR versions of releases as in onnx/docs/Versioning.md
_VENDOR_OPSETS = (("RKNN-Toolkit2 2.3", "up to 22"), ("RKNN-Toolkit 1.4", "up to 9"))
_VENDOR_IR = (("RKNN-Toolkit2 2.3", "up to 10"), ("RKNN-Toolkit 1.4", "up to 3"))

_ATTRIBUTE_ERRORS = (
    ir.serde.SerdeError,
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    OverflowError,
)


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
    return SourceSummary(
        framework="onnx",
        format=seen.model.format,
        version=_versions(seen.opset, seen.ir_version),
        files=((source.model.name, seen.model.sha256),),
        inputs=tuple(_tensor(entry) for entry in seen.model.inputs),
        outputs=tuple(_tensor(entry) for entry in seen.model.outputs),
        layers=_layers(seen),
        findings=tuple(
            finding
            for finding in seen.model.findings
            if not (options.inputs and finding.code == "dynamic-size")
        ),
        parameters=seen.model.parameters,
        weights_bytes=seen.model.weights_bytes,
    )


def _versions(opset: int, ir_version: int) -> tuple[tuple[str, str, str], ...]:
    rows = [("opset", str(opset), f"1 to {NEWEST_OPSET}")]
    rows += [(f"opset, for {tool}", str(opset), limit) for tool, limit in _VENDOR_OPSETS]
    rows.append(("IR version", str(ir_version), f"up to {onnx.IR_VERSION}"))
    rows += [(f"IR version, for {tool}", str(ir_version), limit) for tool, limit in _VENDOR_IR]
    return tuple(rows)


def _tensor(told: Tensor) -> SourceTensor:
    return SourceTensor(told.name, told.shape, told.dtype)


def _layers(seen: SourceInspection) -> tuple[SourceLayer, ...]:
    refused = dict(seen.refused)
    return tuple(
        SourceLayer(
            name=node.name,
            op=operator_name(node.domain, node.op_type),
            inputs=tuple(node.input),
            outputs=tuple(node.output),
            attributes=tuple((a.name, _text(a)) for a in node.attribute),
            shape=None if row[3] == "?" else _dims(row[3]),
            dtype="" if row[4] == "unknown" else row[4],
            refused=refused.get(node.name, ""),
        )
        for node, row in zip(seen.nodes, seen.graph.nodes, strict=True)
    )


def _dims(text: str) -> tuple[int, ...]:
    """The shape that :func:`engine.base.text.shape_text` wrote."""
    if text == "scalar":
        return ()
    return tuple(-1 if dim == "?" else int(dim) for dim in text.split("x"))


def _text(attribute: onnx.AttributeProto) -> str:
    if attribute.HasField("g"):
        return f"a graph of {len(attribute.g.node)} nodes"
    if attribute.t.data_location == onnx.TensorProto.EXTERNAL:
        return "in another file"  # which a look does not read
    try:
        return attribute_text(ir.serde.deserialize_attribute(attribute))
    except _ATTRIBUTE_ERRORS:
        return "damaged"
