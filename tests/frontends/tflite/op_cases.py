"""Single operators with float and plain integer tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.frontends.tflite.tflite_models import Case, In, const, ints, number, single

_RNG = np.random.default_rng(3)


def _w(*shape: int) -> In:
    return const(_RNG.normal(size=shape).astype(np.float32))


def _x(*shape: int, **more: Any) -> In:
    return In(shape, **more)


def _i(*shape: int, low: int = -9, high: int = 9, dtype: str = "int32") -> In:
    return In(shape, dtype, low=low, high=high)


def _out(dtype: str, count: int = 1) -> list[In]:
    return [In(dtype=dtype) for _ in range(count)]


def _whole(*shape: int, most: int) -> In:
    """Whole numbers as floats, so that some are equal."""
    return _i(*shape, low=0, high=most, dtype="float32")


def _strides(padding: int, stride: int, act: int = 0) -> dict[str, int]:
    both = {"strideH": stride, "strideW": stride}
    return {"padding": padding, **both, "fusedActivationFunction": act}


def _conv(padding: int, stride: int, dilation: int = 1, act: int = 0) -> dict[str, int]:
    both = {"dilationHFactor": dilation, "dilationWFactor": dilation}
    return {**_strides(padding, stride, act), **both}


def _pool(padding: int, stride: int, size: tuple[int, int], act: int = 0) -> dict[str, int]:
    window = {"filterHeight": size[0], "filterWidth": size[1]}
    return {**_strides(padding, stride, act), **window}


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
                options = {**_conv(padding, stride, dilation, act), "note": note}
                x, deep = _x(2, 9, 8, 4), {**options, "depthMultiplier": 2}
                cases += [
                    single("CONV_2D", x, _w(5, 3, 2, 4), _w(5), **options),
                    single("DEPTHWISE_CONV_2D", x, _w(1, 3, 3, 8), _w(8), **deep),
                ]
    x = _x(2, 9, 8, 6)
    cases += [single("CONV_2D", x, _w(6, 3, 3, 2), _w(6), **_conv(0, 1), note="groups")]
    for name in ("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"):
        for padding in (0, 1):
            for stride, size in ((1, (3, 2)), (2, (3, 3)), (2, (9, 8))):
                note = f"p{padding}-s{stride}-{size[0]}x{size[1]}"
                options = _pool(padding, stride, size)
                cases.append(single(name, x, note=note, **options))
        cases.append(single(name, x, **_pool(0, 2, (2, 2), 3), note="relu6"))
    sizes = [(9, 8), (17, 16), (18, 15), (19, 17), (20, 18)]
    for size, padding, stride in zip(sizes, (0, 0, 0, 1, 1), (1, 2, 2, 2, 2), strict=True):
        operands = [ints(2, *size, 5), _w(5, 3, 3, 6), x, _w(5)]
        options = {"padding": padding, "strideH": stride, "strideW": stride, "version": 3}
        note = f"p{padding}-{size[0]}x{size[1]}"
        cases.append(single("TRANSPOSE_CONV", *operands, **options, note=note))
    conv3d = {"strideD": 1, "strideH": 2, "strideW": 1, "padding": 0}
    cases += [
        single("CONV_3D", _x(1, 4, 6, 5, 2), _w(2, 3, 3, 2, 4), _w(4), **conv3d),
        single("LOCAL_RESPONSE_NORMALIZATION", x, radius=2, bias=1.5, alpha=0.3, beta=0.6),
        single("DEPTH_TO_SPACE", _x(2, 3, 4, 12), blockSize=2),
        single("SPACE_TO_DEPTH", _x(2, 6, 4, 3), blockSize=2),
        single("SPACE_TO_BATCH_ND", _x(2, 5, 4, 3), ints(2, 3), const([[1, 0], [1, 1]], "int32")),
        single("BATCH_TO_SPACE_ND", _x(12, 3, 2, 3), ints(2, 3), const([[1, 0], [1, 2]], "int32")),
        single("SPACE_TO_BATCH_ND", _x(2, 6, 3), ints(2), const([[1, 1]], "int32"), note="3d"),
        single("BATCH_TO_SPACE_ND", _x(4, 6, 3), ints(2), const([[0, 0]], "int32"), note="3d"),
    ]
    return cases


def dense() -> list[Case]:
    keep = {"keepNumDims": True, "fusedActivationFunction": 1, "note": "keep"}
    return [
        single("FULLY_CONNECTED", _x(3, 8), _w(5, 8), _w(5), note="2d"),
        single("FULLY_CONNECTED", _x(3, 8), _w(5, 8), None, note="no-bias"),
        single("FULLY_CONNECTED", _x(2, 3, 8), _w(5, 8), _w(5), note="flattened"),
        single("FULLY_CONNECTED", _x(2, 3, 8), _w(5, 8), _w(5), **keep),
        single("FULLY_CONNECTED", _x(3, 8), _x(5, 8), _w(5), note="computed-weights"),
        single("BATCH_MATMUL", _x(2, 3, 4), _x(2, 4, 5)),
        single("BATCH_MATMUL", _x(2, 4, 3), _x(2, 5, 4), adjX=True, adjY=True, note="t"),
        single("BATCH_MATMUL", _x(2, 3, 4), _w(4, 5), note="constant"),
        single("EMBEDDING_LOOKUP", _i(4, low=0, high=5), _w(6, 3, 2)),
    ]


def elementwise() -> list[Case]:
    signs = _i(40, low=-1, high=1, dtype="float32")
    cases = [single(name, _x(2, 3, 4, 5)) for name in _UNARY]
    cases += [single(name, _x(2, 3, low=0.1)) for name in ("LOG", "SQRT", "RSQRT")]
    cases += [
        single("LEAKY_RELU", _x(2, 3), alpha=0.2),
        single("GELU", _x(2, 30), approximate=False, note="exact"),
        single("GELU", _x(2, 30), approximate=True, note="tanh"),
        single("PRELU", _x(2, 3, 4, 5), _w(1, 1, 5)),
        single("SOFTMAX", _x(2, 7), beta=1.0),
        single("SOFTMAX", _x(2, 3, 4, 5), beta=0.7, note="beta"),
        single("L2_NORMALIZATION", _x(2, 3, 4, 5)),
        single("L2_NORMALIZATION", _x(2, 5, low=0, high=0), note="zero"),
        single("LOGICAL_NOT", In((3, 4), "bool"), out=_out("bool")),
        single("ADD_N", _x(2, 3), _x(2, 3), _x(2, 3)),
        single("SQUARED_DIFFERENCE", _x(2, 3, 4), _x(4)),
        single("SELECT", In((2,), "bool"), _x(2, 3), _x(2, 3), note="rows"),
        single("SELECT", In((2, 3), "bool"), _x(2, 3), _x(2, 3)),
        single("SELECT_V2", In((2, 1), "bool"), _x(2, 3), _x(3)),
        single("ATAN2", _x(5, 6), _x(5, 6)),
        single("ATAN2", signs, _x(40, low=0, high=0), note="zero"),
        single("BUCKETIZE", _x(5, 6), boundaries=[-1.0, 0.0, 1.5], out=_out("int32")),
        single("FLOOR_MOD", _x(5, 6), _x(5, 6)),
        single("FLOOR_DIV", _x(5, 6), _x(5, 6)),
        single("FLOOR_MOD", _i(50), _i(50, low=1), out=_out("int32"), note="int"),
        single("FLOOR_DIV", _i(50), _i(50, low=1), out=_out("int32"), note="int"),
        single("FLOOR_DIV", _i(50), number(-4, "int32"), out=_out("int32"), note="negative"),
        single("FLOOR_MOD", _i(50), number(-4, "int32"), out=_out("int32"), note="negative"),
        single("DIV", _i(50), number(-4, "int32"), out=_out("int32"), note="int"),
        single("BITWISE_XOR", _i(9), _i(9), out=_out("int32")),
        single("POW", _x(3, 4, low=0.1), _x(4)),
        single("CAST", _x(3, 40, low=-9, high=9), outDataType=2, out=_out("int32")),
        single("CAST", _i(30), inDataType=2, out=_out("float32"), note="float"),
        single("CAST", In((9,), "bool"), out=_out("float32"), note="bool"),
        single("FAKE_QUANT", _x(3, 40, low=-9, high=9), min=-4.0, max=6.0, numBits=8),
    ]
    whole = {"fusedActivationFunction": 3, "out": _out("int32"), "note": "int-relu6"}
    for name in ("ADD", "SUB", "MUL", "DIV"):
        cases += [
            single(name, _x(2, 3, 4, 5), _x(5, low=1), note="broadcast"),
            single(name, _x(2, 3), _w(2, 3), fusedActivationFunction=2, note="act"),
        ]
        if name == "MUL":
            cases.append(single(name, _i(40), _i(40), **whole))
        if name != "DIV":
            cases.append(single(name, _i(4), _i(4), out=_out("int32"), note="int"))
    cases += [single(n, _x(2, 3, 4, 5), _x(4, 1)) for n in ("MAXIMUM", "MINIMUM")]
    for name in ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"):
        cases.append(single(name, _i(40, low=0, high=3), _i(40, low=0, high=3), out=_out("bool")))
        cases.append(single(name, _x(40), _x(40), out=_out("bool"), note="float"))
    for name in ("LOGICAL_AND", "LOGICAL_OR"):
        cases.append(single(name, In((20,), "bool"), In((20,), "bool"), out=_out("bool")))
    return cases


def moves() -> list[Case]:
    x, parts = _x(3, 4, 5, 6), {"numSplits": 3, "out": _out("float32", 3)}
    batch = {"axis": 1, "batchDims": 1, "note": "batch", "version": 5}

    def strided(begin: Any, end: Any, step: Any, note: str, **masks: Any) -> Case:
        return single("STRIDED_SLICE", x, ints(*begin), ints(*end), ints(*step), **masks, note=note)

    return [
        single("RESHAPE", x, ints(3, -1, 2), newShape=[3, -1, 2]),
        single("RESHAPE", x, newShape=[4, -1], note="option"),
        single("SQUEEZE", _x(1, 3, 1, 2), squeezeDims=[2]),
        single("SQUEEZE", _x(1, 3, 1, 2), note="all"),
        single("EXPAND_DIMS", _x(3, 2), ints(-1)),
        single("TRANSPOSE", x, ints(3, 1, 0, 2)),
        single("CONCATENATION", x, _x(3, 4, 2, 6), axis=-2),
        single("PACK", _x(3, 4), _x(3, 4), valuesCount=2, axis=1),
        single("UNPACK", _x(3, 4), num=4, axis=-1, out=_out("float32", 4)),
        single("SPLIT", number(2, "int32"), _x(2, 3, 4), numSplits=2, out=_out("float32", 2)),
        single("SPLIT_V", _x(2, 7), ints(2, -1, 1), number(1, "int32"), **parts),
        single("PAD", x, const([[0, 1], [2, 0], [1, 1], [0, 3]], "int32")),
        single("PADV2", x, const([[0, 1], [2, 0], [1, 1], [0, 3]], "int32"), number(3.5)),
        single("MIRROR_PAD", _x(4, 5), const([[1, 2], [3, 1]], "int32")),
        single("MIRROR_PAD", _x(4, 5), const([[1, 2], [3, 5]], "int32"), mode=1, note="symmetric"),
        single("SLICE", x, ints(1, 0, 2, 0), ints(2, -1, 2, -1)),
        single("TILE", _x(2, 3), ints(2, 3)),
        single("BROADCAST_TO", _x(2, 1, 3), ints(4, 2, 5, 3), version=2),
        single("FILL", ints(2, 3), In((), "float32")),
        single("REVERSE_V2", _x(3, 4, 5), ints(1)),
        single("REVERSE_SEQUENCE", _x(3, 4, 5), ints(2, 4, 1), seqDim=1, batchDim=0),
        single("GATHER", _x(3, 4, 5), _i(2, 2, low=0, high=3), axis=1),
        single("GATHER", _x(3, 4, 5), _i(3, 2, low=0, high=3), **batch),
        single("GATHER_ND", _x(3, 4, 5), _i(2, 2, low=0, high=2)),
        single("DYNAMIC_UPDATE_SLICE", _x(5, 6), _x(2, 3), _i(2, low=-2, high=9)),
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
    x, zero = _x(2, 3, 4, 5), number(0, "int32")
    hot = number(5, "int32"), number(2.5), number(-1.0)
    for name in ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD"):
        for axes, keep in (((1, 2), True), ((1, 2), False), ((-1,), False), ((0, 3), True)):
            note = f"{'-'.join(map(str, axes))}-{'keep' if keep else 'drop'}"
            cases.append(single(name, x, ints(*axes), keepDims=keep, tolerance=1e-4, note=note))
    cases += [
        single(name, In((3, 4), "bool"), ints(1), out=_out("bool"))
        for name in ("REDUCE_ANY", "REDUCE_ALL")
    ]
    cases += [
        single("MEAN", _i(3, 7), ints(1), out=_out("int32"), note="int"),
        single("ARG_MAX", _whole(4, 9, most=3), ints(1), outputType=4, out=_out("int64")),
        single("ARG_MIN", _whole(4, 9, most=3), zero, outputType=2, out=_out("int32")),
        single("TOPK_V2", _whole(4, 20, most=5), number(6, "int32"), out=[In(), *_out("int32")]),
        single("CUMSUM", _x(3, 4), number(1, "int32")),
        single("CUMSUM", _x(3, 4), zero, exclusive=True, reverse=True, note="both"),
        single("ONE_HOT", _i(3, 4, low=-2, high=6), *hot, axis=1),
        single("MATRIX_DIAG", _x(2, 3)),
        single("MATRIX_SET_DIAG", _x(2, 3, 3), _x(2, 3)),
        single("SCATTER_ND", _i(4, 1, low=0, high=5), _x(4, 3), ints(6, 3)),
        single("SEGMENT_SUM", _x(5, 2), ints(0, 0, 1, 1, 2)),
        single("SPARSE_TO_DENSE", _i(1, 2, low=0, high=3), ints(5, 5), const([2.0]), number(0.5)),
    ]
    for name in ("SUM", "MAX", "MIN", "PROD"):
        operands = _x(5, 2), ints(3, 0, 1, 1, 3), number(4, "int32")
        cases.append(single(f"UNSORTED_SEGMENT_{name}", *operands))
    for mode in ({}, {"alignCorners": True}, {"halfPixelCenters": True}):
        for size in ((10, 14), (3, 4), (13, 5), (1, 1)):
            note = f"{next(iter(mode), 'plain')}-{size[0]}x{size[1]}"
            for name in ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"):
                options = {**mode, "note": note, "version": 3}
                cases.append(single(name, _x(2, 5, 7, 3), ints(*size), **options))
    return cases


CASES = [*windows(), *dense(), *elementwise(), *moves(), *reductions()]
