"""The file that the vendor's toolkit loads: scales as its compiler rounds them, its opset.

Weights may have scales that are farther apart than a chip takes. One layer's scales per channel
may differ by a factor of 1024 on the RK3566 and RK3568, and of 16384 on the other chips of
generation 2 (seen with toolkit 2.3.2, by compiling convolutions whose scales are powers of two
apart). Where a channel's scale is smaller, the compiler takes the smallest that is allowed, so
that the channel keeps fewer steps. It says nothing of it.
"""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir

from engine.base.errors import QuantizationError
from engine.base.text import sanitize
from engine.graph.execute.as_compiled import FUSING_LEVEL
from engine.graph.execute.shared_weights import duplicate_shared_weights
from engine.graph.ir import OPSET, Graph, constant_of, is_custom, params_of
from engine.graph.ir.opsets import NoFormError, lower
from engine.graph.ir.spec import input_at, maker_of
from engine.graph.passes import Editor
from engine.quantize.planning.node_properties import WEIGHTED
from engine.quantize.qdq.vendor_convolutions import dequantized
from engine.quantize.qdq.vendor_form import vendor_form

SCALE_SPAN = 1 << 14
"""How far the scales of one layer may be apart, on most chips."""

_SMALL_SPAN = 1 << 10
_SMALL = frozenset({"rk3566", "rk3568"})


def span_of(chip: str) -> int:
    """How far the scales of one layer's weights may be apart on a chip of generation 2."""
    return _SMALL_SPAN if chip in _SMALL else SCALE_SPAN


def wide_layers(graph: Graph, span: int) -> dict[str, int]:
    """Layers whose scales are farther apart -> how many of their channels get a coarser one."""
    counts = {}
    for node in graph.nodes:
        floor = _floor(node, span)
        if floor is not None:
            counts[node.name or ""] = int(np.sum(_scales(node) < floor))
    return counts


def narrow_scales(graph: Graph, span: int) -> Graph:
    """A copy whose scales are no farther apart; the graph itself where none are."""
    names = list(wide_layers(graph, span))
    if not names:
        return graph
    copy = graph.copy()
    edit = Editor(copy.model)
    for name in names:
        node = copy.node(name)
        floor = _floor(node, span)
        if floor is None:
            continue
        before = _scales(node)
        scales = np.maximum(before, floor)
        inputs = list(node.inputs)
        for index in range(1, min(len(inputs), 3)):  # the weight, and the bias in its steps
            inputs[index] = _coarse(edit, node, index, scales / before)
        edit.set_inputs(node, inputs)
    return Graph(copy.model)


def _coarse(edit: Editor, node: ir.Node, index: int, factors: np.ndarray) -> ir.Value | None:
    """A constant of a node, rounded anew to scales that are ``factors`` as large."""
    value = node.inputs[index]
    read = maker_of(value)
    params = None if read is None else params_of(read)
    stored = None if read is None else constant_of(read.inputs[0])
    if value is None or read is None or params is None or stored is None:
        return value
    if len(params.scale) != len(factors):
        return value
    old = np.array(params.scale, np.float32)
    scales = (old * factors).astype(np.float32)
    integers = stored.numpy()
    axis = params.axis or 0
    shape = [-1 if at == axis else 1 for at in range(integers.ndim)]
    ratio = (old.astype(np.float64) / scales).reshape(shape)
    zero = np.array(params.zero_point, np.int64).reshape(
        shape if len(params.zero_point) > 1 else -1
    )
    rounded = np.rint((integers.astype(np.int64) - zero) * ratio) + zero
    name = f"{node.name}/{'weight' if index == 1 else 'bias'}/coarse"
    inputs = [rounded.astype(integers.dtype), scales, *read.inputs[2:]]
    return dequantized(edit, node, name, inputs, value, axis)


def _scales(node: ir.Node) -> np.ndarray:
    """The scales of its weight; none where it has no weight with one for each channel."""
    read = maker_of(input_at(node, 1), "DequantizeLinear")
    if node.op_type not in WEIGHTED or read is None:
        return np.zeros(0, np.float32)
    params = params_of(read)
    if params is None or params.axis is None or constant_of(read.inputs[0]) is None:
        return np.zeros(0, np.float32)
    return np.array(params.scale, np.float32)


def _floor(node: ir.Node, span: int) -> np.float32 | None:
    """The smallest scale that the layer may have; None where all are at least that."""
    scales = _scales(node)
    if not scales.size:
        return None
    floor = np.float32(scales.max() / np.float32(span))
    return floor if scales.min() < floor else None


# The QDQ graph as the file that the vendor's toolkit 2 loads.

# What rknn-toolkit2 2.3.2 loads (it comes with onnx 1.16).
VENDOR_OPSET = 19
VENDOR_IR_VERSION = 8


def lower_for_vendor(
    graph: Graph, level: int = FUSING_LEVEL, *, every_shape: bool = False
) -> onnx.ModelProto:
    """The QDQ graph as opset 19, IR 8: rknn-toolkit2 loads it with ``do_quantization=False``.

    Integers, scales and zero points stay as they are (int8), and so do custom operators, whose
    class the toolkit wants to be registered as well (``reg_custom_op``). What later versions of
    the format added for tools (metadata of nodes and values) is left out.

    Means, outputs and more are written as :mod:`engine.quantize.qdq.vendor_form` says.

    Every operator has int8 weights and zero points of its own, as ONNX Runtime's setting for exact
    sums needs them.

    Args:
        graph: with Q/DQ pairs, or without.
        level: the ``optimization_level`` that it will be compiled with.
        every_shape: whether the file is compiled for several sets of input shapes.
        level: of the compiler; the file of several sets differs by it.

    Raises:
        QuantizationError: an operator has no form in opset 19 (named).
    """
    model = duplicate_shared_weights(vendor_form(graph, level, every_shape=every_shape)).to_proto()
    kept = sorted({node.domain for node in model.graph.node if is_custom(node)})
    versions = {entry.domain: entry.version for entry in model.opset_import}
    try:
        lower(model.graph, OPSET, VENDOR_OPSET)
    except NoFormError as error:
        raise _refused(error.node, error.why) from None
    for node in model.graph.node:
        del node.metadata_props[:]
    for value in (*model.graph.value_info, *model.graph.input, *model.graph.output):
        del value.metadata_props[:]
    for tensor in model.graph.initializer:
        del tensor.metadata_props[:]
    del model.graph.metadata_props[:]
    model.ir_version = VENDOR_IR_VERSION
    del model.opset_import[:]
    model.opset_import.append(onnx.helper.make_opsetid("", VENDOR_OPSET))
    model.opset_import.extend(onnx.helper.make_opsetid(d, versions.get(d, 1)) for d in kept)
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise QuantizationError(
            f"The graph has no valid form in opset {VENDOR_OPSET}: {sanitize(str(error), 300)}",
            cause="An operator uses what only later versions of ONNX have.",
            remedy="Export a container instead, or export the source model with opset 19 or less.",
        ) from error
    return model


def _refused(node: onnx.NodeProto, why: str) -> QuantizationError:
    name = sanitize(node.name, 80)
    if not onnx.defs.has(node.op_type, OPSET, ""):
        return QuantizationError(
            f"Node {name!r} has the operator {sanitize(node.op_type)!r}, which ONNX does not know.",
            remedy="Register it as a custom operator, or leave this algorithm.",
        )
    since = onnx.defs.get_schema(node.op_type, OPSET).since_version
    return QuantizationError(
        f"Node {name!r} has the operator {node.op_type} of opset {since}, which has no form in "
        f"opset {VENDOR_OPSET}: {why}.",
        cause="The source model uses a newer operator than the vendor's toolkit loads.",
        remedy=f"Export the source model with opset {VENDOR_OPSET} or less.",
    )
