"""The rewrites of rknn-toolkit2 2.3.2 that change numbers, for the mode ``vendor``.

Found from outside, by building small nets with the toolkit and looking at the graph that its first
step of hybrid quantization writes (``docs/quantization/vendor.md`` has the observations):

* A BatchNormalization is folded into the weights before it with its epsilon counted twice: they are
  smaller by ``1 / sqrt(1 + epsilon)``.
* An Add of a convolution and its own input becomes a convolution (1 is added to its weights).
* Channels that can be told from the weights alone to be 0 behind their Relu lose their weights, and
  channels that are constant go into the bias of the layer that reads them.
* A mean over a picture larger than 7 is taken in stages of 7, each with its own 8-bit tensor.
* Float operators compute in float16.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from engine.graph.ir import NORMALIZED, Graph, infer_shapes
from engine.graph.ir.spec import array_of, clamp_bounds, input_at, name_of, only_reader
from engine.graph.layers import FUSED_ACTIVATIONS
from engine.graph.passes import Editor

STAGE = 7
"""The largest picture that one stage of a mean covers."""

# Weights below this are taken for 0: between the 1.3e-16 that the toolkit drops and the 2e-5 that
# it keeps (a net with pruned channels).
_NOTHING = 1e-8

# Operators with one input that the toolkit computes in float16.
_FLOAT16 = frozenset({"Softmax", "LogSoftmax", "Exp", "Log", "Sqrt", "Reciprocal"})


def rewrite_as_vendor(graph: Graph) -> tuple[Graph, bool]:
    """A copy with the toolkit's rewrites.

    Returns:
        The graph, and whether its inner tensors take other values than those of the given graph,
        so that calibration has to look again.
    """
    copy = infer_shapes(graph.copy())
    edit = Editor(copy.model)
    scaled = [node for node in edit.nodes() if _with_epsilon_again(node, edit)]
    merged = [node for node in edit.nodes() if _into_weights(node, edit)]
    cleaned = _Channels(edit).clean()
    staged = [node for node in edit.nodes() if _in_stages(node, edit)]
    for node in edit.nodes():
        _in_float16(node, edit)
    edit.write_origins()
    return infer_shapes(Graph(copy.model)), cleaned or bool(staged or merged or scaled)


# ------------------------------------------------------------------------- batch normalization


def _with_epsilon_again(node: ir.Node, edit: Editor) -> bool:
    """Scale weights that a BatchNormalization was folded into; the bias is the toolkit's already.

    A bias that the convolution had of its own would shrink as well; it cannot be told apart any
    more, and half an epsilon of it is nothing.
    """
    epsilon, weight = node.metadata_props.get(NORMALIZED), array_of(input_at(node, 1))
    if epsilon is None or weight is None:
        return False
    scaled = weight.astype(np.float64) / np.sqrt(1.0 + float(epsilon))
    edit.set_constant(node, 1, scaled.astype(np.float32))
    return True


# ----------------------------------------------------------------------- a sum with its own input


def _into_weights(node: ir.Node, edit: Editor) -> bool:
    """``conv(x) + x`` as one convolution, where every output is over its own input."""
    weight = array_of(input_at(node, 1)) if node.op_type == "Conv" else None
    if weight is None or weight.ndim != 4:
        return False
    reader = only_reader(node.outputs[0], "Add")
    if reader is None:
        return False
    if not any(other is node.inputs[0] for other in reader.inputs):
        return False
    group, kernel = node.attributes.get_int("group", 1), weight.shape[2:]
    same = (
        list(node.attributes.get_ints("pads", [0] * 4)) == [k // 2 for k in kernel] * 2
        and all(k % 2 for k in kernel)
        and all(s == 1 for s in node.attributes.get_ints("strides", ()))
        and all(d == 1 for d in node.attributes.get_ints("dilations", ()))
        and weight.shape[0] == weight.shape[1] * group
    )
    if not same:
        return False
    new = weight.copy()
    per_group = weight.shape[1]
    for channel in range(len(new)):
        new[channel, channel % per_group, kernel[0] // 2, kernel[1] // 2] += 1
    edit.set_constant(node, 1, new)
    edit.merge_follower(node, reader)
    return True


# ------------------------------------------------------------------- channels that are constant


@dataclass
class _Interval:
    """What each channel of a tensor can be, from the weights alone: float64 (C,)."""

    low: np.ndarray
    high: np.ndarray

    @property
    def constant(self) -> np.ndarray:
        """Channels that have one value only."""
        equal: np.ndarray = self.low == self.high
        return equal


class _Channels:
    """Interval arithmetic over the channels of convolutions, from the inputs to the outputs."""

    def __init__(self, edit: Editor) -> None:
        self._edit = edit
        self._known: dict[str, _Interval] = {}
        self._changed = False

    def clean(self) -> bool:
        """Rewrite the convolutions' weights and biases; whether any changed."""
        for node in self._edit.nodes():
            if node.op_type == "Conv":
                self._convolution(node)
            elif node.op_type in FUSED_ACTIVATIONS:
                self._clamp(node)
        return self._changed

    def _clamp(self, node: ir.Node) -> None:
        bounds = clamp_bounds(node)
        if bounds is None:
            return
        before = self._known.get(name_of(node.inputs[0]))
        if before is not None:
            self._known[name_of(node.outputs[0])] = _Interval(
                np.clip(before.low, *bounds), np.clip(before.high, *bounds)
            )

    def _convolution(self, node: ir.Node) -> None:
        weight, bias = array_of(input_at(node, 1)), array_of(input_at(node, 2))
        if weight is None or weight.dtype != np.float32 or (bias is None and input_at(node, 2)):
            return
        group = node.attributes.get_int("group", 1)
        depthwise = group == weight.shape[0] and weight.shape[1] == 1
        if group != 1 and not depthwise:
            return
        new = weight.astype(np.float64)
        offset = np.zeros(len(weight)) if bias is None else bias.astype(np.float64)
        seen = self._known.get(name_of(node.inputs[0]))
        padded = any(node.attributes.get_ints("pads", ())) or "auto_pad" in node.attributes
        if seen is None:
            channels = len(weight) if depthwise else weight.shape[1]
            seen = _Interval(np.full(channels, -np.inf), np.full(channels, np.inf))
        else:
            # a padded picture is constant at 0 only
            folds = seen.constant & ((seen.low == 0) | (not padded))
            parts = new.sum(axis=tuple(range(2, new.ndim)))
            if depthwise:
                offset[folds] += parts[folds, 0] * seen.low[folds]
                new[folds] = 0
            else:
                offset += parts[:, folds] @ seen.low[folds]
                new[:, folds] = 0
        new[_largest(new) < _NOTHING] = 0
        bounds = _bounds(new, offset, seen, depthwise, padded)
        if _ends_in_relu(node):
            dead = bounds.high <= 0
            new[dead], offset[dead] = 0, 0
            bounds.low[dead], bounds.high[dead] = 0, 0
        self._known[name_of(node.outputs[0])] = bounds
        self._store(node, weight, new, bias, offset)

    def _store(
        self,
        node: ir.Node,
        weight: np.ndarray,
        new: np.ndarray,
        bias: np.ndarray | None,
        offset: np.ndarray,
    ) -> None:
        kept = new.astype(np.float32)
        if not np.array_equal(kept, weight):
            self._edit.set_constant(node, 1, kept)
            self._changed = True
        added = offset.astype(np.float32)
        if not np.array_equal(added, np.zeros_like(added) if bias is None else bias):
            self._edit.set_constant(node, 2, added, f"{node.name}_bias")
            self._changed = True


def _largest(weight: np.ndarray) -> np.ndarray:
    """The largest absolute weight of each output channel."""
    largest: np.ndarray = np.abs(weight).reshape(len(weight), -1).max(axis=1)
    return largest


def _bounds(
    weight: np.ndarray, offset: np.ndarray, seen: _Interval, depthwise: bool, padded: bool
) -> _Interval:
    """The interval of each output channel."""
    low = np.minimum(seen.low, 0) if padded else seen.low
    high = np.maximum(seen.high, 0) if padded else seen.high
    space = tuple(range(2, weight.ndim))
    up = np.maximum(weight, 0).sum(axis=space)
    down = np.minimum(weight, 0).sum(axis=space)
    if depthwise:
        low, high = low[:, None], high[:, None]
    with np.errstate(invalid="ignore"):  # 0 times infinity is 0 here
        largest = np.where(up > 0, up * high, 0) + np.where(down < 0, down * low, 0)
        smallest = np.where(up > 0, up * low, 0) + np.where(down < 0, down * high, 0)
    return _Interval(offset + smallest.sum(axis=1), offset + largest.sum(axis=1))


def _ends_in_relu(node: ir.Node) -> bool:
    reader = only_reader(node.outputs[0], *FUSED_ACTIVATIONS)
    if reader is None:
        return False
    bounds = clamp_bounds(reader)
    return bounds is not None and bounds[0] == 0


# -------------------------------------------------------------------------- means over pictures


def _in_stages(node: ir.Node, edit: Editor) -> bool:
    """Turn a GlobalAveragePool over more than 7 rows or columns into depthwise convolutions.

    Every stage covers 7 x 7 values (padded with zeros, the odd one at the end) until one is left;
    all have the same weight, the n-th root of 1 / (rows x columns).
    """
    source = node.inputs[0]
    if node.op_type != "GlobalAveragePool" or source is None or source.shape is None:
        return False
    dims = [dim if isinstance(dim, int) else 0 for dim in source.shape]
    if len(dims) != 4 or not all(dims[1:]) or max(dims[2:]) <= STAGE:
        return False
    channels, sizes = dims[1], dims[2:]
    plans = []
    while max(sizes) > 1:
        after = [-(-size // STAGE) for size in sizes]
        missing = [
            STAGE * count - size if size > STAGE else 0
            for count, size in zip(after, sizes, strict=True)
        ]
        pads = [lack // 2 for lack in missing] + [lack - lack // 2 for lack in missing]
        plans.append(([min(size, STAGE) for size in sizes], pads, after))
        sizes = after
    share = (dims[2] * dims[3]) ** (-1.0 / len(plans))
    value = source
    for index, (kernel, pads, after) in enumerate(plans):
        weight = np.full((channels, 1, *kernel), share, dtype=np.float32)
        inputs = [value, edit.constant(weight, f"{node.name}_stage{index}_weight")]
        attributes: dict[str, int | float | str | Sequence[int]] = {
            "group": channels,
            "kernel_shape": kernel,
            "strides": [STAGE, STAGE],
            "pads": pads,
        }
        if index == len(plans) - 1:
            edit.replace_with(node, "Conv", inputs, attributes)
        else:
            stage = edit.insert(
                "Conv",
                inputs,
                attributes,
                before=node,
                like=source,
                shape=[dims[0], channels, *after],
                name=f"{node.name}_stage{index}",
            )
            value = stage.outputs[0]
    return True


# ------------------------------------------------------------------------------ float operators


def _in_float16(node: ir.Node, edit: Editor) -> None:
    """Let a float operator read and write values of float16.

    The operator itself stays one of float32: ONNX Runtime has no kernel of float16 for it, and
    drops the rounding where it adds the conversions itself.
    """
    source, output = node.inputs[0] if node.inputs else None, node.outputs[0]
    if node.op_type not in _FLOAT16 or source is None or source.dtype != ir.DataType.FLOAT:
        return
    twin = edit.insert(
        node.op_type,
        [_rounded(source, node, edit)],
        before=node,
        like=output,
        name=f"{node.name}_float16",
    )
    twin.attributes.update(node.attributes)
    narrow = _cast(twin.outputs[0], ir.DataType.FLOAT16, node, edit)
    edit.replace_with(node, "Cast", [narrow], {"to": ir.DataType.FLOAT.value})


def _rounded(value: ir.Value, before: ir.Node, edit: Editor) -> ir.Value:
    narrow = _cast(value, ir.DataType.FLOAT16, before, edit)
    return _cast(narrow, ir.DataType.FLOAT, before, edit)


def _cast(value: ir.Value, to: ir.DataType, before: ir.Node, edit: Editor) -> ir.Value:
    node = edit.insert("Cast", [value], {"to": to.value}, before=before, like=value)
    node.outputs[0].type = ir.TensorType(to)
    return node.outputs[0]
