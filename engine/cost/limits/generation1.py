"""Operators of the toolkit of generation 1 (1.7.x), and the kernels of its NPU.

Sources: the list of operators and limits of toolkit 1.7.5, whose names are PyTorch's, and the
manual (Trouble Shooting 1.4.0, 6.1).
"""

from __future__ import annotations

from engine.cost.limits.placement import Placement
from engine.cost.limits.remedies import remedy_for
from engine.cost.lowered import Lowered, LoweredLayer
from engine.facts.limits import support_of

__all__ = ["check_generation1"]

_LIMIT = 11

_VIEWS = frozenset({"Cast", "Dropout", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
"""They only give a tensor another name or shape."""

# Operator of ONNX -> its row in the list, with dimensions where they decide.
_ROWS = {
    "Conv": "convolution {}D",
    "ConvTranspose": "deconvolution {}D",
    "AveragePool": "avg_pool{}d",
    "MaxPool": "max_pool{}d",
    "GlobalAveragePool": "adaptive_avg_pool{}d",
    "GlobalMaxPool": "adaptive_max_pool{}d",
    "Celu": "celu",
    "Ceil": "ceil",
    "Cos": "cos",
    "CumSum": "cumsum",
    "DepthToSpace": "pixel_shuffle",
    "Equal": "eq",
    "Erf": "erf",
    "Greater": "gt",
    "GreaterOrEqual": "ge",
    "GRU": "gru",
    "GroupNormalization": "group_norm",
    "InstanceNormalization": "instancenorm{}d",
    "Less": "lt",
    "LessOrEqual": "le",
    "LSTM": "lstm",
    "Max": "maximum",
    "Min": "minimum",
    "Not": "logical_not",
    "Round": "round",
    "Selu": "selu",
    "Softplus": "softplus",
    "Softsign": "softsign",
    "Tan": "tan",
    "ThresholdedRelu": "threshold",
    "Tile": "tile",
    "TopK": "topk",
    "Where": "where",
    "Xor": "logical_xor",
    "BitwiseNot": "bitwise_not",
    "BitwiseXor": "bitwise_xor",
}

# Operators that are in its lists under other names, or that cost nothing.
_KNOWN = frozenset(
    [
        "Abs",
        "Add",
        "And",
        "ArgMax",
        "ArgMin",
        "BatchNormalization",
        "Cast",
        "Clip",
        "Concat",
        "Constant",
        "Div",
        "Dropout",
        "Elu",
        "Exp",
        "Expand",
        "Flatten",
        "Floor",
        "Gather",
        "Gemm",
        "HardSigmoid",
        "HardSwish",
        "Identity",
        "LRN",
        "LayerNormalization",
        "LeakyRelu",
        "Log",
        "LogSoftmax",
        "LpNormalization",
        "MatMul",
        "Mul",
        "Neg",
        "Or",
        "PRelu",
        "Pad",
        "Pow",
        "ReduceL2",
        "ReduceMax",
        "ReduceMean",
        "ReduceMin",
        "ReduceSum",
        "Relu",
        "Reshape",
        "Resize",
        "Shape",
        "Sigmoid",
        "Sin",
        "Slice",
        "Softmax",
        "SpaceToDepth",
        "Split",
        "Sqrt",
        "Squeeze",
        "Sub",
        "Sum",
        "Swish",
        "Mish",
        "Tanh",
        "Transpose",
        "Unsqueeze",
        "Upsample",
        "ConstantOfShape",
    ]
)


_NAMED = frozenset(
    {
        *("Conv", "Gemm", "Relu", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"),
        *("Softmax", "Transpose"),
    }
)
"""What the manuals show on the NPU: convolution, Relu and pooling (Trouble Shooting 1.4.0, 6.1),
and the rows convolution, fullyconnected, pooling, softmax and tensor.transpose of the times by
layer (User Guide 1.3.2, 3.5)."""


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
                remedy_for(op, "unsupported"),
            )
    elif op not in _KNOWN:
        return Placement(
            "none",
            f"{op} is in no operator list of toolkit 1.7.x.",
            "Rewrite it with standard operators, or cut the model before it.",
        )
    return _kernel(layer) or _product(layer) or _place(layer)


def _place(layer: LoweredLayer) -> Placement:
    op = layer.kind
    product = op == "MatMul" and bool(layer.consts)  # a fully connected layer
    if op in _NAMED or op in _VIEWS or product:
        return Placement("NPU")
    return Placement(
        "unknown",
        f"Toolkit 1.7.5 takes {op}; whether the NPU or the CPU computes it is not public: the"
        " manuals show it on neither.",
        "Measure it on a board: rknntui perf with the layers' times.",
    )


def _row(op: str, layer: LoweredLayer, lowered: Lowered) -> str | None:
    row = _ROWS.get(op)
    if row is None:
        return None
    found = lowered.tensors.get(layer.inputs[0]) if layer.inputs else None
    dimensions = len(found.shape) - 2 if found is not None else 2
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
