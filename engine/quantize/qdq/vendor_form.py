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

import numpy as np
import onnx_ir as ir

from engine.graph.execute.as_compiled import FUSING_LEVEL, bias_of
from engine.graph.execute.means import LARGEST_WINDOW, is_quantized_mean, means_in_stages
from engine.graph.ir import Graph, constant_of, params_of
from engine.graph.layers import ADDED, GUARD
from engine.graph.passes import Editor
from engine.quantize.qdq.vendor_strides import (
    is_of_all_rows,
    is_of_large_stride,
    write_rows_as_channels,
    write_small_stride,
)

_ALONE = frozenset(
    {
        *("Add", "Sub", "Mul", "Div", "Sqrt"),
        *("Sigmoid", "HardSigmoid", "HardSwish", "Tanh", "Elu", "Softplus"),
    }
)
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
        form.rewrite(_bias_to_write, _write_bias_as_vector)
    form.rewrite(_is_guard, _leave_guard_out)
    form.rewrite(lambda node: node.op_type == "Gelu", _write_gelu_in_parts)
    if not every_shape:
        form.replace(means_in_stages(form.graph))
    elif level >= FUSING_LEVEL:
        form.rewrite(is_quantized_mean, _write_mean_as_reduction)
    form.rewrite(_is_plain_pool if every_shape else _is_plain_mean, _write_mean_as_convolution)
    form.rewrite(_is_plain_hard_sigmoid, _write_hard_sigmoid_as_convolution)
    if not every_shape:
        form.rewrite(is_of_all_rows, write_rows_as_channels)
    form.rewrite(is_of_large_stride, write_small_stride)
    form.rewrite(_is_pad_of_pool, _write_pad_as_convolution)
    form.rewrite(_is_output_and_read, _give_output_its_own)
    form.rewrite(_float_readers, _give_float_readers_their_own)
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
        self, wanted: Callable[[ir.Node], object], write: Callable[[Editor, ir.Node], None]
    ) -> None:
        """Rewrite every node that is wanted, in the order of the graph."""
        names = [node.name or "" for node in self.graph.nodes if wanted(node)]
        if not names:
            return
        if not self._is_copy:
            self.replace(self.graph.copy())
        edit = Editor(self.graph.model)
        for name in names:
            write(edit, self.graph.node(name))
        self.graph = Graph(self.graph.model)


def _is_guard(node: ir.Node) -> bool:
    return bool(node.metadata_props.get(ADDED) == GUARD)


def _leave_guard_out(edit: Editor, node: ir.Node) -> None:
    """What only keeps ONNX Runtime from a kernel is a layer on the CPU to the toolkit."""
    bounds = list(node.inputs[1:])
    edit.bypass(node)
    for value in bounds:
        unread = value is not None and not value.uses() and not value.is_graph_output()
        if value is not None and unread:
            edit.graph.initializers.pop(value.name or "", None)


def _write_gelu_in_parts(edit: Editor, node: ir.Node) -> None:
    """A Gelu, which opset 19 lacks, by the operators that the compiler makes one of again.

    Of that by tanh as well: the compiler computes both by erf.
    """
    x = node.inputs[0]
    if x is None:
        return

    def part(op: str, inputs: list[ir.Value], hint: str) -> ir.Value:
        name = f"{node.name}/{hint}"
        return edit.insert(op, inputs, before=node, like=x, name=name).outputs[0]

    def number(value: float, hint: str) -> ir.Value:
        return edit.constant(np.array(value, np.float32), f"{node.name}/{hint}")

    inner = part("Erf", [part("Div", [x, number(2**0.5, "root")], "in")], "erf")
    whole = part("Mul", [x, part("Add", [inner, number(1, "one")], "plus")], "times")
    edit.replace_with(node, "Mul", [whole, number(0.5, "half")])


def _write_bias_as_vector(edit: Editor, node: ir.Node) -> None:
    """The bias of a product of matrices with a scale for each of its numbers, all of them equal."""
    bias_parts = _bias_to_write(node)
    if bias_parts is None:
        return
    add, old, scale, zero = bias_parts
    bias = old.outputs[0]
    shape = (0,) if bias.shape is None else bias.shape.numpy()
    count, last = int(shape[-1]), len(shape) - 1
    rows = [
        edit.constant(np.full(count, one), f"{node.name}/bias/{part}")
        for part, one in (("scale", scale), ("zero_point", zero))
    ]
    read = edit.insert(
        "DequantizeLinear",
        [old.inputs[0], *rows],
        {"axis": last},
        before=add,
        like=bias,
        name=f"{node.name}/bias/DequantizeLinear",
    )
    edit.set_inputs(add, [read.outputs[0] if value is bias else value for value in add.inputs])


def _bias_to_write(node: ir.Node) -> tuple[ir.Node, ir.Node, np.ndarray, np.ndarray] | None:
    """The Add that becomes part of a MatMul, what dequantizes its bias, scale and zero point."""
    weight = None
    if node.op_type == "MatMul" and node.inputs[1] is not None:
        weight = node.inputs[1].producer()
    if weight is None or "axis" not in weight.attributes:
        return None
    reader: ir.Node = node
    for op in ("QuantizeLinear", "DequantizeLinear", "Add"):
        value = reader.outputs[0]
        readers = [use.node for use in value.uses()]
        if len(readers) != 1 or readers[0].op_type != op or value.is_graph_output():
            return None
        reader = readers[0]
    bias = bias_of(node, reader)
    old = None if bias is None else bias.producer()
    if old is None or old.op_type != "DequantizeLinear" or "axis" in old.attributes:
        return None
    scale, zero = (constant_of(value) for value in old.inputs[1:3])
    return None if scale is None or zero is None else (reader, old, scale.numpy(), zero.numpy())


def _write_mean_as_reduction(edit: Editor, node: ir.Node) -> None:
    """A mean over all rows and columns as ReduceMean."""
    source = node.inputs[0]
    if source is None or source.shape is None:
        return
    axes = np.arange(2, len(source.shape), dtype=np.int64)
    edit.replace_with(
        node, "ReduceMean", [source, edit.constant(axes, f"{node.name}/axes")], {"keepdims": 1}
    )


def _write_mean_as_convolution(edit: Editor, node: ir.Node) -> None:
    """A mean as a depthwise convolution with equal weights, which is exact."""
    source = node.inputs[0]
    if source is None or source.shape is None:
        return
    channels, *sizes = (int(dim) for dim in source.shape.numpy()[1:])
    attributes: dict[str, int | list[int]] = {"group": channels, "kernel_shape": sizes}
    if node.op_type == "AveragePool":
        attributes["kernel_shape"] = sizes = list(node.attributes.get_ints("kernel_shape"))
        for key in ("strides", "pads"):
            if key in node.attributes:
                attributes[key] = list(node.attributes.get_ints(key))
    shape = (channels, 1, *sizes)
    scale = np.float32(1.0 / (127.0 * np.prod(sizes)))
    weight = _dequantized(edit, node, source, "weight", np.full(shape, 127, np.int8), scale)
    edit.replace_with(node, "Conv", [source, weight], attributes)


def _dequantized(
    edit: Editor, node: ir.Node, like: ir.Value, role: str, integers: np.ndarray, scale: np.float32
) -> ir.Value:
    """A constant of a node as integers with one scale, and what dequantizes them before it."""
    name = f"{node.name}/{role}"
    dequantizer = edit.insert(
        "DequantizeLinear",
        [
            edit.constant(integers, f"{name}/quantized"),
            edit.constant(np.array(scale), f"{name}/scale"),
            edit.constant(np.array(0, integers.dtype), f"{name}/zero_point"),
        ],
        before=node,
        like=like,
        shape=integers.shape,
        name=f"{name}/DequantizeLinear",
    )
    return dequantizer.outputs[0]


def _write_pad_as_convolution(edit: Editor, node: ir.Node) -> None:
    """Zeros around a map as the pads of a depthwise convolution by one, which is exact."""
    source, sides = node.inputs[0], _zeros_around(node)
    if source is None or source.shape is None or sides is None:
        return
    channels = int(source.shape.numpy()[1])
    half = len(sides) // 2
    ones = np.full((channels, 1, *[1] * (half - 2)), 127, np.int8)
    weight = _dequantized(edit, node, source, "weight", ones, np.float32(1 / 127))
    attributes: dict[str, int | list[int]] = {
        "group": channels,
        "kernel_shape": [1] * (half - 2),
        "pads": [*sides[2:half], *sides[half + 2 :]],
    }
    edit.replace_with(node, "Conv", [source, weight], attributes)


def _is_pad_of_pool(node: ir.Node) -> bool:
    """Whether a node puts zeros around a map of int8 that has values below zero, for a MaxPool."""
    if _zeros_around(node) is None:
        return False
    quantized = [use.node for use in node.outputs[0].uses()]
    if len(quantized) != 1 or quantized[0].op_type != "QuantizeLinear":
        return False
    params = params_of(quantized[0])
    if params is None or params.dtype != "int8" or len(params.scale) != 1:
        return False
    read = [use.node for use in quantized[0].outputs[0].uses()]
    pools = [use.node.op_type for reader in read for use in reader.outputs[0].uses()]
    return params.zero_point[0] > np.iinfo(np.int8).min and "MaxPool" in pools


def _zeros_around(node: ir.Node) -> list[int] | None:
    """What a Pad adds to rows and columns, by axis: begins, then ends; None of every other one."""
    source = node.inputs[0] if node.op_type == "Pad" else None
    if source is None or source.shape is None or source.shape.is_dynamic() or len(node.inputs) > 3:
        return None
    rank = len(source.shape)
    sides, value = (
        constant_of(node.inputs[at]) if len(node.inputs) > at else None for at in (1, 2)
    )
    filled = len(node.inputs) > 2 and node.inputs[2] is not None
    if node.attributes.get_string("mode", "constant") != "constant" or sides is None or rank < 3:
        return None
    if filled and (value is None or value.numpy().any()):
        return None
    pads = [int(side) for side in sides.numpy()]
    outer = [pads[at] for at in (0, 1, rank, rank + 1)]
    return pads if min(pads) >= 0 < max(pads) and not any(outer) else None


def _is_plain_mean(node: ir.Node) -> bool:
    """Whether a node is a mean of int8, over all rows and columns or over windows."""
    return is_quantized_mean(node) or _is_plain_pool(node)


def _is_plain_pool(node: ir.Node) -> bool:
    """Whether a node is an AveragePool of int8 whose every window counts as many values."""
    source = node.inputs[0] if node.op_type == "AveragePool" else None
    if source is None or source.shape is None or source.shape.is_dynamic():
        return False
    before = source.producer()
    readers = [use.node.op_type for use in node.outputs[0].uses()]
    attributes = node.attributes
    padded = any(attributes.get_ints("pads", ())) and not attributes.get_int("count_include_pad", 0)
    return (
        before is not None
        and before.op_type == "DequantizeLinear"
        and before.inputs[0] is not None
        and before.inputs[0].dtype == ir.DataType.INT8
        and readers == ["QuantizeLinear"]
        and max(attributes.get_ints("kernel_shape")) <= LARGEST_WINDOW
        and attributes.get_string("auto_pad", "NOTSET") in ("NOTSET", "VALID")
        and not attributes.get_int("ceil_mode", 0)
        and all(side == 1 for side in attributes.get_ints("dilations", ()))
        and not padded
    )


def _write_hard_sigmoid_as_convolution(edit: Editor, node: ir.Node) -> None:
    """A HardSigmoid as a depthwise convolution of one weight, which is exact.

    Between its two ends it is ``alpha * x + beta``; at the ends the int8 result saturates.
    """
    source = node.inputs[0]
    before = None if source is None else source.producer()
    params = None if before is None else params_of(before)
    if source is None or source.shape is None or params is None:
        return
    channels = int(source.shape.numpy()[1])
    weight_scale = np.float32(node.attributes.get_float("alpha", 0.2) / 127)
    bias_scale = np.float32(weight_scale * np.float32(params.scale[0]))
    offset = np.rint(node.attributes.get_float("beta", 0.5) / bias_scale)
    stored: dict[str, tuple[np.ndarray, np.float32]] = {
        "weight": (np.full((channels, 1, 1, 1), 127, np.int8), weight_scale),
        "bias": (np.full(channels, offset, np.int32), bias_scale),
    }
    constants = [
        _dequantized(edit, node, source, role, integers, scale)
        for role, (integers, scale) in stored.items()
    ]
    attributes: dict[str, int | list[int]] = {"group": channels, "kernel_shape": [1, 1]}
    edit.replace_with(node, "Conv", [source, *constants], attributes)


def _is_plain_hard_sigmoid(node: ir.Node) -> bool:
    """Whether a node is a HardSigmoid of int8 whose own result saturates at 0 and at most at 1, and
    that does not gate its own input: that is HardSwish, which the toolkit computes exactly.
    """
    source = node.inputs[0] if node.op_type == "HardSigmoid" else None
    before = None if source is None else source.producer()
    if source is None or source.shape is None or len(source.shape) != 4 or before is None:
        return False
    if source.shape.is_dynamic() or before.op_type != "DequantizeLinear":
        return False
    params = params_of(before)
    readers = [use.node for use in node.outputs[0].uses()]
    if params is None or params.dtype != "int8" or len(params.scale) != 1:
        return False
    if len(readers) != 1 or readers[0].op_type != "QuantizeLinear":
        return False
    out = params_of(readers[0])
    if out is None or out.dtype != "int8" or len(out.scale) != 1:
        return False
    ends = out.zero_point[0] == -128 and 255 * out.scale[0] <= 1 + 1e-5
    gated = {use.node for use in source.uses()} & {
        after.node for pair in readers[0].outputs[0].uses() for after in pair.node.outputs[0].uses()
    }
    return ends and not any(reader.op_type == "Mul" for reader in gated)


def _is_output_and_read(node: ir.Node) -> bool:
    """Whether a node dequantizes an output of the graph that is read inside it too."""
    if node.op_type != "DequantizeLinear":
        return False
    return node.outputs[0].is_graph_output() and bool(node.outputs[0].uses())


def _give_output_its_own(edit: Editor, node: ir.Node) -> None:
    """The readers inside get a DequantizeLinear of their own."""
    value = node.outputs[0]
    readers = [(use.node, use.idx) for use in value.uses()]
    again = edit.insert(
        "DequantizeLinear", list(node.inputs), before=node, like=value, name=f"{node.name}/inside"
    )
    for reader, index in readers:
        reader.replace_input_with(index, again.outputs[0])


def _given_states(node: ir.Node) -> list[ir.Value]:
    """The states of a recurrent layer, of known shape, that are outputs of the graph."""
    if node.op_type not in ("LSTM", "GRU"):
        return []
    return [
        value
        for value in node.outputs[1:]
        if value.is_graph_output() and value.shape is not None and not value.shape.is_dynamic()
    ]


def _give_states_behind(edit: Editor, node: ir.Node) -> None:
    """States that are outputs of the graph: a Reshape to their own shape gives them."""
    for value in _given_states(node):
        shape = [] if value.shape is None else [int(dim) for dim in value.shape.numpy()]
        state = value.name or ""
        sizes = edit.constant(np.array(shape, np.int64), f"{state}/shape")
        edit.rename(value, f"{state}/state")
        behind = edit.insert_after(node, "Reshape", [value, sizes], like=value)
        edit.move_output(value, behind.outputs[0])
        behind.outputs[0].name = state


def _give_float_readers_their_own(edit: Editor, node: ir.Node) -> None:
    """What computes in float gets a DequantizeLinear of its own."""
    value = node.outputs[0]
    again = edit.insert(
        "DequantizeLinear", list(node.inputs), before=node, like=value, name=f"{node.name}/float"
    )
    for reader in _float_readers(node):
        for index, operand in enumerate(reader.inputs):
            if operand is value:
                reader.replace_input_with(index, again.outputs[0])


def _float_readers(node: ir.Node) -> list[ir.Node]:
    """What reads a dequantized tensor in float, where something else reads it in 8 bits."""
    if node.op_type != "DequantizeLinear" or node.attributes.get_int("axis", -1) >= 0:
        return []
    readers = list(dict.fromkeys(use.node for use in node.outputs[0].uses()))
    float_readers = [reader for reader in readers if not _is_rounded(reader)]
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
    for op in ("Cast", "Cast", "DequantizeLinear"):
        maker = None if value is None else value.producer()
        if maker is None or maker.op_type != op:
            return False
        value = maker.inputs[0]
    return True


def _keep_in_float16(edit: Editor, node: ir.Node) -> None:
    """Let a LeakyRelu of slope 1 stand before a layer: a tensor without parameters."""
    at = _alone_in_float16(node)[-1]
    value = node.inputs[at]
    name = f"{node.name}{KEPT_IN_FLOAT16}"
    same = edit.insert("LeakyRelu", [value], {"alpha": 1.0}, before=node, like=value, name=name)
    node.replace_input_with(at, same.outputs[0])
