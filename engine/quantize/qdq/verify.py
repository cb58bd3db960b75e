"""The dtypes that layers were given, read back from the QDQ graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from engine.graph.ir import QuantParams, params_of
from engine.graph.layers import Layer
from engine.quantize.dtypes.formats import LAYER_DTYPES, Format
from engine.quantize.planning.node_properties import array_of, input_of
from engine.quantize.planning.operators import KEEPS_HALF, WEIGHTED, Role, role_of

if TYPE_CHECKING:
    from engine.quantize.settings import Quantized


def _has_format(params: QuantParams, form: Format) -> bool:
    """Whether parameters are those of a number format (an affine one may be symmetric)."""
    return params.dtype == form.dtype and params.narrow == (form.kind == "dynamic_fixed_point")


def applied_dtypes(layers: Mapping[str, str], quantized: Quantized) -> dict[str, str]:
    """The dtype that each layer really got.

    Args:
        layers: layer, by any of its names -> dtype that was asked for.
        quantized: what :func:`~engine.quantize.quantize` gave for them.

    Returns:
        The same names -> the name of the dtype
        (:data:`~engine.quantize.dtypes.formats.LAYER_DTYPES`) in which the layer's weights and
        output are stored in the graph. It is the name that was asked for where that was honoured;
        ``float`` where the layer is not quantized; otherwise what was found, in words.
    """
    return {
        name: _obtained(quantized.layers.find(name), asked, quantized)
        for name, asked in layers.items()
    }


def _obtained(layer: Layer | None, asked: str, quantized: Quantized) -> str:
    graph = quantized.graph
    params = None if layer is None else quantized.table.get(layer.tensor)
    if layer is None or params is None or not _stands(graph.values.get(layer.tensor), params):
        return "float"
    weight = _weight_dtype(graph.node(layer.node))
    names = [
        name
        for name, known in LAYER_DTYPES.items()
        if _has_format(params, known.scheme.activation)
        and weight in ("", known.scheme.weight.dtype)
    ]
    if asked in names:
        return asked
    obtained = params.dtype + (f" with weights in {weight}" if weight else "")
    return names[0] if names else obtained


def _stands(value: ir.Value | None, params: QuantParams) -> bool:
    """Whether a tensor of the QDQ graph really has these parameters."""
    producer = None if value is None else value.producer()
    if value is None or producer is None:
        return False
    if params.is_float:
        return _is_half(value)
    stored = params_of(producer) if producer.op_type == "DequantizeLinear" else None
    return (
        stored is not None
        and stored.dtype == params.dtype
        and stored.scale == tuple(np.asarray(params.scale, np.float32).tolist())
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
        elif role_of(producer.op_type) is Role.PASSTHROUGH:
            waiting += [v for v in producer.inputs[:1] if v is not None]
        else:
            return False
    return True


def _weight_dtype(node: ir.Node) -> str:
    """The stored dtype of a layer's weight; empty for a layer without."""
    if node.op_type not in WEIGHTED:
        return ""
    weight = input_of(node, 1)
    source = None if weight is None else weight.producer()
    if source is None or not source.inputs or source.inputs[0] is None:
        return ""
    stored = source.inputs[0]
    dtype = stored.dtype
    return "" if dtype is None or array_of(stored) is None else dtype.name.lower()
