"""A QDQ graph with the float layers that a chip computes in half precision.

A layer whose inputs come out of DequantizeLinear and whose results go into QuantizeLinear is one of
8 bits. What is left of a quantized graph, such as the sum before a Softmax, is float16 on the chip.
The simulator of rknn-toolkit2 2.3.2 computes such a layer in float32 of what it reads in float16,
and gives the result in float16. So it was seen from outside, equal in every bit, for Sqrt, Erf,
Exp, Pow, Softmax, Tanh, Log, Reciprocal, sums and products. A Gelu in parts is one layer of 8 bits.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from engine.graph.ir import Graph
from engine.graph.ir.naming import UniqueNames
from engine.graph.ir.shapes import with_types
from engine.graph.ir.spec import add_constant, array_of, maker_of, new_node, new_value

_PAIR = frozenset({"QuantizeLinear", "DequantizeLinear"})
_FREE = _PAIR | {
    *("Cast", "Constant", "Flatten", "Identity", "Reshape", "Slice", "Split", "Squeeze"),
    *("Transpose", "Unsqueeze"),
}
"""Operators that round nothing."""
_BIASED = frozenset({"Conv", "ConvTranspose", "Gemm"})
"""Operators whose third input stays float32."""
_WEIGHTED = _BIASED | {"MatMul"}
_PARTS = 6
"""Nodes of a layer normalization before its quotient."""
_LARGEST = 65504.0
_OF_GELU = ["Add", "Div", "Erf", "Mul", "Mul"]
_ROOT = float(np.float32(2**0.5))
_ACTIVATIONS = frozenset({"Clip", "Relu"})
"""Of one layer with what is before them, without a pair in between."""


def half_precision(graph: Graph) -> list[ir.Node]:
    """The layers of a quantized graph that compute in float16, in its order."""
    if not any(node.op_type in _PAIR for node in graph.nodes):
        return []
    whole: set[ir.Node] = set()
    parts = {part for group in gelus(graph).values() for part in group}
    layers = []
    for node in graph.nodes:
        if node.op_type in _FREE or node in parts or not _gives_float(node):
            continue
        weighted = node.op_type in _WEIGHTED and _is_float_constant(node.inputs[1])
        whole_inputs = all(_is_read_whole(value, whole) for value in node.inputs)
        if whole_inputs and not weighted and _is_rounded(node):
            whole.add(node)
        else:
            layers.append(node)
    return layers


def gelus(graph: Graph) -> dict[ir.Node, set[ir.Node]]:
    """What dequantizes the input of each Gelu in parts of 8 bits, and those parts.

    Files for the toolkit have them (``vendor_form.py``); its last part is half of a product. Only
    a quotient by the root of 2, as float32 has it, is one: by 1.414214, or as a product, the parts
    are float16. Asked on RK3588, toolkit 2.3.2.
    """
    gelus_by_end = {}
    for node in graph.nodes:
        half = array_of(node.inputs[1]) if node.op_type == "Mul" else None
        if half is None or half.size != 1 or half.item() != 0.5 or not _is_rounded(node):
            continue
        parts: set[ir.Node] = {node}
        ends: set[ir.Node | None] = set()
        waiting = [node]
        while waiting and len(parts) <= len(_OF_GELU):
            for value in waiting.pop().inputs:
                if value is None or value.const_value is not None:
                    continue
                source = value.producer()
                if source is None or source.op_type not in _OF_GELU:
                    ends.add(source)
                elif source not in parts:
                    parts.add(source)
                    waiting.append(source)
        (end,) = ends if len(ends) == 1 else (None,)
        if end is None or end.op_type != "DequantizeLinear" or waiting:
            continue
        if sorted(part.op_type for part in parts) == _OF_GELU and any(map(_by_root, parts)):
            gelus_by_end[end] = parts
    return gelus_by_end


def _by_root(part: ir.Node) -> bool:
    divisor = array_of(part.inputs[1]) if part.op_type == "Div" else None
    return divisor is not None and divisor.size == 1 and divisor.item() == _ROOT


def _keeps_axes(mean: ir.Node) -> bool:
    keepdims = mean.attributes.get("keepdims")
    return keepdims is None or keepdims.as_int() == 1


def _gives_float(node: ir.Node) -> bool:
    return any(value.dtype == ir.DataType.FLOAT for value in node.outputs)


def _is_read_whole(value: ir.Value | None, whole: set[ir.Node]) -> bool:
    """Whether a value is a constant, dequantized, or handed over inside a layer of 8 bits."""
    if value is None or value.dtype != ir.DataType.FLOAT or value.const_value is not None:
        return True
    node = value.producer()
    return node is not None and (node.op_type in ("DequantizeLinear", "Constant") or node in whole)


def _is_float_constant(value: ir.Value | None) -> bool:
    return value is not None and value.dtype == ir.DataType.FLOAT and value.const_value is not None


def _is_rounded(node: ir.Node) -> bool:
    """Whether all of a result is quantized, behind its activation at last."""
    readers = [use.node for value in node.outputs for use in value.uses()]
    return (
        bool(readers)
        and not any(value.is_graph_output() for value in node.outputs)
        and all(
            reader.op_type == "QuantizeLinear"
            or (reader.op_type in _ACTIVATIONS and _is_rounded(reader))
            for reader in readers
        )
    )


def _fits(value: ir.Value) -> bool:
    """Whether a tensor is stored in half precision: no input of the graph, no number too large."""
    if value.const_value is None:
        return not value.is_graph_input()
    return bool(np.abs(value.const_value.numpy()).max(initial=0) <= _LARGEST)


def _merged(node: ir.Node) -> list[ir.Node]:
    """The nodes of one layer that begins or ends here, the last at the end; empty: it is one."""
    if node.op_type == "Mul":
        for gate, value in (node.inputs, node.inputs[::-1]):
            sigmoid = _only(gate, "Sigmoid")
            if sigmoid is not None and sigmoid.inputs[0] is value:
                return [sigmoid, node]
    return _normalization(node) if node.op_type == "Div" else []


def _normalization(node: ir.Node) -> list[ir.Node]:
    """A layer normalization in parts, by its quotient: with its gain and what it adds."""
    parts = []
    value = node.inputs[1]
    for ops in (("Sqrt",), ("Add",), ("ReduceMean",), ("Mul", "Pow")):
        part = _only(value, *ops)
        if part is None:
            return []
        parts.append(part)
        value = part.inputs[0]
    away = maker_of(value, "Sub")
    if away is None or node.inputs[0] is not value:
        return []
    square = parts[-1]
    if square.op_type == "Mul" and square.inputs[1] is not value:
        return []
    mean = _only(away.inputs[1], "ReduceMean")
    if mean is None or mean.inputs[0] is not away.inputs[0]:
        return []
    members = [*parts, away, mean, node]
    for op in ("Mul", "Add"):
        last = members[-1].outputs[0]
        readers = [use.node for use in last.uses()]
        behind = readers[0] if readers and _only(last, members[-1].op_type) else None
        if (
            behind is None
            or behind.op_type != op
            or not any(map(_is_float_constant, behind.inputs))
        ):
            break
        members.append(behind)
    return members


def _only(value: ir.Value | None, *ops: str) -> ir.Node | None:
    """What computes a value, where it is one of some operators with one reader."""
    node = maker_of(value)
    if node is None or node.op_type not in ops or value is None or value.is_graph_output():
        return None
    return node if len({use.node for use in value.uses()}) == 1 else None


def float16_layers(graph: Graph) -> Graph:
    """A copy whose float layers read and give numbers that float16 has.

    The tensors stay float32, and names stay. A graph without such layers, or without Q/DQ nodes,
    comes back as it is.
    """
    graph = with_types(graph)
    nodes = half_precision(graph)
    names = [node.name or "" for node in nodes]
    if not names:
        return graph
    layers = [_merged(node) for node in nodes]
    inside = {part.name for layer in layers for part in layer[:-1]}
    exact = {part.name for layer in layers for part in layer[:_PARTS]}
    copy = graph.copy()
    halves = _Halves(copy)
    for name in names:
        node = copy.node(name)
        if node.op_type == "Div" and _is_float_constant(node.inputs[1]):
            halves.multiply(node)
        for index, value in enumerate(node.inputs):
            if value is None or value.dtype != ir.DataType.FLOAT or not _fits(value):
                continue
            bias = index == 2 and node.op_type in _BIASED
            epsilon = name in exact and _is_float_constant(value)
            sizes = index > 0 and node.op_type == "Resize"
            if not bias and not epsilon and not sizes:
                node.replace_input_with(index, halves.read(value, node))
        if name in exact and node.op_type == "ReduceMean":
            halves.add_in_order(node)
        for value in tuple(node.outputs):
            if value.dtype == ir.DataType.FLOAT:
                halves.given(value, node, rounded=name not in inside)
    return Graph(copy.model)


class _Halves:
    """Pairs of Cast, to float16 and back, at most one for a tensor."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph.model.graph
        self._names = UniqueNames(set(graph.values) | {node.name or "" for node in graph.nodes})
        self._made: dict[ir.Value, ir.Value] = {}

    def multiply(self, node: ir.Node) -> None:
        """Divide by a constant as the compiler does: times its reciprocal."""
        divisor = array_of(node.inputs[1])
        if divisor is None or not np.all(divisor):
            return
        factor = np.asarray(1 / divisor, np.float32)
        constant = add_constant(self._graph, self._names.claim(f"{node.name}/factor"), factor)
        node.op_type = "Mul"
        node.replace_input_with(1, constant)

    def add_in_order(self, node: ir.Node) -> None:
        """A mean over the last axis as the toolkit takes it: it adds from the first value on.

        Of 512 values one result in 900 is another one of float16 where they are added in lanes;
        so asked of five lengths, toolkit 2.3.2, each equal in every bit.
        """
        x, axes = node.inputs[0], array_of(node.inputs[1]) if len(node.inputs) == 2 else None
        if x is None or x.shape is None or axes is None or not isinstance(x.shape[-1], int):
            return
        if axes.tolist() not in ([-1], [len(x.shape) - 1]) or not _keeps_axes(node):
            return

        def number(value: int | list[int], hint: str) -> ir.Value:
            name = self._names.claim(f"{node.name}/{hint}")
            return add_constant(self._graph, name, np.array(value, np.int64))

        summed = self._insert("CumSum", [x, number(-1, "axis")], x.shape, before=node)
        places = [number([at], hint) for at, hint in ((-1, "last"), (2**62, "end"), (-1, "axes"))]
        shape = ir.Shape([*x.shape[:-1], 1])
        last = self._insert("Slice", [summed, *places], shape, before=node)
        count = np.array(x.shape[-1], np.float32)
        divisor = add_constant(self._graph, self._names.claim(f"{node.name}/count"), count)
        node.op_type = "Div"
        node.attributes.clear()
        node.replace_input_with(0, last)
        node.replace_input_with(1, divisor)

    def _insert(
        self, op: str, inputs: list[ir.Value], shape: ir.Shape, *, before: ir.Node
    ) -> ir.Value:
        name = self._names.claim(f"{before.name}/{op}")
        out = new_value(name, ir.DataType.FLOAT, shape)
        node = new_node(op, inputs, out, self._names.claim(f"{name}/node"))
        self._graph.insert_before(before, node)
        return out

    def read(self, value: ir.Value, reader: ir.Node) -> ir.Value:
        """A tensor that a layer reads, in the numbers of float16."""
        if value not in self._made:
            pair = self._pair(value)
            self._graph.insert_before(reader, pair)
            self._made[value] = pair[-1].outputs[0]
        return self._made[value]

    def given(self, value: ir.Value, node: ir.Node, *, rounded: bool) -> None:
        """Put a pair behind the result of a layer; what is behind has the tensor's name."""
        if not rounded:
            self._made[value] = value
            return
        uses = [(use.node, use.idx) for use in value.uses()]
        pair = self._pair(value)
        out = pair[-1].outputs[0]
        for user, index in uses:
            user.replace_input_with(index, out)
        for index, output in enumerate(self._graph.outputs):
            if output is value:
                self._graph.outputs[index] = out
        value.name, out.name = out.name, value.name
        self._graph.insert_after(node, pair)
        self._made[out] = out  # it has such numbers

    def _pair(self, value: ir.Value) -> list[ir.Node]:
        nodes: list[ir.Node] = []
        for dtype in (ir.DataType.FLOAT16, ir.DataType.FLOAT):
            hint = f"{value.name}/{dtype.name.lower()}"
            source = nodes[-1].outputs[0] if nodes else value
            out = new_value(self._names.claim(hint), dtype, value.shape)
            name = self._names.claim(f"{hint}/Cast")
            nodes.append(new_node("Cast", [source], out, name, {"to": dtype.value}))
        return nodes
