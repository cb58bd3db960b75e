"""The layers of a QDQ graph: nodes between tensors that are quantized or in half precision."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from engine.graph.ir import Graph, QuantParams, params_of
from engine.graph.ir.spec import array_of
from engine.graph.layers import ADDED, GUARD, LayerMap

_PAIR = ("QuantizeLinear", "DequantizeLinear")


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


def quantized_layers(graph: Graph, layers: LayerMap) -> list[QuantizedLayer]:
    """All layers with at least one quantized input and a quantized first output, in graph order.

    Args:
        graph: in QDQ form.
        layers: of it.
    """
    present = {node.name for node in graph.nodes}
    quantized = []
    for layer in layers.layers:
        node = graph.node(layer.node)
        inputs = tuple(_input(value) for value in node.inputs)
        tensors = iter(layer.outputs)
        outputs = tuple(
            _output(layers, next(tensors)) if value.name else None for value in node.outputs
        )
        if outputs[0] is None or not any(entry is not None for entry in inputs):
            continue
        clamps = tuple(graph.node(name) for name in layer.nodes[1:] if name in present)
        bounds = _bounds(graph.value(outputs[0][0]), outputs[0][1].scale[0])
        quantized.append(QuantizedLayer(node, inputs, outputs, clamps, bounds))
    return quantized


def _input(value: ir.Value | None) -> tuple[str, QuantParams, np.ndarray | None] | None:
    producer = None if value is None else value.producer()
    if value is None or producer is None or producer.op_type not in ("DequantizeLinear", "Cast"):
        return None
    params = params_of(producer)
    return None if params is None else (value.name or "", params, array_of(producer.inputs[0]))


def _output(layers: LayerMap, tensor: str) -> tuple[str, QuantParams] | None:
    place = layers.stored.get(tensor)
    return None if place is None or place.params is None else (place.value, place.params)


def _bounds(value: ir.Value, step: float) -> tuple[float, float]:
    """Smallest and largest number stored, as the Max and Min on the way to a tensor have it."""
    low, high, scale = -np.inf, np.inf, 1.0
    node = value.producer()
    while node is not None and (node.op_type in _PAIR or _is_bound(node)):
        bound = array_of(node.inputs[1]) if node.op_type not in _PAIR else None
        if bound is not None and node.op_type == "Max":
            low = max(low, float(np.rint(bound / scale)))
        elif bound is not None:
            high = min(high, float(np.rint(bound / scale)))
        if node.op_type == "QuantizeLinear":
            scale = step  # before it, bounds are of the float values
        source = node.inputs[0]
        node = None if source is None else source.producer()
    return low, high


def _is_bound(node: ir.Node) -> bool:
    return node.op_type in ("Max", "Min") and node.metadata_props.get(ADDED, GUARD) != GUARD
