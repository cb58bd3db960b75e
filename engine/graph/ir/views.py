"""Graphs as plain data for screens."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import onnx_ir as ir

from engine.base.text import printable, shape_text
from engine.graph.ir.constants import ORIGIN, STANDARD_DOMAINS
from engine.graph.ir.graph import Graph
from engine.graph.ir.spec import constant_of, shape_of, spec_of

__all__ = ["Groups", "describe", "graph_view", "node_detail", "operator_name", "tensor_kind"]

_MAX_TEXT = 400
_MAX_ITEMS = 16


class Groups:
    """Numbers the scopes of node names: ``/backbone/s1/Conv_3`` lies in ``/backbone/s1``.

    A node that TFLite fused from several has their names, split by ``;``: the first one counts.
    """

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, node_name: str) -> int:
        """The number of the scope of a node; names without a slash share the scope ``""``."""
        scope = node_name.partition(";")[0].rpartition("/")[0]
        return self._numbers.setdefault(scope, len(self._numbers))

    def names(self) -> list[str]:
        """The scopes in the order of their numbers."""
        return [printable(scope, 200) for scope in self._numbers]


def operator_name(domain: str, op_type: str) -> str:
    """``Conv``, or ``domain:Name`` for operators that are not ONNX's."""
    return op_type if domain in STANDARD_DOMAINS else f"{domain}:{op_type}"


def describe(graph: Graph) -> dict[str, Any]:
    """The facts of the model view: inputs, outputs, nodes, operators, parameters, weights_bytes.

    ``operators`` maps operator to count, most frequent first; ``parameters`` counts the elements of
    all initializers, ``weights_bytes`` their bytes.
    """
    counts = Counter(operator_name(node.domain, node.op_type) for node in graph.nodes)
    parameters = weights_bytes = 0
    for value in graph.model.graph.initializers.values():
        if value.const_value is not None:
            parameters += value.const_value.size
            weights_bytes += value.const_value.nbytes
    return {
        "inputs": [spec.to_json() for spec in graph.inputs],
        "outputs": [spec.to_json() for spec in graph.outputs],
        "nodes": len(graph),
        "operators": dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))),
        "parameters": int(parameters),
        "weights_bytes": int(weights_bytes),
    }


def graph_view(graph: Graph) -> dict[str, Any]:
    """The whole graph, compact: ``nodes, groups, inputs, outputs``.

    A node is ``[name, operator, first output, shape as text, dtype, number of its group]``, in the
    order of execution; a group is the scope in the node's name. Names are given as they are (they
    are keys for :func:`node_detail`): pass them through ``printable`` before they reach a screen.
    """
    groups = Groups()
    rows: list[list[Any]] = []
    for node in graph.nodes:
        name = node.name or ""
        output, shape, dtype = "", "", ""
        if node.outputs:
            first = spec_of(node.outputs[0])
            output, dtype = first.name, first.dtype
            shape = shape_text(first.shape) if first.rank_known else "?"
        op = operator_name(node.domain, node.op_type)
        rows.append([name, op, output, shape, dtype, groups.number(name)])
    return {
        "nodes": rows,
        "groups": groups.names(),
        "inputs": [spec.to_json() for spec in graph.inputs],
        "outputs": [spec.to_json() for spec in graph.outputs],
    }


def tensor_kind(value: ir.Value) -> str:
    """``constant``, ``input`` or ``activation``."""
    maker = value.producer()
    if value.const_value is not None or (maker is not None and maker.op_type == "Constant"):
        return "constant"
    return "input" if value.is_graph_input() else "activation"


def node_detail(graph: Graph, name: str) -> dict[str, Any]:
    """Everything about one node: name, op, domain, attributes, inputs, outputs, origin.

    Inputs and outputs are ``{name, shape, dtype, kind, quant}``; an input that is left out has the
    name ``""``. ``quant`` is there for tensors of a QDQ graph with constant parameters:
    ``{dtype, scale, zero_point, axis}``.

    Raises:
        GraphError: no node has this name.
    """
    node = graph.node(name)
    return {
        "name": node.name,
        "op": node.op_type,
        "domain": node.domain,
        "attributes": [
            [key, attribute_text(attribute)] for key, attribute in sorted(node.attributes.items())
        ],
        "inputs": [_tensor(value) for value in node.inputs],
        "outputs": [_tensor(value) for value in node.outputs if value.name],
        "origin": [text for text in node.metadata_props.get(ORIGIN, "").split("\n") if text],
    }


def _tensor(value: ir.Value | None) -> dict[str, Any]:
    if value is None:
        return {"name": "", "shape": [], "dtype": "", "kind": "constant", "quant": None}
    return {**spec_of(value).to_json(), "kind": tensor_kind(value), "quant": _quant(value)}


def _quant(value: ir.Value) -> dict[str, Any] | None:
    node = value.producer()
    if node is None or node.op_type not in ("DequantizeLinear", "QuantizeLinear"):
        readers = [use for use in value.consumers() if use.op_type == "QuantizeLinear"]
        node = readers[0] if readers else None
    if node is None or len(node.inputs) < 2 or node.inputs[1] is None:
        return None
    scale = constant_of(node.inputs[1])
    zero_value = node.inputs[2] if len(node.inputs) > 2 else None
    zero = None if zero_value is None else constant_of(zero_value)
    if scale is None:
        return None
    scales = np.asarray(scale.numpy(), dtype=np.float64).ravel()
    zeros = np.zeros(scales.size, np.int64) if zero is None else zero.numpy().ravel()
    integers = node.inputs[0] if node.op_type == "DequantizeLinear" else node.outputs[0]
    axis = node.attributes.get("axis")
    return {
        "dtype": spec_of(integers).dtype if integers is not None else "unknown",
        "scale": scales.tolist(),
        "zero_point": [int(point) for point in zeros],
        "axis": None if scales.size == 1 else (axis.as_int() if axis is not None else 1),
    }


def attribute_text(attribute: ir.Attr) -> str:
    """An attribute in a line; lists are cut to 16 items, tensors shown by type and shape."""
    if attribute.type == ir.AttributeType.TENSOR:
        tensor = attribute.as_tensor()
        text = f"{tensor.dtype.name.lower()}[{shape_text(shape_of(tensor.shape))}]"
        return f"{text} = {tensor.numpy().ravel().tolist()}" if tensor.size <= _MAX_ITEMS else text
    value = attribute.value
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, list | tuple):
        items = ", ".join(_item(item) for item in value[:_MAX_ITEMS])
        more = f", … {len(value)} in all" if len(value) > _MAX_ITEMS else ""
        return printable(f"[{items}{more}]", _MAX_TEXT)
    return printable(_item(value), _MAX_TEXT)


def _item(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.7g}"
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value)
