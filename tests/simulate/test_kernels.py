"""Integer kernels are exact: sums of integers, one rounding, on tensors that a net really has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.arithmetic.kernels import Held, hold_kernels
from benchmarks.compiled.cases import load_case
from engine.graph.execute import Session
from engine.quantize import calibrate, quantize
from engine.simulate import unrounded_layer
from engine.simulate.layers import quantized_layers
from tests.quantize.models import Net, small_cnn
from tests.simulate.forms import FORMS, built_cnn

EDGE = 2e-5
"""Steps: float32 errs by 256 * 2**-24 in the product with the scale, and once more in a sum."""


KNOWN = {
    *("QGemm", "QLinearAdd", "QLinearAveragePool", "QLinearConcat", "QLinearConv"),
    *("QLinearGlobalAveragePool", "QLinearLeakyRelu", "QLinearMatMul", "QLinearMul"),
    *("QLinearSigmoid", "MaxPool", "NhwcMaxPool", "Resize", "ReduceMax", "ReduceMin"),
    *("Pad", "Slice", "Split", "Gather", "DepthToSpace", "Tile", "Expand"),  # they move integers
}
"""A new version of ONNX Runtime may fuse more: whoever adds it here has held it to the numbers."""


def require_exact(found: dict[str, Held]) -> None:
    for held in found.values():
        assert held.largest <= 1, held
        assert held.edge <= EDGE, held


@pytest.mark.parametrize("form", FORMS)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1), scale=st.sampled_from([0.01, 1.0, 30.0]))
@settings(max_examples=4, suppress_health_check=[HealthCheck.too_slow])
def test_kernels_of_single_operators(form: str, data: Any, seed: int, scale: float) -> None:
    net = Net(seed)
    graph = net.graph(FORMS[form](net, data.draw))
    done = quantize(graph, calibrate(graph, net.feeds(2, scale)))
    found = hold_kernels(done.graph, done.layers, net.feeds(1, 2 * scale))
    assert set(found) <= KNOWN
    require_exact(found)


def test_kernels_of_a_network() -> None:
    net, graph = small_cnn()
    done = quantize(graph, calibrate(graph, net.feeds(4)))
    found = hold_kernels(done.graph, done.layers, net.feeds(3))
    require_exact(found)
    assert {"QLinearConv", "QLinearAdd"} <= set(found)
    assert sum(held.unequal for held in found.values()) < 1e-5 * sum(
        held.values for held in found.values()
    )


def test_a_kernel_that_rounds_otherwise_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Truncation instead of rounding: every other value is another integer, far from an edge."""
    _, feeds, done = built_cnn(2)
    monkeypatch.setattr("engine.simulate.reference.np.rint", np.floor)
    found = hold_kernels(done.graph, done.layers, feeds[:1])
    with pytest.raises(AssertionError):
        require_exact(found)


def test_the_exact_result_rounds_to_the_stored_integer() -> None:
    _, feeds, done = built_cnn(2)
    layer = quantized_layers(done.graph, done.layers)[0]
    name, params = layer.outputs[0]
    read = [value.name or "" for value in layer.node.inputs if value is not None]
    values = Session(done.graph, outputs=[name, *read]).run(feeds[0], [name, *read])
    (exact,) = unrounded_layer(layer, values)
    low, high = params.limits
    inside = np.clip(np.rint(exact), low, high)
    np.testing.assert_array_equal(params.quantize(values[name]), inside)
    assert np.abs(exact - np.rint(exact)).max() > 0.4, "nothing was rounded"


@pytest.mark.long
@pytest.mark.parametrize(
    "name", ["yolo-fastest-darknet", "rfb320-caffe", "resnet8-onnx", "keywords-tensorflow"]
)
def test_kernels_of_real_networks(
    name: str, shared: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert shared.is_dir()
    loaded = load_case(name, tmp_path_factory.mktemp(name))
    done = loaded.pipeline().quantized
    graph = done.graph.graph
    found = hold_kernels(graph, done.layers, loaded.feeds(graph, loaded.evaluation[:1]))
    assert set(found) <= KNOWN
    require_exact(found)
    values = sum(held.values for held in found.values())
    unequal = sum(held.unequal for held in found.values())
    print(f"{name}: {unequal} of {values} values")
    assert unequal <= 1e-5 * values
