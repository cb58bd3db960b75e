"""Which reshapes and transposes the NPU does: features lie in groups of channels (NC1HWC2)."""

from __future__ import annotations

from math import prod

from engine.cost.lowering.graph import LoweringGraph, Node
from engine.cost.lowering.rules import Context

__all__ = ["reshape_on_cpu", "reshape_with_whole_groups", "transpose_on_cpu"]

Shape = tuple[int, ...]
PLANE = 8
"""Pixels of a plane that a reshape of rk3588 writes at once."""
ON_CPU = ("exSoftmax13", "Softmax", "exDataConvert", "ReduceMax")
"""Readers on rk3566 that want a feature as NCHW."""
WIDEST = 8192
"""Longest row that a reshape of rk3588 reads or writes."""


def reshape_on_cpu(node: Node, work: LoweringGraph, context: Context) -> str:
    """Why a Reshape is not on the NPU; empty where it is."""
    if not node.inputs or not node.outputs:
        return ""
    shape, out = work.shape(node.inputs[0]), work.shape(node.outputs[0])
    if prod(shape[1:]) == 1 or len(shape) < 2 or len(out) < 2:
        return ""
    found = work.tensors.get(node.inputs[0])
    if found is not None and found.dtype in ("int64", "int32"):
        return f"Reshape of {found.dtype}."
    if _is_recurrent(work, node):
        return ""  # steps lie as rows
    if context.family == "rk3588":
        return _rk3588(node, shape, out, work, context)
    return _rk3566(node, shape, out, work, context) if context.family == "rk3566" else ""


def reshape_with_whole_groups(
    node: Node, work: LoweringGraph, context: Context, group: int
) -> bool:
    """Whether a Reshape would be on the NPU if the channels on both sides filled groups."""
    shape, out = work.shape(node.inputs[0]), work.shape(node.outputs[0])
    if len(shape) != 4 or len(out) != 4 or shape[1] % group == 0 == out[1] % group:
        return False
    if _plane(shape) != _plane(out) or shape[0] * shape[1] != out[0] * out[1]:
        return False  # with more channels it would be another Reshape
    return context.family in ("rk3566", "rk3588") and not _beside_cpu(node, work, context)


def transpose_on_cpu(node: Node, work: LoweringGraph, context: Context) -> str:
    """Why a Transpose is not on the NPU; empty where it is."""
    if not node.inputs or not node.outputs:
        return ""
    shape, out = work.shape(node.inputs[0]), work.shape(node.outputs[0])
    text = f"Transpose of {_text(shape)} to {_text(out)}"
    if _is_recurrent(work, node):
        return f"{text}: steps of a recurrent layer."
    if len(shape) == 5:
        return f"{text}: only four dimensions."
    if context.family != "rk3566":
        return ""
    if node.name.endswith("-rs_tp"):
        return f"{text} at the end of the model."
    if len(shape) != 4 or len(out) != 4:
        return f"{text}: only four dimensions."
    if shape[2:] == (1, 1) and out == (1, shape[1], 1, shape[0]) and shape[1] % 8 == 0:
        return ""  # batches become columns
    group = context.npu.atom(context.dtype)
    if node.ints("perm") in ((0, 3, 2, 1), ()) and out == (shape[0], shape[3], shape[2], shape[1]):
        if shape[1] % group == 0 and shape[3] % group == 0:
            return ""
        return f"{text}: channels and columns must be multiples of {group}."
    return f"{text}: only channels and columns are exchanged."


def _is_recurrent(work: LoweringGraph, node: Node) -> bool:
    """Whether it reads an LSTM or GRU as ONNX has them."""
    producer = work.producer(node.inputs[0])
    return producer is not None and producer.kind in ("GRU", "LSTM")


def _rk3588(node: Node, shape: Shape, out: Shape, work: LoweringGraph, context: Context) -> str:
    group = context.npu.atom(context.dtype)
    text = f"Reshape of {_text(shape)} to {_text(out)}"
    if _stays(node, out, work):
        return ""
    rows = [each for each in (shape, out) if len(each) == 4 and each[1] == 1]
    if any(_plane(each) > WIDEST for each in rows):
        return f"{text}: a row has at most {WIDEST} numbers."
    if len(shape) == len(out) == 4 and (_regroups(shape, out, group) or _keeps_rows(shape, out)):
        return ""
    for each in (shape, *((out,) if len(out) == 4 else ())):
        unit = each[1] if _plane(each) == 1 else _plane(each)
        whole = each is not out or _plane(each) == 1 or len(shape) == 5
        step = group if whole else PLANE
        if unit % step:
            return f"{text}: {unit} is not a multiple of {step}."
    return ""


def _rk3566(node: Node, shape: Shape, out: Shape, work: LoweringGraph, context: Context) -> str:
    group = context.npu.atom(context.dtype)
    text = f"Reshape of {_text(shape)} to {_text(out)}"
    producer = work.producer(node.inputs[0])
    if _stays(node, out, work):
        return ""
    if len(shape) == 4 and shape == (*out, 1, 1) and shape[1] % group == 0:
        return ""
    if len(shape) == 2 and out == (*shape, 1, 1):
        return ""
    if shape[:2] == (1, 1) and out == (1, *shape[2:], 1, 1):
        return ""
    if len(out) == 3 and shape == (1, out[2], 1, 1) and shape[1] % group == 0:
        return ""  # a row of numbers
    if len(shape) == 3 and shape[1] > 1:
        if out == (shape[1], 1, 1, shape[2]):
            return ""
        if out == (shape[0], shape[1], 1, shape[2]) and producer is None:
            readers = work.readers(node.outputs[0])
            turns = [each for each in readers if each.kind == "Transpose"]
            if turns and all(transpose_on_cpu(each, work, context) for each in turns):
                return ""  # an input lies as NCHW, and is wanted so
            if out[1] % group and readers and all(each.kind == "Pad" for each in readers):
                return ""
    if _beside_cpu(node, work, context):
        return f"{text}: a layer beside it is on the CPU, where features lie as NCHW."
    if len(shape) == len(out) == 4 and _regroups(shape, out, group):
        return ""
    return f"{text}: only whole groups of {group} channels are moved."


def _stays(node: Node, out: Shape, work: LoweringGraph) -> bool:
    """Whether a Reshape to other than four dimensions reads NCHW: what a layer on the CPU wrote."""
    producer = work.producer(node.inputs[0])
    return producer is not None and producer.target == "CPU" and len(out) != 4


def _beside_cpu(node: Node, work: LoweringGraph, context: Context) -> bool:
    """Whether a layer before or behind it is on the CPU of rk3566, which wants NCHW."""
    if context.family != "rk3566":
        return False
    producer = work.producer(node.inputs[0])
    return (producer is not None and producer.target == "CPU") or any(
        each.kind in ON_CPU or (each.kind == "Transpose" and transpose_on_cpu(each, work, context))
        for each in work.readers(node.outputs[0])
    )


def _regroups(shape: Shape, out: Shape, group: int) -> bool:
    """Whether groups of channels stay whole: the plane keeps its size, so do they."""
    return _plane(shape) == _plane(out) and shape[1] % group == 0 and out[1] % group == 0


def _keeps_rows(shape: Shape, out: Shape) -> bool:
    """Whether channels become channels and rows, or come of them, and columns stay as they are."""
    if len(shape) != 4 or shape[3] != out[3]:
        return False
    return shape[2] == out[2] == 1 or (shape[0] == out[0] and 1 in (shape[2], out[2]))


def _plane(shape: Shape) -> int:
    return prod(shape[2:])


def _text(shape: Shape) -> str:
    return "x".join(map(str, shape))
