"""Rewrites of a QDQ graph into what the vendor's toolkit 2 compiles as it stands.

Seen with 2.3.2, which in a file with parameters of its own

* makes a depthwise convolution of a mean, with weights rounded to something else (up to 3 steps off
  in the result),
* gives the result of an AveragePool the parameters of its input, and converts it afterwards (up to
  2 steps off), or runs it on the CPU,
* computes in float behind a tensor that is an output of the model as well, where both have one
  DequantizeLinear.

Each form that stands here computes the same numbers as the graph.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from engine.graph.execute.means import LARGEST_WINDOW, means_in_stages, quantized_means
from engine.graph.ir import Graph
from engine.graph.passes import Editor

__all__ = ["vendor_form"]


def vendor_form(graph: Graph, *, every_shape: bool = False) -> Graph:
    """A copy with depthwise convolutions for means of int8 tensors, and outputs of their own.

    A graph where nothing of this applies comes back as it is.

    Args:
        graph: in QDQ form.
        every_shape: the file is compiled for several sets of input shapes. A mean over all rows
            and columns then stays one: as a convolution it would have the kernel of one set.
    """
    staged = graph if every_shape else means_in_stages(graph)
    return _outputs_alone(_means_as_convolutions(staged, wholes=not every_shape))


def _means_as_convolutions(graph: Graph, *, wholes: bool) -> Graph:
    """Means of int8 tensors as depthwise convolutions with equal weights, which are exact."""
    means = {node.name or "" for node in quantized_means(graph)} if wholes else set()
    pools = {node.name or "" for node in graph.nodes if _is_plain_pool(node)}
    if not means | pools:
        return graph
    copy = graph.copy()
    edit = Editor(copy.model)
    for name in [node.name or "" for node in graph.nodes if node.name in means | pools]:
        node = copy.node(name)
        source = node.inputs[0]
        if source is None or source.shape is None:
            continue
        channels, *sizes = (int(dim) for dim in source.shape.numpy()[1:])
        attributes: dict[str, int | list[int]] = {"group": channels, "kernel_shape": sizes}
        if name in pools:
            attributes["kernel_shape"] = sizes = list(node.attributes.get_ints("kernel_shape"))
            for key in ("strides", "pads"):
                if key in node.attributes:
                    attributes[key] = list(node.attributes.get_ints(key))
        shape = (channels, 1, *sizes)
        scale = np.float32(1.0 / (127.0 * np.prod(sizes)))
        weight = edit.insert(
            "DequantizeLinear",
            [
                edit.constant(np.full(shape, 127, dtype=np.int8), f"{name}/weight/quantized"),
                edit.constant(np.array(scale), f"{name}/weight/scale"),
                edit.constant(np.array(0, dtype=np.int8), f"{name}/weight/zero_point"),
            ],
            before=node,
            like=source,
            shape=shape,
            name=f"{name}/weight/DequantizeLinear",
        )
        edit.replace_with(node, "Conv", [source, weight.outputs[0]], attributes)
    return Graph(copy.model)


def _is_plain_pool(node: ir.Node) -> bool:
    """Whether a node is an AveragePool of int8 whose every window counts as many values."""
    source = node.inputs[0] if node.op_type == "AveragePool" else None
    if source is None or source.shape is None or source.shape.is_dynamic():
        return False
    before = source.producer()
    readers = [use.node.op_type for use in node.outputs[0].uses()]
    given = node.attributes
    padded = any(given.get_ints("pads", ())) and not given.get_int("count_include_pad", 0)
    return (
        before is not None
        and before.op_type == "DequantizeLinear"
        and before.inputs[0] is not None
        and before.inputs[0].dtype == ir.DataType.INT8
        and readers == ["QuantizeLinear"]
        and max(given.get_ints("kernel_shape")) <= LARGEST_WINDOW
        and given.get_string("auto_pad", "NOTSET") in ("NOTSET", "VALID")
        and not given.get_int("ceil_mode", 0)
        and all(side == 1 for side in given.get_ints("dilations", ()))
        and not padded
    )


def _outputs_alone(graph: Graph) -> Graph:
    """Outputs of the graph that are read inside it too: the readers get a DQ of their own."""
    names = [
        node.name or ""
        for node in graph.nodes
        if node.op_type == "DequantizeLinear"
        and node.outputs[0].is_graph_output()
        and node.outputs[0].uses()
    ]
    if not names:
        return graph
    copy = graph.copy()
    edit = Editor(copy.model)
    for name in names:
        node = copy.node(name)
        value = node.outputs[0]
        readers = [(use.node, use.idx) for use in value.uses()]
        again = edit.insert(
            "DequantizeLinear", list(node.inputs), before=node, like=value, name=f"{name}/inside"
        )
        for reader, index in readers:
            reader.replace_input_with(index, again.outputs[0])
    return Graph(copy.model)
