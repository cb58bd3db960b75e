"""Operators of the toolkit of generation 1 (1.7.x), and the kernels of its NPU.

Sources: the list of operators and limits of toolkit 1.7.5, whose names are PyTorch's, and the
manual (Trouble Shooting 1.4.0, 6.1).
"""

from __future__ import annotations

from engine.cost.limits.remedies import Placement, remedy_for
from engine.cost.lowered import Lowered, LoweredLayer
from engine.facts.limits import operator, support_of

_LIMIT = 11


def check_generation1(layer: LoweredLayer, lowered: Lowered) -> Placement:
    """Where a layer runs on RK1808, RK3399Pro, RV1109 and RV1126.

    What the manuals show there is on the NPU, and what runs outside the MAC array with the reason
    why it is slow. Of other operators that the toolkit takes it is not public whether the NPU or
    the CPU computes them: ``unknown``.
    """
    op = layer.kind
    row = _row(op, layer, lowered)
    if row is not None:
        known = support_of("onnx", f"torch:{row}", 1)
        if known is not None and known.supported == "no":
            more = f" ({known.limit})" if known.limit else ""
            return Placement(
                "none",
                f"Toolkit 1.7.5 does not support {op} as {row}{more}: {known.source}.",
                remedy_for(op),
            )
    elif not operator(op).toolkit1:
        return Placement(
            "none",
            f"{op} is in no operator list of toolkit 1.7.x.",
            "Rewrite it with standard operators, or cut the model before it.",
        )
    return _kernel(layer) or _product(layer) or _place(layer)


def _place(layer: LoweredLayer) -> Placement:
    op = layer.kind
    product = op == "MatMul" and bool(layer.consts)  # a fully connected layer
    if operator(op).toolkit1 == "NPU" or product:
        return Placement("NPU")
    return Placement(
        "unknown",
        f"Toolkit 1.7.5 takes {op}; whether the NPU or the CPU computes it is not public: the"
        " manuals show it on neither.",
        "Measure it on a board: rknntui perf with the layers' times.",
    )


def _row(op: str, layer: LoweredLayer, lowered: Lowered) -> str | None:
    row = operator(op).row1
    if not row:
        return None
    tensor = lowered.tensors.get(layer.inputs[0]) if layer.inputs else None
    dimensions = len(tensor.shape) - 2 if tensor is not None else 2
    if op == "GlobalAveragePool" and dimensions == 1:
        return "mean"  # a mean over the last axis, as of a layer normalization
    return row.format(max(1, dimensions))


def _kernel(layer: LoweredLayer) -> Placement | None:
    window = layer.window
    if window is None or layer.kind not in ("Conv", "ConvTranspose"):
        return None
    height, width = window.dilations
    if height != width and min(height, width) > 1:
        return Placement(
            "none",
            f"Its dilations are {height} and {width}: different ones above 1 are not supported"
            " (operator list of toolkit 1.7.5).",
            "Use the same dilation along height and width.",
        )
    for size, stride, dilation, side in zip(
        window.kernel, window.strides, window.dilations, ("height", "width"), strict=True
    ):
        seen = (size - 1) * dilation + 1
        if seen > _LIMIT * stride:
            return Placement(
                "NPU",
                f"Its kernel's {side} is {seen}, above {_LIMIT} x stride {stride}: it is computed"
                " outside the MAC array at about one multiplication a cycle (Trouble Shooting"
                " 1.4.0, 6.1).",
                "Use smaller kernels: several 3x3 in a row see as much as one large kernel.",
            )
    return None


def _product(layer: LoweredLayer) -> Placement | None:
    if layer.kind != "MatMul" or layer.consts or len(layer.inputs) < 2:
        return None
    return Placement(
        "NPU",
        "It multiplies two features: that is computed outside the MAC array at about one"
        " multiplication a cycle (published rates of networks with attention).",
        "Use convolutions in place of attention on this chip.",
    )
