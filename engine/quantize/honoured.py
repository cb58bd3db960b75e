"""Was the dtype that a layer was given honoured? Read from the finished QDQ graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from engine.graph.ir import Graph, QuantParams, QuantTable
from engine.quantize.conform import in_format
from engine.quantize.formats import LAYER_DTYPES
from engine.quantize.forms import array_of, input_of, name_of
from engine.quantize.operators import KEEPS_HALF, WEIGHTED, Role, role_of

if TYPE_CHECKING:
    from engine.quantize.quantize import Quantized

__all__ = ["honoured"]

_CLAMPS = frozenset({"Relu", "Clip"})


def honoured(layers: Mapping[str, str], quantized: Quantized) -> dict[str, str]:
    """The dtype that each layer really got.

    Args:
        layers: output tensor -> dtype that was asked for.
        quantized: what :func:`~engine.quantize.quantize` gave for them.

    Returns:
        The same tensors -> the name of the dtype (:data:`~engine.quantize.formats.LAYER_DTYPES`) in
        which the layer's weights and output are stored in the graph. It is the name that was asked
        for where that was honoured; ``float`` where the layer is not quantized; otherwise what was
        found, in words.
    """
    return {
        tensor: _obtained(tensor, asked, quantized.graph, quantized.table, quantized.reference)
        for tensor, asked in layers.items()
    }


def _obtained(tensor: str, asked: str, graph: Graph, table: QuantTable, reference: Graph) -> str:
    whole = _whole(tensor, table, reference)
    params = table.get(whole)
    if params is None or not _stands(graph.values.get(whole), params):
        return "float"
    weight = _weight_dtype(_writer(whole, reference), graph)
    names = [
        name
        for name, layer in LAYER_DTYPES.items()
        if in_format(params, layer.scheme.activation) and weight in ("", layer.scheme.weight.dtype)
    ]
    if asked in names:
        return asked
    found = params.dtype + (f" with weights in {weight}" if weight else "")
    return names[0] if names else found


def _whole(tensor: str, table: QuantTable, reference: Graph) -> str:
    """The tensor that ends the layer: behind the Relu or Clip that is part of it."""
    value = reference.values.get(tensor)
    while value is not None and name_of(value) not in table:
        readers = [use.node for use in value.uses()]
        if len(readers) != 1 or readers[0].op_type not in _CLAMPS:
            break
        value = readers[0].outputs[0]
    return tensor if value is None else name_of(value)


def _stands(value: ir.Value | None, params: QuantParams) -> bool:
    """Whether a tensor of the QDQ graph really has these parameters."""
    producer = None if value is None else value.producer()
    if value is None or producer is None:
        return False
    if params.is_float:
        return _is_half(value)
    scale, zero = array_of(input_of(producer, 1)), array_of(input_of(producer, 2))
    return (
        producer.op_type == "DequantizeLinear"
        and scale is not None
        and zero is not None
        and zero.dtype == np.dtype(params.dtype)
        and np.array_equal(scale.reshape(-1), np.asarray(params.scale, np.float32))
    )


def _is_half(value: ir.Value) -> bool:
    """Whether only numbers of half precision can come here: rounded, or moved after rounding."""
    waiting, seen = [value], set()
    while waiting:
        one = waiting.pop()
        producer = one.producer()
        if one in seen or array_of(one) is not None:
            continue
        seen.add(one)
        if producer is None:
            return False
        if producer.op_type == "Cast":
            source = producer.inputs[0]
            if source is None or source.dtype != ir.DataType.FLOAT16:
                return False
        elif producer.op_type in KEEPS_HALF:
            waiting += [v for v in producer.inputs if v is not None]
        elif role_of(producer.op_type) is Role.SHARE:
            waiting += [v for v in producer.inputs[:1] if v is not None]
        else:
            return False
    return True


def _writer(tensor: str, reference: Graph) -> ir.Node | None:
    value = reference.values.get(tensor)
    node = None if value is None else value.producer()
    while node is not None and node.op_type in _CLAMPS and node.inputs[0] is not None:
        node = node.inputs[0].producer()
    return node


def _weight_dtype(writer: ir.Node | None, graph: Graph) -> str:
    """The stored dtype of a layer's weight; empty for a layer without."""
    if writer is None or writer.op_type not in WEIGHTED:
        return ""
    weight = input_of(graph.node(writer.name or ""), 1)
    source = None if weight is None else weight.producer()
    if source is None or not source.inputs or source.inputs[0] is None:
        return ""
    stored = source.inputs[0]
    dtype = stored.dtype
    return "" if dtype is None or array_of(stored) is None else dtype.name.lower()
