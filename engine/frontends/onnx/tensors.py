"""Whether every constant of a file holds as much data as its shape says."""

from __future__ import annotations

from collections.abc import Iterable, Sized
from pathlib import Path

import onnx
import onnx_ir as ir

from engine.base.errors import SourceModelError
from engine.base.text import sanitize, shape_text
from engine.frontends.onnx.subgraphs import stored

__all__ = ["check_tensor_sizes"]


def check_tensor_sizes(
    model: Path, graph: onnx.GraphProto, functions: Iterable[onnx.FunctionProto] = ()
) -> None:
    """Compare the data of initializers and of tensors in attributes with their dimensions.

    ONNX's checker does not, and reading such a tensor later would fail, or read too much.

    Raises:
        SourceModelError: names the tensor.
    """
    for name, tensor in stored(graph, functions):
        fault = _fault(tensor)
        if fault:
            shown = sanitize(str(name), 100)  # protobuf gives bytes for what is no UTF-8
            raise SourceModelError(
                f"{model} is a damaged ONNX model: its tensor {shown!r} {fault}.",
                cause="The file was cut short or changed after it was written.",
                remedy="Copy, download or export it again.",
            )


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
    odd = _other_fields(tensor, kind)
    if odd:
        return f"keeps its {kind.name} numbers in {odd}"
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


_FIELDS = ("float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data")


def _other_fields(tensor: onnx.TensorProto, kind: ir.DataType) -> str:
    """The first field with numbers that a tensor of this type does not have (onnx.proto)."""
    own = "" if tensor.HasField("raw_data") else _FIELD_OF.get(kind, "int32_data")
    return next((name for name in _FIELDS if name != own and len(getattr(tensor, name))), "")


_FIELD_OF = {
    ir.DataType.FLOAT: "float_data",
    ir.DataType.COMPLEX64: "float_data",
    ir.DataType.DOUBLE: "double_data",
    ir.DataType.COMPLEX128: "double_data",
    ir.DataType.INT64: "int64_data",
    ir.DataType.UINT32: "uint64_data",
    ir.DataType.UINT64: "uint64_data",
    ir.DataType.STRING: "string_data",
}


def _typed(tensor: onnx.TensorProto, kind: ir.DataType) -> int:
    numbers: Sized = getattr(tensor, _FIELD_OF.get(kind, "int32_data"))
    pairs = kind in (ir.DataType.COMPLEX64, ir.DataType.COMPLEX128)
    return len(numbers) // 2 if pairs else len(numbers)
