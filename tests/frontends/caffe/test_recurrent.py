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
PARAM = f"recurrent_param {{ num_output: {H} weight_filler {{ type: 'xavier' }} }}"


@pytest.mark.parametrize("proto", ["caffe", "lstm_caffe"])
def test_crnn_lstm_behind_a_continuation_indicator(tmp_path: Path, proto: str) -> None:
    net = inputs(x=X.shape) + INDICATOR + layer("LSTM", "x cont", "y", PARAM)
    loaded = load(tmp_path, net, {"it": [W, B, R]}, proto=proto)
    assert [node.op_type for node in loaded.graph.model.graph] == ["LSTM", "Squeeze"]
    cont = np.ones((T, N))
    cont[0] = 0
    wanted, _, _ = reference.lstm(X, cont, W, R, B, ZERO, ZERO)
    assert np.abs(run(loaded, X)["y"] - wanted).max() < 1e-6


def test_crnn_feeds_columns_of_a_picture(tmp_path: Path) -> None:
    picture = floats(7, 1, 2, 3, T)
    permute = "permute_param { order: 3 order: 0 order: 1 order: 2 }"
    one_stream = INDICATOR.replace(f"batch_size: {N}", "batch_size: 1")
    net = inputs(x=picture.shape) + layer("Permute", "x", "p", permute, "perm") + one_stream
    net += layer("LSTM", "p cont", "y", PARAM)
    found = run(load(tmp_path, net, {"it": [W, B, R]}), picture)["y"]
    cont = np.ones((T, 1))
    cont[0] = 0
    columns = picture.transpose(3, 0, 1, 2)
    wanted, _, _ = reference.lstm(columns, cont, W, R, B, ZERO[:1], ZERO[:1])
    assert np.abs(found - wanted).max() < 1e-6


def test_a_continuation_that_is_an_input_is_obeyed(tmp_path: Path) -> None:
    net = inputs(x=X.shape, cont=(T, N)) + layer("LSTM", "x cont", "y", PARAM)
    loaded = load(tmp_path, net, {"it": [W, B, R]})
    assert "lstm-starts-from-zero" in [finding.code for finding in loaded.findings]
    cont = np.array([[1, 0], [1, 1], [0, 1], [1, 0.5], [1, 1]], np.float32)
    wanted, _, _ = reference.lstm(X, cont, W, R, B, ZERO, ZERO)
    assert np.abs(run(loaded, X, cont)["y"] - wanted).max() < 1e-6


def test_a_continuation_with_an_initial_value_is_a_constant(tmp_path: Path) -> None:
    net = inputs(x=X.shape, cont=(9, 9)) + layer("LSTM", "x cont", "y", PARAM)
    cont = np.ones((T, N), np.float32)
    cont[0] = 0
    np.save(tmp_path / "cont.npy", cont)
    wanted, _, _ = reference.lstm(X, cont, W, R, B, ZERO, ZERO)
    for value in (cont, str(tmp_path / "cont.npy"), cont.tolist()):
        loaded = load(tmp_path, net, {"it": [W, B, R]}, input_initial_val=(None, value))
        assert [node.op_type for node in loaded.graph.model.graph] == ["LSTM", "Squeeze"]
        assert np.abs(run(loaded, X)["y"] - wanted).max() < 1e-6
    for wrong, words in [
        ((cont,), "1 entries"),
        ((X, cont), "no input left"),
        ((None, "nothing.npy"), "cannot be used"),
        ((None, [["a"]]), "cannot be used"),
    ]:
        with pytest.raises(SourceModelError, match=words):
            load(tmp_path, net, {"it": [W, B, R]}, input_initial_val=wrong)


@pytest.mark.parametrize("known", [True, False])
def test_hidden_state_that_is_exposed(tmp_path: Path, known: bool) -> None:
    h, c = floats(5, 1, N, H), floats(6, 1, N, H)
    shapes = {"x": X.shape, "h": h.shape, "c": c.shape}
    net = inputs(**shapes) + (INDICATOR if known else inputs(cont=(T, N)))
    param = PARAM.replace("{", "{ expose_hidden: true ", 1)
    net += layer("LSTM", "x cont h c", "y last_h last_c", param)
    loaded = load(tmp_path, net, {"it": [W, B, R]}, outputs=("y", "last_h", "last_c"))
    cont = np.ones((T, N), np.float32)
    cont[0] = 0 if known else 0.5
    feeds = [X, h, c] if known else [X, h, c, cont]
    found = run(loaded, *feeds)
    for value, wanted in zip(
        found.values(), reference.lstm(X, cont, W, R, B, h[0], c[0]), strict=True
    ):
        assert np.abs(value - wanted).max() < 1e-6


def test_lstm_of_the_ocr_forks_both_ways(tmp_path: Path) -> None:
    param = f"lstm_param {{ num_output: {H} clipping_threshold: 1 }}"
    net = inputs(x=X.shape) + layer("Lstm", "x", "y", param)
    net += layer("Reverse", "x", "r", "reverse_param { axis: 0 }", "turn")
    net += layer("Lstm", "r", "b", param, "back") + layer("Reverse", "b", "z", "", "again")
    weights = {"it": [W, R, B], "back": [W, R, B]}
    found = run(load(tmp_path, net, weights, proto="lstm_caffe"), X)
    cont = np.ones((T, N))
    forth, _, _ = reference.lstm(X, cont, W, R, B, ZERO, ZERO)
    back, _, _ = reference.lstm(X[::-1], cont, W, R, B, ZERO, ZERO)
    assert np.abs(found["y"] - forth).max() < 1e-6
    assert np.abs(found["z"] - back[::-1]).max() < 1e-6


def test_what_cannot_be_written_out_is_refused(tmp_path: Path) -> None:
    net = inputs(x=(300, 1, K), cont=(300, 1)) + layer("LSTM", "x cont", "y", PARAM)
    with pytest.raises(UnsupportedOperatorError, match="300 steps"):
        load(tmp_path, net, {"it": [W, B, R]})
    static = inputs(x=X.shape, cont=(T, N), s=(N, 4)) + layer("LSTM", "x cont s", "y", PARAM)
    with pytest.raises(UnsupportedOperatorError, match="static input"):
        load(tmp_path, static, {"it": [W, B, R]})
    short = inputs(x=X.shape, cont=(T, 1)) + layer("LSTM", "x cont", "y", PARAM)
    with pytest.raises(SourceModelError, match="continuation is not 5x2"):
        load(tmp_path, short, {"it": [W, B, R]})
    with pytest.raises(SourceModelError, match="no Caffe format 'lstm'"):
        load(tmp_path, static, {"it": [W, B, R]}, proto="lstm")
