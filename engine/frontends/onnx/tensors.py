"""Whether every constant of a file holds as much data as its shape says."""

from __future__ import annotations

from collections.abc import Iterator, Sized
from pathlib import Path

import onnx
import onnx_ir as ir

from engine.base.errors import SourceModelError
from engine.base.text import printable, shape_text
from engine.frontends.onnx.nested import walk

__all__ = ["check_tensor_sizes"]


def check_tensor_sizes(model: Path, graph: onnx.GraphProto) -> None:
    """Compare the data of initializers and of tensors in attributes with their dimensions.

    ONNX's checker does not, and reading such a tensor later would fail, or read too much.

    Raises:
        SourceModelError: names the tensor.
    """
    for name, tensor in _tensors(graph):
        fault = _fault(tensor)
        if fault:
            shown = printable(str(name), 100)  # protobuf gives bytes for what is no UTF-8
            raise SourceModelError(
                f"{model} is a damaged ONNX model: its tensor {shown!r} {fault}.",
                cause="The file was cut short or changed after it was written.",
                remedy="Copy, download or export it again.",
            )


def _tensors(graph: onnx.GraphProto) -> Iterator[tuple[str, onnx.TensorProto]]:
    for part in walk(graph):
        for tensor in part.initializer:
            yield tensor.name, tensor
        for node in part.node:
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.TENSOR:
                    yield attribute.t.name or f"{attribute.name} of {node.name}", attribute.t


def _fault(tensor: onnx.TensorProto) -> str:
    try:
        kind = ir.DataType(tensor.data_type)
    except ValueError:
        return f"has the unknown type {tensor.data_type}"
    count = 1
    for dim in tensor.dims:
        if dim < 0:
            return f"has the dimension {dim}"
        count *= dim
    shape = shape_text(tensor.dims)
    if kind == ir.DataType.UNDEFINED:
        return "has no type"
    bits = 8 if kind == ir.DataType.STRING else int(kind.itemsize * 8)
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        return ""  # a tensor only stays outside where its length fits
    if kind == ir.DataType.STRING:
        have, need, unit = len(tensor.string_data), count, "texts"
    elif tensor.HasField("raw_data"):
        have, need, unit = len(tensor.raw_data), -(-count * bits // 8), "bytes"
    else:
        have, need, unit = _typed(tensor, kind), count, "numbers"
        packed = -(-count * bits // 8)
        if bits < 8 and have == packed:
            return ""
    return "" if have == need else f"({shape}) holds {have} {unit} instead of {need}"


def _typed(tensor: onnx.TensorProto, kind: ir.DataType) -> int:
    fields: dict[ir.DataType, Sized] = {
        ir.DataType.FLOAT: tensor.float_data,
        ir.DataType.DOUBLE: tensor.double_data,
        ir.DataType.INT64: tensor.int64_data,
        ir.DataType.UINT32: tensor.uint64_data,
        ir.DataType.UINT64: tensor.uint64_data,
    }
    if kind == ir.DataType.COMPLEX64:
        return len(tensor.float_data) // 2
    if kind == ir.DataType.COMPLEX128:
        return len(tensor.double_data) // 2
    return len(fields.get(kind, tensor.int32_data))
