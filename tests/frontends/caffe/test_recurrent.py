"""LSTM layers of Caffe and of the CRNN and OCR forks, against their definition."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.base.errors import SourceModelError, UnsupportedOperatorError
from tests.frontends.caffe import reference
from tests.frontends.caffe.nets import floats, inputs, layer, load, run

T, N, K, H = 5, 2, 6, 3
X = floats(1, T, N, K)
W, R, B = floats(2, 4 * H, K), floats(3, 4 * H, H), floats(4, 4 * H)
ZERO = np.zeros((N, H))
INDICATOR = (
    'layer { name: "indicator" type: "ContinuationIndicator" top: "cont" '
    f"continuation_indicator_param {{ time_step: {T} batch_size: {N} }} }}"
)
# a sequence that begins with the first step
CONT = np.ones((T, N), np.float32)
CONT[0] = 0
WEIGHTS = {"it": [W, B, R]}
PARAM = f"recurrent_param {{ num_output: {H} weight_filler {{ type: 'xavier' }} }}"


def wanted(x: np.ndarray = X, cont: np.ndarray = CONT, start: np.ndarray = ZERO) -> np.ndarray:
    """What the definition gives from a state on."""
    return reference.lstm(x, cont, W, R, B, start, start)[0]


@pytest.mark.parametrize("proto", ["caffe", "lstm_caffe"])
def test_crnn_lstm_behind_a_continuation_indicator(tmp_path: Path, proto: str) -> None:
    net = inputs(x=X.shape) + INDICATOR + layer("LSTM", "x cont", "y", PARAM)
    loaded = load(tmp_path, net, WEIGHTS, proto=proto)
    assert [node.op_type for node in loaded.graph.model.graph] == ["LSTM", "Squeeze"]
    assert np.abs(run(loaded, X)["y"] - wanted()).max() < 1e-6


def test_crnn_feeds_columns_of_a_picture(tmp_path: Path) -> None:
    picture = floats(7, 1, 2, 3, T)
    permute = "permute_param { order: 3 order: 0 order: 1 order: 2 }"
    one_stream = INDICATOR.replace(f"batch_size: {N}", "batch_size: 1")
    net = inputs(x=picture.shape) + layer("Permute", "x", "p", permute, "perm") + one_stream
    net += layer("LSTM", "p cont", "y", PARAM)
    found = run(load(tmp_path, net, WEIGHTS), picture)["y"]
    columns = picture.transpose(3, 0, 1, 2)
    assert np.abs(found - wanted(columns, CONT[:, :1], ZERO[:1])).max() < 1e-6


def test_a_continuation_that_is_an_input_is_obeyed(tmp_path: Path) -> None:
    net = inputs(x=X.shape, cont=(T, N)) + layer("LSTM", "x cont", "y", PARAM)
    loaded = load(tmp_path, net, WEIGHTS)
    assert "lstm-starts-from-zero" in [finding.code for finding in loaded.findings]
    cont = np.array([[1, 0], [1, 1], [0, 1], [1, 0.5], [1, 1]], np.float32)
    assert np.abs(run(loaded, X, cont)["y"] - wanted(cont=cont)).max() < 1e-6


def test_a_continuation_with_an_initial_value_is_a_constant(tmp_path: Path) -> None:
    net = inputs(x=X.shape, cont=(9, 9)) + layer("LSTM", "x cont", "y", PARAM)
    np.save(tmp_path / "cont.npy", CONT)
    for value in (CONT, str(tmp_path / "cont.npy"), CONT.tolist()):
        loaded = load(tmp_path, net, WEIGHTS, input_initial_val=(None, value))
        assert [node.op_type for node in loaded.graph.model.graph] == ["LSTM", "Squeeze"]
        assert np.abs(run(loaded, X)["y"] - wanted()).max() < 1e-6
    for wrong, words in [
        ((CONT,), "1 entries"),
        ((X, CONT), "no input left"),
        ((None, "nothing.npy"), "cannot be used"),
        ((None, [["a"]]), "cannot be used"),
    ]:
        with pytest.raises(SourceModelError, match=words):
            load(tmp_path, net, WEIGHTS, input_initial_val=wrong)


@pytest.mark.parametrize("known", [True, False])
def test_hidden_state_that_is_exposed(tmp_path: Path, known: bool) -> None:
    h, c = floats(5, 1, N, H), floats(6, 1, N, H)
    shapes = {"x": X.shape, "h": h.shape, "c": c.shape}
    net = inputs(**shapes) + (INDICATOR if known else inputs(cont=(T, N)))
    param = PARAM.replace("{", "{ expose_hidden: true ", 1)
    net += layer("LSTM", "x cont h c", "y last_h last_c", param)
    loaded = load(tmp_path, net, WEIGHTS, outputs=("y", "last_h", "last_c"))
    cont = CONT if known else np.maximum(CONT, 0.5)
    found = run(loaded, *([X, h, c] if known else [X, h, c, cont]))
    expected = reference.lstm(X, cont, W, R, B, h[0], c[0])
    for value, other in zip(found.values(), expected, strict=True):
        assert np.abs(value - other).max() < 1e-6


def test_lstm_of_the_ocr_forks_both_ways(tmp_path: Path) -> None:
    param = f"lstm_param {{ num_output: {H} clipping_threshold: 1 }}"
    net = inputs(x=X.shape) + layer("Lstm", "x", "y", param)
    net += layer("Reverse", "x", "r", "reverse_param { axis: 0 }", "turn")
    net += layer("Lstm", "r", "b", param, "back") + layer("Reverse", "b", "z", "", "again")
    weights = {"it": [W, R, B], "back": [W, R, B]}
    found = run(load(tmp_path, net, weights, proto="lstm_caffe"), X)
    assert np.abs(found["y"] - wanted()).max() < 1e-6
    assert np.abs(found["z"] - wanted(X[::-1])[::-1]).max() < 1e-6


def test_what_cannot_be_written_out_is_refused(tmp_path: Path) -> None:
    net = inputs(x=(300, 1, K), cont=(300, 1)) + layer("LSTM", "x cont", "y", PARAM)
    static = inputs(x=X.shape, cont=(T, N), s=(N, 4)) + layer("LSTM", "x cont s", "y", PARAM)
    short = inputs(x=X.shape, cont=(T, 1)) + layer("LSTM", "x cont", "y", PARAM)
    for text, proto, error, words in (
        (net, "caffe", UnsupportedOperatorError, "300 steps"),
        (static, "caffe", UnsupportedOperatorError, "static input"),
        (short, "caffe", SourceModelError, "continuation is not 5x2"),
        (static, "lstm", SourceModelError, "no Caffe format 'lstm'"),
    ):
        with pytest.raises(error, match=words):
            load(tmp_path, text, WEIGHTS, proto=proto)
