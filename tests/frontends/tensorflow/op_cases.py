"""Graphs of one operator each, as TensorFlow's raw operators build them."""

from __future__ import annotations

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


def rand(*shape: int, seed: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


X = (2, 3, 4)
IMAGE = (1, 7, 9, 4)
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
    argument = {"L2Loss": "t", "Relu": "features", "Relu6": "features", "Elu": "features"}.get(name)
    argument = argument or {"Selu": "features", "Softplus": "features", "Softsign": "features"}.get(
        name, "input" if name in ("Snapshot", "StopGradient") else "x"
    )
    case(name, lambda o, x, n=name, a=argument: getattr(o, n)(**{a: x * 3.0}), X)
for name in ["Log", "Log1p", "Sqrt", "Rsqrt", "Acosh"]:
    case(name, lambda o, x, n=name: getattr(o, n)(x=abs(x) + 1.1), X)
for name in ["Acos", "Asin", "Atanh"]:
    case(name, lambda o, x, n=name: getattr(o, n)(x=o.Tanh(x=x) * 0.9), X)
case("Round half to even", lambda o, x: o.Round(x=o.Floor(x=x * 3.0) + 0.5), X)
case("Rint half to even", lambda o, x: o.Rint(x=o.Floor(x=x * 3.0) + 0.5), X)
case("Cast truncates", lambda o, x: o.Cast(x=x * 5.0, DstT="int32"), X)
case("Cast bool", lambda o, x: o.Cast(x=o.Greater(x=x, y=0.0), DstT=F32), X)
case("LeakyRelu", lambda o, x: o.LeakyRelu(features=x, alpha=0.1), X)
case("LeakyRelu default", lambda o, x: o.LeakyRelu(features=x), X)

BINARY = (
    "Add AddV2 Sub Mul RealDiv Div Maximum Minimum SquaredDifference Atan2 FloorDiv FloorMod "
    "TruncateDiv TruncateMod Mod DivNoNan MulNoNan Greater GreaterEqual Less LessEqual Equal "
    "NotEqual Xdivy Xlogy"
)
for name in BINARY.split():
    case(f"{name} float", lambda o, x, n=name: getattr(o, n)(x=x * 4.0, y=STEP), X)
for name in [
    "AddV2",
    "Sub",
    "Mul",
    "Maximum",
    "FloorDiv",
    "FloorMod",
    "TruncateDiv",
    "TruncateMod",
    "Mod",
    "Div",
]:
    case(f"{name} int32", lambda o, x, n=name: getattr(o, n)(x=x, y=INTS), X, dtype="int32")
case(
    "TruncateDiv int64", lambda o, x: o.TruncateDiv(x=x, y=INTS.astype(np.int64)), X, dtype="int64"
)
case("FloorDiv by one", lambda o, x: o.FloorDiv(x=x * 5.0, y=1.0), X)
case("FloorDiv zero", lambda o, x: o.FloorMod(x=x * 4.0, y=2.5), X)
case("Pow", lambda o, x: o.Pow(x=abs(x) + 0.1, y=STEP), X)
case("Pow of ints", lambda o, x: o.Pow(x=x, y=np.array([2, 3, 0, 1], np.int32)), X, dtype="int32")
case("LogicalAnd", lambda o, x: o.LogicalAnd(x=o.Greater(x=x, y=0.0), y=o.Less(x=x, y=0.5)), X)
case("LogicalNot", lambda o, x: o.LogicalNot(x=o.Greater(x=x, y=0.0)), X)
case("BitwiseXor", lambda o, x: o.BitwiseXor(x=x, y=INTS), X, dtype="int32")
case("Invert", lambda o, x: o.Invert(x=x), X, dtype="int32")
case("AddN", lambda o, x: o.AddN(inputs=[x, x * 2.0, x]), X)
case("BiasAdd NHWC", lambda o, x: o.BiasAdd(value=x, bias=STEP), IMAGE)
case("BiasAdd NCHW", lambda o, x: o.BiasAdd(value=x, bias=STEP, data_format="NCHW"), (1, 4, 5, 6))
case("ClipByValue", lambda o, x: o.ClipByValue(t=x, clip_value_min=-0.5, clip_value_max=0.7), X)

for name in ["Sum", "Mean", "Max", "Min", "Prod"]:
    for keep in (False, True):
        case(
            f"{name} keep {keep}",
            lambda o, x, n=name, k=keep: getattr(o, n)(input=x, axis=[0, -1], keep_dims=k),
            X,
        )
case("Mean ints", lambda o, x: o.Mean(input=x, axis=[1]), X, dtype="int32")
case("Sum no axis", lambda o, x: o.Sum(input=x, axis=np.zeros(0, np.int32)), X)
case("All", lambda o, x: o.All(input=o.Greater(x=x, y=-1.0), axis=[1]), X)
case("Any", lambda o, x: o.Any(input=o.Greater(x=x, y=1.0), axis=[1]), X)
case("EuclideanNorm", lambda o, x: o.EuclideanNorm(input=x, axis=[1]), X)
case("ArgMax", lambda o, x: o.ArgMax(input=x, dimension=1), X)
case("ArgMax ties", lambda o, x: o.ArgMax(input=o.Round(x=x * 0.6), dimension=-1), (4, 5, 9))
case(
    "ArgMin ties int32",
    lambda o, x: o.ArgMin(input=o.Round(x=x * 0.6), dimension=0, output_type="int32"),
    (4, 5),
)
case("Softmax", lambda o, x: o.Softmax(logits=x), X)
case("LogSoftmax", lambda o, x: o.LogSoftmax(logits=x * 10.0), X)
case("TopK", lambda o, x: o.TopKV2(input=x, k=2).values, X)
case("TopK indices", lambda o, x: o.TopKV2(input=x, k=3).indices, X)
for exclusive in (False, True):
    for reverse in (False, True):
        case(
            f"Cumsum {exclusive} {reverse}",
            lambda o, x, e=exclusive, r=reverse: o.Cumsum(x=x, axis=1, exclusive=e, reverse=r),
            X,
        )

case("MatMul", lambda o, x: o.MatMul(a=x, b=rand(4, 5)), (3, 4))
case(
    "MatMul transposed",
    lambda o, x: o.MatMul(a=x, b=rand(5, 3), transpose_a=True, transpose_b=True),
    (3, 4),
)
case("BatchMatMulV2 broadcast", lambda o, x: o.BatchMatMulV2(x=x, y=rand(4, 5)), (2, 3, 4))
case(
    "BatchMatMulV2 adj",
    lambda o, x: o.BatchMatMulV2(x=x, y=rand(2, 5, 3), adj_x=True, adj_y=True),
    (2, 3, 4),
)
case("BatchMatMul two", lambda o, x, y: o.BatchMatMul(x=x, y=y), (2, 3, 4), (2, 4, 3))
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
for padding in ("SAME", "VALID"):
    for stride in (1, 2):
        case(
            f"Conv2D {padding} {stride}",
            lambda o, x, p=padding, s=stride: o.Conv2D(
                input=x, filter=KERNEL, strides=[1, s, s, 1], padding=p
            ),
            IMAGE,
        )
        case(
            f"DepthwiseConv2dNative {padding} {stride}",
            lambda o, x, p=padding, s=stride: o.DepthwiseConv2dNative(
                input=x, filter=rand(3, 3, 4, 2), strides=[1, s, s, 1], padding=p
            ),
            IMAGE,
        )
        for pool in ("AvgPool", "MaxPool"):
            key = "value" if pool == "AvgPool" else "input"
            case(
                f"{pool} {padding} {stride}",
                lambda o, x, p=padding, s=stride, n=pool, k=key: getattr(o, n)(
                    **{k: x}, ksize=[1, 3, 2, 1], strides=[1, s, s, 1], padding=p
                ),
                IMAGE,
            )
case(
    "Conv2D dilated",
    lambda o, x: o.Conv2D(
        input=x, filter=KERNEL, strides=[1, 1, 1, 1], padding="SAME", dilations=[1, 2, 2, 1]
    ),
    IMAGE,
)
case(
    "Conv2D explicit",
    lambda o, x: o.Conv2D(
        input=x,
        filter=KERNEL,
        strides=[1, 2, 1, 1],
        padding="EXPLICIT",
        explicit_paddings=[0, 0, 1, 2, 0, 1, 0, 0],
    ),
    IMAGE,
)
case(
    "Conv2D grouped",
    lambda o, x: o.Conv2D(input=x, filter=rand(3, 3, 2, 6), strides=[1, 1, 1, 1], padding="SAME"),
    IMAGE,
)
case(
    "Conv2D as space to batch",
    lambda o, x: o.BatchToSpaceND(
        input=o.Conv2D(
            input=o.SpaceToBatchND(input=x, block_shape=[2, 2], paddings=[[2, 3], [2, 3]]),
            filter=KERNEL,
            strides=[1, 1, 1, 1],
            padding="VALID",
        ),
        block_shape=[2, 2],
        crops=[[0, 1], [0, 1]],
    ),
    IMAGE,
)
for padding in ("SAME", "VALID"):
    size = (1, 14, 18, 5) if padding == "SAME" else (1, 15, 19, 5)
    case(
        f"Conv2DBackpropInput {padding}",
        lambda o, x, p=padding, s=size: o.Conv2DBackpropInput(
            input_sizes=list(s),
            filter=rand(3, 3, 5, 4),
            out_backprop=x,
            strides=[1, 2, 2, 1],
            padding=p,
        ),
        IMAGE,
    )
case(
    "Conv2DBackpropInput odd",
    lambda o, x: o.Conv2DBackpropInput(
        input_sizes=[1, 13, 17, 5],
        filter=rand(4, 4, 5, 4),
        out_backprop=x,
        strides=[1, 2, 2, 1],
        padding="SAME",
    ),
    IMAGE,
)
case(
    "Conv3D",
    lambda o, x: o.Conv3D(
        input=x, filter=rand(2, 3, 3, 2, 3), strides=[1, 1, 2, 1, 1], padding="SAME"
    ),
    (1, 4, 6, 5, 2),
)
case(
    "MaxPool3D",
    lambda o, x: o.MaxPool3D(
        input=x, ksize=[1, 2, 3, 2, 1], strides=[1, 2, 2, 2, 1], padding="SAME"
    ),
    (1, 5, 6, 5, 2),
)
case(
    "AvgPool3D",
    lambda o, x: o.AvgPool3D(
        input=x, ksize=[1, 2, 3, 2, 1], strides=[1, 2, 2, 2, 1], padding="SAME"
    ),
    (1, 5, 6, 5, 2),
)
case(
    "MaxPoolV2",
    lambda o, x: o.MaxPoolV2(input=x, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME"),
    IMAGE,
)
case("LRN", lambda o, x: o.LRN(input=x, depth_radius=1, bias=1.5, alpha=0.3, beta=0.6), IMAGE)
for version in ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"):
    case(
        version,
        lambda o, x, v=version: getattr(o, v)(
            x=x,
            scale=STEP,
            offset=rand(4),
            mean=rand(4, seed=4),
            variance=abs(rand(4, seed=5)) + 0.1,
            epsilon=0.01,
            is_training=False,
        )[0],
        IMAGE,
    )
case(
    "FusedBatchNormV3 training",
    lambda o, x: o.FusedBatchNormV3(
        x=x, scale=STEP, offset=rand(4), mean=[], variance=[], epsilon=0.01, is_training=True
    )[0],
    IMAGE,
)
for align, half in ((False, False), (True, False), (False, True)):
    for name in ("ResizeBilinear", "ResizeNearestNeighbor", "ResizeBicubic"):
        for size in ((11, 14), (14, 18), (3, 4)):
            case(
                f"{name} {size} align {align} half {half}",
                lambda o, x, n=name, s=size, a=align, h=half: getattr(o, n)(
                    images=x, size=list(s), align_corners=a, half_pixel_centers=h
                ),
                IMAGE,
            )
for size in ((14, 18), (3, 3), (5, 11), (7, 3), (16, 20)):
    for align in (False, True):
        case(
            f"ResizeArea {size} {align}",
            lambda o, x, s=size, a=align: o.ResizeArea(images=x, size=list(s), align_corners=a),
            IMAGE,
        )
BOXES = np.array([[0.1, 0.2, 0.8, 0.9], [0.0, 0.0, 1.2, 1.1], [0.9, 0.8, 0.1, 0.2]], np.float32)
for method in ("bilinear", "nearest"):
    case(
        f"CropAndResize {method}",
        lambda o, x, m=method: o.CropAndResize(
            image=x,
            boxes=BOXES,
            box_ind=[0, 0, 0],
            crop_size=[4, 5],
            method=m,
            extrapolation_value=0.5,
        ),
        IMAGE,
    )
case("Pad", lambda o, x: o.Pad(input=x, paddings=[[0, 0], [1, 2], [0, 3]]), X)
case(
    "PadV2",
    lambda o, x: o.PadV2(input=x, paddings=[[0, 0], [1, 2], [0, 3]], constant_values=1.5),
    X,
)
for mode in ("REFLECT", "SYMMETRIC"):
    case(
        f"MirrorPad {mode}",
        lambda o, x, m=mode: o.MirrorPad(input=x, paddings=[[0, 0], [1, 2], [2, 1]], mode=m),
        X,
    )
case(
    "SpaceToBatchND",
    lambda o, x: o.SpaceToBatchND(input=x, block_shape=[2, 3], paddings=[[1, 0], [0, 0]]),
    IMAGE,
)
case(
    "BatchToSpaceND",
    lambda o, x: o.BatchToSpaceND(input=x, block_shape=[2, 2], crops=[[1, 0], [0, 1]]),
    (4, 3, 5, 2),
)
case(
    "SpaceToBatch",
    lambda o, x: o.SpaceToBatch(input=x, block_size=2, paddings=[[1, 0], [0, 1]]),
    IMAGE,
)
case(
    "BatchToSpace",
    lambda o, x: o.BatchToSpace(input=x, block_size=2, crops=[[1, 0], [0, 1]]),
    (4, 3, 5, 2),
)
case("DepthToSpace", lambda o, x: o.DepthToSpace(input=x, block_size=2), (1, 3, 5, 8))
case("SpaceToDepth", lambda o, x: o.SpaceToDepth(input=x, block_size=2), (1, 4, 6, 3))
case(
    "ExtractImagePatches",
    lambda o, x: o.ExtractImagePatches(
        images=x, ksizes=[1, 3, 3, 1], strides=[1, 2, 2, 1], rates=[1, 1, 1, 1], padding="SAME"
    ),
    IMAGE,
)

SLICES = (
    ("plain", [0, 1, 0], [2, 3, 4], [1, 1, 1], {}),
    ("negative", [0, -1, 3], [2, -4, 0], [1, -1, -2], {"begin_mask": 0, "end_mask": 0}),
    ("masks", [1, 1, 1], [1, 2, 2], [1, 1, 1], {"begin_mask": 1, "end_mask": 4}),
    ("shrink", [0, 1, 0], [1, 2, 4], [1, 1, 1], {"shrink_axis_mask": 3}),
    ("ellipsis", [0, 0, 1], [0, 0, 3], [1, 1, 1], {"ellipsis_mask": 2}),
    ("new axis", [0, 0, 1], [0, 2, 3], [1, 1, 1], {"new_axis_mask": 1}),
    ("reverse all", [0, 0, 0], [0, 0, 0], [-1, 1, -1], {"begin_mask": 7, "end_mask": 7}),
    (
        "shrink new ellipsis",
        [1, 0, 0, 0],
        [2, 0, 0, 0],
        [1, 1, 1, 1],
        {
            "shrink_axis_mask": 1,
            "ellipsis_mask": 2,
            "new_axis_mask": 4,
            "begin_mask": 8,
            "end_mask": 8,
        },
    ),
)
for name, begin, end, strides, masks in SLICES:
    case(
        f"StridedSlice {name}",
        lambda o, x, b=begin, e=end, s=strides, m=masks: o.StridedSlice(
            input=x, begin=b, end=e, strides=s, **m
        ),
        X,
    )
case("Slice", lambda o, x: o.Slice(input=x, begin=[0, 1, 1], size=[2, -1, 2]), X)
case("Split", lambda o, x: o.Split(axis=2, value=x, num_split=2)[1], X)
case("SplitV", lambda o, x: o.SplitV(value=x, size_splits=[1, -1], axis=2, num_split=2)[1], X)
case("ConcatV2", lambda o, x, y: o.ConcatV2(values=[x, y], axis=-1), X, (2, 3, 2))
case("Concat", lambda o, x, y: o.Concat(concat_dim=1, values=[x, y]), X, X)
case("Pack", lambda o, x, y: o.Pack(values=[x, y], axis=-1), X, X)
case("Unpack", lambda o, x: o.Unpack(value=x, num=3, axis=1)[2], X)
case("Transpose", lambda o, x: o.Transpose(x=x, perm=[2, 0, 1]), X)
case("Reshape", lambda o, x: o.Reshape(tensor=x, shape=[4, -1]), X)
case("Squeeze", lambda o, x: o.Squeeze(input=o.ExpandDims(input=x, axis=1), axis=[1]), X)
case("Tile", lambda o, x: o.Tile(input=x, multiples=[1, 2, 3]), X)
case("BroadcastTo", lambda o, x: o.BroadcastTo(input=x, shape=[2, 3, 4]), (3, 1))
case("ReverseV2", lambda o, x: o.ReverseV2(tensor=x, axis=[1, -1]), X)
case("ReverseSequence", lambda o, x: o.ReverseSequence(input=x, seq_lengths=[1, 3], seq_dim=1), X)
case("Roll", lambda o, x: o.Roll(input=x, shift=[1, -2], axis=[0, 2]), X)
case("GatherV2", lambda o, x: o.GatherV2(params=x, indices=[[2, 0], [1, 1]], axis=1), X)
case(
    "GatherV2 batch",
    lambda o, x: o.GatherV2(params=x, indices=[[2, 0], [1, 1]], axis=1, batch_dims=1),
    X,
)
case("Gather", lambda o, x: o.Gather(params=x, indices=[1, 0]), X)
case("GatherNd", lambda o, x: o.GatherNd(params=x, indices=[[0, 1], [1, 2]]), X)
case("ScatterNd", lambda o, x: o.ScatterNd(indices=[[4], [1]], updates=x, shape=[6, 3, 4]), X)
case(
    "TensorScatterUpdate",
    lambda o, x: o.TensorScatterUpdate(
        tensor=x, indices=[[1, 0]], updates=np.zeros((1, 4), np.float32)
    ),
    X,
)
case(
    "TensorScatterAdd",
    lambda o, x: o.TensorScatterAdd(
        tensor=x, indices=[[1], [1]], updates=np.ones((2, 3, 4), np.float32)
    ),
    X,
)
case(
    "OneHot",
    lambda o, x: o.OneHot(indices=x, depth=3, on_value=2.0, off_value=-1.0, axis=1),
    (2, 5),
    dtype="int32",
    integers=(0, 3),
)
case("Select", lambda o, x: o.Select(condition=o.Greater(x=x, y=0.0), x=x, y=-x), X)
case("Select rows", lambda o, x: o.Select(condition=[True, False], x=x, y=-x), X)
case("SelectV2", lambda o, x: o.SelectV2(condition=[True, False, True, False], t=x, e=-x), X)
case("Where", lambda o, x: o.Where(condition=o.Greater(x=o.Abs(x=x), y=-1.0)), (2, 3))
case("Range", lambda o, x: x + o.Range(start=0.0, limit=4.0, delta=1.0), X)
case("Fill", lambda o, x: x + o.Fill(dims=[3, 4], value=2.5), X)
case("Shape", lambda o, x: o.Shape(input=x), X)
case("Size", lambda o, x: o.Size(input=x), X)
case("LinSpace", lambda o, x: x + o.LinSpace(start=0.0, stop=1.0, num=4), X)
case("MatrixBandPart", lambda o, x: o.MatrixBandPart(input=x, num_lower=1, num_upper=0), (2, 4, 5))
case("MatrixDiagPart", lambda o, x: o.MatrixDiagPart(input=x), (2, 4, 4))
case("MatrixDiag", lambda o, x: o.MatrixDiag(diagonal=x), (2, 4))
case("UnravelIndex", lambda o, x: o.UnravelIndex(indices=x, dims=[3, 4]), (5,), dtype="int32")
case("SegmentSum", lambda o, x: o.SegmentSum(data=x, segment_ids=[0, 0, 2]), (3, 4))
case(
    "UnsortedSegmentSum",
    lambda o, x: o.UnsortedSegmentSum(data=x, segment_ids=[1, 0, 1], num_segments=3),
    (3, 4),
)
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
case(
    "AdjustContrastv2", lambda o, x: o.AdjustContrastv2(images=x, contrast_factor=1.7), (1, 6, 5, 3)
)
case("Bucketize", lambda o, x: o.Bucketize(input=x, boundaries=[-0.5, 0.0, 0.8]), X)
case("Unique", lambda o, x: o.Unique(x=x).y, (5,), dtype="int32")
case("IdentityN", lambda o, x: o.IdentityN(input=[x, x])[1], X)
case("CheckNumerics", lambda o, x: o.CheckNumerics(tensor=x, message="bad"), X)
case("EnsureShape", lambda o, x: o.EnsureShape(input=x, shape=[2, 3, 4]), X)
case("Print", lambda o, x: o.Print(input=x, data=[x]), X)
case(
    "QuantizeAndDequantizeV2",
    lambda o, x: o.QuantizeAndDequantizeV2(
        input=x, input_min=-2.0, input_max=2.0, range_given=True
    ),
    X,
)
case(
    "QuantizeAndDequantizeV3",
    lambda o, x: o.QuantizeAndDequantizeV3(
        input=x, input_min=-1.0, input_max=2.0, num_bits=8, range_given=True
    ),
    X,
)
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
    case(
        f"FakeQuantWithMinMaxArgs {low} {high} {bits} {narrow}",
        lambda o, x, a=low, b=high, n=bits, r=narrow: o.FakeQuantWithMinMaxArgs(
            inputs=x * 2.0, min=a, max=b, num_bits=n, narrow_range=r
        ),
        X,
    )
    case(
        f"FakeQuantWithMinMaxVars {low} {high} {bits} {narrow}",
        lambda o, x, a=low, b=high, n=bits, r=narrow: o.FakeQuantWithMinMaxVars(
            inputs=x * 2.0, min=a, max=b, num_bits=n, narrow_range=r
        ),
        X,
    )
    case(
        f"FakeQuantWithMinMaxVarsPerChannel {low} {high} {bits} {narrow}",
        lambda o, x, a=low, b=high, n=bits, r=narrow: o.FakeQuantWithMinMaxVarsPerChannel(
            inputs=x * 2.0,
            min=[a, a - 0.1, a - 0.2, a * 2 - 0.1],
            max=[b, b, b + 1, b * 2 + 2],
            num_bits=n,
            narrow_range=r,
        ),
        X,
    )
