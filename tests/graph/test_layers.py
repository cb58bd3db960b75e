"""What a layer is called: its id, and who else may say which name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.base.errors import RecipeError
from engine.graph.layers import Layer, LayerMap, with_own_ids
from engine.quantize import QuantizeSettings, applied_dtypes, calibrate, plan, quantize
from engine.services.state import get_pipeline, recipe_of
from tests.quantize.models import Net


def layer(node: str, *outputs: str, inner: str = "", sources: tuple[str, ...] = ()) -> Layer:
    held = (inner,) if inner else ()
    return Layer(node, "Conv", "weighted", (node,), held, outputs, sources or (node,))


def test_a_node_with_the_name_of_a_foreign_tensor_is_called_by_its_own() -> None:
    # as a Caffe net has it whose PReLU works in place: two layers, and "conv1" is of both
    first, second = layer("conv1", "conv1_1"), layer("prelu1", "conv1")
    found = LayerMap(with_own_ids((first, second), {"data", "conv1_1", "conv1"}))
    assert [one.id for one in found.layers] == ["conv1_1", "prelu1"]
    assert [one.node for one in found.layers] == ["conv1", "prelu1"]
    for one in found.layers:
        assert found.find(one.id) == one
    assert found.named("conv1").id == "prelu1", "a recipe of before names tensors"
    own = layer("same", "same")
    assert with_own_ids((own,), {"same"}) == (own,)


def test_what_stands_for_several_layers_is_refused_with_their_names() -> None:
    found = LayerMap((layer("a", "x", sources=("whole",)), layer("b", "y", sources=("whole", "b"))))
    with pytest.raises(RecipeError, match="is 2 layers") as caught:
        found.find("whole")
    assert "a, b" in caught.value.remedy
    assert found.named("b").id == "b"
    assert found.find("nobody") is None
    with pytest.raises(RecipeError, match="has no layer 'bb'") as caught:
        found.named("bb")
    assert "b" in caught.value.remedy


def test_entries_for_tensors_become_entries_for_layers() -> None:
    found = LayerMap((layer("a", "x", "x2", inner="x0"),))
    entries = {"x": 1, "x2": 2, "x0": 3, "input": 4}
    assert found.by_id(entries) == {"a": 1, "x2": 2, "x0": 3, "input": 4}


def test_a_build_takes_the_ids_of_its_layers() -> None:
    net = Net()
    graph = net.graph(net.op("Relu", net.conv(net.conv(net.input(1, 3, 8, 8), 3, 4), 4, 4)))
    feeds = [{"input0": np.random.default_rng(0).normal(size=(1, 3, 8, 8)).astype(np.float32)}]
    first, second = plan(graph).layers.layers
    for name in first.aliases:
        settings = QuantizeSettings(layers={name: "int16"})
        built = quantize(graph, calibrate(graph, feeds), settings)
        assert [one.dtype for one in built.layers.layers] == ["int16", "int8"], name
        assert applied_dtypes({name: "int16", second.id: "int8"}, built) == {
            name: "int16",
            second.id: "int8",
        }


def test_every_id_of_a_real_caffe_net_finds_its_layer(zoo: Path) -> None:
    recipe = recipe_of({"model": str(zoo / "caffe" / "mtcnn_det2.prototxt")})
    layers = plan(get_pipeline(recipe).optimised.graph.graph).layers
    assert len({one.id for one in layers.layers}) == len(layers.layers)
    assert [layers.named(one.id) for one in layers.layers] == list(layers.layers)
    assert any(one.id != one.node for one in layers.layers)
