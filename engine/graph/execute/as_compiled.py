"""A QDQ graph as the vendor's compiler carries it out, whose roundings are not all the file's.

At its level 3, the default, rknn-toolkit2 2.3.2 hands the sum of a convolution to the operator
behind it without rounding or saturating it to 8 bits first, although the file asks for that. A bias
behind a matrix product is part of that sum, in whole steps of it; a factor behind it goes into its
weights, which are rounded anew. A Sigmoid has no steps finer than :data:`FINEST_SIGMOID`, whatever
the file says. Where no convolution hands its sum over, a Sigmoid, Tanh or HardSwish is a table, and
its input has a narrower range than the file's (:data:`_TABLES`). And one operand of a product of
two computed tensors, as in attention, is rounded once more: to symmetric int8, whose step is the
farther end of its range over 127. It is the second one, or the first where the compiler turns the
product round.
Found from outside, by comparing its simulator with ours on nets from every framework
(``docs/measurements/compiled.md``). Up to level 2 it computes what the file says. Layers that are
not of 8 bits are float16 at every level (:mod:`.float16_layers`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np
import onnx_ir as ir

from engine.graph.execute.float16_layers import gelus
from engine.graph.ir import Graph, QuantParams, params_of
from engine.graph.ir.naming import UniqueNames
from engine.graph.ir.spec import (
    add_constant,
    array_of,
    maker_of,
    makers_of,
    new_node,
    new_value,
    only_reader,
)

FUSING_LEVEL = 3
"""The ``optimization_level`` from which the compiler fuses."""

FINEST_SIGMOID = 1 / 510
"""Scale of the results of a Sigmoid of 8 bits, at least: half of 1 in 256 steps."""

_WHOLE_SIGMOID = 0.999
"""Results that reach this far are given the range up to 1."""

# Activations that a convolution hands its sum to. Relu and Clip need no rounding before them; a
# HardSigmoid is a convolution of its own in the file (vendor_form.py).
_ACTIVATIONS = frozenset(
    {"Elu", "Gelu", "HardSwish", "LeakyRelu", "PRelu", "Sigmoid", "Softplus", "Tanh"}
)


_TABLES = {"HardSwish": (-3.0, math.inf), "Sigmoid": (-7.0, 7.0), "Tanh": (-3.2, 3.2)}
"""The ends of an activation's input where it is a table."""
_MOVES = frozenset({"Flatten", "MaxPool", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"})

_KEEPING = _MOVES | {"Concat", "DepthToSpace", "Pad", "Resize", "SpaceToDepth", "Split"}
"""Operators that give no other numbers than they are given."""
_THROUGH = _MOVES - {"MaxPool"} | {"DequantizeLinear", "QuantizeLinear"}


def as_compiled(graph: Graph) -> Graph:
    """A copy whose numbers are those of the compiled model.

    The readers of a rounding that the compiler leaves out take the number before it, and its Q/DQ
    nodes are gone; operands that it rounds once more have a pair more. A graph where nothing of
    this applies comes back as it is. Its float layers: :func:`.float16_layers`, which comes first.
    """
    sigmoids = [(node.name or "", scale) for node, scale in _other_sigmoids(graph)]
    names = [node.name or "" for node in fused_roundings(graph)]
    products = [node.name or "" for node in rounded_operands(graph)]
    folded = [part for name in names if (part := _folded_factor(graph.node(name))) is not None]
    steps = {product: step for product, _, step in folded}
    biases = {
        name: bias for name in names if (bias := _bias_as_sum(graph.node(name), steps)) is not None
    }
    tables = {
        node.name or "": params
        for node, reader in _table_readers(graph)
        if (params := _table_params(node, reader)) is not None
    }
    if not names and not products and not tables and not sigmoids:
        return graph
    copy = graph.copy()
    inner = copy.model.graph
    unique_names = UniqueNames(set(copy.values) | {node.name or "" for node in copy.nodes})
    for name, scale in sigmoids:
        _give_scale(copy, copy.node(name), scale)
    for name in names:
        quantize = copy.node(name)
        dequantize = only_reader(quantize.outputs[0])
        source = quantize.inputs[0]
        if dequantize is None or source is None:
            continue
        for use in tuple(dequantize.outputs[0].uses()):
            if name in biases:
                add = use.node
                whole = add_constant(inner, unique_names.claim(f"{add.name}/bias"), biases[name])
                add.replace_input_with(1 - use.idx, whole)
            use.node.replace_input_with(use.idx, source)
        inner.remove(dequantize, safe=True)
        inner.remove(quantize, safe=True)
    for name, params in tables.items():
        quantize = copy.node(name)
        for hint, index, array in zip(("scale", "zero_point"), (1, 2), params, strict=True):
            changed = add_constant(inner, unique_names.claim(f"{name}/table_{hint}"), array)
            for node in (quantize, *(use.node for use in tuple(quantize.outputs[0].uses()))):
                node.replace_input_with(index, changed)
    for name, weights, _ in folded:
        constant = add_constant(inner, unique_names.claim(f"{name}/asymmetric"), weights)
        copy.node(name).replace_input_with(1, constant)
    for name in products:
        _round_operand(inner, copy.node(name), unique_names)
    return Graph(copy.model)


def _bias_as_sum(quantize: ir.Node, steps: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """The bias behind a rounding that is left out: whole steps of the sum it becomes part of.

    Args:
        quantize: the rounding.
        steps: of weights that are rounded anew, by the product that reads them.
    """
    source, dequantize = quantize.inputs[0], only_reader(quantize.outputs[0])
    product = maker_of(source)
    add = None if dequantize is None else only_reader(dequantize.outputs[0])
    bias = None if product is None or add is None else bias_of(product, add)
    if product is None or bias is None:
        return None
    nodes = [maker_of(value) for value in (*product.inputs[:2], bias)]
    params = [params_of(node) for node in nodes if node and node.op_type == "DequantizeLinear"]
    old = None if nodes[2] is None else array_of(nodes[2].inputs[0])
    if len(params) < len(nodes) or None in params or old is None:
        return None
    source_scale, scales, bias_scales = (
        np.array(param.scale, np.float32) for param in params if param
    )
    zeros = np.array(params[2].zero_point if params[2] else (0,), np.float32)
    step = source_scale * steps.get(product.name or "", scales)
    sums = (old.astype(np.float32) - zeros) * bias_scales
    return np.asarray(np.rint(sums / step) * step, np.float32)


def _folded_factor(quantize: ir.Node) -> tuple[str, np.ndarray, np.ndarray] | None:
    """The product that takes a factor into its weights, those, and their steps: rounded anew, with
    zero points.

    So weights of zero points 0 lose up to half a step more. Many of them lie on an edge of the new
    steps, so the precision of each operation tells.
    """
    dequantize = only_reader(quantize.outputs[0])
    reader = None if dequantize is None else only_reader(dequantize.outputs[0])
    node = maker_of(quantize.inputs[0])
    if reader is None or not _scales(reader):
        return None
    while node is not None and node.op_type != "MatMul":
        sources = [value.producer() for value in node.inputs if value and not _is_constant(value)]
        node = sources[0] if len(sources) == 1 else None
    weight = None if node is None or node.inputs[1] is None else node.inputs[1].producer()
    params = None if weight is None else params_of(weight)
    stored = None if weight is None else array_of(weight.inputs[0])
    if node is None or params is None or stored is None or params.dtype != "int8":
        return None
    scale = np.array(params.scale, np.float32)
    zero = np.array(params.zero_point, np.float32)
    array = (stored.astype(np.float32) - zero) * scale
    axis = tuple(range(array.ndim - 1)) if len(scale) > 1 else None
    low = array.min(axis=axis, keepdims=True, initial=0).astype(np.float64)
    high = array.max(axis=axis, keepdims=True, initial=0)
    step = np.maximum((high - low) / 255, np.finfo(np.float32).tiny)
    offset = np.rint(-128 - low / step)
    step = step.astype(np.float32)
    rounded = np.clip(np.rint(array / step) + offset, -128, 127) - offset
    return node.name or "", (rounded * step).astype(np.float32), step.reshape(-1)


def rounded_operands(graph: Graph) -> list[ir.Node]:
    """The products of two computed int8 tensors, one of which is rounded once more."""
    return [
        node
        for node in graph.nodes
        if node.op_type == "MatMul"
        and not any(_is_constant(value) for value in node.inputs)
        and all(int8_params(maker_of(v, "DequantizeLinear")) for v in node.inputs)
    ]


def int8_params(node: ir.Node | None) -> QuantParams | None:
    """The parameters of a Q or DQ node of int8 with one scale."""
    params = None if node is None else params_of(node)
    return params if params and params.dtype == "int8" and len(params.scale) == 1 else None


def _round_operand(graph: ir.Graph, product: ir.Node, names: UniqueNames) -> None:
    """Put a symmetric pair before an operand of a product."""
    operand = 0 if _is_turned(product) else 1
    value = product.inputs[operand]
    read = int8_params(maker_of(value, "DequantizeLinear"))
    if value is None or read is None:
        return
    scale, zero = read.scale[0], read.zero_point[0]
    step = np.float32(max(127 - zero, 128 + zero) * scale / 127)
    name = f"{product.name}/symmetric"
    params = [
        add_constant(graph, names.claim(f"{name}/scale"), np.array(step, np.float32)),
        add_constant(graph, names.claim(f"{name}/zero_point"), np.array(0, np.int8)),
    ]
    for op, dtype in (
        ("QuantizeLinear", ir.DataType.INT8),
        ("DequantizeLinear", ir.DataType.FLOAT),
    ):
        out = new_value(names.claim(f"{name}/{op}_output"), dtype, value.shape)
        rounding = new_node(op, [value, *params], out, names.claim(f"{name}/{op}"))
        graph.insert_before(product, rounding)
        value = out
    product.replace_input_with(operand, value)


def _is_turned(product: ir.Node) -> bool:
    """Whether the compiler turns a product round, and with it the order of its operands.

    It does so where the result is transposed for the linear layer behind an attention.
    """
    node: ir.Node | None = product
    transposed = False
    while node is not None:
        node = only_reader(node.outputs[0])
        if node is None or node.op_type not in _THROUGH:
            break
        transposed |= node.op_type == "Transpose"
    return transposed and node is not None and node.op_type == "MatMul" and _is_dense(node)


def fused_roundings(graph: Graph) -> list[ir.Node]:
    """The QuantizeLinear nodes, each with one DequantizeLinear behind it, that are left out."""
    roundings = []
    joined: set[ir.Node] = set()
    parts = gelus(graph)
    for node in _depth_first(graph):
        quantize = only_reader(node.outputs[0], "QuantizeLinear") if node.outputs else None
        if quantize is None:
            continue
        dequantize = only_reader(quantize.outputs[0], "DequantizeLinear")
        if dequantize is None:
            continue
        value = dequantize.outputs[0]
        if value.is_graph_output():
            continue  # it is stored
        readers = [use.node for use in value.uses()]
        reader = readers[0] if len(readers) == 1 else None
        if node.op_type == "Sigmoid":
            fused = _gates(node, value)
        elif node.op_type == "Conv" and reader is not None and reader.op_type in _ACTIVATIONS:
            fused = not _is_depthwise(node)  # of groups of channels, too
        elif not _is_dense(node):
            fused = False
        elif reader is None:
            fused = _are_of_one(readers, parts.get(dequantize))
        elif node.op_type in ("Conv", "Gemm") and _adds(reader):
            # of two convolutions the first hands over its sum
            fused = reader not in joined
            joined.add(reader)
        else:  # the weights take the factor of an attention
            scaled = node.op_type in ("Add", "MatMul") and _scales(reader)
            handed = reader.op_type in _ACTIVATIONS or bias_of(node, reader) is not None
            fused = scaled or handed or _are_of_one(readers, parts.get(dequantize))
        if fused:
            roundings.append(quantize)
    return roundings


def _are_of_one(readers: list[ir.Node], gelu: set[ir.Node] | None) -> bool:
    """Whether all that read a value are a SiLU, or parts of a Gelu."""
    if len(readers) == 2 and {reader.op_type for reader in readers} == {"Sigmoid", "Mul"}:
        return True
    return gelu is not None and gelu.issuperset(readers)


def table_roundings(graph: Graph) -> list[ir.Node]:
    """The QuantizeLinear before an activation that is a table, where it gets a range of its own.

    What is outside of :data:`_TABLES` has the result of its end, so that the steps are finer than
    the file's. Behind an operator that only moves values the range is that of its input.
    """
    return [
        node for node, reader in _table_readers(graph) if _table_params(node, reader) is not None
    ]


def _table_readers(graph: Graph) -> Iterator[tuple[ir.Node, ir.Node]]:
    """Each QuantizeLinear between an operator that computes and an activation, with the latter."""
    fused = set(fused_roundings(graph))
    for node in graph.nodes:
        if node.op_type not in _TABLES:
            continue
        dequantize = maker_of(node.inputs[0])
        quantize = None if dequantize is None else maker_of(dequantize.inputs[0])
        writer = None if quantize is None else maker_of(quantize.inputs[0])
        if quantize is None or writer is None or writer.op_type in _KEEPING or quantize in fused:
            continue
        alone = only_reader(writer.outputs[0]) and only_reader(quantize.outputs[0])
        if alone and only_reader(node.inputs[0]):
            yield quantize, node


def _table_params(quantize: ir.Node, reader: ir.Node) -> tuple[np.ndarray, np.ndarray] | None:
    """Scale and zero point of a table's integers; None: those of the file, or another dtype."""
    params = int8_params(quantize) if quantize.op_type == "QuantizeLinear" else None
    if params is None:
        return None
    scale, zero = params.scale[0], params.zero_point[0]  # in float64: a value on an edge tells
    low, high = (-128 - zero) * scale, (127 - zero) * scale
    begin, end = _TABLES[reader.op_type]
    near = 0.51 * scale  # the ends of a table are moved to whole steps
    if low >= begin - near and high <= end + near:
        return None
    begin, end = max(low, begin), min(high, end)
    step = (end - begin) / 255
    return np.array(step, np.float32), np.array(np.rint(-128 - begin / step), np.int8)


def _is_depthwise(node: ir.Node) -> bool:
    weight = node.inputs[1].shape if node.op_type == "Conv" and node.inputs[1] else None
    groups = node.attributes.get_int("group", 1)
    return groups > 1 and weight is not None and weight[0] == groups and weight[1] == 1


def coarse_sigmoids(graph: Graph) -> list[ir.Node]:
    """Sigmoids whose results have a finer scale than the compiler has."""
    return [node for node, scale in _other_sigmoids(graph) if scale == FINEST_SIGMOID]


def _other_sigmoids(graph: Graph) -> list[tuple[ir.Node, float]]:
    """Sigmoids of int8 whose results have another scale in the compiled model, and that."""
    sigmoids = []
    for node in graph.nodes:
        if node.op_type != "Sigmoid" or maker_of(node.inputs[0], "DequantizeLinear") is None:
            continue
        after = only_reader(node.outputs[0], "QuantizeLinear")
        params = int8_params(after)
        if after is None or params is None:
            continue
        dequantize = only_reader(after.outputs[0])
        if dequantize is not None and _gates(node, dequantize.outputs[0]):
            continue
        scale = params.scale[0]
        if scale < FINEST_SIGMOID:
            sigmoids.append((node, FINEST_SIGMOID))
        elif _WHOLE_SIGMOID / 255 <= scale < 1 / 255 and params.zero_point[0] == -128:
            sigmoids.append((node, 1 / 255))
    return sigmoids


def _give_scale(graph: Graph, sigmoid: ir.Node, factors: float) -> None:
    """Give the results of a Sigmoid the compiler's scale, also behind what only moves them."""
    first = only_reader(sigmoid.outputs[0])
    old = None if first is None else _scale(first)
    if first is None or old is None:
        return
    name = f"{sigmoid.name}/compiled_scale"
    scale = add_constant(graph.model.graph, name, np.array(factors, np.float32))
    waiting = [first]
    while waiting:
        quantize = waiting.pop()
        quantize.replace_input_with(1, scale)
        for use in tuple(quantize.outputs[0].uses()):
            if use.node.op_type != "DequantizeLinear":
                continue
            use.node.replace_input_with(1, scale)
            for reader in (dequantize_use.node for dequantize_use in use.node.outputs[0].uses()):
                after = only_reader(reader.outputs[0]) if reader.op_type in _MOVES else None
                if after is not None and after.op_type == "QuantizeLinear" and _scale(after) == old:
                    waiting.append(after)


def _scale(node: ir.Node) -> float | None:
    """The only scale of a Q or DQ node."""
    array = array_of(node.inputs[1])
    return float(array) if array is not None and array.ndim == 0 else None


def _depth_first(graph: Graph) -> list[ir.Node]:
    """The nodes in the order of the toolkit: along each branch as far as it goes, then the next.

    Branches come in the order of the file.
    """
    nodes = [n for n in graph.nodes if not (n.outputs and _is_constant(n.outputs[0]))]
    place = {node: at for at, node in enumerate(nodes)}
    waits = {}
    for node in nodes:
        sources = {value.producer() for value in node.inputs if value is not None}
        waits[node] = len(sources & place.keys())
    stack = [node for node in reversed(nodes) if not waits[node]]
    ordered = []
    while stack:
        node = stack.pop()
        ordered.append(node)
        readers = {use.node for out in node.outputs for use in out.uses()} & place.keys()
        for reader in sorted(readers, key=place.__getitem__, reverse=True):
            waits[reader] -= 1
            if not waits[reader]:
                stack.append(reader)
    return ordered


def _is_dense(node: ir.Node) -> bool:
    """Whether the compiler makes a convolution of all channels of a node."""
    if node.op_type == "Conv":
        return node.attributes.get_int("group", 1) == 1
    if node.op_type == "Add":
        return any(_has_bias(value, node) for value in node.inputs)
    return node.op_type in ("Gemm", "MatMul") and _is_constant(node.inputs[1])


def _has_bias(value: ir.Value | None, add: ir.Node) -> bool:
    """Whether a value that an Add reads is the rounded result of a MatMul, whose bias it adds."""
    chain = makers_of(value, "DequantizeLinear", "QuantizeLinear", "MatMul")
    return bool(chain) and bias_of(chain[-1], add) is not None


def bias_of(node: ir.Node, reader: ir.Node) -> ir.Value | None:
    """What an Add puts on the result of a MatMul with constant weights, one number per column."""
    if node.op_type != "MatMul" or reader.op_type != "Add" or not _is_constant(node.inputs[1]):
        return None
    out = node.outputs[0].shape
    if out is None or len(out) < 3:
        return None  # of two axes the optimiser makes a Gemm
    constants = [value for value in reader.inputs if _is_constant(value)]
    shape = constants[0].shape if len(constants) == 1 and constants[0] is not None else None
    if shape is None or len(shape) > len(out):
        return None
    row = [*(1 for _ in list(shape)[:-1]), out[-1]]
    return constants[0] if list(shape) == row else None


def _adds(node: ir.Node) -> bool:
    """Whether a node adds two tensors that are computed, and rounded both."""
    sources = [maker_of(value) for value in node.inputs]
    return (
        node.op_type == "Add"
        and not any(_is_constant(value) for value in node.inputs)
        and not any(source is not None and _is_dense(source) for source in sources)
    )


def _scales(node: ir.Node) -> bool:
    """Whether a node multiplies by one constant number."""
    constants = [value for value in node.inputs if _is_constant(value)]
    if node.op_type != "Mul" or len(constants) != 1 or constants[0] is None:
        return False
    shape = constants[0].shape
    return shape is not None and all(size == 1 for size in shape)


def _is_constant(value: ir.Value | None) -> bool:
    """Whether a value is a constant, in a format of its own or not."""
    while value is not None and value.const_value is None:
        source = value.producer()
        if source is None or source.op_type not in ("DequantizeLinear", "Cast", "Constant"):
            return False
        if source.op_type == "Constant":
            return True
        value = source.inputs[0]
    return value is not None


def _gates(sigmoid: ir.Node, value: ir.Value) -> bool:
    """Whether a Sigmoid is only there to be multiplied with its own input."""
    readers = [use.node for use in value.uses()]
    return (
        len(readers) == 1
        and readers[0].op_type == "Mul"
        and any(other is sigmoid.inputs[0] for other in readers[0].inputs)
    )
