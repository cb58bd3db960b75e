"""The graph: names, codecs, copies, inference, views, differences."""

from __future__ import annotations

import json
import time

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from engine.base.errors import GraphError, UsageError
from engine.graph.ir import (
    ORIGIN,
    Graph,
    TensorSpec,
    describe,
    diff,
    graph_view,
    infer_model,
    infer_shapes,
    node_detail,
    tensor_statistics,
    verify,
)
from engine.graph.ir.dataflow import complete_shapes, has_open_shapes
from engine.graph.ir.views import edges_of
from engine.wire.codec import encode
from tests.graph.models import finish, float_net, nodes_of, qdq_net, tensor

NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=0, max_size=6)


def chain(length: int) -> onnx.ModelProto:
    """Relu and Add in turn."""
    nodes, last = [], "x"
    for index in range(length):
        op, more = ("Relu", []) if index % 2 else ("Add", ["b"])
        name = f"/stage{index // 100}/block{index // 10}/{op}_{index}"
        nodes.append(helper.make_node(op, [last, *more], [f"t{index}"], name=name))
        last = f"t{index}"
    constants = {"b": np.ones((1, 4), np.float32)}
    return finish(nodes, [tensor("x", 1, 4)], [tensor(last, 1, 4)], constants)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(NAMES, st.sampled_from(["Relu", "Abs", "Neg"])), min_size=1, max_size=12))
def test_any_graph_survives_its_bytes_and_every_node_has_a_name(
    nodes: list[tuple[str, str]],
) -> None:
    made, last = [], "x"
    for index, (name, op) in enumerate(nodes):
        made.append(helper.make_node(op, [last], [f"v{index}"], name=name))
        last = f"v{index}"
    graph = Graph.from_proto(finish(made, [tensor("x", 2, 3)], [tensor(last, 2, 3)]))
    names = [node.name for node in graph.nodes]
    assert all(names)
    assert len(set(names)) == len(names)
    kept = [name for index, (name, _) in enumerate(nodes) if name and names[index] == name]
    assert set(kept) >= {name for name, _ in nodes if name}
    data = graph.to_bytes()
    again = Graph.from_bytes(data)
    assert again.to_bytes() == data
    assert diff(graph, again).equal
    verify(infer_shapes(again))


@pytest.mark.parametrize("model", [float_net(), qdq_net(), qdq_net("uint8")])
def test_codecs_and_copies_agree(model: onnx.ModelProto) -> None:
    graph = infer_shapes(Graph.from_proto(model))
    data = graph.to_bytes()
    copy = graph.copy()
    assert copy.to_bytes() == data
    assert Graph.from_bytes(data).to_bytes() == data
    next(copy.nodes).name = "other"
    for value in copy.values.values():
        if value.dtype == ir.DataType.FLOAT and not value.is_initializer():
            value.dtype = ir.DataType.DOUBLE
            value.shape = ir.Shape([7])
    assert graph.to_bytes() == data


def test_a_copy_shares_the_weights() -> None:
    graph = Graph.from_proto(float_net())
    copy = graph.copy()
    assert copy.value("w1").const_value is graph.value("w1").const_value
    assert copy.value("w1") is not graph.value("w1")


def test_lookups() -> None:
    graph = Graph.from_proto(float_net())
    assert graph.inputs == (TensorSpec("x", (1, 3, 8, 8), "float32"),)
    assert graph.spec("w1") == TensorSpec("w1", (6, 3, 3, 3), "float32")
    assert graph.producer("h").name == "/body/relu1"  # type: ignore[union-attr]
    assert graph.producer("x") is None
    assert [node.name for node in graph.consumers("h")] == ["/body/conv2", "/body/add"]
    assert graph.constant("b1").shape == (6,)  # type: ignore[union-attr]
    assert graph.constant("h") is None
    assert str(graph.spec("w1")) == "w1: float32[6x3x3x3]"
    with pytest.raises(GraphError, match="no tensor 'hh'") as caught:
        graph.spec("hh")
    assert "'h'" in caught.value.remedy
    with pytest.raises(GraphError, match="no node '/body/conv3'") as caught:
        graph.node("/body/conv3")
    assert "/body/conv1" in caught.value.remedy


@pytest.mark.parametrize("data", [b"", b"x", b"\x08", bytes(100), b"\xff" * 50])
def test_bytes_that_are_no_graph(data: bytes) -> None:
    with pytest.raises(GraphError):
        verify(Graph.from_bytes(data))


def test_inference_fills_shapes_and_refreshes_stale_ones() -> None:
    graph = Graph.from_proto(float_net())
    assert not graph.spec("h").rank_known
    full = infer_shapes(graph)
    assert full.spec("h").shape == (1, 6, 8, 8)
    assert not graph.spec("h").rank_known
    stale = full.copy()
    stale.model.graph.inputs[0].shape = ir.Shape([1, 3, 16, 16])
    infer_model(stale.model, refresh=True)
    assert Graph(stale.model).spec("h").shape == (1, 6, 16, 16)


def test_inference_names_the_node_that_does_not_fit() -> None:
    nodes = [helper.make_node("MatMul", ["a", "b"], ["y"], name="the_product")]
    model = finish(nodes, [tensor("a", 2, 3), tensor("b", 4, 5)], [tensor("y", 2, 5)])
    with pytest.raises(GraphError, match="'the_product' \\(MatMul\\)"):
        infer_shapes(Graph.from_proto(model))


def test_sizes_that_the_graph_computes_are_followed() -> None:
    nodes = nodes_of(
        "[n0] shape = Shape (x); [n1] channels = Gather (shape, one); "
        "[n2] more = Add (channels, one); [n3] half = Div (more, two); "
        "[n4] front = Slice (x, zero, half, one); [n5] back = Slice (x, half, more, one); "
        "[n6] c = Conv (front, w); [n7] again = Shape (c); [n8] y = Reshape (back, again)"
    )
    constants = {
        "zero": np.array([0]), "one": np.array([1]), "two": np.array([2]),
        "w": np.ones((3, 3, 1, 1), np.float32),
    }  # fmt: skip
    model = finish(nodes, [tensor("x", 1, 6, 5, 5)], [tensor("y", "a", "b", "c", "d")], constants)
    graph = infer_shapes(Graph.from_proto(model))
    assert graph.spec("front").shape == (1, 3, 5, 5)
    assert graph.spec("c").shape == (1, 3, 5, 5)
    assert graph.outputs[0].shape == (1, 3, 5, 5)
    verify(graph)


# -- views -------------------------------------------------------------------------------------


def test_views_are_plain_data() -> None:
    graph = infer_shapes(Graph.from_proto(float_net()))
    view = json.loads(json.dumps(encode(graph_view(graph))))
    assert view["groups"] == ["/body", "/head"]
    assert view["nodes"][0] == ["/body/conv1", "Conv", "c1", "1x6x8x8", "float32", 0]
    assert view["nodes"][-1] == ["/head/gemm", "Gemm", "y", "1x5", "float32", 1]
    named = {row[0]: at for at, row in enumerate(graph_view(graph).nodes)}
    for at, node in enumerate(graph.nodes):
        wanted = [named[use.name] for value in node.outputs for use in value.consumers()]
        edges = graph_view(graph).edges
        readers = [to for of, to in zip(edges[::2], edges[1::2], strict=True) if of == at]
        assert sorted(readers) == sorted(set(wanted))
    facts = json.loads(json.dumps(encode(describe(graph))))
    assert facts["inputs"] == [{"name": "x", "shape": [1, 3, 8, 8], "dtype": "float32"}]
    assert facts["nodes"] == 7
    assert next(iter(facts["operators"].items())) == ("Conv", 2)
    assert facts["parameters"] == 6 * 27 + 6 + 36 + 30
    detail = json.loads(json.dumps(encode(node_detail(graph, "/body/conv1"))))
    assert detail["attributes"] == [["pads", "[1, 1, 1, 1]"]]
    assert [i["kind"] for i in detail["inputs"]] == ["input", "constant", "constant"]
    assert detail["outputs"][0]["shape"] == [1, 6, 8, 8]
    assert detail["origin"] == []


def test_a_node_that_writes_what_it_reads_stands_between_the_others() -> None:
    steps = [(["x"], ["a"]), (["a", ""], ["a"]), (["a", "a", None], ["b"]), (["late"], ["", None])]
    assert edges_of([*steps, ([], ["late"])]) == (0, 1, 1, 2, 4, 3)


def test_the_detail_of_a_node_tells_quantization_and_origin() -> None:
    graph = infer_shapes(Graph.from_proto(qdq_net()))
    graph.node("c2_conv").metadata_props[ORIGIN] = "conv\nbn"
    detail = node_detail(graph, "c2_conv")
    assert detail.origin == ("conv", "bn")
    data, weight, out = (end.quant for end in (*detail.inputs[:2], detail.outputs[0]))
    assert data is not None
    assert weight is not None
    assert out is not None
    assert (data.dtype, data.zero_point, data.axis) == ("int8", (-128,), None)
    assert data.scale == pytest.approx([0.05])
    assert (weight.dtype, weight.axis, len(weight.scale)) == ("int8", 0, 8)
    assert out.zero_point == (5,)


def test_long_and_odd_attributes_become_short_text() -> None:
    nodes = [
        helper.make_node(
            "Constant", [], ["y"], name="c",
            value=onnx.numpy_helper.from_array(np.zeros((30, 30), np.float32)),
        ),
        helper.make_node("Constant", [], ["z"], name="d", value_ints=list(range(100))),
        helper.make_node("Constant", [], ["s"], name="e", value_string="a\x1b[31m\u202eb"),
    ]  # fmt: skip
    outputs = [tensor("y", 30, 30), tensor("z", 100, dtype=TensorProto.INT64)]
    graph = Graph.from_proto(finish(nodes, [tensor("x", 1)], outputs))
    assert node_detail(graph, "c").attributes == (("value", "float[30x30]"),)
    assert node_detail(graph, "d").attributes[0][1].endswith("… 100 in all]")
    assert node_detail(graph, "e").attributes == (("value_string", "a[31mb"),)


def test_graph_work_is_linear_in_nodes() -> None:
    def seconds(length: int) -> float:
        proto = chain(length)
        start = time.process_time()
        graph = infer_shapes(Graph.from_proto(proto))
        verify(graph)
        size = len(json.dumps(encode(graph_view(graph))))
        assert size < 150 * length
        assert diff(graph, graph.copy()).equal
        return time.process_time() - start

    seconds(100)
    small, large = seconds(300), seconds(3000)
    # quadratic work would be 100 times as long
    assert large < 30 * small


# -- statistics --------------------------------------------------------------------------------


def test_statistics_of_a_weight() -> None:
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4) - 3
    facts = json.loads(json.dumps(encode(tensor_statistics(array, 8, name="w"))))
    assert (facts["name"], facts["shape"], facts["dtype"]) == ("w", [2, 3, 4], "float32")
    assert (facts["count"], facts["zeros"], facts["finite"]) == (24, 1, True)
    assert (facts["minimum"], facts["maximum"], facts["mean"]) == (-3, 20, 8.5)
    assert facts["std"] == pytest.approx(array.std())
    assert sum(facts["histogram"]["counts"]) == 24
    assert facts["channels"] == {"axis": 0, "minimum": [-3.0, 9.0], "maximum": [8.0, 20.0]}


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.floats(width=32, allow_nan=True, allow_infinity=True), max_size=40),
    st.integers(1, 70),
)
def test_statistics_of_anything_are_json(values: list[float], bins: int) -> None:
    array = np.array(values, np.float32)
    facts = encode(tensor_statistics(array, bins))
    json.dumps(facts, allow_nan=False)
    finite = array[np.isfinite(array)]
    assert facts["finite"] == (finite.size == array.size)
    if finite.size:
        assert sum(facts["histogram"]["counts"]) == finite.size
        assert len(facts["histogram"]["counts"]) == bins
        assert facts["minimum"] == finite.min()
    else:
        assert facts["minimum"] is None
        assert facts["histogram"] is None


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "float16", "float64"])
def test_statistics_of_every_type(dtype: str) -> None:
    facts = tensor_statistics(np.array([[0, 1], [1, 1]], dtype), 4)
    assert facts.maximum == 1
    assert facts.channels is not None
    assert facts.channels.minimum == (0, 1)


def test_statistics_refuse_what_makes_no_sense() -> None:
    with pytest.raises(UsageError, match="bins"):
        tensor_statistics(np.zeros(3), 0)
    with pytest.raises(UsageError, match="no numbers"):
        tensor_statistics(np.array(["a"]), 8)


# -- differences -------------------------------------------------------------------------------


def test_a_graph_does_not_differ_from_itself() -> None:
    graph = infer_shapes(Graph.from_proto(float_net()))
    assert diff(graph, graph).equal
    assert str(diff(graph, graph)) == "no difference"


def test_differences_are_told_one_by_one() -> None:
    a = infer_shapes(Graph.from_proto(float_net()))
    other = float_net()
    for node in other.graph.node:
        if node.name == "/body/conv1":
            node.attribute[0].ints[:] = [0, 0, 0, 0]
        if node.name == "/body/relu1":
            node.op_type = "Sigmoid"
        if node.name == "/body/add":
            node.name = "/body/sum"
        if node.name == "/head/gemm":
            node.attribute.append(helper.make_attribute("alpha", 0.5))
    weights = np.array(onnx.numpy_helper.to_array(other.graph.initializer[0]))
    weights[0] += 1
    other.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(weights, "w1"))
    b = infer_shapes(Graph.from_proto(other))
    found = diff(a, b)
    assert found.nodes_added == (("/body/sum", "Add"),)
    assert found.nodes_removed == (("/body/add", "Add"),)
    changed = {change.name: change.changes for change in found.nodes_changed}
    assert changed["/body/conv1"] == ("attribute pads [1, 1, 1, 1] -> [0, 0, 0, 0]",)
    assert changed["/body/relu1"] == ("operator Relu -> Sigmoid",)
    assert changed["/head/gemm"] == ("attribute alpha added",)
    values = {change.name: change.change for change in found.values_changed}
    assert values["w1"] == "other content"
    assert "1x6x8x8" in values["h"]
    assert "1x6x6x6" in values["h"]
    text = str(found)
    assert "~ node /body/relu1: operator Relu -> Sigmoid" in text
    assert "+ node /body/sum (Add)" in text


def test_a_changed_interface_is_told() -> None:
    a = Graph.from_proto(float_net())
    copy = a.copy()
    copy.model.graph.outputs.append(copy.value("h"))
    found = diff(a, Graph(copy.model))
    assert found.interface == ("outputs: y -> y, h",)


@pytest.mark.parametrize(("times", "closed"), [(16, True), (17, False)])
def test_sizes_are_computed_of_up_to_64_numbers(times: int, closed: bool) -> None:
    """A shape of four numbers, so many times over, of which the first four are taken."""
    nodes = nodes_of("s = Shape (x); t = Tile (s, times); u = Slice (t, start, end)")
    nodes += nodes_of("y = Reshape (x, u)")
    numbers = {"times": times, "start": 0, "end": 4}
    constants = {name: np.array([value], np.int64) for name, value in numbers.items()}
    end = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    proto = onnx.shape_inference.infer_shapes(
        finish(nodes, [tensor("x", 1, 2, 3, 4)], [end], constants)
    )
    complete_shapes(proto)
    assert has_open_shapes(proto.graph) == (not closed)
