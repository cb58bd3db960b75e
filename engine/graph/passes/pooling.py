"""Canonical forms of pooling, and paddings into what pads by itself.

* ReduceMean over all spatial axes, and AveragePool over the whole picture, become
  GlobalAveragePool (and a Reshape where the axes are dropped).
* Pad with zeros goes into the Conv or AveragePool after it, Pad with minus infinity into MaxPool.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from engine.graph.ir.spec import input_at, only_reader
from engine.graph.passes.base import NodePass, constant_input, integers, shape, uniform_value
from engine.graph.passes.editor import Editor


class CanonicalPooling(NodePass):
    """Means over the whole picture."""

    name = "canonical-pooling"
    level = 1
    summary = "Means over all spatial axes become GlobalAveragePool."
    # the sum may be formed in another order
    keeps_bits = False
    roots = frozenset({"ReduceMean", "AveragePool"})

    def rewrite(self, node: ir.Node, edit: Editor) -> bool:
        """One ReduceMean or AveragePool of a float tensor (N, C, ...) of rank 3 or more."""
        dims = shape(node.inputs[0])
        source = node.inputs[0]
        if dims is None or source is None or len(dims) < 3 or source.dtype != ir.DataType.FLOAT:
            return False
        if node.op_type == "AveragePool":
            return self._average_pool(node, source, dims, edit)
        axes = integers(node, 1)
        if axes is None:
            return self.near(node, "its axes are not constant")
        if sorted(axis % len(dims) for axis in axes) != list(range(2, len(dims))):
            return self.near(node, "it is not a mean over all spatial axes")
        if len(dims) == 3 and _of_normalization(node, source):
            return self.near(node, "it is part of a layer normalization")
        if node.attributes.get_int("keepdims", 1):
            edit.replace_with(node, "GlobalAveragePool", [source])
            return self.did("ReduceMean to GlobalAveragePool")
        pooled = edit.insert(
            "GlobalAveragePool",
            [source],
            before=node,
            like=source,
            shape=(*dims[:2], *(1,) * (len(dims) - 2)),
        )
        target = edit.constant(np.array(dims[:2], dtype=np.int64), f"{node.name}_shape")
        edit.replace_with(node, "Reshape", [pooled.outputs[0], target])
        return self.did("ReduceMean to GlobalAveragePool and Reshape")

    def _average_pool(
        self, node: ir.Node, source: ir.Value, dims: tuple[int, ...], edit: Editor
    ) -> bool:
        get = node.attributes.get_ints
        if tuple(get("kernel_shape", ())) != dims[2:]:
            return False
        if any(get("pads", ())) or any(d != 1 for d in get("dilations", ())):
            return self.near(node, "it is padded or dilated")
        after = shape(node.outputs[0])
        if after is None or any(dim != 1 for dim in after[2:]):
            return self.near(node, "it has more than one window")
        edit.replace_with(node, "GlobalAveragePool", [source])
        return self.did("AveragePool to GlobalAveragePool")


def _of_normalization(node: ir.Node, source: ir.Value) -> bool:
    """Whether a mean is taken off its own source, or is one of squares."""
    square = source.producer()
    if square is not None and square.op_type == "Mul" and square.inputs[0] is square.inputs[1]:
        return True
    if square is not None and square.op_type == "Pow":
        return True
    readers = [use.node for use in node.outputs[0].uses()]
    return any(reader.op_type == "Sub" and reader.inputs[0] is source for reader in readers)


class PadIntoWindow(NodePass):
    """Pad before Conv, AveragePool or MaxPool."""

    name = "pad-into-window"
    level = 3
    summary = "Constant paddings go into the Conv or pooling that alone reads them."
    # a sum over a padded border may be formed in another order
    keeps_bits = False
    roots = frozenset({"Pad"})

    def rewrite(self, node: ir.Node, edit: Editor) -> bool:
        """One Pad."""
        reader = only_reader(node.outputs[0])
        if reader is None or reader.op_type not in ("Conv", "AveragePool", "MaxPool"):
            return False
        if reader.inputs[0] is not node.outputs[0]:
            return False
        if any(v.uses() or v.is_graph_output() for v in reader.outputs[1:]):
            return self.near(node, f"{reader.name} tells where it found its maxima")
        spatial, reason = _spatial_pads(node)
        if spatial is None:
            return self.near(node, reason)
        value = 0.0 if input_at(node, 2) is None else uniform_value(input_at(node, 2))
        own, reason = _window_pads(reader, value)
        if own is None:
            return self.near(node, reason)
        pads = [a + b for a, b in zip(spatial, own, strict=True)]
        if reader.op_type != "Conv":
            kernel = reader.attributes.get_ints("kernel_shape", None) or []
            half = len(pads) // 2
            if any(pad >= kernel[i % half] for i, pad in enumerate(pads)):
                return self.near(node, f"the padding is as large as the window of {reader.name}")
        attributes = reader.attributes
        attributes.pop("auto_pad", None)
        attributes["pads"] = ir.AttrInt64s("pads", pads)
        if reader.op_type == "AveragePool":
            attributes["count_include_pad"] = ir.AttrInt64("count_include_pad", 1)
        edit.add_origin(reader, [node])
        edit.set_inputs(reader, [node.inputs[0], *reader.inputs[1:]])
        return self.did(f"Pad into {reader.op_type}")


def _spatial_pads(node: ir.Node) -> tuple[list[int] | None, str]:
    """Begins and ends of a constant padding of the spatial axes alone, or why there are none."""
    if node.attributes.get_string("mode", "constant") != "constant":
        return None, "it repeats or mirrors the image"
    dims, pads = shape(node.inputs[0]), integers(node, 1)
    if dims is None or pads is None:
        return None, "its sizes are computed"
    axes = list(range(len(dims)))
    if input_at(node, 3) is not None:
        chosen = integers(node, 3)
        if chosen is None:
            return None, "its axes are computed"
        axes = [axis % len(dims) for axis in chosen]
    begins, ends = [0] * len(dims), [0] * len(dims)
    for index, axis in enumerate(axes):
        begins[axis], ends[axis] = pads[index], pads[index + len(axes)]
    if any(pad < 0 for pad in (*begins, *ends)):
        return None, "it crops"
    if any((*begins[:2], *ends[:2])):
        return None, "it pads samples or channels"
    return [*begins[2:], *ends[2:]], ""


def _window_pads(node: ir.Node, value: float | None) -> tuple[list[int] | None, str]:
    """The padding that a window has already, or why it cannot take more."""
    dims = shape(node.inputs[0])
    if dims is None:
        return None, "the rank of the image is not known"
    spatial = len(dims) - 2
    mode = node.attributes.get_string("auto_pad", "NOTSET")
    if mode not in ("NOTSET", "VALID"):
        return None, f"{node.name} chooses its padding itself"
    pad_sizes = node.attributes.get_ints("pads", None)
    pads = list(pad_sizes) if mode == "NOTSET" and pad_sizes else [0] * (2 * spatial)
    if node.op_type == "MaxPool":
        if value is None or value > np.finfo(np.float32).min:
            return None, "its value may exceed that of the image"
    elif value != 0:
        return None, "it does not pad with zeros"
    if node.op_type == "Conv":
        return (
            (pads, "") if constant_input(node, 1) is not None else (None, "the weight is computed")
        )
    if node.attributes.get_int("ceil_mode", 0):
        return None, f"{node.name} rounds its size up"
    counted = node.attributes.get_int("count_include_pad", 0)
    if node.op_type == "AveragePool" and any(pads) and not counted:
        return None, f"{node.name} does not count its own padding"
    return pads, ""
