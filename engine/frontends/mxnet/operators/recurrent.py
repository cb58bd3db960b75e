"""MXNet's fused recurrent layers (src/operator/rnn-inl.h)."""

from __future__ import annotations

import math

import numpy as np

from engine.frontends.emit import refuse
from engine.frontends.mxnet.call import Call, Converter, Result, Value

# mode -> ONNX operator, gates, and the order of MXNet's gates as ONNX wants them:
# LSTM i f g o -> i o f c; GRU r z n -> z r h
_MODES: dict[str, tuple[str, tuple[int, ...]]] = {
    "lstm": ("LSTM", (0, 3, 1, 2)),
    "gru": ("GRU", (1, 0, 2)),
    "rnn_tanh": ("RNN", (0,)),
    "rnn_relu": ("RNN", (0,)),
}
_MAX_LAYERS = 64


def _taken_apart(
    vector: np.ndarray, gates: int, inputs: int, hidden: int, layers: int, directions: int
) -> list[list[list[np.ndarray]]]:
    """The one vector of weights: layer -> direction -> matrices and biases of input and hidden.

    First all matrices (of each layer and direction: input, then hidden), then all biases likewise
    (``GetRnnParamSize`` of rnn-inl.h).
    """
    rows, count = gates * hidden, layers * directions
    widths = [inputs if at < directions else hidden * directions for at in range(count)]
    shapes: list[tuple[int, ...]] = [(rows, w) for width in widths for w in (width, hidden)]
    shapes += [(rows,)] * (2 * count)
    ends = np.cumsum([math.prod(shape) for shape in shapes])
    if ends[-1] != vector.size:
        refuse(f"it needs {ends[-1]} weights and gets {vector.size}")
    pieces = np.split(vector.reshape(-1), ends[:-1])
    arrays = [piece.reshape(shape) for piece, shape in zip(pieces, shapes, strict=True)]
    matrices, biases = arrays[: 2 * count], arrays[2 * count :]
    parts = [[*matrices[i : i + 2], *biases[i : i + 2]] for i in range(0, 2 * count, 2)]
    return [parts[i : i + directions] for i in range(0, count, directions)]


def _rnn(call: Call) -> Result:
    mode = call.text("mode")
    if mode not in _MODES:
        refuse(f"its mode is {mode!r}")
    if call.given("projection_size") or call.flag("use_sequence_length"):
        refuse("it projects its state, or takes lengths as an input")
    if call.given("lstm_state_clip_min") or call.given("lstm_state_clip_max"):
        refuse("it clips its state")
    op, order = _MODES[mode]
    layers, hidden = call.whole("num_layers", 1), call.whole("state_size", 1)
    directions = 2 if call.flag("bidirectional") else 1
    shape = call.shape()
    if len(shape) != 3 or not 1 <= layers <= _MAX_LAYERS or not 1 <= hidden <= 1 << 16:
        refuse(f"its {layers} layers of {hidden} do not fit an input of the shape {shape}")
    weights = _taken_apart(call.array(1), len(order), shape[2], hidden, layers, directions)
    states = [_state(call, index) for index in ((2, 3) if mode == "lstm" else (2,))]
    x = call.x()
    ends: list[list[str]] = []
    for layer, parts in enumerate(weights):
        bounds = [layer * directions, (layer + 1) * directions, 0]
        starts = [
            call.w.node("Slice", [state, *map(call.w.ints, bounds)]) if state else ""
            for state in states
        ]
        x, *final = _layer(call, x, (op, mode, order), parts, starts)
        ends.append(final)
    steps, batch = shape[:2]
    count = 1 + len(states) if call.flag("state_outputs") else 1
    out = call.w.node("Reshape", [x, call.w.ints(steps, batch, -1)], call.out(0, count))
    if count == 1:
        return out
    stacked: list[Value] = [
        call.w.node("Concat", [end[kind] for end in ends], call.out(kind + 1, count), axis=0)
        if layers > 1
        else call.w.node("Identity", [ends[0][kind]], call.out(kind + 1, count))
        for kind in range(len(states))
    ]
    return [out, *stacked]


def _state(call: Call, index: int) -> str:
    """An initial state; empty for zeros, also for those whose batch is left open."""
    value = call.values[index] if index < len(call.values) else None
    if value is None or (isinstance(value, np.ndarray) and not value.any()):
        return ""
    return call.x(index)


def _layer(
    call: Call,
    x: str,
    kind: tuple[str, str, tuple[int, ...]],
    parts: list[list[np.ndarray]],
    starts: list[str],
) -> list[str]:
    """One layer from its first states: [T, N, I] -> [T, N, D H], and the last states [D, N, H]."""
    w = call.w
    op, mode, order = kind
    directions, hidden = len(parts), parts[0][1].shape[1]

    def gates(array: np.ndarray) -> np.ndarray:
        split = array.reshape(len(order), hidden, *array.shape[1:])
        return split[list(order)].reshape(array.shape)

    matrices = [
        w.constant(np.stack([gates(part[i]) for part in parts]), f"{call.node.name}_{role}")
        for i, role in enumerate(("input_weight", "hidden_weight"))
    ]
    biases = np.stack([np.concatenate([gates(part[2]), gates(part[3])]) for part in parts])
    activations = ["Relu" if mode == "rnn_relu" else "Tanh"] * directions if op == "RNN" else None
    inputs = [x, *matrices, w.constant(biases, f"{call.node.name}_bias"), "", *starts]
    while not inputs[-1]:
        inputs.pop()
    count = 3 if op == "LSTM" else 2
    names = [f"{call.node.name}_layer_{part}" for part in ("all", "hidden", "cell")[:count]]
    y, *ends = w.nodes(
        op,
        inputs,
        names,
        hidden_size=hidden,
        direction="bidirectional" if directions == 2 else "forward",
        activations=activations,
        linear_before_reset=1 if op == "GRU" else None,
    )
    if directions == 1:
        y = w.node("Squeeze", [y, w.ints(1)])
    else:
        steps, _, batch, _ = w.shape(y)
        y = w.node("Transpose", [y], perm=(0, 2, 1, 3))
        y = w.node("Reshape", [y, w.ints(steps, batch, directions * hidden)])
    return [y, *ends]


def _joined_weights(call: Call) -> Result:
    """``_rnn_param_concat``: the vector of weights out of its parts."""
    parts = [call.array(index) for index in range(len(call.values))]
    if not parts:
        refuse("it has no inputs")
    return np.concatenate([part.reshape(-1) for part in parts])


RECURRENT: dict[str, Converter] = {"RNN": _rnn, "_rnn_param_concat": _joined_weights}
