"""MXNet's fused recurrent layers (src/operator/rnn-inl.h)."""

from __future__ import annotations

from typing import Any

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


class _Weights:
    """The one vector of a layer's weights, taken apart.

    First all matrices (of each layer and direction: input, then hidden), then all biases likewise
    (``GetRnnParamSize`` of rnn-inl.h).
    """

    def __init__(self, vector: np.ndarray, layers: int, directions: int, gates: int) -> None:
        self._vector = vector.reshape(-1)
        self._at = 0
        self.layers, self.directions, self.gates = layers, directions, gates

    def take(self, *shape: int) -> np.ndarray:
        count = int(np.prod(shape))
        if self._at + count > len(self._vector):
            refuse(f"its {len(self._vector)} weights are too few")
        self._at += count
        return self._vector[self._at - count : self._at].reshape(shape)

    def all(self, inputs: int, hidden: int) -> list[list[list[np.ndarray]]]:
        """Layer -> direction -> input matrix, hidden matrix, input bias, hidden bias."""
        rows = self.gates * hidden
        weights: list[list[list[np.ndarray]]] = []
        for layer in range(self.layers):
            width = inputs if layer == 0 else hidden * self.directions
            weights.append(
                [[self.take(rows, width), self.take(rows, hidden)] for _ in range(self.directions)]
            )
        for parts in weights:
            for direction in parts:
                direction += [self.take(rows), self.take(rows)]
        if self._at != len(self._vector):
            refuse(f"it needs {self._at} weights and gets {len(self._vector)}")
        return weights


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
    weights = _Weights(call.array(1), layers, directions, len(order)).all(shape[2], hidden)
    states = [_state(call, index) for index in ((2, 3) if mode == "lstm" else (2,))]
    x = call.x()
    ends: list[list[str]] = []
    for layer, parts in enumerate(weights):
        x, *final = _layer(
            call,
            x,
            (op, mode, order),
            parts,
            [(s, layer) if s is not None else None for s in states],
        )
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


def _state(call: Call, index: int) -> str | None:
    """An initial state; None for zeros, also for those whose batch is left open."""
    value = call.values[index] if index < len(call.values) else None
    if value is None or (isinstance(value, np.ndarray) and not value.any()):
        return None
    return call.x(index)


def _layer(
    call: Call,
    x: str,
    kind: tuple[str, str, tuple[int, ...]],
    parts: list[list[np.ndarray]],
    states: list[tuple[str, int] | None],
) -> list[str]:
    """One layer: [T, N, I] -> [T, N, D H], and its last states [D, N, H]."""
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
    starts = []
    for state in states:
        if state is None:
            starts.append("")
            continue
        name, layer = state
        bounds = w.ints(layer * directions), w.ints((layer + 1) * directions)
        starts.append(w.node("Slice", [name, *bounds, w.ints(0)]))
    attributes: dict[str, Any] = {"linear_before_reset": 1} if op == "GRU" else {}
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
        **attributes,
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
