"""A graph of ours as the ONNX file that a toolkit of the vendor is given, of either generation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import helper, numpy_helper

from engine.base.errors import QuantizationError
from engine.base.findings import Finding
from engine.base.text import sanitize, some_of
from engine.cost.crashes import OP_TARGET_RANK
from engine.graph.execute import FUSING_LEVEL
from engine.graph.ir.custom import is_custom
from engine.graph.ir.naming import STANDARD_DOMAINS
from engine.graph.ir.opsets import NoFormError, lower
from engine.quantize import lower_for_vendor

if TYPE_CHECKING:
    from engine.graph.ir import Graph
    from engine.graph.layers import LayerMap

_SHOWN = 3
_STATES = 5
"""Index of the first state among the inputs of a recurrent layer."""
_NORM_DEFAULTS = {"axis": -1, "epsilon": 1e-5}
"""Of a LayerNormalization, by ONNX."""
_TO_NCHW = (0, 3, 1, 2)
_TO_NHWC = (0, 2, 3, 1)


def toolkit_onnx(
    graph: Graph,
    nhwc: frozenset[str] = frozenset(),
    level: int = FUSING_LEVEL,
    *,
    every_shape: bool = False,
) -> bytes:
    """The graph as ONNX of opset 19, IR 8.

    Args:
        graph: with Q/DQ pairs or without.
        nhwc: inputs of pictures whose channels are last. The toolkit takes axis 1 of every ONNX
            input for its channels (mean, std, and what a runtime is given), so they become NCHW
            here; a runtime takes and gives pictures in NHWC all the same.
        level: the ``optimization_level`` that it will be compiled with.
        every_shape: whether it is compiled for several sets of input shapes.

    Raises:
        QuantizationError: an operator has no form in opset 19 (named).
    """
    model = lower_for_vendor(graph, level, every_shape=every_shape)
    for node in model.graph.node:
        if node.op_type in ("LSTM", "GRU", "RNN"):
            _plain_recurrence(node, model.graph)
        elif node.op_type == "LayerNormalization":
            _with_defaults(node)
    _conditions_of_an_axis(model.graph)
    for name in sorted(nhwc):
        _channels_first(model.graph, name)
    return model.SerializeToString(deterministic=True)


def _with_defaults(node: onnx.NodeProto) -> None:
    """Write what a LayerNormalization has by default: 2.3.2 ends in a KeyError where one lacks."""
    written = {attribute.name for attribute in node.attribute}
    node.attribute.extend(
        helper.make_attribute(name, value)
        for name, value in _NORM_DEFAULTS.items()
        if name not in written
    )


def _plain_recurrence(node: onnx.NodeProto, graph: onnx.GraphProto) -> None:
    """Write a recurrent layer as 2.3.2 has it.

    Its ONNX Runtime does not know ``layout``, which says nothing where it is 0. First states of 0
    are what ONNX takes without them; an input that is left out before them (the lengths) gives a
    compiled file with a tensor of the number -1.
    """
    for item in list(node.attribute):
        if item.name == "layout" and item.i == 0:
            node.attribute.remove(item)
    states = list(node.input[_STATES : _STATES + 2])
    constants = {item.name: item for item in graph.initializer if item.name in states}
    if states and all(not name or _is_zero(constants.get(name)) for name in states):
        later = list(node.input[_STATES + 2 :])  # peepholes
        del node.input[_STATES:]
        node.input.extend([*([""] * len(states) if later else []), *later])
        while not node.input[-1]:
            del node.input[-1]


def _conditions_of_an_axis(graph: onnx.GraphProto) -> None:
    """Give the conditions of Where that have no axis one of 1, which means the same.

    2.3.2 gives them one itself, and not their shape: its ONNX Runtime then refuses the graph.
    """
    values = {item.name: item for item in (*graph.value_info, *graph.output)}
    ports = {item.name for item in graph.output}
    writers = {name: node for node in graph.node for name in node.output}
    readers: dict[str, list[onnx.NodeProto]] = {}
    for node in graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    for node in [item for item in graph.node if item.op_type == "Where"]:
        name = node.input[0]
        reshape, value, out = writers.get(name), values.get(name), values.get(node.output[0])
        if reshape is None or reshape.op_type != "Reshape" or value is None or out is None:
            continue
        if value.type.tensor_type.shape.dim or not out.type.tensor_type.shape.dim:
            continue
        if name in ports or any(item.op_type != "Where" for item in readers[name]):
            continue
        shape = f"{name}__one"
        if shape not in {item.name for item in graph.initializer}:
            graph.initializer.append(numpy_helper.from_array(np.array([1], np.int64), shape))
        reshape.input[1] = shape
        value.type.tensor_type.shape.dim.add().dim_value = 1


def _is_zero(tensor: onnx.TensorProto | None) -> bool:
    return tensor is not None and not np.any(numpy_helper.to_array(tensor))


def _channels_first(graph: onnx.GraphProto, name: str) -> None:
    """Let an input (N, H, W, C) be (N, C, H, W).

    Where all that reads it, but for a Q/DQ pair, is a Transpose to NCHW, that one goes; else one
    back is put behind the input, and the toolkit's passes merge it with what follows.
    """
    value = next(item for item in graph.input if item.name == name)
    dims = value.type.tensor_type.shape.dim
    sizes = [dims[axis].dim_value for axis in _TO_NCHW]
    for dim, size in zip(dims, sizes, strict=True):
        dim.dim_value = size
    tensor = _behind_pair(graph, name)
    readers = [node for node in graph.node if tensor in node.input]
    gone = [node for node in readers if _is_transpose(node, _TO_NCHW)]
    if len(gone) == len(readers) and not any(item.name == tensor for item in graph.output):
        _drop(graph, {node.output[0]: tensor for node in gone})
    else:
        _turn_back(graph, tensor)
    # shapes of tensors between are the toolkit's to infer again
    kept = [item for item in graph.value_info if item.name not in _reached(graph, name)]
    del graph.value_info[:]
    graph.value_info.extend(kept)


def _behind_pair(graph: onnx.GraphProto, name: str) -> str:
    """The tensor that layers read of an input: behind its Q/DQ pair, where it has one."""
    for op in ("QuantizeLinear", "DequantizeLinear"):
        readers = [node for node in graph.node if name in node.input]
        if len(readers) != 1 or readers[0].op_type != op or readers[0].input[0] != name:
            break
        name = readers[0].output[0]
    return name


def _is_transpose(node: onnx.NodeProto, order: tuple[int, ...]) -> bool:
    return node.op_type == "Transpose" and any(
        attribute.name == "perm" and tuple(attribute.ints) == order for attribute in node.attribute
    )


def _drop(graph: onnx.GraphProto, renamed: dict[str, str]) -> None:
    """Remove the nodes that write these tensors, whose readers read others."""
    kept = [node for node in graph.node if not set(node.output) & renamed.keys()]
    outputs = {output.name for output in graph.output}
    for node in kept:
        for at, name in enumerate(node.input):
            node.input[at] = renamed.get(name, name)
    kept += [
        helper.make_node("Identity", [source], [name], name=f"{name}__same")
        for name, source in renamed.items()
        if name in outputs
    ]
    _replace(graph, kept)


def _turn_back(graph: onnx.GraphProto, tensor: str) -> None:
    turned = f"{tensor}__nhwc"
    nodes = list(graph.node)
    at = next((i + 1 for i, node in enumerate(nodes) if tensor in node.output), 0)
    for node in nodes[at:]:
        for index, name in enumerate(node.input):
            node.input[index] = turned if name == tensor else name
    back = helper.make_node("Transpose", [tensor], [turned], name=turned, perm=_TO_NHWC)
    _replace(graph, [*nodes[:at], back, *nodes[at:]])


def _replace(graph: onnx.GraphProto, nodes: list[onnx.NodeProto]) -> None:
    changed = onnx.GraphProto()
    changed.node.extend(nodes)
    del graph.node[:]
    graph.node.extend(changed.node)


def _reached(graph: onnx.GraphProto, name: str) -> set[str]:
    """The input, and what is computed of it up to the first operator that is not moved data."""
    reached = {name}
    for node in graph.node:
        moves = node.op_type in ("QuantizeLinear", "DequantizeLinear", "Transpose", "Identity")
        if moves and reached & set(node.input):
            reached.update(node.output)
    return reached


def op_targets(
    model: bytes, entries: dict[str, str], layers: LayerMap | None = None
) -> tuple[dict[str, str], tuple[str, ...]]:
    """The recipe's ``op_target`` by the tensors of the file, and the entries without effect.

    The toolkit wants the output of an operator as it stands in its file: of a quantized layer that
    is the tensor before it is rounded, and of a convolution with its Relu both, as each is an
    operator to it. It takes no effect on tensors that have not four dimensions, see
    :mod:`engine.cost.crashes`.

    Args:
        model: ONNX.
        entries: any name of a layer -> where it runs.
        layers: of the graph; without them names are tensors as they stand.
    """
    graph = onnx.load_from_string(model).graph
    written = {name for node in graph.node for name in node.output}
    ranks = {
        tensor_name.name: len(tensor_name.type.tensor_type.shape.dim)
        for tensor_name in (*graph.value_info, *graph.output)
        if tensor_name.type.tensor_type.HasField("shape")
    }
    targets_of_nodes: dict[str, str] = {}
    idle: dict[str, None] = {}
    for name, target in entries.items():
        layer = None if layers is None else layers.find(name)
        tensors = (name,) if layer is None or layers is None else layer.tensors
        for tensor in tensors:
            stored = None if layers is None else layers.stored.get(tensor)
            for tensor_name in (stored.computed if stored is not None else tensor, tensor):
                if tensor_name in written:
                    if ranks.get(tensor_name, OP_TARGET_RANK) == OP_TARGET_RANK:
                        targets_of_nodes[tensor_name] = target
                    else:
                        idle[name] = None
                    break
    return targets_of_nodes, tuple(idle)


def idle_targets(names: Sequence[str]) -> tuple[Finding, ...]:
    """That entries of ``op_target`` have no effect, where there are some."""
    if not names:
        return ()
    shown = some_of([sanitize(name, 80) for name in names], _SHOWN)
    return (
        Finding(
            "op-target-without-effect",
            "warning",
            "op_target",
            f"op_target has no effect on {shown}.",
            "The output has not four dimensions: the toolkit moves the name to a Reshape.",
            "Take it out of op_target, or write the operator in four dimensions.",
        ),
    )


# A float graph as ONNX of the opsets that toolkits of generation 1 load.
#
# :mod:`engine.graph.ir.opsets` writes the operators in their older forms; what has none is refused
# by name. The manual wants onnx 1.4.1, which has opset 9 and IR 3 [RKNN-T1 1.3.2, 2]; later
# toolkits come with onnx 1.6, which has opset 11 and IR 6. What a real toolkit of generation 1
# makes of these files was not tried.

_VERSIONS = ((1, 6), 11, 6), ((0, 0), 9, 3)
"""From which toolkit on, its opset, its IR version."""


def generation_1_onnx(model: bytes, version: str) -> bytes:
    """A float model as a toolkit of generation 1 loads it.

    Args:
        model: ONNX of opset 19.
        version: of the toolkit, such as ``1.7.5``; of an unknown one the oldest is taken.

    Raises:
        QuantizationError: an operator has no form in an opset that old (named).
    """
    parts = tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
    opset, ir_version = next(
        ((o, i) for least, o, i in _VERSIONS if parts >= least), _VERSIONS[-1][1:]
    )
    proto = onnx.load_from_string(model)
    (source_opset,) = (e.version for e in proto.opset_import if e.domain in STANDARD_DOMAINS)
    try:
        for node in filter(is_custom, proto.graph.node):
            raise NoFormError(node, "it is no operator of ONNX's own")
        lower(proto.graph, source_opset, opset)
    except NoFormError as error:
        raise QuantizationError(
            f"Node {sanitize(error.node.name, 80)!r} ({sanitize(error.node.op_type, 40)}) has no "
            f"form in opset {opset}: {sanitize(error.why, 200)}.",
            cause=f"rknn-toolkit {version} of generation 1 loads ONNX of opset {opset} at most.",
            remedy="Name outputs before that operator, or compile for a chip of generation 2.",
        ) from error
    del proto.opset_import[:]
    proto.opset_import.append(onnx.helper.make_opsetid("", opset))
    proto.ir_version = ir_version
    if ir_version < 4:  # there, every constant is an input as well
        names = {value.name for value in proto.graph.input}
        proto.graph.input.extend(
            onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
            for tensor in proto.graph.initializer
            if tensor.name not in names
        )
    try:
        onnx.checker.check_model(proto, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise QuantizationError(
            f"The model has no valid form in opset {opset}: {sanitize(str(error), 300)}",
            cause=f"rknn-toolkit {version} loads ONNX of opset {opset} at most.",
            remedy="Name outputs before that operator, or compile for a chip of generation 2.",
        ) from error
    return proto.SerializeToString(deterministic=True)
