"""LSTM, GRU and RNN in float32: written out step by step, or as TFLite's operator where long.

TFLite's operator keeps its state in the interpreter from one run to the next. What is written out
has no state that is left over, takes initial states as inputs, and gives the last ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from engine.export.tflite.elementwise import Formula, input_tensor
from engine.export.tflite.emitter import PLAIN, Constant, Emitter, refused
from engine.export.tflite.layer import Layer
from engine.frontends.tflite.schema import TANH

_WRITTEN_OUT = 64
"""Steps up to which an LSTM is written out where TFLite has an operator for it."""

_MOST = 1024
"""Steps beyond which nothing is written out: a step is some ten operators."""

_FUNCTIONS: Mapping[str, str] = {"Sigmoid": "LOGISTIC", "Tanh": "TANH", "Relu": "RELU"}
_DEFAULTS = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}


@dataclass(frozen=True)
class _Cell:
    """One direction of a layer.

    Attributes:
        weights: (gates x units, features), in ONNX's order of gates.
        recurrence: (gates x units, units).
        bias, recurrent_bias: (gates x units,).
        peepholes: (3, units) of an LSTM; None: none.
        functions: activations in TFLite's names.
        before: numbers of the initial states; the first is of the output.
    """

    weights: np.ndarray
    recurrence: np.ndarray
    bias: np.ndarray
    recurrent_bias: np.ndarray
    peepholes: np.ndarray | None
    functions: tuple[str, ...]
    before: tuple[int | None, ...]

    @property
    def units(self) -> int:
        return int(self.recurrence.shape[1])


def recurrent(layer: Layer, emitter: Emitter) -> None:
    """One layer, of one or both directions."""
    node = layer.node
    if layer.attribute("layout", 0) or layer.attribute("clip", 0.0):
        raise refused(node, "it has a clip, or its batch first")
    if len(layer.inputs) > 4 and layer.inputs[4] is not None:
        lengths = layer.constant(4)
        if lengths is not None and any(lengths.array.reshape(-1) != layer.data.shape[0]):
            raise refused(node, "its sequences end before the last step")
    steps, batch, _ = layer.data.shape
    way = layer.attribute("direction", "forward")
    ways = ("forward", "reverse") if way == "bidirectional" else (way,)
    source = emitter.as_float(layer.data, PLAIN)
    cells = [_cell(layer, emitter, at) for at in range(len(ways))]
    targets = {target.value: target for target in layer.outputs}
    asked = [bool(value.name) and value in targets for value in node.outputs]
    last_cell = len(asked) > 2 and asked[2]
    runs: list[tuple[int, tuple[int, ...]]] = []
    for cell, where in zip(cells, ways, strict=True):
        backwards = where == "reverse"
        if steps > _WRITTEN_OUT and _has_operator(node.op_type, cell) and not last_cell:
            runs.append(_operator(layer, emitter, source, cell, backwards=backwards))
        elif steps > _MOST:
            raise refused(node, f"it has more than {_MOST} steps and is written out")
        else:
            runs.append(_steps(layer, emitter, source, cell, backwards=backwards))
    label = node.name or node.op_type
    units = cells[0].units
    parts: list[list[int]] = [
        [emitter.reshape(rows, (steps, 1, batch, units), f"{label}/rows") for rows, _ in runs]
    ]
    for at in range(max(len(ends) for _, ends in runs)):
        ends = [end[at] for _, end in runs]
        parts.append([emitter.reshape(end, (1, batch, units), f"{label}/end") for end in ends])
    for at, value in enumerate(node.outputs):
        if value in targets:
            whole = _joined(emitter, parts[at], 1 if at == 0 else 0, f"{label}/both")
            emitter.finish(targets[value], PLAIN, whole)


def _cell(layer: Layer, emitter: Emitter, way: int) -> _Cell:
    kind = layer.node.op_type
    weights, recurrence = (layer.required(at, "its weights are left out") for at in (1, 2))
    rows = weights.array.shape[1]
    both = layer.constant(3)
    bias = np.zeros(2 * rows, np.float32) if both is None else both.real()[way]
    peepholes = layer.constant(7) if kind == "LSTM" else None
    count = len(_DEFAULTS[kind])
    names = [str(name) for name in layer.attribute("activations", ())] or [
        *_DEFAULTS[kind],
        *_DEFAULTS[kind],
    ]
    functions = names[way * count : (way + 1) * count]
    if any(name not in _FUNCTIONS for name in functions):
        raise refused(layer.node, f"its activations are {', '.join(functions)}")
    before = tuple(_initial(layer, emitter, at, way) for at in ((5, 6) if kind == "LSTM" else (5,)))
    return _Cell(
        weights.real()[way],
        recurrence.real()[way],
        bias[:rows],
        bias[rows:],
        None if peepholes is None else peepholes.real()[way].reshape(3, -1),
        tuple(_FUNCTIONS[name] for name in functions),
        before,
    )


def _initial(layer: Layer, emitter: Emitter, index: int, way: int) -> int | None:
    """An initial state (batch, units) of one direction; None: zeros."""
    state = layer.inputs[index] if index < len(layer.inputs) else None
    if state is None:
        return None
    if isinstance(state, Constant) and not np.any(state.real()):
        return None
    whole = input_tensor(state, layer, emitter, PLAIN, integers=False)
    ways, *shape = emitter.shape(whole)
    if ways > 1:
        whole = _cut(emitter, whole, way, f"{layer.node.name}/initial")
    return emitter.reshape(whole, shape, f"{layer.node.name}/state")


def _cut(emitter: Emitter, source: int, at: int, label: str) -> int:
    """One entry of the first axis, which stays."""
    shape = emitter.shape(source)
    cuts = [[at, *[0] * (len(shape) - 1)], [1, *shape[1:]]]
    inputs = [source, *(emitter.ints("cut", cut) for cut in cuts)]
    return emitter.compute("SLICE", inputs, label, (1, *shape[1:]))


def _joined(emitter: Emitter, parts: Sequence[int], axis: int, label: str) -> int:
    if len(parts) == 1:
        return parts[0]
    shape = list(emitter.shape(parts[0]))
    shape[axis] = sum(emitter.shape(part)[axis] for part in parts)
    return emitter.compute("CONCATENATION", parts, label, shape, axis=axis)


def _steps(
    layer: Layer, emitter: Emitter, source: int, cell: _Cell, *, backwards: bool
) -> tuple[int, tuple[int, ...]]:
    """A direction written out: (all outputs (steps, batch, units), the last states)."""
    steps, batch, features = emitter.shape(source)
    f = Formula(emitter, layer.node.name or layer.node.op_type)
    label = f.label
    zeros = emitter.constant("zeros", np.zeros((batch, cell.units), np.float32))
    states = tuple(zeros if state is None else state for state in cell.before)
    rows = emitter.reshape(source, (steps * batch, features), f"{label}/rows")
    split = layer.node.op_type == "GRU"
    bias = cell.bias if split else cell.bias + cell.recurrent_bias
    inputs = _dense(f, rows, cell.weights, bias)
    inputs = emitter.reshape(inputs, (steps, batch, len(cell.weights)), f"{label}/inputs")
    outputs: list[int] = [0] * steps
    compute = CELLS[layer.node.op_type]
    for at in reversed(range(steps)) if backwards else range(steps):
        row = inputs if steps == 1 else _cut(emitter, inputs, at, f"{label}/step")
        row = emitter.reshape(row, (batch, len(cell.weights)), f"{label}/step")
        states = compute(layer, f, cell, row, states)
        outputs[at] = emitter.reshape(states[0], (1, batch, cell.units), f"{label}/output")
    return _joined(emitter, outputs, 0, f"{label}/outputs"), states


_States = tuple[int, ...]


def _dense(f: Formula, source: int, weights: np.ndarray, bias: np.ndarray | None = None) -> int:
    bias = np.zeros(len(weights), np.float32) if bias is None else bias
    named = {"weights": weights, "bias": bias}
    held = [
        f.emitter.constant(f"{f.label}/{name}", np.ascontiguousarray(array))
        for name, array in named.items()
    ]
    shape = (f.emitter.shape(source)[0], len(weights))
    return f.emitter.compute("FULLY_CONNECTED", [source, *held], f"{f.label}/sums", shape)


def _gates(f: Formula, source: int, count: int) -> list[int]:
    """Columns of equal width."""
    rows, columns = f.emitter.shape(source)
    shape = (rows, columns // count)
    gates = [f.emitter.tensor(f"{f.label}/gate", shape, "float32") for _ in range(count)]
    axis = f.emitter.constant("axis", np.array(1, np.int32))
    f.emitter.emit("SPLIT", [axis, source], gates, count=count)
    return gates


def _lstm(layer: Layer, f: Formula, cell: _Cell, row: int, states: _States) -> _States:
    """ONNX, LSTM: gates i, o, f, c."""
    if layer.attribute("input_forget", 0):
        raise refused(layer.node, "its gates of input and forgetting are coupled")
    before, memory = states
    i, o, g, c = _gates(f, f("ADD", row, _dense(f, before, cell.recurrence)), 4)
    first, second, third = cell.functions
    if cell.peepholes is not None:
        seen = [f.emitter.constant("peephole", weights) for weights in cell.peepholes]
        i, g = f("ADD", i, f("MUL", seen[0], memory)), f("ADD", g, f("MUL", seen[2], memory))
    kept = f("MUL", f(first, g), memory)
    memory = f("ADD", kept, f("MUL", f(first, i), f(second, c)))
    if cell.peepholes is not None:
        o = f("ADD", o, f("MUL", seen[1], memory))
    return f("MUL", f(first, o), f(third, memory)), memory


def _gru(layer: Layer, f: Formula, cell: _Cell, row: int, states: _States) -> _States:
    """ONNX, GRU: gates z, r, h; the reset before or behind the matrix."""
    (before,) = states
    units = cell.units
    first, second = cell.functions
    z, r, h = _gates(f, row, 3)
    inner, added = cell.recurrence[: 2 * units], cell.recurrent_bias[: 2 * units]
    more = _gates(f, _dense(f, before, inner, added), 2)
    z, r = f(first, f("ADD", z, more[0])), f(first, f("ADD", r, more[1]))
    last, last_bias = cell.recurrence[2 * units :], cell.recurrent_bias[2 * units :]
    if layer.attribute("linear_before_reset", 0):
        h = f("ADD", h, f("MUL", r, _dense(f, before, last, last_bias)))
    else:
        h = f("ADD", h, _dense(f, f("MUL", r, before), last, last_bias))
    h = f(second, h)
    return (f("ADD", f("MUL", f("SUB", f.number(1.0), z), h), f("MUL", z, before)),)


def _rnn(layer: Layer, f: Formula, cell: _Cell, row: int, states: _States) -> _States:
    return (f(cell.functions[0], f("ADD", row, _dense(f, states[0], cell.recurrence))),)


CELLS: Mapping[str, Callable[[Layer, Formula, _Cell, int, _States], _States]] = {
    "LSTM": _lstm,
    "GRU": _gru,
    "RNN": _rnn,
}
"""Operator -> a step of its cell: the new states."""


def _has_operator(kind: str, cell: _Cell) -> bool:
    plain = cell.functions == ("LOGISTIC", "TANH", "TANH") and cell.peepholes is None
    return kind == "LSTM" and plain and all(state is None for state in cell.before)


def _operator(
    layer: Layer, emitter: Emitter, source: int, cell: _Cell, *, backwards: bool
) -> tuple[int, tuple[int, ...]]:
    """UNIDIRECTIONAL_SEQUENCE_LSTM, whose states start at zero."""
    steps, batch, _ = emitter.shape(source)
    label, units = layer.node.name or "LSTM", cell.units
    if backwards:
        source = _backwards(emitter, source, f"{label}/backwards")
    order = (0, 2, 3, 1)  # TFLite: input, forget, cell, output

    def parts(array: np.ndarray) -> list[int]:
        gates = array.reshape(4, units, *array.shape[1:])
        return [emitter.constant(f"{label}/gate", np.ascontiguousarray(gates[at])) for at in order]

    inputs = [
        source,
        *parts(cell.weights),
        *parts(cell.recurrence),
        *[-1] * 3,
        *parts(cell.bias + cell.recurrent_bias),
        *[-1] * 2,
        *(emitter.variable(f"{label}/state", (batch, units)) for _ in range(2)),
        *[-1] * 4,
    ]
    output = emitter.compute(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        inputs,
        f"{label}/outputs",
        (steps, batch, units),
        activation=TANH,
        time_major=True,
    )
    emitter.stateful.append(label)
    end = _cut(emitter, output, steps - 1, f"{label}/last")
    end = emitter.reshape(end, (batch, units), f"{label}/last")
    if backwards:
        output = _backwards(emitter, output, f"{label}/forwards")
    return output, (end,)


def _backwards(emitter: Emitter, source: int, label: str) -> int:
    inputs = [source, emitter.ints("axis", [0])]
    return emitter.compute("REVERSE_V2", inputs, label)
