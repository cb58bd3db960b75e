"""The layers of a QDQ graph: nodes between DequantizeLinear and QuantizeLinear."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from engine.graph.ir import Graph, QuantParams
from engine.quantize import GUARD

__all__ = ["QuantizedLayer", "params_of", "quantized_layers"]


@dataclass(frozen=True)
class QuantizedLayer:
    """A node whose activations are integers.

    Attributes:
        node: the node in the QDQ graph.
        inputs: (tensor name, parameters, stored integers) per input of the node, in order; the
            integers are None for activations; the whole entry is None for an input that is not
            quantized.
        outputs: (name of the dequantized tensor, parameters) per output; None where it is not
            quantized.
        clamps: Relu and Clip nodes that stand between the node and its QuantizeLinear.
    """

    node: ir.Node
    inputs: tuple[tuple[str, QuantParams, np.ndarray | None] | None, ...]
    outputs: tuple[tuple[str, QuantParams] | None, ...]
    clamps: tuple[ir.Node, ...] = ()

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.name or ""


def quantized_layers(graph: Graph) -> list[QuantizedLayer]:
    """All nodes with at least one quantized input and a quantized first output, in graph order."""
    found = []
    for node in graph.nodes:
        if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            continue
        inputs = tuple(_input(value) for value in node.inputs)
        if not any(entry is not None for entry in inputs):
            continue
        first, clamps = _output(node.outputs[0])
        rest = [_output(value)[0] for value in node.outputs[1:]]
        if first is not None:
            found.append(QuantizedLayer(node, inputs, (first, *rest), clamps))
    return found


def params_of(node: ir.Node) -> QuantParams | None:
    """The parameters of a Q or DQ node with constant scale; None for other forms."""
    arrays = [_constant(value) for value in node.inputs[1:3]]
    if not arrays or arrays[0] is None:
        return None
    scale = arrays[0].astype(np.float32)
    zero = arrays[1] if len(arrays) > 1 else None
    if zero is None:
        data = node.inputs[0]
        stored = data.dtype if data is not None and node.op_type == "DequantizeLinear" else None
        dtype = "uint8" if stored is None else str(stored.numpy().name)
        zero = np.zeros(scale.shape, dtype=dtype)
    per_channel = scale.ndim == 1 and scale.size > 1
    return QuantParams(
        dtype=str(zero.dtype),
        scale=tuple(float(s) for s in scale.reshape(-1)),
        zero_point=tuple(int(z) for z in zero.reshape(-1)),
        axis=node.attributes.get_int("axis", 1) if per_channel else None,
    )


def _constant(value: ir.Value | None) -> np.ndarray | None:
    tensor = None if value is None else ir.convenience.get_const_tensor(value)
    return None if tensor is None else tensor.numpy()


def _input(value: ir.Value | None) -> tuple[str, QuantParams, np.ndarray | None] | None:
    producer = None if value is None else value.producer()
    if value is None or producer is None or producer.op_type != "DequantizeLinear":
        return None
    params = params_of(producer)
    return None if params is None else (value.name or "", params, _constant(producer.inputs[0]))


def _output(
    value: ir.Value,
) -> tuple[tuple[str, QuantParams] | None, tuple[ir.Node, ...]]:
    clamps: list[ir.Node] = []
    readers = [use.node for use in value.uses()]
    while len(readers) == 1 and (
        readers[0].op_type in ("Relu", "Clip") or (readers[0].name or "").endswith(GUARD)
    ):
        if not (readers[0].name or "").endswith(GUARD):
            clamps.append(readers[0])
        value = readers[0].outputs[0]
        readers = [use.node for use in value.uses()]
    if len(readers) != 1 or readers[0].op_type != "QuantizeLinear" or value.is_graph_output():
        return None, ()
    params = params_of(readers[0])
    after = [use.node for use in readers[0].outputs[0].uses()]
    if params is None or not after or after[0].op_type != "DequantizeLinear":
        return None, ()
    return (after[0].outputs[0].name or "", params), tuple(clamps)
