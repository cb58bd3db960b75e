"""Each kind of file of the vendor's, built from the description of its format."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import ContainerError
from engine.container import write_container
from engine.container.vendor import (
    VendorLayer,
    VendorModel,
    inspect_op_package,
    vendor_graph_view,
    vendor_node_detail,
)
from engine.frontends.sniff import sniff
from tests.container.build import content
from tests.container.vendor import build
from tests.container.vendor.flat import f32, flat, i8, i32, ints


def layer_of(model: VendorModel, name: str) -> VendorLayer:
    return next(layer for layer in model.graphs[0].layers if layer.name == name)


def codes(model: VendorModel) -> list[str]:
    return [finding.code for finding in model.findings]


def test_the_full_form_of_generation_2(inspected: Any) -> None:
    model = inspected(build.npu())
    assert (model.kind, model.container_version, model.generation) == ("npu", 6, 2)
    assert (model.platforms, model.chips, model.npu) == (("rk3588",), ("rk3588",), "RKNPU v2")
    assert (model.toolkit, model.compiler) == ("2.3.2", "2.3.2 (abc@2025-04-09T09:09:27)")
    assert (model.framework, model.custom_string, model.name) == ("ONNX", "hello", "rknn model")
    memory = model.memory
    assert (memory.weights, memory.internal, memory.copies) == (1000, 2000, 300)
    assert [name for name, _ in memory.sections] == ["compiled model", "layer list"]
    assert not model.dynamic
    assert model.findings == ()


def test_ports_of_the_full_form(inspected: Any) -> None:
    model = inspected(build.npu())
    (x,), (y,) = model.inputs, model.outputs
    assert (x.tensor.name, x.tensor.shape, x.tensor.dtype) == ("x", (1, 3, 8, 8), "int8")
    assert (x.layout, x.runtime_layout, x.runtime_dtype) == ("NCHW", "NHWC", "int8")
    assert (x.source_dtype, x.mean, x.std) == ("float32", (127.5, 0.0, 1.0), (2.0, 2.0, 2.0))
    assert x.rgb2bgr is True
    quant = x.tensor.quant
    assert (quant.dtype, quant.method, quant.zero_point) == ("int8", "layer", (-14,))
    assert quant.scale == pytest.approx((0.0196,))
    assert (quant.minimum, quant.maximum, quant.observed) == ((-2.0,), (3.0,), (-1.5, 2.5))
    assert (y.tensor.dtype, y.tensor.quant, y.rgb2bgr) == ("float16", None, None)


def test_layers_have_the_compilers_attributes_and_the_sources(inspected: Any) -> None:
    model = inspected(build.npu())
    conv = layer_of(model, "Conv:/a/b/conv")
    assert (conv.op, conv.inputs, conv.outputs) == ("ConvRelu", (1, 2), (3,))
    assert dict(conv.attributes) == {
        "auto_pad": "NOTSET",
        "dilations": (1, 1),
        "group": 2,
        "kernel_shape": (3, 3),
        "pads": (0, 0, 1, 1),
        "strides": (2, 2),
    }
    assert dict(conv.source_attributes) == {
        "pads": (1, 1, 1, 1),
        "group": 2,
        "auto_pad": "NOTSET",
    }
    assert dict(layer_of(model, "LeakyRelu:/a/act").attributes) == {"alpha": 0.125}
    kinds = [tensor.kind for tensor in model.graphs[0].tensors]
    assert kinds == ["none", "input", "weight", "activation", "output", "commands"]


UNIONS = [
    (
        2,
        {2: i32(3), 4: ints(1, 0), 7: ints(2, 2)},
        {"group": 3, "output_padding": (1, 0), "strides": (2, 2)},
    ),
    (3, {1: i32(1), 3: ints(2, 2)}, {"ceil_mode": 1, "kernel_shape": (2, 2)}),
    (5, {2: i32(1), 4: ints(1, 1, 1, 1)}, {"count_include_pad": 1, "pads": (1, 1, 1, 1)}),
    (19, {0: i32(1)}, {"axis": 1}),
    (25, {0: ints(0, 2, 3, 1)}, {"perm": (0, 2, 3, 1)}),
    (
        26,
        {0: "half_pixel", 4: "linear"},
        {"coordinate_transformation_mode": "half_pixel", "mode": "linear"},
    ),
    (31, {0: f32(0.5), 3: i32(5)}, {"alpha": 0.5, "size": 5}),
    (51, {0: i32(2)}, {"axis": 2}),
    (61, {0: i32(3)}, {"axis": 3}),
    (87, {1: f32(0.25), 2: ints(2, 3)}, {"epsilon": 0.25, "axes": (2, 3)}),
]


@pytest.mark.parametrize(("tag", "table", "expected"), UNIONS)
def test_tables_of_attributes(
    inspected: Any, tag: int, table: dict[int, Any], expected: dict[str, Any]
) -> None:
    graph = build.graph()
    graph[1][2] = build.node("Op", "Op:1", (3,), (4,), slots={7: i8(tag), 8: table})
    model = inspected(build.npu(s2=[graph]))
    assert dict(layer_of(model, "Op:1").attributes) == expected
    assert model.findings == ()


@pytest.mark.parametrize("dummy", [True, False])
def test_an_input_or_output_that_a_layer_leaves_out(inspected: Any, dummy: bool) -> None:
    # as toolkit 2.3.2 writes an LSTM whose first output nobody reads
    graph = build.graph()
    graph[1][2] = build.node("LSTM", "LSTM:l", (3, -1, 2), (-1, 4))
    if not dummy:
        graph[0][0] = build.tensor("t", (1,))
    model = inspected(build.npu(s2=[graph]))
    (first,) = model.graphs
    lstm = layer_of(model, "LSTM:l")
    kinds = [first.tensors[i].kind for i in (*lstm.inputs, *lstm.outputs)]
    assert kinds == ["activation", "none", "weight", "none", "output"]
    rows = {row[1]: row for row in vendor_graph_view(model).nodes}
    assert rows["LSTM"][2:4] == ("y", "1x4x4x4")
    detail = vendor_node_detail(model, "LSTM:l")
    assert [each.name for each in detail.inputs] == ["c", "(none)", "w"]
    assert [each.name for each in detail.outputs] == ["(none)", "y"]


def test_codes_that_are_not_established_are_findings(inspected: Any) -> None:
    graph = build.graph()
    graph[1][2] = build.node("Op", "Op:1", (3,), (4,), slots={7: i8(99), 8: {0: i32(1)}})
    graph[0][3] |= {0: i8(77)}
    model = inspected(build.npu(s2=[graph]))
    assert layer_of(model, "Op:1").attributes == ()
    assert model.graphs[0].tensors[3].dtype == "code 77"
    assert [(f.where, f.what) for f in model.findings] == [
        ("c", "Tensor type 77 is not established."),
        ("Op:1", "Table 99 of attributes is not established."),
    ]


def test_dynamic_shapes_are_one_graph_each(inspected: Any) -> None:
    model = inspected(build.dynamic())
    assert model.dynamic
    heights = [graph.tensors[graph.inputs[0]].shape[2] for graph in model.graphs]
    assert heights == [16, 8]
    assert model.inputs[0].tensor.shape == (1, 3, 16, 16)


def test_another_schema_version_is_read_as_far_as_netron_reads_it(inspected: Any) -> None:
    model = inspected(build.npu(s0=i32(5)))
    assert codes(model) == ["schema-unknown"]
    assert layer_of(model, "Conv:/a/b/conv").attributes == ()
    assert model.inputs[0].tensor.quant is None
    assert (model.memory.weights, model.custom_string) == (None, "")
    assert model.inputs[0].tensor.shape == (1, 3, 8, 8)


def test_the_first_schema_has_no_sizes_in_memory(inspected: Any) -> None:
    root = {slot: value for slot, value in build.npu_model(s0=i32(1)).items() if slot < 15}
    model = inspected(build.container(2, flat(root), build.wrapper()))
    assert (model.kind, model.generation, model.container_version) == ("npu", 2, 2)
    assert (model.custom_string, model.memory.weights) == ("hello", None)
    assert model.inputs[0].tensor.quant.zero_point == (-14,)
    assert model.findings == ()


def test_the_small_form(inspected: Any) -> None:
    model = inspected(build.mini())
    assert (model.kind, model.container_version) == ("npu-mini", 0x1004)
    assert (model.chips, model.npu, model.custom_string) == (("rv1106",), "RKNPU t3", "small")
    assert (model.toolkit, model.framework) == ("2.3.2", "ONNX")
    quant = model.inputs[0].tensor.quant
    assert (quant.dtype, quant.scale, quant.zero_point) == ("int8", (0.5,), (3,))
    assert model.inputs[0].mean == (127.5, 0.0, 1.0)
    assert model.graphs[0].tensors[2].bytes == 576
    assert layer_of(model, "Conv:/a/b/conv").attributes == ()
    memory = model.memory
    assert (memory.weights, memory.internal, memory.copies) == (5, 4096, 0)
    assert ("blob 2", 20) in model.memory.sections
    assert codes(model) == ["attributes-not-established"]
    four = inspected(
        build.container(0x1004, build.mini_data(sizes=(7, 20, 5, 11)), build.wrapper("rv1106"))
    )
    assert four.memory.copies == 11
    assert four.graphs == model.graphs


def test_a_bare_flatbuffer(inspected: Any) -> None:
    model = inspected(flat(build.npu_model()))
    assert (model.kind, model.container_version) == ("npu-bare", None)
    assert (model.chips, model.toolkit, len(model.graphs[0].layers)) == (("rk3588",), "2.3.2", 4)


def test_the_layer_list_of_generation_1(inspected: Any) -> None:
    model = inspected(build.layers())
    assert (model.kind, model.generation, model.toolkit) == ("layers", 1, "1.7.1")
    assert model.chips == ("rk1808", "rk3399pro")
    conv, relu = model.graphs[0].layers
    assert (conv.op, dict(conv.attributes)["ksize"]) == ("CONV2D", [3, 3])
    names = [tensor.name for tensor in model.graphs[0].tensors]
    assert [names[i] for i in conv.inputs] == ["norm_tensor:0", "const_tensor:0"]
    assert conv.outputs == relu.inputs
    assert [names[i] for i in relu.outputs] == ["norm_tensor:1"]
    (x,), (y,) = model.inputs, model.outputs
    assert (x.tensor.shape, x.tensor.dtype) == ((1, 3, 6, 8), "uint8")
    assert (x.tensor.quant.scale, x.tensor.quant.zero_point) == ((0.5,), (128,))
    assert y.tensor.quant.fraction == 5
    assert (x.mean, x.std, x.rgb2bgr) == ((104.0, 117.0, 123.0), (58.0, 57.0, 56.0), True)


def test_means_of_early_toolkits_end_in_one_divisor(inspected: Any) -> None:
    change = {"mean_value": [1.0, 2.0, 3.0, 9.0], "mean_value_chns": [4], "std_value": None}
    model = inspected(build.layers(build.first_generation() | change))
    assert (model.inputs[0].mean, model.inputs[0].std) == ((1.0, 2.0, 3.0), (9.0,) * 3)


def test_means_of_several_inputs_lie_one_behind_the_other(inspected: Any) -> None:
    listed = build.first_generation()
    listed["graph"].append({**listed["graph"][1], "left_tensor_id": 1})
    listed |= {
        "mean_value": [1.0, 2.0, 3.0, 4.0],
        "std_value": [5.0, 6.0, 7.0, 8.0],
        "mean_value_chns": [3, 1],
        "reorder": [0, 1, 2, 2, 1, 0],
    }
    first, second = inspected(build.layers(listed)).inputs
    assert (first.mean, first.std, first.rgb2bgr) == ((1.0, 2.0, 3.0), (5.0, 6.0, 7.0), False)
    assert (second.mean, second.std, second.rgb2bgr) == ((4.0,), (8.0,), True)


@pytest.mark.parametrize(
    "change",
    [
        {"mean_value_chns": [4]},
        {"mean_value_chns": [3, 3]},
        {"mean_value_chns": [-1]},
        {"mean_value": [104.0, "x", 123.0], "std_value": [1, 2]},
        {"mean_value": None, "std_value": None, "reorder": [2, 1]},
    ],
)
def test_means_that_do_not_fit_the_inputs_are_left_out(
    inspected: Any, change: dict[str, Any]
) -> None:
    model = inspected(build.layers(build.first_generation() | change))
    assert (model.inputs[0].mean, model.inputs[0].std) == ((), ())
    assert model.inputs[0].rgb2bgr is (None if "reorder" in change else True)


def test_ports_that_a_reader_names_stay_before_those_in_the_list(inspected: Any) -> None:
    listed = build.first_generation()
    far = listed["connection"][2]["right_node"]
    far["tensor_id"] = 1
    output = {"type": "norm_tensor", "tensor_id": 1}
    listed["connection"].append({"node_id": 0, "left": "output", "right_tensor": output})
    model = inspected(build.layers(listed))
    names = [tensor.name for tensor in model.graphs[0].tensors]
    assert [names[i] for i in model.graphs[0].layers[0].outputs] == ["0:1", "norm_tensor:1"]


@pytest.mark.parametrize("kind", build.KINDS)
def test_every_kind_is_recognised_by_its_content(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(build.KINDS[kind]())
    assert sniff(path).kind == ("rknnop" if kind == "op-package" else "rknn_vendor")


def test_custom_operators_behind_a_layer_list(inspected: Any) -> None:
    model = inspected(build.layers(tail=build.custom_tail()))
    (operator,) = model.custom_operators
    assert (operator.name, operator.inputs) == ("MyOp", (("a", "VX_TYPE_TENSOR"),))
    assert operator.params == (("n", "VX_TYPE_ARRAY"),)
    assert operator.code == (("kernel", 30), ("host library x86", 10))
    assert ("code of custom operators", 40) in model.memory.sections


@pytest.mark.parametrize("major", [1, 2, 3, 4, 14])
def test_precompiled_graphs(inspected: Any, major: int) -> None:
    bare = inspected(build.nbg(major))
    assert (bare.kind, bare.name, bare.compiler) == ("nbg", "net", f"VPMN {major}.7")
    layers = [(layer.op, layer.name) for layer in bare.graphs[0].layers]
    assert layers == [("CONV", "CONV_5"), ("POOL", "POOL_6"), ("FC", "FC_7")]
    assert codes(bare) == ["names-only"]
    for version in (1, 2):  # version 1 has no reserved bytes
        inside = inspected(build.precompiled(major, version))
        assert (inside.kind, inside.generation) == ("layers-nbg", 1)
        assert [layer.op for layer in inside.graphs[0].layers] == ["NBG", "CONV", "POOL", "FC"]
        assert inside.inputs[0].tensor.shape == (1, 3, 6, 8)


def test_bare_json(inspected: Any) -> None:
    model = inspected(build.KINDS["layers-bare"]())
    assert (model.kind, model.generation, model.name) == ("layers-bare", 1, "net")


def test_rknn3(inspected: Any) -> None:
    model = inspected(build.rknx())
    assert (model.kind, model.generation, model.name) == ("rknx", 3, "a net")
    assert (model.toolkit, model.compiler, model.platforms) == ("3.0.0", "3.0c", ("RK1820",))
    assert [p.tensor.name for p in (*model.inputs, *model.outputs)] == ["in", "out"]
    assert len(model.graphs[0].layers) == 2
    assert codes(model) == ["platform-unknown"]
    assert codes(inspected(build.rknx(sub=False)))[0] == "graph-missing"


@pytest.mark.parametrize("level", [1, 2, 3])
def test_encrypted_files_are_said_to_be_so(inspected: Any, level: int) -> None:
    model = inspected(build.encrypted(level))
    assert (model.kind, model.encryption_level) == ("encrypted", level)
    assert f"level {level}" in model.form
    assert (model.graphs, model.platforms) == ((), ())
    assert codes(model) == ["encrypted"]
    assert codes(inspected(build.encrypted(level)[:-1])) == ["encrypted-size", "encrypted"]


def test_packages_of_operators(inspected: Any, tmp_path: Path) -> None:
    model = inspected(build.package())
    assert (model.kind, model.chips, model.name) == ("op-package", ("rk1808",), "MyOp")
    package = inspect_op_package(tmp_path / "a.rknn")
    assert (package.name, package.op_version, package.framework) == ("MyOp", 2, "tensorflow")
    assert package.inputs == (("a", "VX_TYPE_TENSOR"),)
    assert package.params == (("n", "VX_TYPE_ARRAY"),)
    assert package.sections[4:] == (("description", len(build.DESCRIPTION)), ("Python source", 10))
    (tmp_path / "m.rknn").write_bytes(build.npu())
    with pytest.raises(ContainerError, match="no package"):
        inspect_op_package(tmp_path / "m.rknn")


def test_bytes_behind_the_end_and_parts_that_disagree(inspected: Any) -> None:
    assert codes(inspected(build.npu() + bytes(9))) == ["trailing-bytes"]
    other = build.npu(s8="rk3566", s7="2.0(compiler version: x)")
    assert codes(inspected(other)) == ["parts-disagree"] * 2


def test_data_of_another_kind_and_unknown_platforms(inspected: Any) -> None:
    listed = build.first_generation() | {"target_platform": ["rk9999"]}
    model = inspected(build.container(2, b"something", listed))
    assert codes(model) == ["data-unknown", "platform-unknown"]
    assert model.chips == ()


def test_tables_with_more_than_literals_are_not_run(inspected: Any) -> None:
    model = inspected(build.npu(s3="{'attrs': __import__('os').getcwd()}"))
    assert codes(model) == ["facts-unreadable"]
    odd = repr(build.FACTS).replace("127.5", "nan").replace("[-1.5]", "[-inf]")
    model = inspected(build.npu(s3=odd))
    assert codes(model) == []
    assert model.inputs[0].mean == (0.0, 1.0)
    assert model.inputs[0].tensor.quant.observed is None


def test_our_own_containers_are_told_apart(inspected: Any) -> None:
    data = write_container(content())
    with pytest.raises(ContainerError, match="container of this program"):
        inspected(data)
    changed = data[:24] + bytes(8) + data[32:]
    assert inspected(changed).kind == "layers"


def test_a_version_of_the_container_that_is_not_known(inspected: Any) -> None:
    data = bytearray(build.npu())
    struct.pack_into("<Q", data, 8, 7)
    assert codes(inspected(bytes(data))) == ["container-version"]
    struct.pack_into("<Q", data, 8, 0x2006)
    with pytest.raises(ContainerError, match="version 8198"):
        inspected(bytes(data))
