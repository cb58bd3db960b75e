"""TorchScript of every kind gives torch's own numbers: floats within 1e-5, integers exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.base.errors import SourceModelError, WorkerError
from engine.base.events import CallbackReporter
from engine.frontends import converter_process
from engine.frontends.load import find_source, load_source
from engine.frontends.loaded import Loaded
from engine.frontends.source import LoadOptions
from engine.graph.execute.session import Session
from tests.frontends.pytorch.conftest import QUICK, load

pytestmark = pytest.mark.torch

SLOW = (
    "upscale",
    "scripted_loop",
    "lstm",
    "lstm_scripted",
    "attention",
    "attention_scripted",
    "quantized_x86",
    "fake_quant_qnnpack",
    "fake_quant_x86",
)


def hold(folder: Path, name: str) -> Loaded:
    """Load a model and compare it with what torch gave for it."""
    with np.load(folder / f"{name}.npz", allow_pickle=False) as arrays:
        inputs = [arrays[key] for key in arrays.files if key.startswith("in:")]
        outputs = [arrays[key] for key in arrays.files if key.startswith("out:")]
    loaded = load(folder / f"{name}.pt", *[tuple(array.shape) for array in inputs])
    session = Session(loaded.graph)
    feeds = {spec.name: array for spec, array in zip(session.inputs, inputs, strict=True)}
    exact = "quant" in name
    for want, got in zip(outputs, session.run(feeds).values(), strict=True):
        assert want.shape == got.shape
        assert want.dtype == got.dtype
        np.testing.assert_allclose(got, want, rtol=0, atol=0 if exact else 1e-5)
    return loaded


@pytest.mark.parametrize("name", QUICK)
def test_torch_and_graph_agree(quick_models: Path, name: str) -> None:
    hold(quick_models, name)


@pytest.mark.long
@pytest.mark.parametrize("name", SLOW)
def test_torch_and_graph_agree_on_all(torch_models: Path, name: str) -> None:
    loaded = hold(torch_models, name)
    kept = any(node.op_type == "DequantizeLinear" for node in loaded.graph.nodes)
    assert kept == ("quant" in name)


def test_a_network_trained_for_integers_is_as_near_as_torchs_engines(quick_models: Path) -> None:
    """Ties that are rounded otherwise grow from layer to layer: a step or two at the end."""
    with np.load(quick_models / "trained_resnet.npz", allow_pickle=False) as arrays:
        picture, want = arrays["in:0"], arrays["out:0"]
    loaded = load(quick_models / "trained_resnet.pt", picture.shape)
    assert sum(node.op_type == "DequantizeLinear" for node in loaded.graph.nodes) > 30
    (got,) = Session(loaded.graph).run({"x": picture}).values()
    step = np.diff(np.unique(want)).min()
    assert np.abs(got - want).max() < 4.5 * step
    assert "source-quantized" in [finding.code for finding in loaded.findings]


@pytest.mark.long
def test_a_wrong_operator_of_such_a_network_is_not_taken_for_rounding(
    quick_models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    from engine.frontends.pytorch import child, export_strategies, integer_operators

    def averages(g: Any, x: Any, *_: Any) -> Any:
        pads = {"pads_i": [1, 1, 1, 1], "strides_i": [2, 2]}
        return g.op("AveragePool", x, kernel_shape_i=[3, 3], **pads)

    def wrong(g: Any, x: Any, *more: Any) -> Any:
        from torch.onnx import symbolic_helper

        value, scale, point, _ = symbolic_helper.dequantize_helper(g, x)
        return symbolic_helper.quantize_helper(g, averages(g, value), scale, point)

    def wrong_layer(g: Any, a: Any, _: Any) -> str:
        pads = {"pads": [1, 1, 1, 1], "strides": [2, 2]}
        x = g.real(integer_operators._first(a))
        return str(g.node("AveragePool", x, kernel_shape=[3, 3], **pads))

    monkeypatch.setitem(export_strategies.OPERATORS, "aten::max_pool2d", wrong)
    for name in [each for each in integer_operators.RULES if "max_pool2d" in each]:
        monkeypatch.setitem(integer_operators.RULES, name, wrong_layer)
    request = {
        "model": str(quick_models / "trained_resnet.pt"),
        "sizes": [[1, 3, 64, 64]],
        "traced": [],
        "route": "script",
    }
    with pytest.raises(SourceModelError, match="differs from PyTorch"):
        child.convert(request, tmp_path / "model.onnx")


def test_names_are_those_of_forward(quick_models: Path) -> None:
    graph = load(quick_models / "stateful.pt", (3, 1, 8), (1, 1, 6), (1, 1, 6)).graph
    assert [spec.name for spec in graph.inputs] == ["x", "state_0", "state_1"]
    assert [spec.name for spec in graph.outputs] == ["y", "h", "c"]


def test_a_size_without_batch_gets_one(quick_models: Path) -> None:
    loaded = load(quick_models / "traced.pt", tuple(np.array([3, 16, 16])))
    assert loaded.graph.inputs[0].shape == (1, 3, 16, 16)
    assert "batch-added" in [finding.code for finding in loaded.findings]


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ((), "needs 'input_size_list': forward takes x"),
        (((1, 3, 16, 16), (1, 3, 16, 16)), "has 2 sizes; forward takes x"),
        (((1, 5, 16, 16),), "does not run with these sizes"),
        (((1, 3, 0, 16),), "cannot be used"),
        ((("x",),), "not a list of whole numbers"),
    ],
)
def test_sizes_that_do_not_fit(
    quick_models: Path, sizes: tuple[tuple[int, ...], ...], said: str
) -> None:
    with pytest.raises(SourceModelError, match=said) as caught:
        load(quick_models / "traced.pt", *sizes)
    assert "1, 3, " in caught.value.remedy + caught.value.cause


def test_a_cut_at_an_output_of_inner_layers(quick_models: Path) -> None:
    whole = load(quick_models / "traced.pt", (1, 3, 16, 16)).graph
    inner = next(node.outputs[0].name for node in whole.nodes if node.op_type == "Conv")
    graph = load(quick_models / "traced.pt", (1, 3, 16, 16), outputs=(inner,)).graph
    assert [spec.name for spec in graph.outputs] == [inner]


@pytest.mark.long
def test_a_crash_costs_one_call(quick_models: Path) -> None:
    def kill() -> bool:
        for converter in converter_process._children.values():
            converter.child.process.kill()
        return False

    options = LoadOptions(input_size_list=((1, 3, 16, 16),))
    source = find_source(quick_models / "traced.pt", options=options)
    with pytest.raises(WorkerError):
        load_source(source, CallbackReporter(lambda _: None, kill))
    assert load_source(source).graph.inputs[0].name == "x"


def test_damage_is_found_before_torch_starts(quick_models: Path, tmp_path: Path) -> None:
    data = bytearray((quick_models / "traced.pt").read_bytes())
    place = data.index(b"class ") if b"class " in data else 4000
    data[place] ^= 0xFF
    path = tmp_path / "damaged.pt"
    path.write_bytes(data)
    with pytest.raises(SourceModelError):
        load(path, (1, 3, 16, 16))
