"""Single operators with float and plain integer tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.frontends.tflite.tflite_models import Case, In, const, ints, number

_RNG = np.random.default_rng(3)


def _w(*shape: int) -> In:
    return const(_RNG.normal(size=shape).astype(np.float32))


def _x(*shape: int, **more: Any) -> In:
    return In(shape, **more)


def _i(*shape: int, low: int = -9, high: int = 9, dtype: str = "int32") -> In:
    return In(shape, dtype, low=low, high=high)


def _out(dtype: str, count: int = 1) -> list[In]:
    return [In(dtype=dtype) for _ in range(count)]


def _conv(padding: int, stride: int, dilation: int = 1, act: int = 0) -> dict[str, int]:
    return {
        "padding": padding,
        "strideH": stride,
        "strideW": stride,
        "dilationHFactor": dilation,
        "dilationWFactor": dilation,
        "fusedActivationFunction": act,
    }


def _pool(padding: int, stride: int, size: tuple[int, int], act: int = 0) -> dict[str, int]:
    return {
        "padding": padding,
        "strideH": stride,
        "strideW": stride,
        "filterHeight": size[0],
        "filterWidth": size[1],
        "fusedActivationFunction": act,
    }


_UNARY = (
    *("ABS", "CEIL", "COS", "ELU", "EXP", "FLOOR", "HARD_SWISH", "LOGISTIC", "NEG", "RELU"),
    *("RELU6", "RELU_N1_TO_1", "RELU_0_TO_1", "ROUND", "SIGN", "SIN", "SQUARE", "TANH"),
    "LOG_SOFTMAX",
)


def windows() -> list[Case]:
    cases = []
    for padding in (0, 1):
        for stride, dilation in ((1, 1), (2, 1), (3, 1), (1, 2)):
            for act in (0, 1, 2, 3) if stride == 2 else (0,):
                note = f"p{padding}-s{stride}-d{dilation}-a{act}"
                options = _conv(padding, stride, dilation, act)
                x = _x(2, 9, 8, 4)
                cases += [
                    Case(
                        "CONV_2D",
                        [x, _w(5, 3, 2, 4), _w(5)],
                        ("Conv2DOptions", options),
                        note=note,
                    ),
                    Case(
                        "DEPTHWISE_CONV_2D",
                        [x, _w(1, 3, 3, 8), _w(8)],
                        ("DepthwiseConv2DOptions", {**options, "depthMultiplier": 2}),
                        note=note,
                    ),
                ]
    x = _x(2, 9, 8, 6)
    cases += [
        Case("CONV_2D", [x, _w(6, 3, 3, 2), _w(6)], ("Conv2DOptions", _conv(0, 1)), note="groups"),
    ]
    for name in ("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"):
        for padding in (0, 1):
            for stride, size in ((1, (3, 2)), (2, (3, 3)), (2, (9, 8))):
                note = f"p{padding}-s{stride}-{size[0]}x{size[1]}"
                options = ("Pool2DOptions", _pool(padding, stride, size))
                cases.append(Case(name, [x], options, note=note))
        cases.append(Case(name, [x], ("Pool2DOptions", _pool(0, 2, (2, 2), 3)), note="relu6"))
    for padding, size, stride in (
        (0, (9, 8), 1),
        (0, (17, 16), 2),
        (0, (18, 15), 2),
        (1, (19, 17), 2),
        (1, (20, 18), 2),
    ):
        cases.append(
            Case(
                "TRANSPOSE_CONV",
                [ints(2, *size, 5), _w(5, 3, 3, 6), x, _w(5)],
                (
                    "TransposeConvOptions",
                    {"padding": padding, "strideH": stride, "strideW": stride},
                ),
                note=f"p{padding}-{size[0]}x{size[1]}",
                version=3,
            )
        )
    conv3d = {"strideD": 1, "strideH": 2, "strideW": 1, "padding": 0}
    cases += [
        Case("CONV_3D", [_x(1, 4, 6, 5, 2), _w(2, 3, 3, 2, 4), _w(4)], ("Conv3DOptions", conv3d)),
        Case(
            "LOCAL_RESPONSE_NORMALIZATION",
            [x],
            (
                "LocalResponseNormalizationOptions",
                {"radius": 2, "bias": 1.5, "alpha": 0.3, "beta": 0.6},
            ),
        ),
        Case("DEPTH_TO_SPACE", [_x(2, 3, 4, 12)], ("DepthToSpaceOptions", {"blockSize": 2})),
        Case("SPACE_TO_DEPTH", [_x(2, 6, 4, 3)], ("SpaceToDepthOptions", {"blockSize": 2})),
        Case("SPACE_TO_BATCH_ND", [_x(2, 5, 4, 3), ints(2, 3), const([[1, 0], [1, 1]], "int32")]),
        Case("BATCH_TO_SPACE_ND", [_x(12, 3, 2, 3), ints(2, 3), const([[1, 0], [1, 2]], "int32")]),
        Case("SPACE_TO_BATCH_ND", [_x(2, 6, 3), ints(2), const([[1, 1]], "int32")], note="3d"),
        Case("BATCH_TO_SPACE_ND", [_x(4, 6, 3), ints(2), const([[0, 0]], "int32")], note="3d"),
    ]
    return cases


def dense() -> list[Case]:
    fc = "FullyConnectedOptions"
    mm = "BatchMatMulOptions"
    return [
        Case("FULLY_CONNECTED", [_x(3, 8), _w(5, 8), _w(5)], (fc, {}), note="2d"),
        Case("FULLY_CONNECTED", [_x(3, 8), _w(5, 8), None], (fc, {}), note="no-bias"),
        Case("FULLY_CONNECTED", [_x(2, 3, 8), _w(5, 8), _w(5)], (fc, {}), note="flattened"),
        Case(
            "FULLY_CONNECTED",
            [_x(2, 3, 8), _w(5, 8), _w(5)],
            (fc, {"keepNumDims": True, "fusedActivationFunction": 1}),
            note="keep",
        ),
        Case("FULLY_CONNECTED", [_x(3, 8), _x(5, 8), _w(5)], (fc, {}), note="computed-weights"),
        Case("BATCH_MATMUL", [_x(2, 3, 4), _x(2, 4, 5)], (mm, {})),
        Case(
            "BATCH_MATMUL", [_x(2, 4, 3), _x(2, 5, 4)], (mm, {"adjX": True, "adjY": True}), note="t"
        ),
        Case("BATCH_MATMUL", [_x(2, 3, 4), _w(4, 5)], (mm, {}), note="constant"),
        Case("EMBEDDING_LOOKUP", [_i(4, low=0, high=5), _w(6, 3, 2)]),
    ]


def elementwise() -> list[Case]:
    cases = [Case(name, [_x(2, 3, 4, 5)]) for name in _UNARY]
    cases += [Case(name, [_x(2, 3, low=0.1)]) for name in ("LOG", "SQRT", "RSQRT")]
    cases += [
        Case("LEAKY_RELU", [_x(2, 3)], ("LeakyReluOptions", {"alpha": 0.2})),
        Case("GELU", [_x(2, 30)], ("GeluOptions", {"approximate": False}), note="exact"),
        Case("GELU", [_x(2, 30)], ("GeluOptions", {"approximate": True}), note="tanh"),
        Case("PRELU", [_x(2, 3, 4, 5), _w(1, 1, 5)]),
        Case("SOFTMAX", [_x(2, 7)], ("SoftmaxOptions", {"beta": 1.0})),
        Case("SOFTMAX", [_x(2, 3, 4, 5)], ("SoftmaxOptions", {"beta": 0.7}), note="beta"),
        Case("L2_NORMALIZATION", [_x(2, 3, 4, 5)], ("L2NormOptions", {})),
        Case("L2_NORMALIZATION", [_x(2, 5, low=0, high=0)], ("L2NormOptions", {}), note="zero"),
        Case("LOGICAL_NOT", [In((3, 4), "bool")], outputs=_out("bool")),
        Case("ADD_N", [_x(2, 3), _x(2, 3), _x(2, 3)]),
        Case("SQUARED_DIFFERENCE", [_x(2, 3, 4), _x(4)]),
        Case("SELECT", [In((2,), "bool"), _x(2, 3), _x(2, 3)], note="rows"),
        Case("SELECT", [In((2, 3), "bool"), _x(2, 3), _x(2, 3)]),
        Case("SELECT_V2", [In((2, 1), "bool"), _x(2, 3), _x(3)]),
        Case("ATAN2", [_x(5, 6), _x(5, 6)]),
        Case(
            "ATAN2", [_i(40, low=-1, high=1, dtype="float32"), _x(40, low=0, high=0)], note="zero"
        ),
        Case(
            "BUCKETIZE",
            [_x(5, 6)],
            ("BucketizeOptions", {"boundaries": [-1.0, 0.0, 1.5]}),
            _out("int32"),
        ),
        Case("FLOOR_MOD", [_x(5, 6), _x(5, 6)]),
        Case("FLOOR_DIV", [_x(5, 6), _x(5, 6)]),
        Case("FLOOR_MOD", [_i(50), _i(50, low=1)], outputs=_out("int32"), note="int"),
        Case("FLOOR_DIV", [_i(50), _i(50, low=1)], outputs=_out("int32"), note="int"),
        Case("FLOOR_DIV", [_i(50), number(-4, "int32")], outputs=_out("int32"), note="negative"),
        Case("FLOOR_MOD", [_i(50), number(-4, "int32")], outputs=_out("int32"), note="negative"),
        Case("DIV", [_i(50), number(-4, "int32")], ("DivOptions", {}), _out("int32"), note="int"),
        Case("BITWISE_XOR", [_i(9), _i(9)], outputs=_out("int32")),
        Case("POW", [_x(3, 4, low=0.1), _x(4)]),
        Case(
            "CAST", [_x(3, 40, low=-9, high=9)], ("CastOptions", {"outDataType": 2}), _out("int32")
        ),
        Case("CAST", [_i(30)], ("CastOptions", {"inDataType": 2}), _out("float32"), note="float"),
        Case("CAST", [In((9,), "bool")], ("CastOptions", {}), _out("float32"), note="bool"),
        Case(
            "FAKE_QUANT",
            [_x(3, 40, low=-9, high=9)],
            ("FakeQuantOptions", {"min": -4.0, "max": 6.0, "numBits": 8}),
        ),
    ]
    for name, options in (("ADD", "Add"), ("SUB", "Sub"), ("MUL", "Mul"), ("DIV", "Div")):
        table = f"{options}Options"
        cases += [
            Case(name, [_x(2, 3, 4, 5), _x(5, low=1)], (table, {}), note="broadcast"),
            Case(name, [_x(2, 3), _w(2, 3)], (table, {"fusedActivationFunction": 2}), note="act"),
        ]
        if name == "MUL":
            act = (table, {"fusedActivationFunction": 3})
            cases.append(Case(name, [_i(40), _i(40)], act, _out("int32"), note="int-relu6"))
        if name != "DIV":
            cases.append(Case(name, [_i(4), _i(4)], (table, {}), _out("int32"), note="int"))
    cases += [
        Case(n, [_x(2, 3, 4, 5), _x(4, 1)], ("MaximumMinimumOptions", {}))
        for n in ("MAXIMUM", "MINIMUM")
    ]
    for name in ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"):
        cases.append(Case(name, [_i(40, low=0, high=3), _i(40, low=0, high=3)], None, _out("bool")))
        cases.append(Case(name, [_x(40), _x(40)], None, _out("bool"), note="float"))
    for name in ("LOGICAL_AND", "LOGICAL_OR"):
        cases.append(Case(name, [In((20,), "bool"), In((20,), "bool")], None, _out("bool")))
    return cases


def moves() -> list[Case]:
    sl = "StridedSliceOptions"
    x = _x(3, 4, 5, 6)

    def strided(begin: Any, end: Any, step: Any, note: str, **masks: Any) -> Case:
        return Case(
            "STRIDED_SLICE", [x, ints(*begin), ints(*end), ints(*step)], (sl, masks), note=note
        )

    return [
        Case("RESHAPE", [x, ints(3, -1, 2)], ("ReshapeOptions", {"newShape": [3, -1, 2]})),
        Case("RESHAPE", [x], ("ReshapeOptions", {"newShape": [4, -1]}), note="option"),
        Case("SQUEEZE", [_x(1, 3, 1, 2)], ("SqueezeOptions", {"squeezeDims": [2]})),
        Case("SQUEEZE", [_x(1, 3, 1, 2)], ("SqueezeOptions", {}), note="all"),
        Case("EXPAND_DIMS", [_x(3, 2), ints(-1)]),
        Case("TRANSPOSE", [x, ints(3, 1, 0, 2)]),
        Case("CONCATENATION", [x, _x(3, 4, 2, 6)], ("ConcatenationOptions", {"axis": -2})),
        Case("PACK", [_x(3, 4), _x(3, 4)], ("PackOptions", {"valuesCount": 2, "axis": 1})),
        Case("UNPACK", [_x(3, 4)], ("UnpackOptions", {"num": 4, "axis": -1}), _out("float32", 4)),
        Case(
            "SPLIT",
            [number(2, "int32"), _x(2, 3, 4)],
            ("SplitOptions", {"numSplits": 2}),
            _out("float32", 2),
        ),
        Case(
            "SPLIT_V",
            [_x(2, 7), ints(2, -1, 1), number(1, "int32")],
            ("SplitVOptions", {"numSplits": 3}),
            _out("float32", 3),
        ),
        Case("PAD", [x, const([[0, 1], [2, 0], [1, 1], [0, 3]], "int32")]),
        Case("PADV2", [x, const([[0, 1], [2, 0], [1, 1], [0, 3]], "int32"), number(3.5)]),
        Case("MIRROR_PAD", [_x(4, 5), const([[1, 2], [3, 1]], "int32")], ("MirrorPadOptions", {})),
        Case(
            "MIRROR_PAD",
            [_x(4, 5), const([[1, 2], [3, 5]], "int32")],
            ("MirrorPadOptions", {"mode": 1}),
            note="symmetric",
        ),
        Case("SLICE", [x, ints(1, 0, 2, 0), ints(2, -1, 2, -1)]),
        Case("TILE", [_x(2, 3), ints(2, 3)]),
        Case("BROADCAST_TO", [_x(2, 1, 3), ints(4, 2, 5, 3)], version=2),
        Case("FILL", [ints(2, 3), In((), "float32")]),
        Case("REVERSE_V2", [_x(3, 4, 5), ints(1)]),
        Case(
            "REVERSE_SEQUENCE",
            [_x(3, 4, 5), ints(2, 4, 1)],
            ("ReverseSequenceOptions", {"seqDim": 1, "batchDim": 0}),
        ),
        Case("GATHER", [_x(3, 4, 5), _i(2, 2, low=0, high=3)], ("GatherOptions", {"axis": 1})),
        Case(
            "GATHER",
            [_x(3, 4, 5), _i(3, 2, low=0, high=3)],
            ("GatherOptions", {"axis": 1, "batchDims": 1}),
            note="batch",
            version=5,
        ),
        Case("GATHER_ND", [_x(3, 4, 5), _i(2, 2, low=0, high=2)]),
        Case("DYNAMIC_UPDATE_SLICE", [_x(5, 6), _x(2, 3), _i(2, low=-2, high=9)]),
        strided((0, 1, -3, 5), (3, -1, 5, 0), (1, 2, 1, -2), "plain"),
        strided((1, 1, 1, 1), (2, 2, 2, 2), (1, 1, 1, 1), "masks", beginMask=5, endMask=10),
        strided((1, 2), (2, 3), (1, 1), "shrink", shrinkAxisMask=3),
        strided((0, -1), (0, 0), (1, 1), "ellipsis", ellipsisMask=1, shrinkAxisMask=2),
        strided((0, 0, 1), (0, 0, 3), (1, 1, 1), "new", newAxisMask=2, beginMask=1, endMask=1),
        strided((1, 2, 0, 1), (2, 2, 5, 3), (1, 1, 2, 1), "offset", offset=True),
        strided((-1,), (-4,), (-1,), "backwards", endMask=1),
    ]


def reductions() -> list[Case]:
    cases = []
    x = _x(2, 3, 4, 5)
    for name in ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD"):
        for axes, keep in (((1, 2), True), ((1, 2), False), ((-1,), False), ((0, 3), True)):
            note = f"{'-'.join(map(str, axes))}-{'keep' if keep else 'drop'}"
            cases.append(
                Case(
                    name,
                    [x, ints(*axes)],
                    ("ReducerOptions", {"keepDims": keep}),
                    note=note,
                    tolerance=1e-4,
                )
            )
    cases += [
        Case(name, [In((3, 4), "bool"), ints(1)], ("ReducerOptions", {}), _out("bool"))
        for name in ("REDUCE_ANY", "REDUCE_ALL")
    ]
    cases += [
        Case("MEAN", [_i(3, 7), ints(1)], ("ReducerOptions", {}), _out("int32"), note="int"),
        Case(
            "ARG_MAX",
            [_i(4, 9, low=0, high=3, dtype="float32"), ints(1)],
            ("ArgMaxOptions", {"outputType": 4}),
            _out("int64"),
        ),
        Case(
            "ARG_MIN",
            [_i(4, 9, low=0, high=3, dtype="float32"), number(0, "int32")],
            ("ArgMinOptions", {"outputType": 2}),
            _out("int32"),
        ),
        Case(
            "TOPK_V2",
            [_i(4, 20, low=0, high=5, dtype="float32"), number(6, "int32")],
            ("TopKV2Options", {}),
            [In(dtype="float32"), In(dtype="int32")],
        ),
        Case("CUMSUM", [_x(3, 4), number(1, "int32")], ("CumsumOptions", {})),
        Case(
            "CUMSUM",
            [_x(3, 4), number(0, "int32")],
            ("CumsumOptions", {"exclusive": True, "reverse": True}),
            note="both",
        ),
        Case(
            "ONE_HOT",
            [_i(3, 4, low=-2, high=6), number(5, "int32"), number(2.5), number(-1.0)],
            ("OneHotOptions", {"axis": 1}),
        ),
        Case("MATRIX_DIAG", [_x(2, 3)]),
        Case("MATRIX_SET_DIAG", [_x(2, 3, 3), _x(2, 3)]),
        Case("SCATTER_ND", [_i(4, 1, low=0, high=5), _x(4, 3), ints(6, 3)]),
        Case("SEGMENT_SUM", [_x(5, 2), ints(0, 0, 1, 1, 2)]),
        Case(
            "SPARSE_TO_DENSE",
            [_i(1, 2, low=0, high=3), ints(5, 5), const([2.0]), number(0.5)],
            ("SparseToDenseOptions", {}),
        ),
    ]
    for name in ("SUM", "MAX", "MIN", "PROD"):
        cases.append(
            Case(f"UNSORTED_SEGMENT_{name}", [_x(5, 2), ints(3, 0, 1, 1, 3), number(4, "int32")])
        )
    for mode in ({}, {"alignCorners": True}, {"halfPixelCenters": True}):
        for size in ((10, 14), (3, 4), (13, 5), (1, 1)):
            note = f"{next(iter(mode), 'plain')}-{size[0]}x{size[1]}"
            for name, table in (
                ("RESIZE_BILINEAR", "ResizeBilinearOptions"),
                ("RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighborOptions"),
            ):
                cases.append(
                    Case(name, [_x(2, 5, 7, 3), ints(*size)], (table, mode), note=note, version=3)
                )
    return cases


CASES = [*windows(), *dense(), *elementwise(), *moves(), *reductions()]
