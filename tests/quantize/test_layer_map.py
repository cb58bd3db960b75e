"""The map of layers that quantization gives: its tensors lie where it says, and any name finds."""

from __future__ import annotations

import json

import pytest
from onnx import numpy_helper

from engine.graph.execute import Session
from engine.graph.layers import LayerMap
from engine.quantize import QuantizeSettings, calibrate, layers_of, quantize
from engine.quantize.quantize import Quantized
from tests.quantize.models import Net, quantize_net, small_cnn

DTYPES = ("w8a8", "w8a16", "w16a16i", "dynamic_fixed_point-8", "dynamic_fixed_point-16")


def _built(dtype: str) -> tuple[Net, Quantized]:
    net, graph = small_cnn()
    seen = calibrate(graph, net.feeds(3))
    return net, quantize(graph, seen, QuantizeSettings(dtype=dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_tensor_is_stored_where_the_map_says(dtype: str) -> None:
    net, done = _built(dtype)
    values = done.graph.values
    (feeds,) = net.feeds(1)
    for key, one in done.layers.stored.items():
        assert {one.computed, one.stored, one.value} <= set(values), key
        assert str(values[one.stored].dtype).lower() == one.dtype
        assert one.params == done.table[key]
        assert one.tensor in done.reference.values
        names = [one.stored, one.value]
        found = Session(done.graph, outputs=names).run(feeds, names)
        assert one.params is not None
        if not one.params.narrow:  # bounds lie between the two
            assert (one.params.dequantize(found[one.stored]) == found[one.value]).all()


def test_layers_of_mixed_dtypes_and_their_conversions() -> None:
    net, graph = small_cnn()
    chosen = QuantizeSettings(layers={"Conv_5_0": "float16", "Conv_9_0": "int16"})
    layers = quantize(graph, calibrate(graph, net.feeds(3)), chosen).layers
    dtypes = {layer.id: layer.dtype for layer in layers.layers}
    assert (dtypes["Conv_5"], dtypes["Conv_9"], dtypes["Conv_1"]) == ("float16", "int16", "int8")
    assert dtypes["Softmax_23"] == "float32"
    conversions = {key: one.tensor for key, one in layers.stored.items() if key != one.tensor}
    assert "MaxPool_8_0__int16" in conversions
    assert conversions["MaxPool_8_0__int16"] == "MaxPool_8_0"


def test_an_activation_belongs_to_its_layer() -> None:
    _, done = _built("w8a8")
    layer = done.layers.by_node["Relu_2"]
    assert (layer.id, layer.op, layer.kind) == ("Conv_1", "Conv", "weighted")
    assert (layer.nodes, layer.inner, layer.outputs) == (
        ("Conv_1", "Relu_2"),
        ("Conv_1_0",),
        ("Relu_2_0",),
    )
    for name in layer.aliases:
        assert done.layers.find(name) == layer
    assert done.layers.find("nothing") is None


def test_every_layer_has_its_own_id_node_and_tensor() -> None:
    _, done = _built("w8a8")
    layers = done.layers.layers
    assert len({layer.id for layer in layers}) == len(layers)
    assert sum(len(layer.nodes) for layer in layers) == len(done.layers.by_node)
    assert sum(len(layer.tensors) for layer in layers) == len(done.layers.by_tensor)


def test_json_gives_the_same_map() -> None:
    _, done = _built("w8a16")
    data = json.loads(json.dumps(done.layers.to_json()))
    assert LayerMap.from_json(data, done.table) == done.layers
    assert list(LayerMap.from_json(data, done.table).stored) == list(done.layers.stored)


NOTHING = {"id": "a", "op": "A", "kind": "k", "dtype": "d", "sources": []}


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"layers": [], "stored": [["a", "b"]]},
        {"layers": [], "stored": [[1, "a", "b", "c", "d", "int8"]]},
        {"layers": [{"id": "a"}], "stored": []},
        {"layers": [{**NOTHING, "nodes": [], "inner": [], "outputs": []}], "stored": []},
    ],
)
def test_a_map_of_another_form_is_refused(data: dict[str, object]) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        LayerMap.from_json(data, {})


def test_a_graph_that_came_quantized_tells_its_layers() -> None:
    """Read from the nodes of a graph of ours: the layers are the same, by the names in it."""
    _, done = _built("w8a8")
    found = layers_of(done.graph)
    assert [layer.id for layer in found.layers] == [layer.id for layer in done.layers.layers]
    assert found.by_node["Relu_2"].id == "Conv_1"
    assert found.by_node["Relu_2"].tensor == "Relu_2_0"
    assert {one.stored for one in found.stored.values()} == {
        one.stored for one in done.layers.stored.values()
    }


def test_a_constant_that_stands_as_a_node_is_no_layer() -> None:
    """Graphs that are not optimised keep such nodes; quantization drops those that it stores."""
    net = Net()
    x = net.input(1, 4, 6, 6)
    weight = net.op("Constant", value=numpy_helper.from_array(net.normal(4, 4, 1, 1), "weight"))
    graph = net.graph(net.op("Relu", net.op("Conv", x, weight)))
    assert any(node.op_type == "Constant" for node in graph.nodes)
    done = quantize_net(graph, net.feeds(2))
    assert [layer.op for layer in done.layers.layers] == ["Conv"]
    assert {layer.node for layer in done.layers.layers} <= {node.name for node in done.graph.nodes}
