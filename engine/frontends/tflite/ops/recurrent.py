"""Recurrent layers.

An LSTM that ONNX's computes becomes one; what that lacks (clipping of the cell as TFLite clips it,
projection, coupled gates, layer normalization) is unrolled over time, step by step as
``lstm_eval.cc`` computes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.base.findings import Finding
from engine.frontends.emit import Input
from engine.frontends.formula import Formula, apply, clip, sigmoid, tanh
from engine.frontends.tflite.layer import Handler, Layer
from engine.frontends.tflite.schema import RELU, TANH
from engine.frontends.tflite.tensors import Value

_MAX_STEPS = 1024
_EPSILON = 1e-8  # kLayerNormEpsilon
_ACTIVATIONS = {RELU: "Relu", TANH: "Tanh"}
_GATES = ("input", "forget", "cell", "output")


@dataclass(frozen=True)
class _Cell:
    """The numbers of one LSTM cell; gates in the order of ``_GATES``, the first None if coupled.

    Weights are (units, features) and (units, outputs), the projection is (units, outputs).
    """

    kernel: tuple[np.ndarray | None, ...]
    recurrent: tuple[np.ndarray | None, ...]
    peephole: tuple[np.ndarray | None, ...]
    bias: tuple[np.ndarray | None, ...]
    projection: np.ndarray | None
    projection_bias: np.ndarray | None
    norm: tuple[np.ndarray | None, ...]
    hidden: Value
    state: Value
    cell_clip: float
    projection_clip: float

    @property
    def units(self) -> int:
        """Width of the cell."""
        return 0 if self.kernel[1] is None else len(self.kernel[1])

    @property
    def outputs(self) -> int:
        """Width of what it gives: of the projection where there is one."""
        return self.units if self.projection is None else self.projection.shape[1]

    @property
    def gates(self) -> tuple[int, ...]:
        """The gates that have weights."""
        return tuple(i for i in range(4) if self.kernel[i] is not None)

    def joined(self, parts: Sequence[np.ndarray | None], which: Sequence[int]) -> np.ndarray:
        """What some gates have, one behind the other; zeros for what one has not."""
        blank = np.zeros(self.units, np.float32)
        return np.concatenate([blank if parts[i] is None else parts[i] for i in which])

    def plain(self, steps: int) -> bool:
        """Whether ONNX's LSTM computes the same.

        From a cell of zeros, each step adds less than 1 to it: a clip of ``steps`` or more never
        acts.
        """
        zero = self.state.array is not None and not self.state.array.any()
        idle = self.cell_clip == 0 or (zero and steps <= self.cell_clip)
        return (
            idle
            and self.projection is None
            and len(self.gates) == 4
            and not any(norm is not None for norm in self.norm)
        )


def _weights_of(layer: Layer, index: int) -> np.ndarray | None:
    """Constant weights in real numbers; None where they are left out."""
    if not layer.has(index):
        return None
    value = layer.input(index)
    array = layer.array(index, "weights")
    if value.quant is None:
        if array.dtype != np.float32:
            raise layer.refusal(f"its weights are {array.dtype}")
        return array
    scale, zero = value.quant.scale, value.quant.zero_point
    if value.quant.axis >= 0:
        shape = [-1 if axis == value.quant.axis else 1 for axis in range(array.ndim)]
        scale, zero = scale.reshape(shape), zero.reshape(shape)
    real: np.ndarray = ((array.astype(np.int64) - zero) * scale).astype(np.float32)
    return real


def _cell_of(layer: Layer, first: int, states: int, norms: int | None) -> _Cell:
    """The cell whose weights begin at input ``first``."""

    def group(start: int, count: int) -> tuple[np.ndarray | None, ...]:
        return tuple(_weights_of(layer, start + number) for number in range(count))

    if layer.int_option("activation") != TANH:
        raise layer.refusal("its activation is not tanh")
    if layer.input(0).dtype != "float32":
        raise layer.refusal("it computes in integers, whose rounding ONNX cannot express")
    kernel = group(first, 4)
    recurrent = group(first + 4, 4)
    projection = _weights_of(layer, first + 15)
    cell = _Cell(
        kernel=kernel,
        recurrent=recurrent,
        peephole=group(first + 8, 3),
        bias=group(first + 11, 4),
        projection=None if projection is None else projection.T,
        projection_bias=_weights_of(layer, first + 16),
        norm=group(norms, 4) if norms is not None else (None,) * 4,
        hidden=layer.input(states),
        state=layer.input(states + 1),
        cell_clip=layer.float_option("cell_clip"),
        projection_clip=layer.float_option("proj_clip"),
    )
    missing = [
        name
        for name, w, r in zip(_GATES[1:], kernel[1:], recurrent[1:], strict=True)
        if w is None or r is None
    ]
    if missing or (kernel[0] is None) != (recurrent[0] is None):
        raise ValueError(f"its {', '.join(missing) or 'input'} gate has no weights")
    for index in cell.gates:
        w, r = kernel[index], recurrent[index]
        if w is None or r is None or w.ndim != 2 or r.shape != (cell.units, cell.outputs):
            raise ValueError(f"the weights of its {_GATES[index]} gate do not fit")
    _note_state(layer)
    return cell


def _note_state(layer: Layer) -> None:
    """A finding: the state does not last from run to run."""
    layer.tensors.note(
        Finding(
            code="state-starts-at-zero",
            severity="info",
            where=layer.tensors.file,
            what="The state of recurrent layers starts at zero in every run.",
            cause="TFLite keeps it between calls until it is reset; a graph has no memory.",
        )
    )


def _sequence(layer: Layer) -> tuple[str, tuple[int, int], int]:
    """The first input as (time, batch, features), steps and batch, and whether time comes first."""
    major, shape, x = layer.int_option("time_major"), layer.input(0).shape, layer.real(0)
    if major:
        return x, (shape[0], shape[1]), major
    return layer.node("Transpose", [x], perm=[1, 0, 2]), (shape[1], shape[0]), major


def _run(layer: Layer, cell: _Cell, x: str, steps: int, *, backward: bool = False) -> str:
    """Outputs (time, batch, outputs) of inputs (time, batch, features)."""
    if cell.plain(steps):
        return _onnx_lstm(layer, cell, x, backward)
    if steps > _MAX_STEPS:
        raise layer.refusal(f"it would be unrolled over {steps} steps")
    return _unrolled(layer, cell, x, steps, backward)


def _initial(layer: Layer, value: Value) -> str:
    """A state for ONNX: (1, batch, units), or nothing for zeros."""
    if value.array is not None and not value.array.any():
        return ""
    return layer.node("Unsqueeze", [layer.tensors.real(value), [0]])


def _onnx(
    layer: Layer, op: str, x: str, weights: tuple[np.ndarray, ...], more: list[Input], **kw: Any
) -> str:
    """A recurrent layer of ONNX, which has the outputs (time, batch, units).

    Args:
        weights: kernel, recurrent kernel, biases of both one behind the other.
        more: inputs behind the lengths, which are left out.
    """
    names = [f"{layer.name}_{part}" for part in ("kernel", "recurrent", "bias")]
    held = [
        layer.emit.constant(array[None], name) for array, name in zip(weights, names, strict=True)
    ]
    inputs: list[Input] = [x, *held, "", *more]
    while isinstance(inputs[-1], str) and not inputs[-1]:
        inputs.pop()
    return layer.node("Squeeze", [layer.node(op, inputs, **kw), [1]])


def _onnx_lstm(layer: Layer, cell: _Cell, x: str, backward: bool) -> str:
    """ONNX orders the gates input, output, forget, cell."""
    order, joined = (0, 3, 1, 2), cell.joined
    bias = np.concatenate([joined(cell.bias, order), np.zeros(4 * cell.units, np.float32)])
    weights = (joined(cell.kernel, order), joined(cell.recurrent, order), bias)
    more: list[Input] = [_initial(layer, cell.hidden), _initial(layer, cell.state)]
    if any(part is not None for part in cell.peephole):
        # TFLite's are input, forget, output; ONNX's input, output, forget
        more.append(joined(cell.peephole, (0, 2, 1))[None])
    direction = "reverse" if backward else "forward"
    return _onnx(layer, "LSTM", x, weights, more, hidden_size=cell.units, direction=direction)


def _unrolled(layer: Layer, cell: _Cell, x: str, steps: int, backward: bool) -> str:
    gates = cell.gates
    normed = any(norm is not None for norm in cell.norm)
    projected = layer.node("MatMul", [x, cell.joined(cell.kernel, gates).T])
    if not normed:
        projected = layer.node("Add", [projected, cell.joined(cell.bias, gates)])
    weights = layer.emit.constant(cell.joined(cell.recurrent, gates).T, "recurrent")
    # everything keeps the axis of time, of length 1, so that the steps join without reshaping
    hidden, state = (
        layer.node("Unsqueeze", [layer.tensors.real(value), [0]])
        for value in (cell.hidden, cell.state)
    )
    names = [f"{layer.name}_step_{step}" for step in range(steps)]
    parts = layer.emit.nodes("Split", [projected], names, axis=0, num_outputs=steps)
    outputs = [""] * steps
    for step in reversed(range(steps)) if backward else range(steps):
        sums = layer.node("Add", [parts[step], layer.node("MatMul", [hidden, weights])])
        hidden, state = _step(layer, cell, sums, state)
        outputs[step] = hidden
    return layer.node("Concat", outputs, axis=0)


def _step(layer: Layer, cell: _Cell, sums: str, state: str) -> tuple[str, str]:
    """One step: the new output and the new cell."""
    names = [f"{layer.name}_{_GATES[i]}_gate" for i in cell.gates]
    split = layer.emit.nodes("Split", [sums, [cell.units] * len(names)], names, axis=-1)
    parts = dict(zip(cell.gates, split, strict=True))
    gates = {gate: layer.emit.formula(part) for gate, part in parts.items()}
    before = layer.emit.formula(state)
    forget = sigmoid(_gate(layer, cell, 1, gates[1], before))
    entry = sigmoid(_gate(layer, cell, 0, gates[0], before)) if 0 in gates else 1.0 - forget
    new = tanh(_gate(layer, cell, 2, gates[2], before))
    after = forget * before + entry * new
    if cell.cell_clip > 0:
        after = clip(after, -cell.cell_clip, cell.cell_clip)
    out = sigmoid(_gate(layer, cell, 3, gates[3], after))
    hidden, state = (out * tanh(after)).written(), after.written()
    if cell.projection is None:
        return hidden, state
    hidden = layer.node("MatMul", [hidden, layer.once(cell.projection, "projection")])
    if cell.projection_bias is not None:
        hidden = layer.node("Add", [hidden, layer.once(cell.projection_bias, "projection_bias")])
    bound = cell.projection_clip
    if bound > 0:
        hidden = clip(layer.emit.formula(hidden), -bound, bound).written()
    return hidden, state


def _gate(layer: Layer, cell: _Cell, gate: int, sums: Formula, state: Formula) -> Formula:
    """What goes into a gate's activation: peephole, then layer normalization and its bias."""
    peephole = None if gate == 2 else cell.peephole[(0, 1, -1, 2)[gate]]
    if peephole is not None:
        sums = sums + state * layer.once(peephole, "peephole")
    norm = cell.norm[gate]
    if not any(part is not None for part in cell.norm):
        return sums
    if norm is None:
        raise ValueError(f"its {_GATES[gate]} gate has no normalization, and others have")
    bias = cell.bias[gate]
    factors = [layer.once(norm, "norm")]
    if bias is not None:
        factors.append(layer.once(bias, "bias"))
    # as MeanStddevNormalization: epsilon is added to the variance
    return apply("LayerNormalization", sums, *factors, axis=-1, epsilon=_EPSILON)


def _sequence_lstm(layer: Layer) -> None:
    """UNIDIRECTIONAL_SEQUENCE_LSTM."""
    if layer.int_option("diagonal_recurrent"):
        raise layer.refusal("its recurrent weights are diagonal")
    cell = _cell_of(layer, 1, 18, 20)
    x, shape, major = _sequence(layer)
    y = _run(layer, cell, x, shape[0])
    _give(layer, 0, y, (*shape, cell.outputs), major)


def _give(layer: Layer, index: int, y: str, shape: tuple[int, int, int], major: int) -> None:
    """Output ``index`` from (time, batch, outputs)."""
    if major:
        layer.result("Identity", [y], shape, index=index)
        return
    swapped = (shape[1], shape[0], shape[2])
    layer.result("Transpose", [y], swapped, index=index, perm=[1, 0, 2])


def _give_both(
    layer: Layer, parts: tuple[str, str], shape: tuple[int, int], sizes: tuple[int, int], major: int
) -> None:
    """The outputs of both directions, joined where the option says so."""
    if layer.int_option("merge_outputs"):
        joined = layer.node("Concat", parts, axis=2)
        _give(layer, 0, joined, (*shape, sum(sizes)), major)
        return
    for index, (part, size) in enumerate(zip(parts, sizes, strict=True)):
        _give(layer, index, part, (*shape, size), major)


def _bidirectional_lstm(layer: Layer) -> None:
    """BIDIRECTIONAL_SEQUENCE_LSTM: inputs 1 to 17 forward, 18 to 34 backward, then the states."""
    if any(layer.has(index) for index in range(39, 48)):
        raise layer.refusal("it has an auxiliary input")
    cells = (_cell_of(layer, 1, 35, None), _cell_of(layer, 18, 37, None))
    x, shape, major = _sequence(layer)
    parts = (_run(layer, cells[0], x, shape[0]), _run(layer, cells[1], x, shape[0], backward=True))
    _give_both(layer, parts, shape, (cells[0].outputs, cells[1].outputs), major)


def _lstm(layer: Layer) -> None:
    """LSTM: one step, of the full or of the basic kernel."""
    if layer.int_option("kernel_type") == 1:
        _basic_lstm(layer)
        return
    cell = _cell_of(layer, 1, 18, 20)
    x = layer.input(0)
    tensor = layer.node("Unsqueeze", [layer.real(0), [0]])
    y = _run(layer, cell, tensor, 1)
    # files of old converters list scratch tensors before the output
    shape = [x.shape[0], cell.outputs]
    layer.result("Squeeze", [y, [0]], shape, index=layer.outputs - 1)


def _basic_lstm(layer: Layer) -> None:
    """The basic kernel: one matrix for (input, output before), gates input, new, forget, output."""
    x, before, state = layer.input(0), layer.input(1), layer.input(4)
    if x.dtype != "float32" or layer.int_option("activation") != TANH:
        raise layer.refusal("it computes in integers, or with another activation than tanh")
    units = state.shape[-1]
    joined = layer.node("Concat", [layer.real(0), layer.real(1)], axis=-1)
    flat = layer.node("Reshape", [joined, [-1, x.shape[-1] + before.shape[-1]]])
    sums = layer.node("Gemm", [flat, layer.real(2), layer.real(3)], transB=1)
    names = [f"{layer.name}_{gate}" for gate in ("input", "new", "forget", "output")]
    entry, new, forget, out = layer.emit.nodes("Split", [sums, [units] * 4], names, axis=-1)
    flat_state = layer.node("Reshape", [layer.real(4), [-1, units]])
    of = layer.emit.formula
    cell = sigmoid(of(forget)) * of(flat_state) + sigmoid(of(entry)) * tanh(of(new))
    hidden = sigmoid(of(out)) * tanh(cell)
    for index, tensor in enumerate((hidden.written(), cell.written())):
        layer.result("Reshape", [tensor, list(state.shape)], state.shape, index=index)
    _note_state(layer)


def _rnn_part(layer: Layer, x: str, first: int, *, backward: bool = False) -> tuple[str, int]:
    """ONNX's RNN with the weights from input ``first``; (time, batch, units) and units."""
    activation = _ACTIVATIONS.get(layer.int_option("activation"))
    if activation is None:
        raise layer.refusal("its activation is neither tanh nor relu")
    if layer.input(0).dtype != "float32":
        raise layer.refusal("it computes in integers")
    kernel, recurrent, bias = (_weights_of(layer, first + number) for number in range(3))
    if kernel is None or recurrent is None or bias is None:
        raise ValueError("it has no weights")
    weights = (kernel, recurrent, np.concatenate([bias, np.zeros_like(bias)]))
    y = _onnx(
        layer,
        "RNN",
        x,
        weights,
        [_initial(layer, layer.input(first + 3))],
        hidden_size=len(kernel),
        activations=[activation],
        direction="reverse" if backward else "forward",
    )
    _note_state(layer)
    return y, len(kernel)


def _sequence_rnn(layer: Layer) -> None:
    """UNIDIRECTIONAL_SEQUENCE_RNN."""
    x, shape, major = _sequence(layer)
    y, units = _rnn_part(layer, x, 1)
    _give(layer, 0, y, (*shape, units), major)


def _bidirectional_rnn(layer: Layer) -> None:
    """BIDIRECTIONAL_SEQUENCE_RNN."""
    if any(layer.has(index) for index in range(9, 12)):
        raise layer.refusal("it has an auxiliary input")
    x, shape, major = _sequence(layer)
    forward, first = _rnn_part(layer, x, 1)
    backward, second = _rnn_part(layer, x, 5, backward=True)
    _give_both(layer, (forward, backward), shape, (first, second), major)


def _rnn(layer: Layer) -> None:
    """RNN: one step."""
    tensor = layer.node("Unsqueeze", [layer.real(0), [0]])
    y, units = _rnn_part(layer, tensor, 1)
    shape = [layer.input(0).shape[0], units]
    layer.result("Squeeze", [y, [0]], shape)


def _svdf(layer: Layer) -> None:
    """SVDF from a memory of zeros: only its newest column counts (svdf.h)."""
    x = layer.input(0)
    feature, time = _weights_of(layer, 1), _weights_of(layer, 2)
    rank = layer.int_option("rank")
    if x.dtype != "float32":
        raise layer.refusal("it computes in integers")
    if feature is None or time is None or rank < 1 or len(feature) % rank:
        raise ValueError("its weights do not fit its rank")
    units = len(feature) // rank
    batch = x.shape[0]
    # the newest column of the memory is weighted by the last column of the time weights
    column = layer.node("MatMul", [layer.real(0), (feature * time[:, -1:]).T])
    parts = layer.node("Reshape", [column, [batch, units, rank]])
    total = layer.node("ReduceSum", [parts, [2]], keepdims=0)
    if layer.has(3):
        total = layer.node("Add", [total, layer.real(3)])
    total = layer.activated(total, layer.activation)
    layer.result("Identity", [total], [batch, units])
    layer.tensors.note(
        Finding(
            code="memory-starts-at-zero",
            severity="warning",
            where=layer.name,
            what="SVDF remembers the inputs of earlier runs; here each run starts without any.",
            cause="A graph has no memory between runs.",
            remedy="Compare first runs only, or convert the model without streaming.",
        )
    )


HANDLERS: dict[str, Handler] = {
    "BIDIRECTIONAL_SEQUENCE_LSTM": _bidirectional_lstm,
    "BIDIRECTIONAL_SEQUENCE_RNN": _bidirectional_rnn,
    "LSTM": _lstm,
    "RNN": _rnn,
    "SVDF": _svdf,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": _sequence_lstm,
    "UNIDIRECTIONAL_SEQUENCE_RNN": _sequence_rnn,
}
