"""Loading ONNX files: cut, sizes, constants, findings, what is refused; the quick view of them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from engine.base.errors import GraphError, SourceModelError, UnsupportedOperatorError
from engine.frontends.load import find_source
from engine.frontends.onnx import inspect_file, inspect_onnx, load_onnx
from engine.frontends.onnx.read import SourceFile, read_onnx
from engine.graph.execute import Session
from engine.graph.ir import Graph, graph_view, node_detail, verify
from engine.services.source_info import source_inspection, summary_of
from engine.wire.model import Tensor, TensorQuant
from tests.frontends.onnx.conftest import Save
from tests.graph.models import finish, float_net, nodes_of, qdq_net, tensor


def _x(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(1, 3, 8, 8)).astype(np.float32)


def test_a_plain_model_loads_verified_with_its_source(save: Save) -> None:
    net = float_net(opset=13)
    net.producer_name, net.producer_version = "drawn\x1b", "1.2"
    loaded = load_onnx(save(net))
    verify(loaded.graph)
    assert [s.name for s in loaded.graph.inputs] == ["x"]
    assert loaded.graph.outputs[0].shape == (1, 5)
    assert loaded.source.framework == "onnx"
    assert loaded.source.format == "ONNX, opset 13, IR version 10"
    assert loaded.source.producer == "drawn 1.2"
    assert loaded.source.files[0][0] == "m.onnx"
    assert len(loaded.source.files[0][1]) == 64
    assert all(value.shape is not None for value in loaded.graph.values.values())


def test_loading_twice_gives_the_same_bytes(save: Save) -> None:
    path = save(float_net(opset=11))
    assert load_onnx(path).graph.to_bytes() == load_onnx(path).graph.to_bytes()


def test_initializers_leave_the_inputs(save: Save) -> None:
    model = float_net(opset=13)
    model.ir_version = 3
    for constant in model.graph.initializer:
        model.graph.input.append(tensor(constant.name, *constant.dims))
    assert [s.name for s in load_onnx(save(model)).graph.inputs] == ["x"]


@pytest.mark.parametrize(
    ("inputs", "outputs", "nodes"),
    [
        (None, ["h"], ["/body/conv1", "/body/relu1"]),
        (["h"], ["s"], ["/body/conv2", "/body/add"]),
        (["h", "a"], ["s"], ["/body/add"]),
        (["s"], None, ["/head/pool", "/head/flatten", "/head/gemm"]),
        (["x"], ["a", "h"], ["/body/conv1", "/body/relu1", "/body/conv2"]),
    ],
)
def test_cutting_at_any_tensor_gives_that_part(
    save: Save, inputs: list[str] | None, outputs: list[str] | None, nodes: list[str]
) -> None:
    path = save(float_net())
    whole = Graph.from_proto(float_net())
    loaded = load_onnx(path, inputs=inputs, outputs=outputs)
    verify(loaded.graph)
    assert [node.name for node in loaded.graph.nodes] == nodes
    names = inputs or ["x"]
    wanted = outputs or ["y"]
    assert [s.name for s in loaded.graph.inputs] == names
    assert [s.name for s in loaded.graph.outputs] == wanted
    everything = Session(whole).run({"x": _x()}, [*names, *wanted])
    got = Session(loaded.graph).run({name: everything[name] for name in names})
    for name in wanted:
        np.testing.assert_allclose(got[name], everything[name], rtol=1e-5, atol=1e-5)
    constants = {"w1", "b1", "w2", "w3"} & set(loaded.graph.values)
    assert constants == {i.name for n in loaded.graph.nodes for i in n.inputs if i} & {
        "w1", "b1", "w2", "w3",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("options", "what", "remedy"),
    [
        ({"outputs": ["hh"]}, "no tensor 'hh'", "Did you mean 'h'"),
        ({"inputs": ["X"]}, "no tensor 'X'", ""),
        ({"inputs": ["w1"]}, "'w1' in inputs is a constant", "computed"),
        ({"inputs": ["a"], "outputs": ["s"]}, "need 'x'", "input_initial_val"),
        ({"outputs": ["y", "y"]}, "listed twice", ""),
        ({"input_size_list": [[1, 3, 8]] * 2}, "has 2 entries", ""),
        ({"input_size_list": [[1, 3, 8, 8, 8]]}, "5 dimensions", "batch"),
        ({"input_size_list": [[1, 3, 0, 8]]}, "at least 1", ""),
        ({"input_size_list": [[1, 3, 8.5, 8]]}, "whole number", ""),
        ({"input_size_list": [[1, 4, 8, 8]]}, "/body/conv1", ""),
        ({"input_initial_val": [np.zeros((1, 3, 8, 8))]}, "no input left", ""),
        ({"input_initial_val": ["nowhere.npy"]}, "cannot be used", "with ; between"),
        ({"input_initial_val": [None, None]}, "has 2 entries", "-;-;rate.npy"),
        ({"input_initial_val": [np.zeros(8)]}, "has the shape \\[8\\]", "that shape"),
    ],
)
def test_options_that_do_not_fit(
    save: Save, options: dict[str, Any], what: str, remedy: str
) -> None:
    path = save(float_net())
    with pytest.raises(SourceModelError, match=what) as caught:
        load_onnx(path, **options)
    assert remedy in caught.value.remedy


def test_an_unused_input_stays_with_a_finding(save: Save) -> None:
    loaded = load_onnx(save(float_net()), inputs=["x", "h"], outputs=["a"])
    assert [s.name for s in loaded.graph.inputs] == ["x", "h"]
    assert [(f.code, f.where) for f in loaded.findings] == [("unused-input", "x")]


def test_a_dynamic_batch_becomes_one(save: Save) -> None:
    loaded = load_onnx(save(float_net(batch="N")))
    assert loaded.graph.inputs[0].shape == (1, 3, 8, 8)
    assert loaded.graph.outputs[0].shape == (1, 5)
    assert [f.code for f in loaded.findings] == ["dynamic-batch-fixed"]


def test_sizes_change_the_whole_graph(save: Save) -> None:
    path = save(float_net(batch="N"))
    loaded = load_onnx(path, input_size_list=[[2, 3, 16, 12]])
    verify(loaded.graph)
    assert loaded.graph.spec("c1").shape == (2, 6, 16, 12)
    assert loaded.graph.outputs[0].shape == (2, 5)
    assert loaded.findings == ()
    # without the batch, as the older toolkit writes it
    assert load_onnx(path, input_size_list=[[3, 8, 8]]).graph.inputs[0].shape == (1, 3, 8, 8)


def _two_inputs() -> onnx.ModelProto:
    inputs = [tensor(name, "N", 3, "H") for name in ("a", "b")]
    return finish(nodes_of('["add"] y = Add (a, b)'), inputs, [tensor("y", "N")])


def _reversed(model: onnx.ModelProto) -> onnx.ModelProto:
    """With its nodes out of order."""
    model.graph.node.reverse()
    return model


def test_other_dynamic_axes_are_named_with_the_remedy(save: Save) -> None:
    path = save(_two_inputs())
    with pytest.raises(SourceModelError, match=r"'a' \(1x3xH\)") as caught:
        load_onnx(path)
    assert "input_size_list: [[1, 3, 224], [1, 3, 224]]" in caught.value.remedy
    loaded = load_onnx(path, input_size_list=[[1, 3, 7], None])  # type: ignore[list-item]
    assert loaded.graph.inputs[1].shape == (1, 3, 7)
    with pytest.raises(SourceModelError, match="at the same time"):
        load_onnx(path, input_size_list=[[1, 3, 7], [1, 3, 8]])


@pytest.mark.parametrize("mark", ["?", "-1", "None", "*", " "])
def test_marks_of_exporters_are_no_names_of_axes(save: Save, mark: str) -> None:
    """Two axes with such a mark need not have one size; two with one name do."""
    model = _two_inputs()
    for value in model.graph.input:
        for axis in (0, 2):
            value.type.tensor_type.shape.dim[axis].dim_param = mark
    path = save(model)
    loaded = load_onnx(path, input_size_list=[[1, 3, 7], [2, 3, 7]])
    assert [spec.shape for spec in loaded.graph.inputs] == [(1, 3, 7), (2, 3, 7)]
    with pytest.raises(SourceModelError, match=r"'a' \(1x3x\?\), 'b' \(1x3x\?\)"):
        load_onnx(path)
    for dim in (value.type.tensor_type.shape.dim[0] for value in model.graph.input):
        dim.dim_param = "unk__7"
    with pytest.raises(SourceModelError, match="'unk__7' would be 1 and 2 at the same time"):
        load_onnx(save(model), input_size_list=[[1, 3, 7], [2, 3, 7]])


def test_an_input_without_a_rank_needs_its_size(save: Save) -> None:
    model = float_net()
    model.graph.input[0].type.tensor_type.ClearField("shape")
    path = save(model)
    with pytest.raises(SourceModelError, match="no shape at all"):
        load_onnx(path)
    assert load_onnx(path, input_size_list=[[1, 3, 8, 8]]).graph.outputs[0].shape == (1, 5)


@pytest.mark.parametrize("as_file", [False, True])
def test_an_initial_value_makes_an_input_a_constant(
    save: Save, tmp_path: Path, as_file: bool
) -> None:
    path = save(_two_inputs())
    value = np.arange(21, dtype=np.float32).reshape(1, 3, 7)
    given: Any = value
    if as_file:
        given = tmp_path / "b.npy"
        np.save(given, value)
    loaded = load_onnx(path, input_initial_val=[None, given])
    verify(loaded.graph)
    assert [s.name for s in loaded.graph.inputs] == ["a"]
    x = np.ones((1, 3, 7), np.float32)
    np.testing.assert_array_equal(Session(loaded.graph).run({"a": x})["y"], value + 1)


def test_an_initial_value_keeps_the_input_type(save: Save) -> None:
    inputs = [tensor("x", 4), tensor("i", 2, dtype=TensorProto.INT64)]
    model = finish(nodes_of("y = Gather (x, i)"), inputs, [tensor("y", 2)])
    loaded = load_onnx(save(model), input_initial_val=[None, [1, 2]])
    assert loaded.graph.spec("i").dtype == "int64"
    with pytest.raises(SourceModelError, match="does not fit its type int64"):
        load_onnx(save(model), input_initial_val=[None, [1.5, 2]])


def test_custom_operators_are_refused_by_name_and_can_be_cut_off(save: Save) -> None:
    model = float_net()
    model.graph.node.extend(nodes_of('["the_magic"] z = my.own.Magic (s)'))
    model.graph.output.append(tensor("z", 1))
    model.opset_import.append(helper.make_opsetid("my.own", 1))
    path = save(model)
    magic = r"my\.own:Magic at node 'the_magic'"
    with pytest.raises(UnsupportedOperatorError, match=magic) as error:
        load_onnx(path)
    assert error.value.exit_code == 5
    assert "'outputs'" in error.value.remedy
    verify(load_onnx(path, outputs=["y"]).graph)


@pytest.mark.parametrize("opset", [13, 21])
def test_other_spellings_and_unused_imports_of_domains(save: Save, opset: int) -> None:
    model = float_net(opset=opset)
    model.opset_import[0].domain = "ai.onnx"
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    for node in model.graph.node:
        node.domain = "ai.onnx"
    path = save(model)
    loaded = load_onnx(path).graph
    verify(loaded)
    assert loaded.model.opset_imports == {"": 21}
    assert Session(loaded).run({"x": _x()})["y"].shape == (1, 5)
    view, graph = inspect_onnx(path)
    assert {finding.severity for finding in view.findings} <= {"info"}
    assert [row[:2] for row in graph.nodes] == [row[:2] for row in graph_view(loaded).nodes]


def _choice(then: str, other: str) -> onnx.ModelProto:
    """A node whose branches are nodes that give o."""
    text = (
        f'["choice"] y = If (c) <then_branch = a () => (float[1] o) {{{then}}}, '
        f"else_branch = b () => (float[1] o) {{{other}}}>"
    )
    inputs = [tensor("c", dtype=TensorProto.BOOL), tensor("x", 1)]
    return finish([onnx.parser.parse_node(text)], inputs, [tensor("y", 1)])


def test_control_flow_and_unknown_operators_are_refused_by_node(save: Save) -> None:
    choice = _choice("o = Identity (x)", "o = Concat <axis=0> (x, x)")
    with pytest.raises(UnsupportedOperatorError, match="If at node 'choice'"):
        load_onnx(save(choice))
    nodes = nodes_of('["exported_badly"] y = ATen (x)')
    with pytest.raises(UnsupportedOperatorError, match="ATen at node 'exported_badly'"):
        load_onnx(save(finish(nodes, [tensor("x", 1)], [tensor("y", 1)])))


def test_functions_of_the_model_are_inlined(save: Save) -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["": 21, "local": 1]>
        net (float[3] x) => (float[3] y) {y = local.Twice (x)}
        <domain: "local", opset_import: ["": 21]> Twice (v) => (w) {w = Add (v, v)}"""
    )
    loaded = load_onnx(save(model))
    verify(loaded.graph)
    assert [node.op_type for node in loaded.graph.nodes] == ["Add"]


def test_nodes_out_of_order_are_sorted_and_circles_refused(save: Save) -> None:
    model = _reversed(float_net())
    verify(load_onnx(save(model)).graph)
    model.graph.node[-1].input[0] = "a"
    with pytest.raises(SourceModelError, match="circle"):
        load_onnx(save(model))


def test_names_are_given_once(save: Save) -> None:
    model = float_net()
    for node in model.graph.node:
        node.name = "same" if node.op_type == "Conv" else ""
    path = save(model)
    names = [node.name for node in load_onnx(path).graph.nodes]
    assert names == ["same", "Relu", "same_1", "Add", "GlobalAveragePool", "Flatten", "Gemm"]
    assert [row[0] for row in inspect_onnx(path)[1].nodes] == names


def test_texts_and_metadata_of_the_exporter_do_not_come_along(save: Save) -> None:
    model = float_net()
    own_path = "/home/somebody/train.py"
    model.doc_string = model.graph.doc_string = own_path
    model.metadata_props.add(key="path", value=own_path)
    for node in model.graph.node:
        node.doc_string = own_path
        node.metadata_props.add(key="pkg.torch.onnx.stack_trace", value=own_path)
    for item in (*model.graph.initializer, *model.graph.input, *model.graph.output):
        item.doc_string = own_path
    assert own_path.encode() not in load_onnx(save(model)).graph.to_bytes()


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("opset", [13, 19, 21])
def test_quantized_models_load_unharmed(save: Save, dtype: str, opset: int) -> None:
    model = qdq_net(dtype)
    model.opset_import[0].version = opset
    model.ir_version = 8
    loaded = load_onnx(save(model))
    verify(loaded.graph)
    x = {"x": np.random.default_rng(1).normal(size=(1, 4, 12, 12)).astype(np.float32)}
    a = Session(Graph.from_proto(qdq_net(dtype))).run(x)["y"]
    np.testing.assert_array_equal(a, Session(loaded.graph).run(x)["y"])


def test_external_weights_beside_the_model(save: Save, tmp_path: Path) -> None:
    path = save(
        float_net(), "e.onnx", save_as_external_data=True, location="e.data", size_threshold=0
    )
    loaded = load_onnx(path)
    assert [name for name, _ in loaded.source.files] == ["e.onnx", "e.data"]
    np.testing.assert_array_equal(
        loaded.graph.constant("w1"), Graph.from_proto(float_net()).constant("w1")
    )
    data = (tmp_path / "e.data").read_bytes()
    (tmp_path / "e.data").write_bytes(data[:-1])
    with pytest.raises(SourceModelError, match="too short"):
        load_onnx(path)
    (tmp_path / "e.data").unlink()
    with pytest.raises(SourceModelError, match="not there") as caught:
        load_onnx(path)
    assert "e.data" in caught.value.remedy


def _outside(**entries: str) -> bytes:
    """A model whose first constant lies in another file."""
    model = float_net()
    weight = model.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        weight.external_data.add(key=key, value=value)
    return model.SerializeToString()


@pytest.mark.parametrize("location", ["../out.data", "/etc/passwd", "link.data", "", "a\0b"])
def test_external_weights_outside_the_folder_are_refused(tmp_path: Path, location: str) -> None:
    (tmp_path / "out.data").write_bytes(bytes(4096))
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "link.data").symlink_to(tmp_path / "out.data")
    (folder / "m.onnx").write_bytes(_outside(location=location, length="648"))
    with pytest.raises(SourceModelError, match=r"outside its own folder|without a name"):
        load_onnx(folder / "m.onnx")


@pytest.mark.parametrize("number", ["-1", "9" * 30, "x", "²"])
def test_external_offsets_that_are_no_numbers(tmp_path: Path, number: str) -> None:
    (tmp_path / "d").write_bytes(bytes(100))
    (tmp_path / "m.onnx").write_bytes(_outside(location="d", offset=number))
    with pytest.raises(SourceModelError, match="offset or length"):
        load_onnx(tmp_path / "m.onnx")


def test_the_quick_view_says_what_loading_says(save: Save) -> None:
    path = save(float_net(opset=21))
    model, graph = inspect_onnx(path)
    loaded = load_onnx(path).graph
    assert graph == graph_view(loaded)
    assert model.nodes == 7
    assert model.operators["Conv"] == 2
    assert model.parameters == 6 * 27 + 6 + 36 + 30
    assert model.weights_bytes == 4 * model.parameters
    assert model.findings == ()
    look = inspect_file(path)
    for node in loaded.nodes:
        assert look.node(node.name or "") == node_detail(loaded, node.name or "")
    for name in loaded.model.graph.initializers:
        np.testing.assert_array_equal(look.constant(name), loaded.constant(name))
    assert look.constant("x") is look.constant("y") is None
    for ask in (look.node, look.constant):
        with pytest.raises(GraphError, match="has no"):
            ask("nothing")


def test_the_quick_view_of_a_quantized_model_has_its_parameters(save: Save) -> None:
    nodes = nodes_of(
        """["quantize"] q = QuantizeLinear (x, s, z); ["dequantize"] d = DequantizeLinear (q, s, z);
        ["relu"] y = Relu (d)"""
    )
    constants = {"s": np.array(0.5, np.float32), "z": np.array(128, np.uint8)}
    path = save(finish(nodes, [tensor("x", 1, 3)], [tensor("y", 1, 3)], constants))
    loaded, look = load_onnx(path).graph, inspect_file(path)
    details = {name: look.node(name) for name in ("quantize", "dequantize", "relu")}
    assert details == {name: node_detail(loaded, name) for name in details}
    assert details["relu"].inputs[0].quant == TensorQuant("uint8", (0.5,), (128,), None)


def test_the_quick_view_fixes_batch_and_order_as_loading_does(save: Save) -> None:
    path = save(_reversed(float_net(batch="N")))
    view, graph = inspect_onnx(path)
    loaded = load_onnx(path)
    assert graph == graph_view(loaded.graph)
    assert view.findings == loaded.findings
    assert view.inputs[0].shape[0] == 1


def test_a_plain_file_is_read_once_for_its_summary_and_its_view(
    save: Save, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, paths = sys.modules[inspect_onnx.__module__], []
    monkeypatch.setattr(module, "read_onnx", lambda path, **more: _noted(paths, path, **more))
    path = save(float_net())
    summary = summary_of(find_source(path))
    assert source_inspection(path).summary == summary
    assert paths == [path]


def _noted(paths: list[Path], path: Path, **more: bool) -> SourceFile:
    paths.append(path)
    return read_onnx(path, **more)


def test_long_attributes_are_not_kept_behind_a_look(save: Save) -> None:
    kept, model = sys.modules[inspect_onnx.__module__]._short_text, float_net()
    inspect_file(save(model))
    before = kept.cache_info().currsize
    model.graph.node[0].attribute.append(helper.make_attribute("long", [1.5] * 1000))
    attributes = dict(inspect_file(save(model)).summary.layers[0].attributes)
    assert "… 1000 in all" in attributes["long"]
    assert kept.cache_info().currsize == before > 0


def test_a_node_with_a_graph_of_its_own_is_shown(save: Save) -> None:
    look = inspect_file(save(_choice("o = Neg (x)", "o = Neg (x)")))
    assert look.model.findings[0].code == "control-flow"
    detail = look.node("choice")
    assert [name for name, _ in detail.attributes] == ["else_branch", "then_branch"]
    assert detail.inputs[0].kind == "input"


def test_the_quick_view_shows_what_cannot_be_loaded(save: Save) -> None:
    model = _two_inputs()
    model.graph.node[0].domain = "my.own"
    model.opset_import.append(helper.make_opsetid("my.own", 1))
    view, graph = inspect_onnx(save(model))
    assert [f.code for f in view.findings] == ["unsupported-operator", "dynamic-size"]
    assert {f.severity for f in view.findings} == {"error"}
    assert "input_size_list" in view.findings[1].remedy
    assert graph.nodes[0][:2] == ("add", "my.own:Add")
    assert view.inputs[0] == Tensor("a", (-1, 3, -1), "float32")


def test_an_operator_that_was_told_is_not_told_behind_the_first_twenty(save: Save) -> None:
    model = _two_inputs()
    model.opset_import.append(helper.make_opsetid("my.own", 1))
    nodes = [helper.make_node("Own", ["a"], [f"o{i}"], domain="my.own") for i in range(30)]
    model.graph.node.extend(nodes)
    assert len([f for f in inspect_onnx(save(model))[0].findings if f.severity == "error"]) == 21
