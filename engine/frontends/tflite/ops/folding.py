"""What constants decide while the model is read: mostly the arithmetic of shapes, and branches.

Each operator on constants is one of :mod:`engine.graph.ir.folding`, under TFLite's name and with
TFLite's inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from engine.frontends.emit import element_type
from engine.frontends.tflite.layer import Handler, Layer
from engine.frontends.tflite.ops.shape_ops import new_shape, strided_ranges
from engine.frontends.tflite.tensors import Value
from engine.graph.ir.folding import LARGEST, fold

# ----------------------------------------------------------------------------- control flow

_MAX_ROUNDS = 2000


def _decided(layer: Layer, value: Value) -> bool:
    if value.array is None or value.array.size != 1:
        raise layer.refusal("its condition depends on the data")
    return bool(value.array.reshape(-1)[0])


def _give(layer: Layer, values: list[Value]) -> None:
    for index in range(layer.outputs):
        layer.same(index, values[index])


def _if(layer: Layer) -> None:
    condition, *inputs = layer.given
    chosen = "then_subgraph" if _decided(layer, condition) else "else_subgraph"
    _give(layer, layer.inline(layer.int_option(chosen), inputs))


def _while(layer: Layer) -> None:
    values = layer.given
    condition, body = layer.int_option("cond_subgraph"), layer.int_option("body_subgraph")
    for _ in range(_MAX_ROUNDS):
        if not _decided(layer, layer.inline(condition, values)[0]):
            _give(layer, values)
            return
        values = layer.inline(body, values)
    raise layer.refusal(f"it runs for more than {_MAX_ROUNDS} rounds")


def _composite(layer: Layer) -> None:
    """STABLEHLO_COMPOSITE: the graph that says what it computes."""
    _give(layer, layer.inline(layer.int_option("decomposition"), layer.given))


CONTROL: dict[str, Handler] = {"IF": _if, "STABLEHLO_COMPOSITE": _composite, "WHILE": _while}


# -------------------------------------------------------------------------------- constants

Fold = Callable[[Layer], list[np.ndarray] | None]
_Arrays = list[np.ndarray]
_FAR = (1 << 31) - 1


def _arrays(layer: Layer) -> _Arrays | None:
    """The inputs, where all are plain constants of bounded size."""
    arrays = []
    for value in layer.inputs:
        if value is None or value.array is None or value.quant is not None:
            return None
        arrays.append(value.array)
    return arrays if sum(array.size for array in arrays) <= LARGEST else None


def _plain(compute: Callable[[Layer, _Arrays], list[np.ndarray]]) -> Fold:
    """Where all inputs are constants, and no activation is fused and no batch gathered."""

    def of_layer(layer: Layer) -> list[np.ndarray] | None:
        arrays, options = _arrays(layer), layer.operator.options
        if arrays is None or options.get("activation") or options.get("batch_dims"):
            return None
        return compute(layer, arrays)

    return of_layer


def _onnx(
    op: str,
    arrange: Callable[[Layer, _Arrays], _Arrays] = lambda _layer, arrays: arrays,
    **attributes: Callable[[Layer, _Arrays], Any],
) -> Fold:
    """An operator of ONNX, of the inputs as it has them."""
    return _plain(
        lambda layer, arrays: [
            fold(op, arrange(layer, arrays), {k: of(layer, arrays) for k, of in attributes.items()})
        ]
    )


def _option(name: str) -> Callable[[Layer, _Arrays], int]:
    return lambda layer, _arrays: layer.int_option(name)


def _reduction(op: str) -> Fold:
    def arranged(layer: Layer, arrays: _Arrays) -> _Arrays:
        axes = sorted({layer.axis(int(axis)) for axis in arrays[1].reshape(-1)})
        return [arrays[0], np.array(axes, np.int64)]

    return _onnx(
        op, arranged, keepdims=_option("keep_dims"), noop_with_empty_axes=lambda *_given: 1
    )


def _zeros_like(layer: Layer) -> list[np.ndarray] | None:
    x = layer.input(0)
    if x.quant is not None or x.count > LARGEST:
        raise layer.refusal("its result is quantized, or too large for a constant")
    return [np.zeros(x.shape, x.dtype)]


def _begin_and_end(_layer: Layer, arrays: _Arrays) -> _Arrays:
    x, begins, sizes = arrays
    return [x, begins, np.where(sizes == -1, _FAR, begins.astype(np.int64) + sizes)]


def _strided_slice(layer: Layer, arrays: _Arrays) -> list[np.ndarray]:
    ranges, shape = strided_ranges(layer)
    result = arrays[0]
    for axis, taken in enumerate(ranges):
        result = np.take(result, np.array(taken, np.int64), axis=axis)
    return [result.reshape(shape)]


def _parts(layer: Layer, arrays: _Arrays) -> list[np.ndarray]:
    """UNPACK and SPLIT."""
    if layer.operator.type == "SPLIT":
        axis = layer.axis(int(arrays[0].reshape(-1)[0]), arrays[1].ndim)
        return list(np.split(arrays[1], layer.outputs, axis=axis))
    axis = layer.axis(layer.int_option("axis"))
    if arrays[0].shape[axis] != layer.outputs:
        raise ValueError(f"{arrays[0].shape[axis]} parts for {layer.outputs} outputs")
    return [np.take(arrays[0], index, axis=axis) for index in range(layer.outputs)]


_NAMES: Mapping[str, str] = {
    "ABS": "Abs", "ADD": "Add", "BROADCAST_TO": "Expand", "CEIL": "Ceil", "DIV": "Div",
    "EQUAL": "Equal", "FLOOR": "Floor", "FLOOR_DIV": "FloorDiv", "FLOOR_MOD": "Mod",
    "GREATER": "Greater", "GREATER_EQUAL": "GreaterOrEqual", "LESS": "Less",
    "LESS_EQUAL": "LessOrEqual", "LOGICAL_AND": "And", "LOGICAL_NOT": "Not", "LOGICAL_OR": "Or",
    "MAXIMUM": "Max", "MINIMUM": "Min", "MUL": "Mul", "NEG": "Neg", "NOT_EQUAL": "NotEqual",
    "RANGE": "Range", "ROUND": "Round", "SELECT_V2": "Where", "SUB": "Sub", "TILE": "Tile",
}  # fmt: skip
"""Operators with the inputs of ONNX's."""

_REDUCTIONS: Mapping[str, str] = {
    "REDUCE_ALL": "ReduceMin",
    "REDUCE_ANY": "ReduceMax",
    "REDUCE_MAX": "ReduceMax",
    "REDUCE_MIN": "ReduceMin",
    "REDUCE_PROD": "ReduceProd",
    "SUM": "ReduceSum",
}

_RESHAPE = _onnx(
    "Reshape",
    lambda layer, arrays: [arrays[0], np.array(new_shape(layer), np.int64)],
    allowzero=lambda *_given: 1,
)

FOLDS: dict[str, Fold] = {
    **{name: _onnx(op) for name, op in _NAMES.items()},
    **{name: _reduction(op) for name, op in _REDUCTIONS.items()},
    **dict.fromkeys(("EXPAND_DIMS", "RESHAPE", "SQUEEZE"), _RESHAPE),
    **dict.fromkeys(("SPLIT", "UNPACK"), _plain(_parts)),
    "BROADCAST_ARGS": _plain(
        lambda _layer, sizes: [np.array(np.broadcast_shapes(*(tuple(a.tolist()) for a in sizes)))]
    ),
    "CAST": _onnx("Cast", to=lambda layer, _arrays: element_type(layer.dtype())),
    "CONCATENATION": _onnx("Concat", axis=_option("axis")),
    "FILL": _onnx(
        "ConstantOfShape", lambda _layer, arrays: arrays[:1], value=lambda _layer, arrays: arrays[1]
    ),
    "GATHER": _onnx("Gather", axis=_option("axis")),
    "PACK": _plain(lambda layer, arrays: [np.stack(arrays, axis=layer.int_option("axis"))]),
    "RANK": lambda layer: [np.array(layer.input(0).rank, np.int64)],
    "SHAPE": lambda layer: [np.array(layer.input(0).shape, np.int64)],
    "SLICE": _onnx("Slice", _begin_and_end),
    "STRIDED_SLICE": _plain(_strided_slice),
    "TRANSPOSE": _onnx(
        "Transpose",
        lambda _layer, arrays: arrays[:1],
        perm=lambda _layer, arrays: [int(axis) for axis in arrays[1]],
    ),
    "WHERE": _plain(lambda _layer, arrays: [np.argwhere(arrays[0])]),
    "ZEROS_LIKE": _zeros_like,
}
"""Operator -> its results where every input is a constant; None leaves it to its handler."""
