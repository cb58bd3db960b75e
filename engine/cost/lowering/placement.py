"""Where the vendor's compiler puts a layer: on the NPU, on the CPU, or nowhere.

Source of the limits: what rknn-toolkit2 2.3.2 prints for graphs of single operators, family by
family; see docs/estimates/derivation.md. A reason names the rule with the number that breaks it.
Reshapes and transposes depend on the layout: features lie in groups of channels (NC1HWC2).
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import NamedTuple

from engine.cost.limits.remedies import END_BEFORE, IN_FLOAT16
from engine.cost.lowered import Node, Shape, Target
from engine.cost.lowering.graph import LoweringGraph
from engine.cost.lowering.rules import Context
from engine.facts.limits import operator, without


class Reason(NamedTuple):
    """Why a layer is not on the NPU, and what to do about it."""

    text: str
    remedy: str = END_BEFORE


Check = Callable[[Node, LoweringGraph, Context], Reason | None]

LARGE_AXIS = 8192
"""Softmax and flat rows reach so far on most families."""
NO_GATHER = ("rv1106", "rv1106b", "rk2118")
POOL_KERNEL = 8
"""Largest side of a pool's window."""
INPUT_ROW = 16
"""The NPU of rk3588 brings in images whose rows are no multiple of so many pixels."""
NATIVE_OUTPUTS = ("rk3566", "rk3562", "rv1106", "rk2118")
"""Families whose NPU brings an output of the graph from NC1HWC2 into NCHW."""


def place(work: LoweringGraph, context: Context) -> None:
    """Set ``target``, ``reason`` and ``remedy`` of every node; the last of the rules."""
    for node in work.nodes:
        if node.target:
            continue
        reason = _refused(node)
        if reason is not None:
            node.target, node.reason, node.remedy = "none", reason.text, reason.remedy
            continue
        asked = next((context.op_target[n] for n in node.sources if n in context.op_target), "")
        reason = _on_cpu(node, work, context)
        if reason is None and asked == "cpu":
            reason = Reason("op_target puts it on the CPU.", "Take it out of op_target.")
        node.target = "NPU" if reason is None else "CPU"
        if reason is not None:
            node.reason, node.remedy = reason.text, reason.remedy


def input_target(name: str, work: LoweringGraph, context: Context) -> Target:
    """Where an input of the graph is brought into the layout of its reader."""
    shape = work.shape(name)
    if context.family != "rk3588" or context.dtype != "int8" or len(shape) != 4:
        return "CPU"
    readers = work.readers(name)
    image = shape[1] <= 4 and bool(readers) and all(node.kind == "Conv" for node in readers)
    return "NPU" if image and shape[3] % INPUT_ROW else "CPU"


def output_target(name: str, work: LoweringGraph, context: Context) -> Target:
    """Where an output of the graph is brought into NCHW."""
    shape, producer = work.shape(name), work.producer(name)
    if context.family not in NATIVE_OUTPUTS or len(shape) != 4 or producer is None:
        return "CPU"
    large = shape[2] * shape[3] >= LARGE_AXIS
    if large and context.family == "rk3566" and context.dtype == "float16":
        return "CPU"
    pool = context.family == "rk3566" and producer.kind.endswith("Pool")
    return "NPU" if producer.target == "NPU" or pool else "CPU"


def _refused(node: Node) -> Reason | None:
    if not node.kind.startswith("ex") and not operator(node.kind).compiler:
        return Reason(
            f"The compiler has no {node.kind}.",
            "Replace the operator, or register it as a custom operator.",
        )
    if node.kind == "Resize" and node.attributes.get("mode") == "cubic":
        return Reason("Resize in mode cubic is not built.", "Use mode linear or nearest.")
    if node.kind == "MaxPool" and any(dilation != 1 for dilation in node.ints("dilations")):
        return Reason(
            f"MaxPool with dilations {list(node.ints('dilations'))}: only 1 is built.",
            "Use a pool without dilations.",
        )
    return None


def _on_cpu(node: Node, work: LoweringGraph, context: Context) -> Reason | None:
    if operator(node.kind).compiler == "CPU":
        return Reason(f"{node.kind} has no version for the NPU.")
    lacking = without(node.kind, context.family)
    if lacking is not None:
        return Reason(lacking.reason, lacking.remedy or END_BEFORE)
    check = CHECKS.get(node.kind)
    return check(node, work, context) if check is not None else None


def _average_pool(node: Node, work: LoweringGraph, context: Context) -> Reason | None:
    padded = any(node.ints("pads"))
    if padded and not node.int("count_include_pad"):
        if context.family in ("rk3576", "rv1126b") and context.dtype == "int8":
            return None
        return Reason(f"AveragePool with pads {list(node.ints('pads'))} and count_include_pad=0.")
    return None


def _max_pool(node: Node, work: LoweringGraph, context: Context) -> Reason | None:
    kernel = node.ints("kernel_shape")
    if context.family not in ("rv1106b", "rk2118") and max(kernel, default=1) > POOL_KERNEL:
        return Reason(
            f"MaxPool with a window of {'x'.join(map(str, kernel))}: at most {POOL_KERNEL}."
        )
    return None


def _depth_to_space(node: Node, work: LoweringGraph, context: Context) -> Reason | None:
    # blocks of 2, 4 and 8 are transposed convolutions by now
    return Reason(
        f"DepthToSpace with blocks of {node.int('blocksize', 1)}: only powers of two are built.",
        "Use blocks of 2 or 4, or a transposed convolution.",
    )


def _resize(node: Node, work: LoweringGraph, context: Context) -> Reason | None:
    if node.attributes.get("mode", "nearest") != "linear" or not node.outputs:
        return None
    shape, out = work.shape(node.inputs[0]), work.shape(node.outputs[0])
    if len(shape) != 4 or len(out) != 4 or (context.family == "rk3562" and out[3] <= 64):
        return None
    corners = node.attributes.get("coordinate_transformation_mode") == "align_corners"
    # with align_corners the distance between the corners is what is scaled
    step = 1 if corners else 0
    sizes = [(s - step, o - step) for s, o in zip(shape[2:], out[2:], strict=True)]
    broken = [(s, o) for s, o in sizes if s and o and o % s and s % o]
    if not broken:
        return None
    size = f"{shape[2]}x{shape[3]} to {out[2]}x{out[3]}"
    if corners:
        few, many = sorted(broken[0])
        return Reason(
            f"Linear Resize with align_corners ({size}):"
            f" {many} steps between the corners are no whole multiple of {few}."
        )
    return Reason(f"Linear Resize by a factor that is not whole ({size}).")


def _slice(node: Node, work: LoweringGraph, context: Context) -> Reason | None:
    steps = work.whole(node.inputs[4]) if len(node.inputs) > 4 else None
    if not steps or set(steps) == {1}:
        return None
    return Reason(f"Slice with steps {steps[:8]}.", "Use a convolution or pool with stride.")


def _gather(node: Node, work: LoweringGraph, context: Context) -> Reason | None:
    if not node.inputs or work.is_const(node.inputs[0]):
        return Reason("Gather from a table.", "Look up in the program, and feed what was found.")
    if len(node.inputs) > 1 and not work.is_const(node.inputs[1]):
        return Reason("Gather with indices that the model computes.", "Give constant indices.")
    if context.family in NO_GATHER and not node.name.endswith("_gather"):
        return Reason("The NPU of this family has no Gather.", "Use Slice or Split instead.")
    return None


def _pad(node: Node, work: LoweringGraph, context: Context) -> Reason | None:
    mode = node.attributes.get("mode", "constant")
    if context.family == "rv1106b" and mode == "reflect":
        return Reason("Pad in mode reflect: only constant and edge.")
    sides = (work.whole(node.inputs[1]) or [])[:8] if len(node.inputs) > 1 else []
    if context.family in ("rv1106b", "rk2118") and len(sides) == 8 and (sides[1] or sides[5]):
        return Reason(f"Pad of {sides[1] + sides[5]} channels.")
    shape, group = work.shape(node.inputs[0]), context.npu.atom(context.dtype)
    if mode == "constant" and len(shape) == 4 and shape[1] % group:
        return Reason(f"Pad of a map of {shape[1]} channels, which are no multiple of {group}.")
    if mode == "constant" and len(sides) == 8 and sides[1] % group:
        return Reason(
            f"Pad of {sides[1]} channels in front, which are no multiple of {group}.",
            f"Put a multiple of {group} in front.",
        )
    return None


def _softmax(node: Node, work: LoweringGraph, context: Context) -> Reason | None:
    shape = work.shape(node.inputs[0])
    if context.family in ("rk3588", "rk2118", "rv1106b") and max(shape, default=0) > LARGE_AXIS:
        return Reason(f"Softmax over a row of {max(shape)}: at most {LARGE_AXIS}.")
    axis = node.int("axis", 1)
    if context.family == "rv1106b" and axis not in (1, 1 - len(shape)):
        return Reason(f"Softmax on axis {axis}: only channels.", "Bring the axis to channels.")
    return None


def _div(node: Node, work: LoweringGraph, context: Context) -> Reason | None:
    if _dtype(node, context) == "int8" and len(work.features(node)) > 1:
        return Reason("Div of two features in int8.", _in_float16(context))
    if node.inputs and work.is_const(node.inputs[0]):
        return Reason("Div of a constant by a feature.")
    return None


def _cast(node: Node, work: LoweringGraph, context: Context) -> Reason | None:
    tensor = work.tensors.get(node.inputs[0]) if node.inputs else None
    if tensor is not None and tensor.dtype in ("int64", "int32"):
        return Reason(f"Cast from {tensor.dtype}.", "Feed the model float numbers.")
    if context.family == "rv1106b":
        return Reason("The NPU of this family has no Cast.", "Leave the type as it is.")
    return None


def _pow(node: Node, work: LoweringGraph, context: Context) -> Reason | None:
    exponent = work.array(node.inputs[1]) if len(node.inputs) > 1 else None
    if exponent is None:
        return Reason("Pow with exponents that the model computes.")
    power = float(exponent.reshape(-1)[0])
    if power in (2.0, 3.0) or (power == 0.5 and _dtype(node, context) == "float16"):
        return None
    return Reason(f"Pow with an exponent of {power:g}: the NPU has 2 and 3.")


def _reshape(node: Node, work: LoweringGraph, context: Context) -> Reason | None:
    text = reshape_on_cpu(node, work, context)
    if not text:
        return None
    group = context.npu.atom(context.dtype)
    fits = reshape_with_whole_groups(node, work, context, group)
    return Reason(text, f"Make the channels a multiple of {group}." if fits else END_BEFORE)


def _transpose(node: Node, work: LoweringGraph, context: Context) -> Reason | None:
    text = transpose_on_cpu(node, work, context)
    return Reason(text) if text else None


def _dtype(node: Node, context: Context) -> str:
    """That of the layer: hybrid quantization may give it one of its own."""
    return node.dtype or context.own_dtype(node) or context.dtype


def _in_float16(context: Context) -> str:
    """The remedy of a layer that the NPU has in float16, on a chip that has float16."""
    return IN_FLOAT16 if context.npu.macs_in["float16"] else END_BEFORE


def _max(node: Node, work: LoweringGraph, context: Context) -> Reason | None:
    if any(work.is_const(tensor) for tensor in node.inputs):
        return Reason("Max of a feature and a constant.", "Use Clip or Relu.")
    return None


def _sqrt(node: Node, work: LoweringGraph, context: Context) -> Reason | None:
    if _dtype(node, context) == "int8":
        return Reason("Sqrt in int8.", _in_float16(context))
    return None


def _add(node: Node, work: LoweringGraph, context: Context) -> Reason | None:
    if context.family == "rv1106b" and node.fused and len(work.features(node)) == 1:
        return Reason("Add of a constant for each column, with Relu.", "Use BatchNormalization.")
    return None


CHECKS: dict[str, Check] = {
    "Add": _add,
    "AveragePool": _average_pool,
    "Cast": _cast,
    "DepthToSpace": _depth_to_space,
    "Div": _div,
    "Gather": _gather,
    "Max": _max,
    "MaxPool": _max_pool,
    "Pad": _pad,
    "Pow": _pow,
    "Reshape": _reshape,
    "Resize": _resize,
    "Slice": _slice,
    "Softmax": _softmax,
    "Sqrt": _sqrt,
    "Transpose": _transpose,
    "exSoftmax13": _softmax,
}


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
    tensor = work.tensors.get(node.inputs[0])
    if tensor is not None and tensor.dtype in ("int64", "int32"):
        return f"Reshape of {tensor.dtype}."
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
    rows = [dims for dims in (shape, out) if len(dims) == 4 and dims[1] == 1]
    if any(_plane(dims) > WIDEST for dims in rows):
        return f"{text}: a row has at most {WIDEST} numbers."
    if len(shape) == len(out) == 4 and (_regroups(shape, out, group) or _keeps_rows(shape, out)):
        return ""
    for dims in (shape, *((out,) if len(out) == 4 else ())):
        unit = dims[1] if _plane(dims) == 1 else _plane(dims)
        whole = dims is not out or _plane(dims) == 1 or len(shape) == 5
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
            turns = [reader for reader in readers if reader.kind == "Transpose"]
            if turns and all(transpose_on_cpu(reader, work, context) for reader in turns):
                return ""  # an input lies as NCHW, and is wanted so
            if out[1] % group and readers and all(reader.kind == "Pad" for reader in readers):
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
        reader.kind in ON_CPU
        or (reader.kind == "Transpose" and transpose_on_cpu(reader, work, context))
        for reader in work.readers(node.outputs[0])
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
