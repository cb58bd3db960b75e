"""Which operators of TensorFlow are taken, and why others are not.

The list is one of what is allowed, not of what is forbidden: TensorFlow runs the graph to compare
numbers, and a graph may hold operators that read and write files or run code. tf2onnx converts more
than stands here; what is left out draws random numbers, holds state, or has no tensor of numbers.
"""

from __future__ import annotations

__all__ = ["CONTROL_FLOW", "DROPPED", "FUNCTIONAL", "SUPPORTED", "refusal_of"]


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


DROPPED = frozenset({"Assert", "NoOp"})
"""Without a value: they only say in which order things happen, or stop a run."""

CONTROL_FLOW = _names(
    """
    Enter Exit LoopCond Merge NextIteration Switch ControlTrigger
    """
)
"""What a loop or a condition is after TensorFlow lowered it."""

FUNCTIONAL = _names(
    """
    If PartitionedCall StatefulPartitionedCall StatelessIf StatelessWhile While
    """
)
"""What calls functions of the graph's library."""

_LISTS = _names(
    """
    EmptyTensorList TensorArrayCloseV3 TensorArrayGatherV3 TensorArrayReadV3 TensorArrayScatterV3
    TensorArraySizeV3 TensorArrayV3 TensorArrayWriteV3 TensorListFromTensor TensorListGetItem
    TensorListLength TensorListPushBack TensorListReserve TensorListSetItem TensorListStack
    """
)

REWRITTEN = _names(
    """
    BatchNormWithGlobalNormalization BatchToSpace Bitcast Bucketize Erfc EuclideanNorm Expm1
    FloorDiv FloorMod Inv L2Loss Log1p MulNoNan PreventGradient Print RandomUniform ResizeArea
    ResizeBicubic Round Snapshot SpaceToBatch TruncateDiv UnravelIndex Xdivy Xlogy
    """
)
"""Converted wrongly or not at all by tf2onnx: expressed in other operators before it sees them."""

HANDLED = _names(
    """
    FakeQuantWithMinMaxArgs FakeQuantWithMinMaxVars FakeQuantWithMinMaxVarsPerChannel Mod
    TruncateMod
    """
)
"""Converted by functions of ours that tf2onnx calls."""

_CONVERTED = _names(
    """
    Abs Acos Acosh Add AddN AddV2 AdjustContrastv2 AdjustHue AdjustSaturation All Any ArgMax ArgMin
    Asin Asinh Atan Atan2 Atanh AvgPool AvgPool3D BatchMatMul BatchMatMulV2 BatchMatMulV3
    BatchToSpaceND BiasAdd BiasAddV1 BitwiseAnd BitwiseOr BitwiseXor BroadcastArgs BroadcastTo Cast
    Ceil CheckNumerics ClipByValue CombinedNonMaxSuppression Concat ConcatOffset ConcatV2 Const
    Conv2D Conv2DBackpropInput Conv3D Conv3DBackpropInputV2 Cos Cosh CropAndResize Cumsum
    DepthToSpace DepthwiseConv2dNative Div DivNoNan DynamicStitch Einsum Elu EnsureShape Equal Erf
    Exp ExpandDims ExtractImagePatches Fill Floor FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3
    Gather GatherNd GatherV2 Greater GreaterEqual Identity IdentityN Invert InvertPermutation
    IsFinite IsInf IsNan LRN LeakyRelu LeftShift Less LessEqual LinSpace Log LogSoftmax LogicalAnd
    LogicalNot LogicalOr MatMul MatrixBandPart MatrixDiag MatrixDiagPart MatrixDiagPartV2
    MatrixDiagPartV3 MatrixDiagV2 MatrixDiagV3 MatrixSetDiagV3 Max MaxPool MaxPool3D MaxPoolV2
    MaxPoolWithArgmax Maximum Mean Min Minimum MirrorPad Mul Neg NonMaxSuppressionV2
    NonMaxSuppressionV3 NonMaxSuppressionV4 NonMaxSuppressionV5 NotEqual OneHot OnesLike Pack Pad
    PadV2 ParallelDynamicStitch Placeholder PlaceholderV2 PlaceholderWithDefault Pow Prod
    QuantizeAndDequantizeV2 QuantizeAndDequantizeV3 QuantizeAndDequantizeV4 Range Rank RealDiv
    Reciprocal Relu Relu6 Reshape ResizeBilinear ResizeNearestNeighbor ReverseSequence ReverseV2
    RightShift Rint Roll Rsqrt ScatterNd SegmentMax SegmentMean SegmentMin SegmentProd SegmentSum
    Select SelectV2 Selu Shape ShapeN Sigmoid Sign Sin Sinh Size Slice Softmax Softplus Softsign
    SpaceToBatchND SpaceToDepth Split SplitV Sqrt Square SquaredDifference Squeeze StopGradient
    StridedSlice Sub Sum Tan Tanh TensorScatterAdd TensorScatterMax TensorScatterMin
    TensorScatterSub TensorScatterUpdate Tile TopKV2 Transpose Unique Unpack UnsortedSegmentMax
    UnsortedSegmentMin UnsortedSegmentProd UnsortedSegmentSum Where ZerosLike
    """
)

SUPPORTED = _CONVERTED | REWRITTEN | HANDLED | CONTROL_FLOW | FUNCTIONAL | _LISTS | DROPPED

_CUT = "Cut the graph with 'inputs' or 'outputs' so that it is left out."
_REASONS: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("Variable", "VariableV2", "VarHandleOp", "ReadVariableOp", "ResourceGather", "VarIsInit"),
        "it holds a variable: the graph is not frozen",
    ),
    (("Restore", "Save", "ReadFile", "WriteFile", "MatchingFiles"), "it reads or writes files"),
    (("PyFunc", "EagerPyFunc", "NumpyFunction"), "it runs Python code of another program"),
    (
        ("Random", "Multinomial", "Stateless", "TruncatedNormal", "ParameterizedTr"),
        "it draws random numbers",
    ),
    (
        ("Decode", "Encode", "ParseExample", "ParseSingle", "DecodePng"),
        "it decodes files; give its result as an input",
    ),
    (
        ("Iterator", "FIFOQueue", "Queue", "Dataset", "OneShotIterator", "PaddingFIFO", "Batch"),
        "it reads a queue of training data; give its result as an input",
    ),
    (("HashTable", "LookupTable", "MutableHash"), "it looks texts up in a table"),
    (("String", "Regex", "AsString", "StaticRegex", "ReduceJoin", "Unicode"), "it works on texts"),
    (
        ("Quantized", "QuantizeV2", "Dequantize", "Requantiz", "QuantizeDownAndShrink"),
        "it is an integer kernel of TensorFlow, which ONNX has not: start from the float graph",
    ),
    (("_",), "it is an operator of one device, made by an optimiser: freeze the model without it"),
    (("FFT", "IFFT", "RFFT", "IRFFT", "Complex", "Real", "Imag"), "it computes complex numbers"),
    (("Sparse", "Ragged"), "it works on sparse or ragged tensors"),
)


def refusal_of(op: str, functions: frozenset[str] | set[str] | dict[str, object]) -> str:
    """Why an operator is refused; empty where it is taken.

    Args:
        functions: names of the graph's own functions, which are operators too.
    """
    if op in SUPPORTED or op in functions:
        return ""
    for starts, why in _REASONS:
        if op.startswith(starts):
            return f"{why}. {_CUT}"
    return f"no conversion of it to ONNX is known. {_CUT}"
