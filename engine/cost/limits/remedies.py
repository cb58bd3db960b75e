"""What to do about a layer that is not on the NPU, in plain words."""

from __future__ import annotations

from engine.cost.limits.tried import END_BEFORE

__all__ = ["remedy_for", "usual_reason"]

_CUT = END_BEFORE

_BY_PARAMETER = {
    "dtype": "The NPU has it in another dtype: hybrid quantization gives a layer its own.",
    "kernel_h": "Several 3x3 in a row see as much as one large kernel.",
    "kernel_w": "Several 3x3 in a row see as much as one large kernel.",
    "kernel": "A 1x1 convolution does the same; a pool of 1x1 only copies or drops pixels.",
    "stride_h": "Two layers can share the stride.",
    "stride_w": "Two layers can share the stride.",
    "dilation_h": "A larger kernel of dilation 1 sees as much.",
    "dilation_w": "A larger kernel of dilation 1 sees as much.",
    "pad_top": "A Pad layer before it does the same.",
    "pad_left": "A Pad layer before it does the same.",
    "pad_bottom": "A Pad layer before it does the same.",
    "pad_right": "A Pad layer before it does the same.",
    "width": "Narrower inputs, or tiles of them, are within the limit.",
    "height": "Lower inputs, or tiles of them, are within the limit.",
    "channel": "Fewer channels, or two layers of them, are within the limit.",
    "group": "Group 1, or as many groups as channels, is within the limit.",
    "k": "The product can be split along its inner dimension, and the parts added.",
    "scale": "Whole factors from 2 to 8 are within the limit.",
}
"""What is within a limit: words for the reader, as nothing of it is tried on the graph."""

_BY_OPERATOR = {
    "AveragePool": "A depthwise convolution with equal weights does the same.",
    "GlobalAveragePool": "Pool in two steps with kernels of at most 7.",
    "Resize": "Nearest, and linear by a whole factor from 2 to 8, are on the NPU.",
    "Slice": "Slice with step 1; for every second pixel use a convolution with stride 2.",
    "SpaceToDepth": "Use a convolution with stride 2 whose weights pick the pixels.",
    "Transpose": _CUT,
    "Reshape": _CUT,
    "Softmax": _CUT,
    "exSoftmax13": _CUT,
    "exNorm": "Use batch normalization, which costs nothing behind a convolution.",
    "LayerNormalization": "Use batch normalization, which costs nothing behind a convolution.",
    "ReduceMax": "Use MaxPool or GlobalMaxPool where it is over height and width.",
    "ReduceMean": "Use GlobalAveragePool over height and width, a 1x1 convolution over channels.",
    "ReduceSum": "Use a 1x1 convolution whose weights are 1.",
    "Gather": "Use Slice or Split for indices in a row.",
    "ArgMax": _CUT,
    "TopK": _CUT,
    "NonMaxSuppression": _CUT,
    "Erf": "Use ReLU in place of GELU, or load the model with load_pytorch, which knows GELU.",
    "Einsum": "Write it as MatMul with Transpose and Reshape.",
    "GroupNormalization": "Write it as Reshape and InstanceNormalization, or use batch"
    " normalization.",
    "GridSample": _CUT,
    "Mean": "Write it as Add and Mul.",
    "Sum": "Write it as Add.",
    "Neg": "Write it as Mul by -1.",
    "Abs": "Write it as Max of x and -x.",
    "Reciprocal": "Write it as Div.",
    "Selu": "Use Elu or Relu.",
    "ThresholdedRelu": "Use Relu.",
}

_USUAL = {
    "AveragePool": "The compiler puts average pools other than 2x2 on the CPU of most chips.",
    "Resize": "The compiler puts this form of Resize (align_corners, or no whole factor) on the"
    " CPU.",
    "Slice": "The compiler puts slices with steps above 1 on the CPU.",
    "SpaceToDepth": "The compiler has SpaceToDepth on the CPU alone.",
    "Reshape": "The compiler puts a Reshape that moves values on the CPU of this chip.",
    "Transpose": "The compiler puts this Transpose on the CPU of this chip.",
    "exSoftmax13": "The compiler puts this Softmax on the CPU of this chip.",
}


def remedy_for(op: str, parameter: str) -> str:
    """What to do about an operator that breaks a limit.

    Args:
        op: as in the tables.
        parameter: of the limit; empty or ``npu_support`` where the operator as such is concerned.
    """
    if parameter in _BY_PARAMETER:
        return _BY_PARAMETER[parameter]
    return _BY_OPERATOR.get(op, _CUT)


def usual_reason(op: str, chip: str) -> str:
    """Why an operator is on the CPU though no published limit says so."""
    return _USUAL.get(op, f"The compiler puts this {op} on the CPU of {chip}: no published limit.")
