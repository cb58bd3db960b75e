"""ONNX Runtime's precision mode: set where integer sums need it, and only there."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from engine.graph.execute import (
    Session,
    kernels_saturate,
    open_model,
    ort,
    prepare_for_ort,
    session_setup,
)
from engine.graph.ir import Graph
from engine.quantize import QuantizeSettings, calibrate, layers_of, quantize
from engine.services.doctor import doctor
from engine.simulate.layers import quantized_layers
from engine.simulate.reference import reference_layer
from engine.simulate.selfcheck import saturating_convolution
from tests.quantize.models import small_cnn

MODE = "session.x64quantprecision"


@pytest.fixture(autouse=True)
def tried_again() -> Iterator[None]:
    """What a test makes of the processor is forgotten after it."""
    yield
    session_setup.kernels_saturate.cache_clear()


def _as_if(saturating: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_setup, "kernels_saturate", lambda: saturating)


def _bare(graph: Graph) -> ort.InferenceSession:
    """A session of the lowered graph with none of our settings."""
    data = prepare_for_ort(graph).data
    return ort.InferenceSession(data, providers=["CPUExecutionProvider"])


def test_what_was_tried_is_what_kernels_do_in_a_network() -> None:
    graph, feeds = saturating_convolution()
    layer = quantized_layers(graph, layers_of(graph))[0]
    name, params = layer.outputs[0] or ("", None)
    assert params is not None
    want = reference_layer(layer, {"input/dequantized": feeds["input"]})[0]
    (got,) = _bare(graph).run([name], feeds)
    worst = np.abs(params.quantize(got).astype(np.int64) - want).max()
    assert kernels_saturate() == (worst > 1)


@pytest.mark.parametrize("saturating", [True, False])
def test_the_mode_is_set_where_kernels_saturate(
    saturating: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    _as_if(saturating, monkeypatch)
    graph, _ = saturating_convolution()
    session = open_model(prepare_for_ort(graph).data)
    assert isinstance(session, ort.InferenceSession)
    options = session.get_session_options()
    if saturating:
        assert options.get_session_config_entry(MODE) == "1"
    else:
        with pytest.raises(RuntimeError, match=MODE):
            options.get_session_config_entry(MODE)


@pytest.mark.parametrize("dtype", ["w8a8", "w8a16", "w4a8"])
def test_the_mode_changes_no_number_where_kernels_are_exact(
    dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kernels_saturate():
        pytest.skip("this processor's 8-bit sums saturate: the mode is there to change them")
    net, graph = small_cnn()
    feeds = net.feeds(3)
    qdq = quantize(graph, calibrate(graph, feeds), QuantizeSettings(dtype=dtype)).graph
    cases = [(qdq, feed) for feed in feeds]
    graph, feed = saturating_convolution()
    for one, given in [*cases, (graph, feed)]:
        results = []
        for saturating in (True, False):
            _as_if(saturating, monkeypatch)
            results.append(Session(one).run(given))
        with_mode, without = results
        for name, array in with_mode.items():
            np.testing.assert_array_equal(without[name], array)


def test_doctor_says_which_it_is() -> None:
    found = {check["name"]: check["found"] for check in doctor({})["checks"]}["integer kernels"]
    assert ("saturate" in found) == kernels_saturate()
    assert ("no precision mode" in found) != kernels_saturate()
