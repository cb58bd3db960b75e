"""The number formats in numpy: what every quantized operator computes, bit by bit.

Sums of integers are exact (held in float64 below 2**53, so also those of 16-bit products), one
multiplication by a float64 scale follows, then rounding to the nearest integer, halves to the even
one, and saturation. Sums of half-precision numbers are float64, rounded once to half precision. No
rule of the real NPU is known to the last bit; these are the ones that the simulator is held to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import reduce

import numpy as np
import onnx
import onnx_ir as ir

from engine.base.errors import SimulationError
from engine.graph.ir import IR_VERSION, OPSET, QuantParams
from engine.simulate.layers import QuantizedLayer
from engine.simulate.reference_ops import avg_pool, conv, conv_transpose, max_pool


def reference_layer(
    layer: QuantizedLayer, values: Mapping[str, np.ndarray]
) -> tuple[np.ndarray, ...]:
    """What one quantized layer writes, in steps of its format.

    Args:
        layer: of a QDQ graph.
        values: dequantized float32 values (or float values) of the node's inputs by tensor name;
            those of constants are not needed.

    Returns:
        One int64 array per quantized output, in order: the integers, or of half precision how
        many numbers of the format lie between 0 and the value (:func:`stored_steps`).

    Raises:
        SimulationError: the reference has no rule for this operator's form.
    """
    integers = []
    for clamped, output in _results(layer, values):
        bounds = layer.bounds if output is layer.outputs[0] else (-np.inf, np.inf)
        integers.append(_round(clamped, output[1], bounds))
    return tuple(integers)


def unrounded_layer(
    layer: QuantizedLayer, values: Mapping[str, np.ndarray]
) -> tuple[np.ndarray, ...]:
    """The same before the rounding and its saturation: in steps, float64, zero points added.

    A value whose fraction is one half lies on the edge between two integers.

    Raises:
        SimulationError: the reference has no rule for this operator's form, or an output is in half
            precision, whose steps are of many sizes.
    """
    outputs = []
    for clamped, (name, params) in _results(layer, values):
        if params.is_float:
            raise SimulationError(
                f"{name!r} is in half precision, which has no step of one size.",
                remedy="Ask for a tensor that is stored in integers.",
            )
        outputs.append(np.asarray(clamped / float(params.scale[0]) + params.zero_point[0]))
    return tuple(outputs)


def _results(
    layer: QuantizedLayer, values: Mapping[str, np.ndarray]
) -> Iterator[tuple[np.ndarray, tuple[str, QuantParams]]]:
    """Of each quantized output the exact result, clamped, and the output."""
    operands = [_operand(layer, index, values) for index in range(len(layer.node.inputs))]
    rule = _RULES.get(layer.node.op_type)
    results = _by_onnx(layer, operands) if rule is None else [rule(layer, operands)]
    for result, output in zip(results, layer.outputs, strict=False):
        if output is not None:
            yield reduce(_clamp, layer.clamps, result), output


def stored_steps(params: QuantParams, values: np.ndarray) -> np.ndarray:
    """What is stored for real values, as int64 whose difference counts steps of the format.

    Integers are their own count; numbers of half precision are counted from 0, so that two
    neighbours differ by 1 (a unit in the last place).
    """
    stored = params.quantize(values)
    if not params.is_float:
        return stored.astype(np.int64)
    bits = stored.view(np.int16).astype(np.int64)
    return np.where(bits < 0, -(bits & 0x7FFF), bits)


class _Operand:
    """One input: exact real value = steps * scale, steps being integers less the zero point."""

    def __init__(self, steps: np.ndarray, scale: np.ndarray | float) -> None:
        self.steps = steps
        self.scale = scale

    @property
    def real(self) -> np.ndarray:
        """The value in float64; per-channel scales are broadcast already."""
        return self.steps * self.scale


def _operand(
    layer: QuantizedLayer, index: int, values: Mapping[str, np.ndarray]
) -> _Operand | None:
    value = layer.node.inputs[index]
    if value is None:
        return None
    entry = layer.inputs[index]
    if entry is None:
        tensor = ir.convenience.get_const_tensor(value)
        array = values[value.name or ""] if tensor is None else tensor.numpy()
        kept = array.astype(np.float64) if array.dtype == np.float32 else array
        return _Operand(kept, 1.0 if array.dtype == np.float32 else 1)
    name, params, stored = entry
    integers = stored if stored is not None else params.quantize(values[name])
    shape = [1] * integers.ndim
    if params.axis is not None:
        shape[params.axis] = -1
    zero = np.asarray(params.zero_point, dtype=np.float64).reshape(shape)
    scale = np.asarray(params.scale, dtype=np.float64).reshape(shape)
    steps = integers.astype(np.float64) - zero
    return _Operand(steps, float(scale.reshape(-1)[0]) if params.axis is None else scale)


def _round(result: np.ndarray, params: QuantParams, bounds: tuple[float, float]) -> np.ndarray:
    if params.is_float:
        return stored_steps(params, result)
    steps = np.rint(result / float(params.scale[0])) + params.zero_point[0]
    low, high = params.limits
    clipped = np.clip(steps, max(low, bounds[0]), min(high, bounds[1]))
    return np.asarray(clipped, dtype=np.int64)


def _clamp(value: np.ndarray, node: ir.Node) -> np.ndarray:
    if node.op_type == "Relu":
        return np.asarray(np.maximum(value, 0.0))
    bounds = [None if v is None else ir.convenience.get_const_tensor(v) for v in node.inputs[1:3]]
    for bound, pick in zip(bounds, (np.maximum, np.minimum), strict=False):
        if bound is not None:
            value = np.asarray(pick(value, bound.numpy().astype(np.float64)))
    return value


Rule = Callable[[QuantizedLayer, list[_Operand | None]], np.ndarray]


def _given(operands: list[_Operand | None], index: int) -> _Operand:
    operand = operands[index] if index < len(operands) else None
    if operand is None:
        raise SimulationError(
            f"An operator of the quantized graph lacks its input {index}.",
            remedy="Export the model again, or build with a lower optimization level.",
        )
    return operand


def _channel_scale(weight: _Operand, rank: int, axis: int) -> np.ndarray | float:
    """The weight's scale, shaped to multiply an output whose channels are at ``axis``."""
    if isinstance(weight.scale, float):
        return weight.scale
    shape = [1] * rank
    shape[axis] = -1
    return np.asarray(weight.scale.reshape(shape))


def _conv(layer: QuantizedLayer, operands: list[_Operand | None]) -> np.ndarray:
    data, weight = _given(operands, 0), _given(operands, 1)
    transposed = layer.node.op_type == "ConvTranspose"
    sums = (conv_transpose if transposed else conv)(layer.node, data.steps, weight.steps)
    shape = (1, -1) + (1,) * (sums.ndim - 2)
    scale = float(data.scale) * _channel_scale(weight, sums.ndim, 1)
    return _biased(layer, operands, sums, scale, shape)


def _biased(
    layer: QuantizedLayer,
    operands: list[_Operand | None],
    sums: np.ndarray,
    scale: np.ndarray | float,
    shape: tuple[int, ...],
) -> np.ndarray:
    """The sums with the bias, in the output's unit; an int32 bias is part of the sum."""
    bias = operands[2] if len(operands) > 2 else None
    if bias is None:
        return np.asarray(sums * scale)
    entry = layer.inputs[2]
    if entry is not None and not entry[1].is_float:
        return np.asarray((sums + bias.steps.reshape(shape)) * scale)
    return np.asarray(sums * scale + bias.real.reshape(shape))


def _gemm(layer: QuantizedLayer, operands: list[_Operand | None]) -> np.ndarray:
    left, right = _given(operands, 0), _given(operands, 1)
    flip = layer.node.attributes.get_int
    a = left.steps.T if flip("transA", 0) else left.steps
    b = right.steps.T if flip("transB", 0) else right.steps
    scale = float(left.scale) * _channel_scale(right, 2, 1)
    return _biased(layer, operands, a @ b, scale, (1, -1))


def _matmul(_layer: QuantizedLayer, operands: list[_Operand | None]) -> np.ndarray:
    left, right = _given(operands, 0), _given(operands, 1)
    sums = np.matmul(left.steps, right.steps)
    scale = float(left.scale) * _channel_scale(right, sums.ndim, sums.ndim - 1)
    return np.asarray(sums * scale)


def _mul(_layer: QuantizedLayer, operands: list[_Operand | None]) -> np.ndarray:
    left, right = _given(operands, 0), _given(operands, 1)
    return np.asarray((left.steps * right.steps) * (left.scale * right.scale))


def _concat(layer: QuantizedLayer, operands: list[_Operand | None]) -> np.ndarray:
    parts = [operand.real for operand in operands if operand is not None]
    return np.concatenate(parts, axis=layer.node.attributes.get_int("axis", 0))


def _of_one(function: Callable[[ir.Node, _Operand], np.ndarray]) -> Rule:
    """The rule of an operator of one input."""
    return lambda layer, operands: function(layer.node, _given(operands, 0))


def _sigmoid(_node: ir.Node, data: _Operand) -> np.ndarray:
    with np.errstate(over="ignore"):  # exp gives infinity, the quotient the right 0
        return np.asarray(1.0 / (1.0 + np.exp(-data.real)))


def _leaky_relu(node: ir.Node, data: _Operand) -> np.ndarray:
    slope = node.attributes.get_float("alpha", 0.01)
    return np.where(data.real >= 0, data.real, data.real * slope)


def _global_average(_node: ir.Node, data: _Operand) -> np.ndarray:
    axes = tuple(range(2, data.steps.ndim))
    count = int(np.prod(data.steps.shape[2:]))
    sums = data.steps.sum(axis=axes, keepdims=True)
    return np.asarray(sums * (float(data.scale) / count))


def _by_onnx(layer: QuantizedLayer, operands: list[_Operand | None]) -> list[np.ndarray]:
    """Any other operator: ONNX's own reference on the exact values, in float32."""
    from onnx.reference import ReferenceEvaluator  # takes as long as all of numpy

    node = ir.to_proto(layer.node)
    names = [name for name in dict.fromkeys(node.input) if name]
    feeds = {}
    for name, operand in zip(node.input, operands, strict=True):
        if name and operand is not None:
            real = operand.real
            feeds[name] = real.astype(np.float32) if real.dtype == np.float64 else real
    model = onnx.helper.make_model(
        onnx.helper.make_graph(
            [node],
            "layer",
            [onnx.helper.make_value_info(name, onnx.TypeProto()) for name in names],
            [onnx.helper.make_value_info(name, onnx.TypeProto()) for name in node.output],
        ),
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
    )
    try:
        results = ReferenceEvaluator(model).run(None, feeds)
    except (NotImplementedError, RuntimeError, ValueError, TypeError) as error:
        raise SimulationError(
            f"The numpy reference cannot compute {layer.node.op_type} ({layer.name}).",
            remedy="Simulate with ONNX Runtime, the default.",
        ) from error
    return [np.asarray(result, dtype=np.float64) for result in results]


_RULES: dict[str, Rule] = {
    "Conv": _conv,
    "ConvTranspose": _conv,
    "Gemm": _gemm,
    "MatMul": _matmul,
    "Add": lambda _, operands: _given(operands, 0).real + _given(operands, 1).real,
    "Mul": _mul,
    "Sigmoid": _of_one(_sigmoid),
    "LeakyRelu": _of_one(_leaky_relu),
    "GlobalAveragePool": _of_one(_global_average),
    "AveragePool": _of_one(lambda node, x: avg_pool(node, x.steps) * float(x.scale)),
    "MaxPool": _of_one(lambda node, x: max_pool(node, x.steps) * float(x.scale)),
    "Concat": _concat,
}
