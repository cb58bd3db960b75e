"""Rewrites of a QDQ graph into what the vendor's toolkit 2 compiles as it stands.

Seen with 2.3.2, which in a file with parameters of its own

* makes a depthwise convolution of a mean, with weights rounded to something else (up to 3 steps off
  in the result),
* gives the result of an AveragePool the parameters of its input, and converts it afterwards (up to
  2 steps off), or runs it on the CPU,
* computes HardSigmoid from a table at level 3, up to 3 steps off, but for that of a HardSwish
  (MobileNetV3-Small: SQNR 14.7 instead of 20.2 dB),
* computes in float behind a tensor that is an output of the model as well, where both have one
  DequantizeLinear,
* makes a bias of what is added to a product of matrices from level 3 on, and fails unless that has
  a scale for each of its numbers (below level 3 it takes one scale alone),
* crashes, or takes 8-bit layers into float16, where one DequantizeLinear is read by layers of 8
  bits and by layers in float (a LayerNorm in parts),
* takes zeros that a Pad puts around a map into the pads of a MaxPool behind it, where they count as
  less than any value: of a map below zero the border is another (cosine 0.93),
* computes a layer of float16 without weights in 8 bits where it stands alone between quantized
  tensors (a Sqrt then runs on the CPU),
* loses the state of an LSTM or a GRU that is an output of the model itself (KeyError),
* loads no Gelu, but makes one of its parts,
* makes a layer on the CPU of what only guards against a kernel of ONNX Runtime.

Each form that stands here computes the same numbers as the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import numpy as np
import onnx_ir as ir

from engine.graph.execute.as_compiled import FUSING_LEVEL, bias_of
from engine.graph.execute.means import means_in_stages
from engine.graph.ir import Graph, constant_of
from engine.graph.ir.spec import maker_of, makers_of, only_reader
from engine.graph.layers import ADDED, GUARD
from engine.graph.passes import Editor
from engine.graph.passes.base import operators, shape
from engine.quantize.qdq.vendor_convolutions import (
    dequantized,
    hard_sigmoid_input,
    mean_input,
    of_all_rows,
    pad_of_pool,
    pool_input,
    window_input,
    with_large_stride,
    write_hard_sigmoid_as_convolution,
    write_mean_as_convolution,
    write_mean_as_reduction,
    write_pad_as_convolution,
    write_rows_as_channels,
    write_small_stride,
)

M = TypeVar("M")

_ALONE = operators("Add Sub Mul Div Sqrt Sigmoid HardSigmoid HardSwish Tanh Elu Softplus")
"""Operators that 2.3.2 was seen to compute in 8 bits there, and in float16 behind a LeakyRelu."""

KEPT_IN_FLOAT16 = "/float16"
"""Ends the name of that LeakyRelu, behind the name of the layer's node."""


def vendor_form(graph: Graph, level: int = FUSING_LEVEL, *, every_shape: bool = False) -> Graph:
    """A copy with depthwise convolutions for means and HardSigmoid of int8 tensors, and outputs of
    their own.

    A graph where nothing of this applies comes back as it is.

    Args:
        graph: with Q/DQ pairs.
        level: the ``optimization_level`` that it will be compiled with. At 3 the compiler makes
            kernels of its own for a GlobalAveragePool, up to 4 steps off; a ReduceMean runs on the
            CPU and is exact. Up to 2 the first is exact, too.
        every_shape: the file is compiled for several sets of input shapes. A mean over all rows
            and columns then stays one: as a convolution it would have the kernel of one set.
    """
    form = _Form(graph)
    if level >= FUSING_LEVEL:
        form.rewrite(_bias_of_product, _write_bias_as_vector)
    form.rewrite(_guard_bounds, _leave_guard_out)
    form.rewrite(_gelu_input, _write_gelu_in_parts)
    if not every_shape:
        form.replace(means_in_stages(form.graph))
    elif level >= FUSING_LEVEL:
        form.rewrite(mean_input, write_mean_as_reduction)
    form.rewrite(pool_input if every_shape else window_input, write_mean_as_convolution)
    form.rewrite(hard_sigmoid_input, write_hard_sigmoid_as_convolution)
    if not every_shape:
        form.rewrite(of_all_rows, write_rows_as_channels)
    form.rewrite(with_large_stride, write_small_stride)
    form.rewrite(pad_of_pool, write_pad_as_convolution)
    form.rewrite(_readers_of_output, partial(_read_apart, role="inside"))
    form.rewrite(_float_readers, partial(_read_apart, role="float"))
    form.rewrite(_given_states, _give_states_behind)
    form.rewrite(_alone_in_float16, _keep_in_float16)
    return form.graph


class _Form:
    """A graph that is copied where the first node of it is rewritten, and never again.

    Attributes:
        graph: as far as it is rewritten.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._is_copy = False

    def replace(self, graph: Graph) -> None:
        """Go on with what another function made of the graph: a copy, or the graph itself."""
        self._is_copy |= graph is not self.graph
        self.graph = graph

    def rewrite(
        self, match: Callable[[ir.Node], M | None], write: Callable[[Editor, ir.Node, M], None]
    ) -> None:
        """Rewrite every node of which ``match`` gives something, in the order of the graph.

        ``write`` gets that of the node as it is when its turn comes.
        """
        names = [node.name or "" for node in self.graph.nodes if match(node)]
        if not names:
            return
        if not self._is_copy:
            self.replace(self.graph.copy())
        edit = Editor(self.graph.model)
        for name in names:
            node = self.graph.node(name)
            if parts := match(node):
                write(edit, node, parts)
        self.graph = Graph(self.graph.model)


def _guard_bounds(node: ir.Node) -> list[ir.Value | None]:
    return list(node.inputs[1:]) if node.metadata_props.get(ADDED) == GUARD else []


def _leave_guard_out(edit: Editor, node: ir.Node, bounds: list[ir.Value | None]) -> None:
    """What only keeps ONNX Runtime from a kernel is a layer on the CPU to the toolkit."""
    edit.bypass(node)
    for value in bounds:
        if value is not None and not value.uses() and not value.is_graph_output():
            edit.graph.initializers.pop(value.name or "", None)


def _gelu_input(node: ir.Node) -> ir.Value | None:
    return node.inputs[0] if node.op_type == "Gelu" else None


def _write_gelu_in_parts(edit: Editor, node: ir.Node, x: ir.Value) -> None:
    """A Gelu, which opset 19 lacks, by the operators that the compiler makes one of again.

    Of that by tanh as well: the compiler computes both by erf.
    """

    def part(op: str, inputs: list[ir.Value], hint: str) -> ir.Value:
        name = f"{node.name}/{hint}"
        return edit.insert(op, inputs, before=node, like=x, name=name).outputs[0]

    def number(value: float, hint: str) -> ir.Value:
        return edit.constant(np.array(value, np.float32), f"{node.name}/{hint}")

    inner = part("Erf", [part("Div", [x, number(2**0.5, "root")], "in")], "erf")
    whole = part("Mul", [x, part("Add", [inner, number(1, "one")], "plus")], "times")
    edit.replace_with(node, "Mul", [whole, number(0.5, "half")])


BiasParts = tuple[ir.Node, ir.Node, np.ndarray, np.ndarray]


def _write_bias_as_vector(edit: Editor, node: ir.Node, parts: BiasParts) -> None:
    """The bias of a product of matrices with a scale for each of its numbers, all of them equal."""
    add, old, scale, zero = parts
    bias = old.outputs[0]
    sizes = shape(bias) or (0,)
    rows = [np.full(sizes[-1], number) for number in (scale, zero)]
    inputs = [old.inputs[0], *rows]
    read = dequantized(edit, add, f"{node.name}/bias", inputs, bias, len(sizes) - 1)
    edit.set_inputs(add, [read if value is bias else value for value in add.inputs])


def _bias_of_product(node: ir.Node) -> BiasParts | None:
    """The Add that becomes part of a MatMul, what dequantizes its bias, scale and zero point."""
    weight = maker_of(node.inputs[1]) if node.op_type == "MatMul" else None
    if weight is None or "axis" not in weight.attributes:
        return None
    reader: ir.Node | None = node
    for op in ("QuantizeLinear", "DequantizeLinear", "Add"):
        reader = None if reader is None else only_reader(reader.outputs[0], op)
    bias = None if reader is None else bias_of(node, reader)
    old = maker_of(bias, "DequantizeLinear")
    if reader is None or old is None or "axis" in old.attributes:
        return None
    scale, zero = (constant_of(value) for value in old.inputs[1:3])
    return None if scale is None or zero is None else (reader, old, scale.numpy(), zero.numpy())


Readers = list[tuple[ir.Node, int]]
"""Nodes, and which of their inputs."""


def _readers_of_output(node: ir.Node) -> Readers:
    """What reads an output of the graph that the node dequantizes, inside the graph."""
    if node.op_type != "DequantizeLinear" or not node.outputs[0].is_graph_output():
        return []
    return [(use.node, use.idx) for use in node.outputs[0].uses()]


def _read_apart(edit: Editor, node: ir.Node, readers: Readers, role: str) -> None:
    """Some readers of what is dequantized get a DequantizeLinear of their own."""
    again = edit.insert(
        "DequantizeLinear",
        list(node.inputs),
        before=node,
        like=node.outputs[0],
        name=f"{node.name}/{role}",
    )
    for reader, index in readers:
        reader.replace_input_with(index, again.outputs[0])


def _given_states(node: ir.Node) -> list[ir.Value]:
    """The states of a recurrent layer, of known shape, that are outputs of the graph."""
    if node.op_type not in ("LSTM", "GRU"):
        return []
    outputs = node.outputs[1:]
    return [value for value in outputs if value.is_graph_output() and shape(value) is not None]


def _give_states_behind(edit: Editor, node: ir.Node, states: list[ir.Value]) -> None:
    """States that are outputs of the graph: a Reshape to their own shape gives them."""
    for value in states:
        state = value.name or ""
        sizes = edit.constant(np.array(shape(value), np.int64), f"{state}/shape")
        edit.rename(value, f"{state}/state")
        behind = edit.insert_after(node, "Reshape", [value, sizes], like=value)
        edit.move_output(value, behind.outputs[0])
        behind.outputs[0].name = state


def _float_readers(node: ir.Node) -> Readers:
    """What reads a dequantized tensor in float, where something else reads it in 8 bits."""
    if node.op_type != "DequantizeLinear" or node.attributes.get_int("axis", -1) >= 0:
        return []
    readers = [(use.node, use.idx) for use in node.outputs[0].uses()]
    float_readers = [reader for reader in readers if not _is_rounded(reader[0])]
    return float_readers if len(float_readers) < len(readers) else []


def _is_rounded(node: ir.Node) -> bool:
    """Whether what a node computes is quantized, behind its activation at last."""
    readers = [use.node for value in node.outputs for use in value.uses()]
    return any(
        reader.op_type == "QuantizeLinear"
        or (reader.op_type in ("Relu", "Clip") and _is_rounded(reader))
        for reader in readers
    )


def _alone_in_float16(node: ir.Node) -> list[int]:
    """The inputs of a float16 layer that stands alone between quantized tensors, dequantized."""
    if node.op_type not in _ALONE:
        return []
    for use in node.outputs[0].uses():
        if use.node.op_type != "Cast":
            return []
        ends = [end.node for pair in use.node.outputs for end in pair.uses()]
        if any(end.op_type != "Cast" for end in ends):
            return []
        readers = [last.node for end in ends for last in end.outputs[0].uses()]
        if not readers or any(reader.op_type != "QuantizeLinear" for reader in readers):
            return []
    features = [at for at, value in enumerate(node.inputs) if value and _is_feature(value)]
    return features if all(_is_halved(node.inputs[at]) for at in features) else []


def _is_feature(value: ir.Value) -> bool:
    maker = value.producer()
    while maker is not None and maker.op_type in ("Cast", "DequantizeLinear") and maker.inputs[0]:
        value, maker = maker.inputs[0], maker.inputs[0].producer()
    return maker is not None or not value.is_initializer()


def _is_halved(value: ir.Value | None) -> bool:
    """Whether a value is a dequantized tensor, rounded to half precision."""
    return bool(makers_of(value, "Cast", "Cast", "DequantizeLinear"))


def _keep_in_float16(edit: Editor, node: ir.Node, features: list[int]) -> None:
    """Let a LeakyRelu of slope 1 stand before a layer: a tensor without parameters."""
    value = node.inputs[features[-1]]
    name = f"{node.name}{KEPT_IN_FLOAT16}"
    same = edit.insert("LeakyRelu", [value], {"alpha": 1.0}, before=node, like=value, name=name)
    node.replace_input_with(features[-1], same.outputs[0])
