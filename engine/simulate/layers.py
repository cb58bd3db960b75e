"""The layers of a QDQ graph: nodes between tensors that are quantized or in half precision."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from engine.graph.ir import Graph, QuantParams
from engine.quantize import ADDED, GUARD
from engine.quantize.scheme import half_params

__all__ = ["QuantizedLayer", "params_of", "quantized_layers"]


@dataclass(frozen=True)
class QuantizedLayer:
    """A node whose activations are integers, or numbers of half precision.

    Attributes:
        node: the node in the QDQ graph.
        inputs: (tensor name, parameters, what is stored) per input of the node, in order; what is
            stored is None for activations; the whole entry is None for an input that is not
            quantized.
        outputs: (name of the dequantized tensor, parameters) per output; None where it is not
            quantized.
        clamps: Relu and Clip nodes that stand between the node and its QuantizeLinear.
        bounds: smallest and largest number that the first output stores, where they are narrower
            than its dtype.
    """

    node: ir.Node
    inputs: tuple[tuple[str, QuantParams, np.ndarray | None] | None, ...]
    outputs: tuple[tuple[str, QuantParams] | None, ...]
    clamps: tuple[ir.Node, ...] = ()
    bounds: tuple[float, float] = (-np.inf, np.inf)

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.name or ""


def quantized_layers(graph: Graph) -> list[QuantizedLayer]:
    """All nodes with at least one quantized input and a quantized first output, in graph order."""
    found = []
    for node in graph.nodes:
        if node.op_type in ("QuantizeLinear", "DequantizeLinear") or ADDED in node.metadata_props:
            continue
        inputs = tuple(_input(value) for value in node.inputs)
        if not any(entry is not None for entry in inputs):
            continue
        first, *rest = (_written(value) for value in node.outputs)
        if first is not None:
            outputs = (first.entry, *(None if one is None else one.entry for one in rest))
            found.append(QuantizedLayer(node, inputs, outputs, first.clamps, first.bounds))
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
    if value is None or producer is None:
        return None
    params = _from_half(producer)
    if params is None and producer.op_type == "DequantizeLinear":
        params = params_of(producer)
    return None if params is None else (value.name or "", params, _constant(producer.inputs[0]))


def _from_half(node: ir.Node) -> QuantParams | None:
    """Half precision, where the node is the Cast that gives it back in float32."""
    source = node.inputs[0] if node.op_type == "Cast" and ADDED in node.metadata_props else None
    half = source is not None and source.dtype == ir.DataType.FLOAT16
    return half_params() if half else None


@dataclass(frozen=True)
class _Written:
    """The tensor that a float value becomes, and what happens to it on the way."""

    entry: tuple[str, QuantParams]
    clamps: tuple[ir.Node, ...]
    bounds: tuple[float, float]


def _written(value: ir.Value) -> _Written | None:
    clamps: list[ir.Node] = []
    low, high = -np.inf, np.inf
    lowest: np.ndarray | None = None
    reader = _only_reader(value)
    while reader is not None and not value.is_graph_output():
        if reader.op_type == "Max" and ADDED in reader.metadata_props:
            lowest = _constant(reader.inputs[1])  # of a 16-bit format
        elif reader.op_type in ("Relu", "Clip"):
            clamps.append(reader)
        elif not (reader.name or "").endswith(GUARD):
            break
        value = reader.outputs[0]
        reader = _only_reader(value)
    if reader is None or value.is_graph_output():
        return None
    if reader.op_type == "Cast" and ADDED in reader.metadata_props:
        back = _only_reader(reader.outputs[0])
        name = "" if back is None else back.outputs[0].name or ""
        return _Written((name, half_params()), tuple(clamps), (low, high)) if name else None
    params = params_of(reader) if reader.op_type == "QuantizeLinear" else None
    if params is None:
        return None
    if lowest is not None:
        low = float(np.rint(lowest / params.scale[0]))
    after = _only_reader(reader.outputs[0])
    while after is not None and ADDED in after.metadata_props:
        bound = _constant(after.inputs[1])
        if bound is not None:
            low, high = (float(bound), high) if after.op_type == "Max" else (low, float(bound))
        after = _only_reader(after.outputs[0])
    if after is None or after.op_type != "DequantizeLinear":
        return None
    return _Written((after.outputs[0].name or "", params), tuple(clamps), (low, high))


def _only_reader(value: ir.Value) -> ir.Node | None:
    readers = [use.node for use in value.uses()]
    return readers[0] if len(readers) == 1 else None
