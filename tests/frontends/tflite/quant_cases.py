"""Single operators with quantized tensors; tolerances are in steps (LSB) of the output."""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.frontends.facts import words
from tests.frontends.tflite.tflite_models import Case, In, const, ints, single

# Operators whose kernels in TFLite round otherwise than dequantize, compute, quantize does: the
# largest difference seen, in steps of the output. All others are exact.
_OF_ANY_TYPE = words(
    "ADD SUB SUM AVERAGE_POOL_2D LEAKY_RELU PRELU RELU6 RESIZE_BILINEAR QUANTIZE HARD_SWISH "
    "SQUARED_DIFFERENCE BATCH_MATMUL"
)
_OF_INT16 = words("CONV_2D DEPTHWISE_CONV_2D FULLY_CONNECTED MUL LOGISTIC")
LARGEST = {
    **{("", op): 1 for op in _OF_ANY_TYPE},
    **{("int16", op): 1 for op in _OF_INT16},
    ("int16", "SOFTMAX"): 6,
    ("int16", "TANH"): 2,
    ("uint8", "CONCATENATION"): 1,
}
VERSIONS = {
    **dict.fromkeys(("ELU", "HARD_SWISH", "PRELU", "RESHAPE"), 1),
    **dict.fromkeys(("RESIZE_BILINEAR", "TRANSPOSE_CONV"), 3),
}

_RNG = np.random.default_rng(11)
_POOL = {"padding": 0, "strideH": 2, "strideW": 2, "filterHeight": 2, "filterWidth": 2}
_CONV = {"padding": 0, "strideH": 1, "strideW": 1}


def _zero(kind: str, zero: int) -> int:
    return zero + 128 if kind == "uint8" else 0 if kind == "int16" else zero


# Round scales make exact ties, which kernels round by the last bit of their factor.
_SCALE = 0.0518565


def _q(kind: str, *shape: int, scale: float = _SCALE, zero: int = 3) -> In:
    step = scale / 200 if kind == "int16" else scale
    return In(shape, kind, scale=step, zero=_zero(kind, zero))


def _weights(kind: str, shape: tuple[int, ...], axis: int, channels: bool) -> In:
    if kind == "uint8":
        data = _RNG.integers(0, 256, shape)
        return const(data, "uint8", scale=0.0103713, zero=120)
    data = _RNG.integers(-127, 128, shape)
    scale = _RNG.uniform(0.004, 0.02, shape[axis]) if channels else 0.0103713
    return const(data, "int8", scale=scale, zero=0, axis=axis)


def _bias(x: In, w: In) -> In:
    scale = np.atleast_1d(np.asarray(w.scale, np.float32)) * np.float32(x.scale)
    count = w.shape[3] if w.shape[0] == 1 and len(w.shape) == 4 else w.shape[0]
    kind = "int64" if x.dtype == "int16" else "int32"
    return const(_RNG.integers(-2000, 2000, count), kind, scale=scale, zero=0)


def layers() -> list[Case]:
    weighted: tuple[tuple[str, tuple[int, ...], int, float, dict[str, int]], ...] = (
        ("CONV_2D", (5, 3, 3, 4), 0, 0.103713, _CONV),
        ("DEPTHWISE_CONV_2D", (1, 3, 3, 8), 3, 0.0622278, {**_CONV, "depthMultiplier": 2}),
        ("FULLY_CONNECTED", (5, 16), 0, 0.103713, {}),
    )
    cases = []
    for kind, channels in (("int8", True), ("int8", False), ("uint8", False), ("int16", True)):
        for act in (0, 1, 3):
            for op, shape, axis, out, options in weighted:
                x = _q(kind, 6, 16) if len(shape) == 2 else _q(kind, 1, 9, 8, 4)
                w = _weights(kind, shape, axis, channels)
                made = single(
                    op,
                    *(x, w, _bias(x, w)),
                    out=[_q(kind, scale=out, zero=-5)],
                    tolerance=LARGEST.get((kind, op), 0),
                    note=f"{kind}-{'channel' if channels else 'tensor'}-a{act}",
                    version=5 if kind == "int16" else 3,
                    fusedActivationFunction=act,
                    **options,
                )
                cases.append(made)
    return cases


def simple() -> list[Case]:
    cases = []
    for kind in ("int8", "uint8", "int16"):
        x = _q(kind, 2, 6, 8, 4)
        other = _q(kind, 2, 6, 8, 4, scale=0.0321503, zero=-20)
        same, wide = [_q(kind)], [_q(kind, scale=0.0933417, zero=10)]
        reduce = {"keepDims": True}
        unit, both = [_q(kind, scale=1 / 256, zero=-128)], [_q(kind, scale=1 / 128, zero=0)]
        if kind == "int16":
            unit = both = [In(dtype=kind, scale=1 / 32768, zero=0)]
        table: list[tuple[str, list[In | None], dict[str, Any], list[In]]] = [
            ("ADD", [x, other], {}, wide),
            ("SUB", [x, other], {}, wide),
            ("MUL", [x, other], {}, wide),
            ("MAXIMUM", [x, _q(kind, 2, 6, 8, 4)], {}, same),
            ("CONCATENATION", [x, _q(kind, 2, 6, 8, 4)], {"axis": 3}, same),
            ("AVERAGE_POOL_2D", [x], _POOL, same),
            ("MAX_POOL_2D", [x], _POOL, same),
            ("MEAN", [x, ints(1, 2)], reduce, wide),
            ("SUM", [x, ints(1, 2)], reduce, [_q(kind, scale=0.933417, zero=10)]),
            ("REDUCE_MAX", [x, ints(1, 2)], reduce, same),
            ("SOFTMAX", [x], {"beta": 1.0}, unit),
            ("LOGISTIC", [x], {}, unit),
            ("TANH", [x], {}, both),
            ("RELU", [x], {}, wide),
            ("RELU6", [x], {}, [_q(kind, scale=6 / 255, zero=-128)]),
            ("LEAKY_RELU", [x], {"alpha": 0.1}, wide),
            ("RESHAPE", [x, ints(2, -1)], {"newShape": [2, -1]}, same),
            ("PAD", [x, const([[0, 0], [1, 2], [0, 1], [0, 0]], "int32")], {}, same),
            ("TRANSPOSE", [x, ints(0, 3, 1, 2)], {}, same),
            ("RESIZE_NEAREST_NEIGHBOR", [x, ints(9, 11)], {}, same),
            ("RESIZE_BILINEAR", [x, ints(12, 16)], {"halfPixelCenters": True}, same),
            ("STRIDED_SLICE", [x, ints(0, 1, 0, 0), ints(2, 5, 8, 4), ints(1, 2, 1, 1)], {}, same),
            ("QUANTIZE", [x], {}, wide),
            ("CAST", [x], {}, [In()]),
            ("DEQUANTIZE", [x], {}, [In()]),
        ]
        if kind != "int16":
            table += [
                ("HARD_SWISH", [x], {}, wide),
                ("PRELU", [x, const(_RNG.integers(0, 100, (1, 1, 4)), kind, scale=0.01)], {}, wide),
                ("ARG_MAX", [x, ints(3)], {"outputType": 2}, [In(dtype="int32")]),
                ("DEPTH_TO_SPACE", [x], {"blockSize": 2}, same),
            ]
        if kind == "uint8":
            table.append(("CONCATENATION", [x, other], {"axis": 3}, wide))
        else:
            sides = [_q(kind, 2, 3, 8), _q(kind, 2, 8, 5)]
            table.append(("BATCH_MATMUL", sides, {}, [_q(kind, scale=0.311139)]))
        if kind == "int8":
            w, twice = _weights(kind, (5, 3, 3, 4), 0, True), {**_CONV, "strideH": 2, "strideW": 2}
            table += [
                ("ABS", [x], {}, wide),
                ("RSQRT", [_q(kind, 4, 9, zero=-128)], {}, [_q(kind, scale=0.0207426, zero=-128)]),
                ("GELU", [x], {}, wide),
                ("ELU", [x], {}, wide),
                ("LOG_SOFTMAX", [_q(kind, 4, 9)], {}, [In(dtype=kind, scale=16 / 256, zero=127)]),
                ("L2_NORMALIZATION", [x], {}, both),
                ("SQUARED_DIFFERENCE", [x, other], {}, wide),
                ("EXP", [x], {}, wide),
                ("TRANSPOSE_CONV", [ints(2, 12, 16, 5), w, x, _bias(x, w)], twice, wide),
            ]
        for position, (op, inputs, options, outputs) in enumerate(table):
            steps = LARGEST.get((kind, op), LARGEST.get(("", op), 0))
            note, version = f"{kind}-{position}", VERSIONS.get(op, 2)
            more = {"tolerance": steps, "note": note, "version": version}
            cases.append(single(op, *inputs, out=outputs, **more, **options))
    return cases


CASES = [*layers(), *simple()]
