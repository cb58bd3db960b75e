"""Graphs of one operator each, as TensorFlow's raw operators build them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

F32 = "float32"
Build = Callable[..., Any]


@dataclass(frozen=True)
class Case:
    """``build(ops, *inputs)`` makes the output of inputs of these shapes and dtypes."""

    name: str
    build: Build
    inputs: tuple[tuple[tuple[int, ...], str], ...]
    integers: tuple[int, int] = (-9, 9)

    def __repr__(self) -> str:
        return self.name


CASES: list[Case] = []


def case(
    name: str,
    build: Build,
    *shapes: tuple[int, ...],
    dtype: str = F32,
    integers: tuple[int, int] = (-9, 9),
) -> None:
    CASES.append(Case(name, build, tuple((shape, dtype) for shape in shapes), integers))


def raw(name: str, *shapes: tuple[int, ...], out: int | None = None, **attributes: Any) -> None:
    """An operator on its inputs as they are; the first word of ``name`` is the operator.

    Args:
        out: number of its output, where it has several.
        attributes: those of the operator and its constant inputs; ``dtype`` and ``integers`` are
            those of :func:`case`, ``factor`` multiplies the first input.
    """
    operator, factor = name.split()[0], attributes.pop("factor", None)
    of_case = {key: attributes.pop(key) for key in ("dtype", "integers") if key in attributes}

    def build(ops: Any, *inputs: Any) -> Any:
        function = getattr(ops, operator)
        free = [key for key in inspect.signature(function).parameters if key not in attributes]
        scaled = inputs if factor is None else (inputs[0] * factor, *inputs[1:])
        result = function(**dict(zip(free, scaled, strict=False)), **attributes)
        return result if out is None else result[out]

    case(name, build, *shapes, **of_case)


def rand(*shape: int, seed: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


X = (2, 3, 4)
IMAGE = (1, 7, 9, 4)
BLOCKS = (4, 3, 5, 2)
ONES, TWOS = [1, 1, 1, 1], [1, 2, 2, 1]
STEP = np.array([0.7, -1.3, 2.0, -0.4], np.float32)
INTS = np.array([3, -4, 7, -2], np.int32)

case(
    "Bitcast_sign",
    lambda ops, x: ops.BitwiseAnd(x=ops.Bitcast(input=x, type="int32"), y=np.int32(-(2**31))),
    X,
)

UNARY = (
    "Abs Neg Exp Sigmoid Tanh Relu Relu6 Elu Selu Softplus Softsign Erf Erfc Expm1 Floor Ceil Rint "
    "Round Sign Square Sin Cos Tan Atan Asinh Sinh Cosh IsNan IsInf IsFinite ZerosLike OnesLike "
    "Snapshot StopGradient L2Loss Reciprocal Inv"
)
for name in UNARY.split():
    raw(name, X, factor=3.0)
for name in ["Log", "Log1p", "Sqrt", "Rsqrt", "Acosh"]:
    case(name, lambda o, x, n=name: getattr(o, n)(x=abs(x) + 1.1), X)
for name in ["Acos", "Asin", "Atanh"]:
    case(name, lambda o, x, n=name: getattr(o, n)(x=o.Tanh(x=x) * 0.9), X)
case("Round half to even", lambda o, x: o.Round(x=o.Floor(x=x * 3.0) + 0.5), X)
case("Rint half to even", lambda o, x: o.Rint(x=o.Floor(x=x * 3.0) + 0.5), X)
raw("Cast truncates", X, factor=5.0, DstT="int32")
case("Cast bool", lambda o, x: o.Cast(x=o.Greater(x=x, y=0.0), DstT=F32), X)
raw("LeakyRelu", X, alpha=0.1)
raw("LeakyRelu default", X)

BINARY = (
    "Add AddV2 Sub Mul RealDiv Div Maximum Minimum SquaredDifference Atan2 FloorDiv FloorMod "
    "TruncateDiv TruncateMod Mod DivNoNan MulNoNan Greater GreaterEqual Less LessEqual Equal "
    "NotEqual Xdivy Xlogy"
)
for name in BINARY.split():
    raw(f"{name} float", X, factor=4.0, y=STEP)
OF_INTEGERS = "AddV2 Sub Mul Maximum FloorDiv FloorMod TruncateDiv TruncateMod Mod Div BitwiseXor"
for name in OF_INTEGERS.split():
    raw(f"{name} int32", X, dtype="int32", y=INTS)
raw("TruncateDiv int64", X, dtype="int64", y=INTS.astype(np.int64))
raw("FloorDiv by one", X, factor=5.0, y=1.0)
raw("FloorMod zero", X, factor=4.0, y=2.5)
case("Pow", lambda o, x: o.Pow(x=abs(x) + 0.1, y=STEP), X)
raw("Pow of ints", X, dtype="int32", y=np.array([2, 3, 0, 1], np.int32))
case("LogicalAnd", lambda o, x: o.LogicalAnd(x=o.Greater(x=x, y=0.0), y=o.Less(x=x, y=0.5)), X)
case("LogicalNot", lambda o, x: o.LogicalNot(x=o.Greater(x=x, y=0.0)), X)
raw("Invert", X, dtype="int32")
case("AddN", lambda o, x: o.AddN(inputs=[x, x * 2.0, x]), X)
raw("BiasAdd NHWC", IMAGE, bias=STEP)
raw("BiasAdd NCHW", (1, 4, 5, 6), bias=STEP, data_format="NCHW")
raw("ClipByValue", X, clip_value_min=-0.5, clip_value_max=0.7)

for name in ["Sum", "Mean", "Max", "Min", "Prod"]:
    for keep in (False, True):
        raw(f"{name} keep {keep}", X, axis=[0, -1], keep_dims=keep)
raw("Mean ints", X, dtype="int32", axis=[1])
raw("Sum no axis", X, axis=np.zeros(0, np.int32))
case("All", lambda o, x: o.All(input=o.Greater(x=x, y=-1.0), axis=[1]), X)
case("Any", lambda o, x: o.Any(input=o.Greater(x=x, y=1.0), axis=[1]), X)
raw("EuclideanNorm", X, axis=[1])
raw("ArgMax", X, dimension=1)
case("ArgMax ties", lambda o, x: o.ArgMax(input=o.Round(x=x * 0.6), dimension=-1), (4, 5, 9))
case(
    "ArgMin ties int32",
    lambda o, x: o.ArgMin(input=o.Round(x=x * 0.6), dimension=0, output_type="int32"),
    (4, 5),
)
raw("Softmax", X)
raw("LogSoftmax", X, factor=10.0)
raw("TopKV2", X, out=0, k=2)
raw("TopKV2 indices", X, out=1, k=3)
for exclusive in (False, True):
    for reverse in (False, True):
        raw(f"Cumsum {exclusive} {reverse}", X, axis=1, exclusive=exclusive, reverse=reverse)

raw("MatMul", (3, 4), b=rand(4, 5))
raw("MatMul transposed", (3, 4), b=rand(5, 3), transpose_a=True, transpose_b=True)
raw("BatchMatMulV2 broadcast", X, y=rand(4, 5))
raw("BatchMatMulV2 adj", X, y=rand(2, 5, 3), adj_x=True, adj_y=True)
raw("BatchMatMul two", X, (2, 4, 3))
case("Einsum", lambda o, x: o.Einsum(inputs=[x, rand(4, 5)], equation="abc,cd->abd"), X)
case(
    "Einsum two",
    lambda o, x, y: o.Einsum(inputs=[x, y], equation="bqhd,bkhd->bhqk"),
    (1, 5, 2, 3),
    (1, 6, 2, 3),
)
case("Einsum sum", lambda o, x: o.Einsum(inputs=[x], equation="abc->ca"), X)
case("Einsum ellipsis", lambda o, x: o.Einsum(inputs=[x, rand(4, 5)], equation="...c,cd->...d"), X)

KERNEL = rand(3, 3, 4, 5)
PAIRS = rand(3, 3, 4, 2)
for padding in ("SAME", "VALID"):
    for stride in (1, 2):
        window: dict[str, Any] = {"strides": [1, stride, stride, 1], "padding": padding}
        raw(f"Conv2D {padding} {stride}", IMAGE, filter=KERNEL, **window)
        raw(f"DepthwiseConv2dNative {padding} {stride}", IMAGE, filter=PAIRS, **window)
        for pool in ("AvgPool", "MaxPool"):
            raw(f"{pool} {padding} {stride}", IMAGE, ksize=[1, 3, 2, 1], **window)
same: dict[str, Any] = {"strides": ONES, "padding": "SAME"}
raw("Conv2D dilated", IMAGE, filter=KERNEL, dilations=TWOS, **same)
raw(
    "Conv2D explicit",
    IMAGE,
    filter=KERNEL,
    strides=[1, 2, 1, 1],
    padding="EXPLICIT",
    explicit_paddings=[0, 0, 1, 2, 0, 1, 0, 0],
)
raw("Conv2D grouped", IMAGE, filter=rand(3, 3, 2, 6), **same)
case(
    "Conv2D as space to batch",
    lambda o, x: o.BatchToSpaceND(
        input=o.Conv2D(
            input=o.SpaceToBatchND(input=x, block_shape=[2, 2], paddings=[[2, 3], [2, 3]]),
            filter=KERNEL,
            strides=ONES,
            padding="VALID",
        ),
        block_shape=[2, 2],
        crops=[[0, 1], [0, 1]],
    ),
    IMAGE,
)
for note, padding, sizes, side in (
    ("SAME", "SAME", [1, 14, 18, 5], 3),
    ("VALID", "VALID", [1, 15, 19, 5], 3),
    ("odd", "SAME", [1, 13, 17, 5], 4),
):
    weights = rand(side, side, 5, 4)
    window = {"strides": TWOS, "padding": padding}
    raw(f"Conv2DBackpropInput {note}", IMAGE, input_sizes=sizes, filter=weights, **window)
raw("Conv3D", (1, 4, 6, 5, 2), filter=rand(2, 3, 3, 2, 3), strides=[1, 1, 2, 1, 1], padding="SAME")
for name in ("MaxPool3D", "AvgPool3D"):
    window = {"ksize": [1, 2, 3, 2, 1], "strides": [1, 2, 2, 2, 1], "padding": "SAME"}
    raw(name, (1, 5, 6, 5, 2), **window)
raw("MaxPoolV2", IMAGE, ksize=TWOS, strides=TWOS, padding="SAME")
raw("LRN", IMAGE, depth_radius=1, bias=1.5, alpha=0.3, beta=0.6)
affine: dict[str, Any] = {"scale": STEP, "offset": rand(4), "epsilon": 0.01}
seen: dict[str, Any] = {"mean": rand(4, seed=4), "variance": abs(rand(4, seed=5)) + 0.1}
for version in ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"):
    raw(version, IMAGE, out=0, is_training=False, **affine, **seen)
raw("FusedBatchNormV3 training", IMAGE, out=0, is_training=True, mean=[], variance=[], **affine)
for align, half in ((False, False), (True, False), (False, True)):
    for name in ("ResizeBilinear", "ResizeNearestNeighbor", "ResizeBicubic"):
        for size in ([11, 14], [14, 18], [3, 4]):
            note = f"{name} {size} align {align} half {half}"
            raw(note, IMAGE, size=size, align_corners=align, half_pixel_centers=half)
for size in ([14, 18], [3, 3], [5, 11], [7, 3], [16, 20]):
    for align in (False, True):
        raw(f"ResizeArea {size} {align}", IMAGE, size=size, align_corners=align)
BOXES = np.array([[0.1, 0.2, 0.8, 0.9], [0.0, 0.0, 1.2, 1.1], [0.9, 0.8, 0.1, 0.2]], np.float32)
for method in ("bilinear", "nearest"):
    boxes = {"boxes": BOXES, "box_ind": [0, 0, 0], "crop_size": [4, 5]}
    raw(f"CropAndResize {method}", IMAGE, method=method, extrapolation_value=0.5, **boxes)
raw("Pad", X, paddings=[[0, 0], [1, 2], [0, 3]])
raw("PadV2", X, paddings=[[0, 0], [1, 2], [0, 3]], constant_values=1.5)
for mode in ("REFLECT", "SYMMETRIC"):
    raw(f"MirrorPad {mode}", X, paddings=[[0, 0], [1, 2], [2, 1]], mode=mode)
raw("SpaceToBatchND", IMAGE, block_shape=[2, 3], paddings=[[1, 0], [0, 0]])
raw("BatchToSpaceND", BLOCKS, block_shape=[2, 2], crops=[[1, 0], [0, 1]])
raw("SpaceToBatch", IMAGE, block_size=2, paddings=[[1, 0], [0, 1]])
raw("BatchToSpace", BLOCKS, block_size=2, crops=[[1, 0], [0, 1]])
raw("DepthToSpace", (1, 3, 5, 8), block_size=2)
raw("SpaceToDepth", (1, 4, 6, 3), block_size=2)
raw("ExtractImagePatches", IMAGE, ksizes=[1, 3, 3, 1], strides=TWOS, rates=ONES, padding="SAME")

SLICES: tuple[tuple[str, list[int], list[int], list[int], dict[str, int]], ...] = (
    ("plain", [0, 1, 0], [2, 3, 4], [1, 1, 1], {}),
    ("negative", [0, -1, 3], [2, -4, 0], [1, -1, -2], {"begin_mask": 0, "end_mask": 0}),
    ("masks", [1, 1, 1], [1, 2, 2], [1, 1, 1], {"begin_mask": 1, "end_mask": 4}),
    ("shrink", [0, 1, 0], [1, 2, 4], [1, 1, 1], {"shrink_axis_mask": 3}),
    ("ellipsis", [0, 0, 1], [0, 0, 3], [1, 1, 1], {"ellipsis_mask": 2}),
    ("new axis", [0, 0, 1], [0, 2, 3], [1, 1, 1], {"new_axis_mask": 1}),
    ("reverse all", [0, 0, 0], [0, 0, 0], [-1, 1, -1], {"begin_mask": 7, "end_mask": 7}),
)
for name, begin, end, strides, masks in SLICES:
    raw(f"StridedSlice {name}", X, begin=begin, end=end, strides=strides, **masks)
masks = {"shrink_axis_mask": 1, "ellipsis_mask": 2, "new_axis_mask": 4}
masks |= {"begin_mask": 8, "end_mask": 8}
begin, end = [1, 0, 0, 0], [2, 0, 0, 0]
raw("StridedSlice shrink new ellipsis", X, begin=begin, end=end, strides=ONES, **masks)
raw("Slice", X, begin=[0, 1, 1], size=[2, -1, 2])
raw("Split", X, out=1, axis=2, num_split=2)
raw("SplitV", X, out=1, size_splits=[1, -1], axis=2, num_split=2)
case("ConcatV2", lambda o, x, y: o.ConcatV2(values=[x, y], axis=-1), X, (2, 3, 2))
case("Concat", lambda o, x, y: o.Concat(concat_dim=1, values=[x, y]), X, X)
case("Pack", lambda o, x, y: o.Pack(values=[x, y], axis=-1), X, X)
raw("Unpack", X, out=2, num=3, axis=1)
raw("Transpose", X, perm=[2, 0, 1])
raw("Reshape", X, shape=[4, -1])
case("Squeeze", lambda o, x: o.Squeeze(input=o.ExpandDims(input=x, axis=1), axis=[1]), X)
raw("Tile", X, multiples=[1, 2, 3])
raw("BroadcastTo", (3, 1), shape=[2, 3, 4])
raw("ReverseV2", X, axis=[1, -1])
raw("ReverseSequence", X, seq_lengths=[1, 3], seq_dim=1)
raw("Roll", X, shift=[1, -2], axis=[0, 2])
raw("GatherV2", X, indices=[[2, 0], [1, 1]], axis=1)
raw("GatherV2 batch", X, indices=[[2, 0], [1, 1]], axis=1, batch_dims=1)
raw("Gather", X, indices=[1, 0])
raw("GatherNd", X, indices=[[0, 1], [1, 2]])
raw("ScatterNd", X, indices=[[4], [1]], shape=[6, 3, 4])
raw("TensorScatterUpdate", X, indices=[[1, 0]], updates=np.zeros((1, 4), np.float32))
raw("TensorScatterAdd", X, indices=[[1], [1]], updates=np.ones((2, 3, 4), np.float32))
hot: dict[str, Any] = {"depth": 3, "on_value": 2.0, "off_value": -1.0, "axis": 1}
raw("OneHot", (2, 5), dtype="int32", integers=(0, 3), **hot)
case("Select", lambda o, x: o.Select(condition=o.Greater(x=x, y=0.0), x=x, y=-x), X)
case("Select rows", lambda o, x: o.Select(condition=[True, False], x=x, y=-x), X)
case("SelectV2", lambda o, x: o.SelectV2(condition=[True, False, True, False], t=x, e=-x), X)
case("Where", lambda o, x: o.Where(condition=o.Greater(x=o.Abs(x=x), y=-1.0)), (2, 3))
case("Range", lambda o, x: x + o.Range(start=0.0, limit=4.0, delta=1.0), X)
case("Fill", lambda o, x: x + o.Fill(dims=[3, 4], value=2.5), X)
raw("Shape", X)
raw("Size", X)
case("LinSpace", lambda o, x: x + o.LinSpace(start=0.0, stop=1.0, num=4), X)
raw("MatrixBandPart", (2, 4, 5), num_lower=1, num_upper=0)
raw("MatrixDiagPart", (2, 4, 4))
raw("MatrixDiag", (2, 4))
raw("UnravelIndex", (5,), dtype="int32", dims=[3, 4])
raw("SegmentSum", (3, 4), segment_ids=[0, 0, 2])
raw("UnsortedSegmentSum", (3, 4), segment_ids=[1, 0, 1], num_segments=3)
case(
    "InvertPermutation", lambda o, x: x + o.Cast(x=o.InvertPermutation(x=[2, 0, 3, 1]), DstT=F32), X
)
case(
    "L2 normalise",
    lambda o, x: (
        x * o.Rsqrt(x=o.Maximum(x=o.Sum(input=o.Square(x=x), axis=[-1], keep_dims=True), y=1e-12))
    ),
    X,
)
case(
    "NonMaxSuppressionV3",
    lambda o, x: o.NonMaxSuppressionV3(
        boxes=o.Abs(x=x) + np.array([0, 0, 2, 2], np.float32),
        scores=rand(6),
        max_output_size=4,
        iou_threshold=0.5,
        score_threshold=-0.5,
    ),
    (6, 4),
)
raw("AdjustContrastv2", (1, 6, 5, 3), contrast_factor=1.7)
raw("Bucketize", X, boundaries=[-0.5, 0.0, 0.8])
raw("Unique", (5,), dtype="int32", out=0)
case("IdentityN", lambda o, x: o.IdentityN(input=[x, x])[1], X)
raw("CheckNumerics", X, message="bad")
raw("EnsureShape", X, shape=[2, 3, 4])
case("Print", lambda o, x: o.Print(input=x, data=[x]), X)
raw("QuantizeAndDequantizeV2", X, input_min=-2.0, input_max=2.0, range_given=True)
raw("QuantizeAndDequantizeV3", X, input_min=-1.0, input_max=2.0, num_bits=8, range_given=True)
for low, high, bits, narrow in (
    (-1.0, 1.0, 8, False),
    (0.1, 3.0, 8, False),
    (-3.0, -0.5, 8, False),
    (-1.3, 2.2, 8, False),
    (-1.3, 2.2, 8, True),
    (-1.3, 2.2, 4, False),
    (-1.3, 2.2, 16, False),
    (0.0, 6.0, 8, False),
):
    channels = [low, low - 0.1, low - 0.2, low * 2 - 0.1], [high, high, high + 1, high * 2 + 2]
    for kind, ends in (("Args", (low, high)), ("Vars", (low, high)), ("VarsPerChannel", channels)):
        note = f"FakeQuantWithMinMax{kind} {low} {high} {bits} {narrow}"
        ends_of = {"min": ends[0], "max": ends[1]}
        raw(note, X, factor=2.0, num_bits=bits, narrow_range=narrow, **ends_of)
