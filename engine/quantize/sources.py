"""Source models that bring quantization of their own: what their Q/DQ nodes say."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from engine.graph.ir import QUANT_DTYPES, Graph, QuantParams

__all__ = ["table_of"]


def table_of(graph: Graph) -> dict[str, QuantParams]:
    """The parameters of all Q/DQ nodes of a graph, for sources that bring their own quantization.

    The key is the name of the dequantized tensor; for constants, too. Weights with a scale per
    block are left out: they have no entry of that form.
    """
    table: dict[str, QuantParams] = {}
    for node in graph.nodes:
        if node.op_type != "DequantizeLinear" or node.inputs[1] is None:
            continue
        scale = ir.convenience.get_const_tensor(node.inputs[1])
        if scale is None or scale.numpy().dtype != np.float32 or scale.numpy().ndim > 1:
            continue
        zero_value = node.inputs[2] if len(node.inputs) > 2 else None
        zero_tensor = None if zero_value is None else ir.convenience.get_const_tensor(zero_value)
        stored = node.inputs[0]
        if zero_tensor is not None:
            dtype = str(zero_tensor.numpy().dtype)
        else:
            dtype = graph.spec(stored.name or "").dtype if stored is not None else "unknown"
        if dtype not in QUANT_DTYPES:
            continue
        scales = scale.numpy().reshape(-1)
        zeros = (
            np.zeros(scales.size, dtype=np.int64)
            if zero_tensor is None
            else zero_tensor.numpy().reshape(-1)
        )
        table[node.outputs[0].name or ""] = QuantParams(
            dtype=dtype,
            scale=tuple(float(s) for s in scales),
            zero_point=tuple(int(z) for z in zeros),
            axis=node.attributes.get_int("axis", 1) if scale.numpy().ndim else None,
        )
    return table
