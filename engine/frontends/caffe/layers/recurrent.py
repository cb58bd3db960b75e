"""LSTM layers: Caffe's own, which the CRNN forks share, and that of the OCR forks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from engine.frontends.caffe.layer import Converter, Layer, Tensor
from engine.frontends.caffe.prototxt import Fields

# A sequence whose continuation is known only at run time is written out step by step.
_MAX_STEPS = 256
# Caffe's order of gates is input, forget, output, cell; ONNX's is input, output, forget, cell
_ONNX_ORDER = (0, 2, 1, 3)


@dataclass(frozen=True)
class _Cell:
    """Sizes and weights of one LSTM: of the input, of the state, and biases, gates as in Caffe."""

    steps: int
    streams: int
    inputs: int
    units: int
    of_input: np.ndarray
    of_state: np.ndarray
    bias: np.ndarray


def _continuation(at: Layer) -> Sequence[Tensor]:
    """continuation_indicator_layer.cpp of the CRNN forks: 0 at the first step, then 1."""
    at.expect([0])
    param = at.param("continuation_indicator_param")
    shape = (param.integer("time_step", 0), param.integer("batch_size", 0))
    if min(shape) < 1 or math.prod(shape) > 1 << 24:
        raise at.fault(f"{shape[0]} steps of {shape[1]} sequences are none")
    indicator = np.ones(shape, np.float32)
    indicator[0] = 0
    return [at.fixed_top(indicator)]


def _lstm(at: Layer) -> Sequence[Tensor]:
    """lstm_layer.cpp and recurrent_layer.cpp, of BVLC and of xmfbit/warpctc-caffe alike.

    Bottoms: input (steps, streams, ...), continuation (steps, streams), then the start of h and c
    where ``expose_hidden`` is true. Blobs: weights of the input, bias, weights of the state.
    """
    if "lstm_param" in at.spec.fields and "recurrent_param" not in at.spec.fields:
        return _ocr_lstm(at)
    param = at.param("recurrent_param")
    param.ignore("debug_info")
    exposed = param.flag("expose_hidden", False)
    at.expect([4, 5] if exposed else [1, 2, 3], 3 if exposed else 1)
    if len(at.inputs) == (5 if exposed else 3):
        raise at.refuse("it has a static input (a third bottom)")
    cell = _cell(at, param, bias_last=False)
    start = [x.name for x in at.inputs[2:]]
    if any(x.shape != (1, cell.streams, cell.units) for x in at.inputs[2:]):
        raise at.fault(f"h and c start as 1x{cell.streams}x{cell.units}")
    if len(at.inputs) > 1 and at.inputs[1].shape != (cell.steps, cell.streams):
        raise at.fault(f"its continuation is not {cell.steps}x{cell.streams}")
    if len(at.inputs) > 1 and not _continues(at.inputs[1], exposed):
        return _written_out(at, cell, at.inputs[1].name, start)
    # a continuation of 0 at the first step forgets what the state starts with
    restarts = len(at.inputs) > 1 and at.inputs[1].value is not None and _forgets(at.inputs[1])
    return _onnx_lstm(at, cell, [] if restarts else start)


def _continues(indicator: Tensor, exposed: bool) -> bool:
    """Whether the sequence is known to run through, so that ONNX's LSTM computes it."""
    value = indicator.value
    if value is None:
        # one step from a state of zeros: whatever the continuation is, nothing is forgotten
        return indicator.shape[0] == 1 and not exposed
    return bool((value[1:] == 1).all()) and (_forgets(indicator) or bool((value[0] == 1).all()))


def _forgets(indicator: Tensor) -> bool:
    return indicator.value is not None and bool((indicator.value[0] == 0).all())


def _ocr_lstm(at: Layer) -> Sequence[Tensor]:
    """``Lstm`` of junhyukoh/caffe-lstm and the OCR forks (senlinuc/caffe_ocr).

    Bottom: (steps, streams, inputs). Blobs: weights of the input, of the state, bias. The threshold
    clips gradients only.
    """
    at.expect([1])
    param = at.param("lstm_param")
    param.ignore("clipping_threshold", "batch_size")
    return _onnx_lstm(at, _cell(at, param, bias_last=True), [])


def _cell(at: Layer, param: Fields, *, bias_last: bool) -> _Cell:
    units = param.integer("num_output", 0)
    fillers = param.message("weight_filler"), param.message("bias_filler")
    if at.x.rank < 3 or units < 1:
        raise at.fault("it takes steps, streams and inputs, and gives num_output numbers")
    steps, streams, *rest = at.x.shape
    inputs = math.prod(rest)
    of_input = at.blob([4 * units, inputs], "weight", fillers[0])
    bias = None if bias_last else at.blob([4 * units], "bias", fillers[1])
    of_state = at.blob([4 * units, units], "weight", fillers[0])
    if bias is None:
        bias = at.blob([4 * units], "bias", fillers[1])
    return _Cell(steps, streams, inputs, units, of_input, of_state, bias)


def _onnx_lstm(at: Layer, cell: _Cell, start: Sequence[str]) -> Sequence[Tensor]:
    def ordered(array: np.ndarray) -> np.ndarray:
        gates = array.reshape(4, cell.units, -1)[list(_ONNX_ORDER)]
        return np.ascontiguousarray(gates.reshape(1, 4 * cell.units, -1))

    bias = np.zeros((1, 8 * cell.units), np.float32)
    bias[:, : 4 * cell.units] = ordered(cell.bias)[..., 0]
    operands = [
        _sequence(at, cell),
        at.constant(ordered(cell.of_input), "weight"),
        at.constant(ordered(cell.of_state), "recurrence"),
        at.constant(bias, "bias"),
    ]
    if start:
        operands += ["", *start]
    names = [f"{at.spec.makes[0]}:lstm"]
    if len(at.spec.makes) == 3:
        names += at.spec.makes[1:]
    outputs = at.writer.nodes("LSTM", operands, names, hidden_size=cell.units)
    return [at.top("Squeeze", outputs[0], at.ints(1)), *map(at.written, outputs[1:])]


def _sequence(at: Layer, cell: _Cell) -> str:
    if at.x.rank == 3:
        return at.x.name
    return at.reshaped(at.x.name, (cell.steps, cell.streams, cell.inputs))


def _written_out(at: Layer, cell: _Cell, indicator: str, start: Sequence[str]) -> Sequence[Tensor]:
    """Every step as operators, with the continuation as a factor of what is remembered.

    lstm_unit_layer.cpp: ``c = cont * f * c + i * g``, ``h = o * tanh(c)``, gates of
    ``W x + b + U (cont * h)``. Where the state is not exposed, each run starts from zeros.
    """
    if cell.steps > _MAX_STEPS:
        raise at.refuse(
            f"its continuation is an input, and {cell.steps} steps are written out one by one "
            f"(up to {_MAX_STEPS})"
        )
    if not start:
        zeros = np.zeros((1, cell.streams, cell.units), np.float32)
        start = [at.constant(zeros, "start")] * 2
        at.note(
            "lstm-starts-from-zero",
            "Its state starts from zeros in every run; Caffe goes on where the last run ended.",
            remedy="Use expose_hidden to hand the state over.",
        )
    weight = at.constant(np.ascontiguousarray(cell.of_input.T), "weight")
    product = at.node("MatMul", _sequence(at, cell), weight)
    gates = at.node("Add", product, at.constant(cell.bias, "bias"))
    recurrence = at.constant(np.ascontiguousarray(cell.of_state.T), "recurrence")
    factors = at.reshaped(indicator, (cell.steps, cell.streams, 1))
    h, c = start
    steps = []
    for step in range(cell.steps):
        factor, x = (_step(at, name, step) for name in (factors, gates))
        mixed = at.node("MatMul", at.node("Mul", h, factor), recurrence)
        h, c = _unit(at, cell, at.node("Add", mixed, x), at.node("Mul", c, factor))
        steps.append(h)
    tops = [at.top("Concat", *steps, axis=0)]
    for index, last in enumerate((h, c)[: len(at.spec.makes) - 1], start=1):
        tops.append(at.top("Identity", last, index=index))
    return tops


def _step(at: Layer, name: str, step: int) -> str:
    return at.node("Slice", name, at.ints(step), at.ints(step + 1), at.ints(0))


def _unit(at: Layer, cell: _Cell, gates: str, remembered: str) -> tuple[str, str]:
    hints = [f"{at.spec.makes[0]}:{gate}" for gate in ("input", "forget", "output", "cell")]
    sizes = at.ints(*[cell.units] * 4)
    i, f, o, g = at.writer.nodes("Split", [gates, sizes], hints, axis=2)
    kept = at.node("Mul", at.node("Sigmoid", f), remembered)
    new = at.node("Mul", at.node("Sigmoid", i), at.node("Tanh", g))
    c = at.node("Add", kept, new)
    return at.node("Mul", at.node("Sigmoid", o), at.node("Tanh", c)), c


LAYERS: Mapping[str, Converter] = {
    "ContinuationIndicator": _continuation,
    "LSTM": _lstm,
    "Lstm": _ocr_lstm,
}
