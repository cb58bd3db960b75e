"""The layer list: the JSON part of a container, in the form that Netron's reader shows.

Form: JSON as the vendor's first generation has it (docs/container.md), tried with Netron itself.
Q/DQ pairs are folded: a layer has its quantized tensors, by their names in the float graph, and
their parameters as attributes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from engine.graph.ir import Graph, QuantParams, TensorSpec, params_of, spec_of
from engine.graph.layers import LayerMap

GENERATOR = "RKNN TUI open container (for simulation and inspection; runs on no NPU)"

# what Netron's reader takes as vx_type; it fails on any other name but ""
_VX_TYPES = frozenset({"uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"})
_FOLDED = frozenset({"QuantizeLinear", "DequantizeLinear"})
_FACTS = ("dtype", "scale", "zero_point")
_MOST_ITEMS = 16


@dataclass
class _Tensors:
    """Numbers tensors, and follows Q/DQ pairs back to the tensor they stand for."""

    places: Mapping[str, tuple[int, int]]
    base: int
    names: Mapping[str, str]
    norm: list[dict[str, object]] = field(default_factory=list)
    const: list[dict[str, object]] = field(default_factory=list)
    ids: dict[str, tuple[str, int]] = field(default_factory=dict)
    roots: dict[str, ir.Value] = field(default_factory=dict)
    quants: dict[str, QuantParams] = field(default_factory=dict)
    absent: int | None = None

    def root(self, value: ir.Value) -> ir.Value:
        """The tensor behind a Q/DQ chain; nodes come in order, so one step suffices."""
        return self.roots.get(value.name or "", value)

    def fold(self, node: ir.Node) -> None:
        """Remember what a Q or DQ node says about the tensor behind it."""
        source, target = node.inputs[0], node.outputs[0]
        if source is None:
            return
        root = self.root(source)
        self.roots[target.name or ""] = root
        quant = params_of(node)
        if quant is not None:
            # what is converted for layers of another dtype comes behind the tensor itself
            self.quants.setdefault(root.name or "", quant)

    def reference(self, value: ir.Value | None) -> tuple[str, int]:
        """Kind and number of the tensor of an input or output of a node."""
        if value is None:
            return "const_tensor", self._absent()
        root = self.root(value)
        name = root.name or ""
        if name not in self.ids:
            self.ids[name] = self._number(root)
        return self.ids[name]

    def _number(self, value: ir.Value) -> tuple[str, int]:
        spec = spec_of(value)
        quant = self.quants.get(spec.name)
        if value.const_value is None:
            shown = self.names.get(spec.name, spec.name)
            self.norm.append(_entry(len(self.norm), spec, quant) | {"url": shown})
            return "norm_tensor", len(self.norm) - 1
        entry = _entry(len(self.const), spec, quant)
        if spec.name in self.places:
            offset, size = self.places[spec.name]
            entry |= {"offset": self.base + offset, "byte_size": size}
        self.const.append(entry)
        return "const_tensor", len(self.const) - 1

    def _absent(self) -> int:
        """The one tensor that stands for optional inputs left out."""
        if self.absent is None:
            self.absent = len(self.const)
            self.const.append({"tensor_id": self.absent, "data_type": 0, "size": [], "url": ""})
        return self.absent


def layer_list(
    graph: Graph,
    name: str,
    tool: str,
    places: Mapping[str, tuple[int, int]],
    base: int,
    layers: LayerMap,
    *,
    quantized: bool,
    target_platform: str | None = None,
    custom_string: str | None = None,
) -> dict[str, object]:
    """The layer list of a graph as plain data, keys and values as Netron's reader wants them.

    Args:
        graph: QDQ or float; a QDQ pair becomes attributes of its layer.
        name: of the model.
        tool: this program's version.
        places: tensor name -> (offset, size) within the weights.
        base: offset of the weights from the start of the data.
        layers: of the graph.
        quantized, target_platform, custom_string: shown as they are.
    """
    names = {one.computed: one.tensor for key, one in layers.stored.items() if key == one.tensor}
    tensors = _Tensors(places, base, names)
    for node in graph.nodes:
        if node.op_type in _FOLDED:
            tensors.fold(node)
    inputs = [tensors.reference(value) for value in graph.model.graph.inputs]
    nodes, connections = _connected(graph, tensors, layers)
    outputs = [tensors.reference(value) for value in graph.model.graph.outputs]
    return {
        "connection": connections,
        "const_tensor": tensors.const,
        "const_tensor_num": len(tensors.const),
        "custom_string": custom_string or "",
        "generator": GENERATOR,
        "graph": _ends("input", inputs) + _ends("output", outputs),
        "input_num": len(inputs),
        "io": {
            "inputs": [spec.to_json() for spec in graph.inputs],
            "outputs": [spec.to_json() for spec in graph.outputs],
        },
        "name": name,
        "network_platform": "ONNX",
        "node_num": len(nodes),
        "nodes": nodes,
        "norm_tensor": tensors.norm,
        "norm_tensor_num": len(tensors.norm),
        "ori_network_platform": "ONNX",
        "output_num": len(outputs),
        "quantized": quantized,
        "target_platform": [target_platform] if target_platform else [],
        "version": f"{_numeric(tool)}-open",
        "virtual_tensor": [],
    }


def _connected(
    graph: Graph, tensors: _Tensors, layers: LayerMap
) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    """The layers, and the connections of their inputs and outputs to tensors."""
    nodes: list[dict[str, object]] = []
    connections: list[dict[str, object]] = []
    uids = {layer.id: uid for uid, layer in enumerate(layers.layers)}
    for node in graph.nodes:
        if node.op_type in _FOLDED:
            continue
        number, inputs = len(nodes), _without_tail(node.inputs)
        for side, values in (("input", inputs), ("output", node.outputs)):
            connections += [
                {
                    "left": side,
                    "left_tensor_id": index,
                    "node_id": number,
                    "right_tensor": {"type": kind, "tensor_id": place},
                }
                for index, (kind, place) in enumerate(map(tensors.reference, values))
            ]
        layer = layers.by_node.get(node.name or "")
        lid = node.name or "" if layer is None else layer.id
        # as eval_perf and `rknntui segment` show it; a node that is nobody's has none
        uid = number if not uids else -1 if layer is None else uids[layer.id]
        nodes.append(_node(node, uid, len(inputs), tensors) | {"lid": lid})
    return nodes, connections


def _ends(side: str, tensors: Sequence[tuple[str, int]]) -> list[dict[str, object]]:
    """The graph's inputs or outputs."""
    return [
        {"left": side, "left_tensor_id": index, "right": kind, "right_tensor_id": number}
        for index, (kind, number) in enumerate(tensors)
    ]


def _numeric(tool: str) -> str:
    """``0.2.0`` of ``0.2.0.dev3``: Netron refuses a format name with anything else in it."""
    match = re.match(r"\d+(\.\d+)*", tool)
    return match.group() if match else "0"


def _without_tail(values: Sequence[ir.Value | None]) -> list[ir.Value | None]:
    """Inputs without those left out at the end."""
    kept = list(values)
    while kept and kept[-1] is None:
        kept.pop()
    return kept


def _entry(number: int, spec: TensorSpec, quant: QuantParams | None) -> dict[str, object]:
    """A tensor, with its quantized type and parameters where it has them."""
    dtype = spec.dtype if quant is None else quant.dtype
    axis = None if quant is None or len(quant.scale) == 1 else quant.axis
    entry: dict[str, object] = {
        "tensor_id": number,
        "dim_num": len(spec.shape),
        "size": [dim if dim >= 0 else "?" for dim in spec.shape] if spec.rank_known else [],
        "url": spec.name,
        "type": dtype,
        "dtype": {
            "qnt_method": "" if quant is None else "layer" if axis is None else "channel",
            "qnt_type": "" if quant is None else dtype,
            "vx_type": dtype if dtype in _VX_TYPES else "",
        },
    }
    if quant is not None:
        numbers = {"scale": _shown(quant.scale), "zero_point": _shown(quant.zero_point)}
        entry["quant"] = {"axis": axis, **numbers}
    return entry


def _node(node: ir.Node, uid: int, inputs: int, tensors: _Tensors) -> dict[str, object]:
    attributes: dict[str, object] = {k: _attribute(v) for k, v in node.attributes.items()}
    attributes |= _quant_attributes(node, tensors)
    if node.domain:
        attributes["domain"] = node.domain
    return {
        "op": node.op_type,
        "name": node.name or "",
        "uid": uid,
        "input_num": inputs,
        "output_num": len(node.outputs),
        "nn": {"attributes": attributes},
    }


def _quant_attributes(node: ir.Node, tensors: _Tensors) -> dict[str, object]:
    """Netron shows no quantization of JSON models, so it stands among the attributes."""
    attributes: dict[str, object] = {}
    outputs = [tensors.quants.get(tensors.root(value).name or "") for value in node.outputs]
    for key in _FACTS:
        values = [None if quant is None else _fact(quant, key) for quant in outputs]
        if any(value is not None for value in values):
            attributes[f"output_{key}"] = values[0] if len(values) == 1 else values
    for index, value in enumerate(node.inputs):
        root = None if value is None else tensors.root(value)
        quant = None if root is None else tensors.quants.get(root.name or "")
        if root is None or quant is None or root.const_value is None:
            continue
        if quant.dtype != "int32":  # a bias has the product of the others' scales
            attributes |= {f"input{index}_{key}": _fact(quant, key) for key in _FACTS}
    return attributes


def _fact(quant: QuantParams, key: str) -> object:
    return quant.dtype if key == "dtype" else _shown(getattr(quant, key))


def _shown(parameters: Sequence[float]) -> object:
    """One value alone, a few as a list, many as their range."""
    count = len(parameters)
    if count == 1:
        return _number(parameters[0])
    least, most = min(parameters), max(parameters)
    if least == most:
        return f"{_number(least)} ({count} channels)"
    if count <= _MOST_ITEMS:
        return [_number(one) for one in parameters]
    return f"{_number(least)} .. {_number(most)} ({count} channels)"


def _number(value: float) -> float | str:
    """An integer as it is, a float32 by its shortest decimal form; text for what JSON has no
    number for.
    """
    if isinstance(value, int):
        return value
    number = float(value)
    if not math.isfinite(number):
        return str(number)
    return float(str(np.float32(number))) if np.float32(number) == number else number


def _attribute(attribute: ir.Attr) -> object:
    """An attribute as JSON; tensors and graphs by their size."""
    value = attribute.value
    if attribute.type == ir.AttributeType.TENSOR:
        tensor = attribute.as_tensor()
        if tensor.size <= _MOST_ITEMS and tensor.dtype != ir.DataType.STRING:
            return [_plain(item) for item in tensor.numpy().ravel().tolist()]
        return f"{tensor.dtype.name.lower()} tensor of shape {list(tensor.shape)}"
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return _plain(value)


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, bool | int | str) or value is None:
        return value
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, ir.Graph):
        return f"graph of {len(value)} nodes"
    return str(type(value).__name__)
