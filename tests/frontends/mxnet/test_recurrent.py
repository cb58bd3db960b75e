"""MXNet's fused recurrent layers against a loop over time in numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.base.errors import UnsupportedOperatorError
from engine.frontends.load import load_source
from tests.frontends.caffe.reference import sigmoid
from tests.frontends.mxnet.networks import Network, run, source

RANDOM = np.random.default_rng(21)
STEPS, BATCH, INPUTS, HIDDEN = 5, 2, 3, 4
GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


def step(
    mode: str, given: np.ndarray, hidden: np.ndarray, h: np.ndarray, c: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """One step; ``given`` and ``hidden`` are the products with their biases, gate by gate."""
    if mode == "lstm":
        i, f, g, o = np.split(given + hidden, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        return sigmoid(o) * np.tanh(c), c
    if mode == "gru":
        (xr, xz, xn), (hr, hz, hn) = np.split(given, 3, axis=1), np.split(hidden, 3, axis=1)
        update = sigmoid(xz + hz)
        new = np.tanh(xn + sigmoid(xr + hr) * hn)
        return (1 - update) * new + update * h, c
    total = given + hidden
    return (np.tanh(total) if mode == "rnn_tanh" else np.maximum(total, 0)), c


def recurrent(
    mode: str, x: np.ndarray, parts: list[list[list[np.ndarray]]], states: list[np.ndarray]
) -> list[np.ndarray]:
    """The output and the last states of stacked layers, each a list of directions."""
    lasts: list[list[np.ndarray]] = [[] for _ in states]
    number = 0
    for layer in parts:
        outputs = []
        for direction, (wx, wh, bx, bh) in enumerate(layer):
            h = states[0][number]
            c = states[-1][number]
            times = range(STEPS) if direction == 0 else range(STEPS - 1, -1, -1)
            rows = np.zeros((STEPS, BATCH, HIDDEN))
            for t in times:
                h, c = step(mode, x[t] @ wx.T + bx, h @ wh.T + bh, h, c)
                rows[t] = h
            outputs.append(rows)
            for last, value in zip(lasts, (h, c), strict=False):
                last.append(value)
            number += 1
        x = np.concatenate(outputs, axis=2)
    return [x, *(np.stack(last) for last in lasts)]


def weights(mode: str, layers: int, directions: int) -> tuple[np.ndarray, list]:
    """The vector as the file has it, and its parts."""
    rows = GATES[mode] * HIDDEN
    parts = [
        [
            [
                RANDOM.standard_normal((rows, INPUTS if i == 0 else HIDDEN * directions)),
                RANDOM.standard_normal((rows, HIDDEN)),
                RANDOM.standard_normal(rows),
                RANDOM.standard_normal(rows),
            ]
            for _ in range(directions)
        ]
        for i in range(layers)
    ]
    flat = [part.reshape(-1) for layer in parts for d in layer for part in d[:2]]
    flat += [part for layer in parts for d in layer for part in d[2:]]
    return np.concatenate(flat).astype(np.float32), parts


@pytest.mark.parametrize("mode", GATES)
@pytest.mark.parametrize(("layers", "directions"), [(1, 1), (2, 2)])
def test_all_modes(tmp_path: Path, mode: str, layers: int, directions: int) -> None:
    vector, parts = weights(mode, layers, directions)
    names = ["data", "h", "c"][: 3 if mode == "lstm" else 2]
    shape = (layers * directions, BATCH, HIDDEN)
    states = [RANDOM.standard_normal(shape).astype(np.float32) for _ in names[1:]]
    x = RANDOM.standard_normal((STEPS, BATCH, INPUTS)).astype(np.float32)
    net = Network()
    data, *starts = [net.variable(name) for name in names]
    number, _ = net.add(
        "RNN",
        "rnn",
        [data, net.variable("rnn_parameters"), *starts],
        mode=mode,
        state_size=HIDDEN,
        num_layers=layers,
        bidirectional=directions == 2,
        state_outputs=True,
    )
    symbol = net.text(*((number, i) for i in range(1 + len(states))))
    sizes = (x.shape, *(state.shape for state in states))
    given = source(tmp_path, symbol, {"arg:rnn_parameters": vector}, input_size_list=sizes)
    actual = run(load_source(given), dict(zip(names, (x, *states), strict=True)))
    for mine, theirs in zip(actual, recurrent(mode, x, parts, states), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-5)


def test_weights_in_parts_and_open_states_as_gluon_exports_them(tmp_path: Path) -> None:
    _, parts = weights("lstm", 1, 1)
    net = Network()
    data = net.variable("data")
    flat = []
    arrays = {}
    for name, part in zip("abcd", parts[0][0], strict=True):
        variable = net.variable(f"lstm_{name}_weight")
        flat.append(net.add("Reshape", f"flat_{name}", [variable], shape="(-1,)"))
        arrays[f"arg:lstm_{name}_weight"] = part.astype(np.float32)
    joined = net.add("_rnn_param_concat", "joined", flat, dim=0)
    # the batch of the states is open in the file: 0
    states = [net.add("_zeros", f"zeros{i}", [], shape=(1, 0, HIDDEN)) for i in range(2)]
    head = net.add("RNN", "lstm", [data, joined, *states], mode="lstm", state_size=HIDDEN)
    x = RANDOM.standard_normal((STEPS, BATCH, INPUTS)).astype(np.float32)
    given = source(tmp_path, net.text(head), arrays, input_size_list=(x.shape,))
    loaded = load_source(given)
    assert all(value.uses() for value in loaded.graph.model.graph.initializers.values())
    (actual,) = run(loaded, {"data": x})
    zeros = np.zeros((1, BATCH, HIDDEN))
    expected = recurrent("lstm", x, parts, [zeros, zeros])[0]
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({"mode": "lstm", "projection_size": 2}, "projects its state"),
        ({"mode": "lstm", "lstm_state_clip_min": -1}, "clips its state"),
        ({"mode": "peephole"}, "'peephole'"),
        ({"mode": "gru"}, "weights"),
    ],
)
def test_what_is_refused(tmp_path: Path, attributes: dict[str, object], words: str) -> None:
    vector = weights("lstm", 1, 1)[0]
    net = Network()
    inputs = [net.variable("data"), net.variable("p")]
    head = net.add("RNN", "rnn", inputs, state_size=HIDDEN, **attributes)
    sizes = ((STEPS, BATCH, INPUTS),)
    given = source(tmp_path, net.text(head), {"arg:p": vector}, input_size_list=sizes)
    with pytest.raises(UnsupportedOperatorError, match=words):
        load_source(given)
