"""Operators of the pinned opset in which ONNX Runtime differs from ONNX, or which it lacks.

They are brought to a form that both agree on, or refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx
from onnx import helper

from engine.base.errors import UnsupportedOperatorError
from engine.frontends.onnx.contrib import QLINEAR, unfit
from engine.graph.ir.rewriting import Context, Replacement, Rewrite, attribute, rewrite, without


def complete(graph: onnx.GraphProto) -> None:
    """Write defaults out that ONNX's own inference does not find; before inference, in place."""
    rewrite(graph, _BEFORE)


def rewrite_for_ort(graph: onnx.GraphProto, weights: Mapping[str, onnx.TensorProto]) -> bool:
    """Rewrite what ONNX Runtime does otherwise; in place, at the pinned opset, after inference.

    Args:
        graph: the graph.
        weights: the constants that were stripped from it.

    Returns:
        Whether anything changed: then types are to be inferred again.

    Raises:
        UnsupportedOperatorError: what has no form that both agree on.
    """
    return rewrite(graph, _AFTER, weights=weights)


def _axes_of_variance(node: onnx.NodeProto, context: Context) -> None:
    """MeanVarianceNormalization over batch, height and width, which is the default."""
    if not any(a.name == "axes" for a in node.attribute):
        node.attribute.append(helper.make_attribute("axes", [0, 2, 3]))


def _batch_first(node: onnx.NodeProto, context: Context) -> Sequence[onnx.NodeProto] | None:
    """``layout`` 1 of recurrent operators, which ONNX Runtime's kernels do not take."""
    if not attribute(node, "layout", 0):
        return None
    without(node, "layout")
    before, after = [], []
    for index, perm in ((0, [1, 0, 2]), (5, [1, 0, 2]), (6, [1, 0, 2])):
        if index < len(node.input) and node.input[index]:
            turned = context.name(f"{node.input[index]}_time_first")
            before.append(helper.make_node("Transpose", [node.input[index]], [turned], perm=perm))
            node.input[index] = turned
    for index, name in enumerate(node.output):
        if name:
            inner = context.name(f"{name}_time_first")
            perm = [2, 0, 1, 3] if index == 0 else [1, 0, 2]
            after.append(helper.make_node("Transpose", [inner], [name], perm=perm))
            node.output[index] = inner
    return [*before, node, *after]


def _unpooled(node: onnx.NodeProto, context: Context) -> Sequence[onnx.NodeProto] | None:
    """MaxUnpool with an output shape: indices count in the size without it, zeros fill the rest.

    ONNX Runtime counts in the given size, and so puts values elsewhere than the operator's own
    tests want.
    """
    if len(node.input) < 3 or not node.input[2]:
        return None
    shape = context.shape(node.input[0])
    if shape is None:
        raise _refusal(node, "it has an output shape, and the size of its input is not known")
    at = Replacement(node, context)
    kept = at.kept("kernel_shape", "pads", "strides")
    plain = at.node("MaxUnpool", node.input[:2], name=node.name, **kept)
    more = at.node("Sub", [node.input[2], at.node("Shape", [plain])])
    pads = at.node("Concat", [at.ints(*[0] * len(shape)), more], axis=0)
    return at.finished(at.node("Pad", [plain, pads]))


def _random_dropout(node: onnx.NodeProto, context: Context) -> None:
    """Dropout in training mode is random: no build of it could be compared with the model."""
    training = context.known(node.input[2]) if len(node.input) > 2 and node.input[2] else None
    has_ratio = len(node.input) > 1 and node.input[1]
    ratio = context.known(node.input[1]) if has_ratio else None
    if training is not None and training.any() and not (ratio is not None and not ratio.any()):
        raise _refusal(node, "it is in training mode, in which its result is random")


def _ceil_pool(node: onnx.NodeProto, context: Context) -> None:
    """A last window that would start in the padding at the end does not exist.

    Opset 22 says so and ONNX Runtime does so in every opset, but inference of opset 21 counts it.
    Where some axis loses its window, the sizes are written out as padding, without ``ceil_mode``.
    """
    shape = context.shape(node.input[0])
    mode = attribute(node, "auto_pad", b"NOTSET")
    if (
        not attribute(node, "ceil_mode", 0)
        or shape is None
        or mode not in (b"NOTSET", b"VALID", b"")
    ):
        return
    kernel = attribute(node, "kernel_shape", list[int]())
    rank = len(kernel)
    strides = attribute(node, "strides", [1] * rank)
    dilations = attribute(node, "dilations", [1] * rank)
    pads = attribute(node, "pads", [0] * (2 * rank)) if mode != b"VALID" else [0] * (2 * rank)
    if len(shape) != rank + 2 or len(strides) != rank or len(pads) != 2 * rank or 0 in strides:
        return
    loses = widens = False
    for axis in range(rank):
        window = dilations[axis] * (kernel[axis] - 1) + 1
        room = shape[axis + 2] + pads[axis] + pads[rank + axis] - window
        over = -room % strides[axis]
        if over and room + over >= shape[axis + 2] + pads[axis]:
            loses = True
        elif over:
            widens = True
            pads[rank + axis] += over
    if not loses:
        return
    if widens and attribute(node, "count_include_pad", 0):
        raise _refusal(node, "ceil_mode enlarges one axis and not another, and padding is counted")
    without(node, "ceil_mode", "pads", "auto_pad")
    node.attribute.append(helper.make_attribute("pads", pads))


def _refusal(node: onnx.NodeProto, why: str) -> UnsupportedOperatorError:
    remedy = (
        "Change it before exporting, or cut it off: name the tensor before it in 'outputs', or "
    )
    return unfit(node, why, f"{remedy}the one after it in 'inputs'.")


_BEFORE: dict[str, Rewrite] = {"MeanVarianceNormalization": _axes_of_variance}

_AFTER: dict[str, Rewrite] = {
    "AveragePool": _ceil_pool,
    "Dropout": _random_dropout,
    "GRU": _batch_first,
    "LSTM": _batch_first,
    "LpPool": _ceil_pool,
    "MaxPool": _ceil_pool,
    "MaxUnpool": _unpooled,
    "RNN": _batch_first,
    **QLINEAR,
}
