"""``compile`` of small models with the names and shapes of real ones, on which toolkit 2.3.2 failed
or computed something else: those of zoo/compile.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from engine.container.vendor import inspect_vendor
from engine.services.vendor_files import vendor_graph
from engine.wire.compile import Compiled
from tests.cost.asked.maker import Maker
from tests.cost.test_crashes import attention
from tests.vendor.models import dataset, save_model
from tests.vendor.test_compile import compiled as compile_for

pytestmark = [
    pytest.mark.long,
    pytest.mark.vendor,
    pytest.mark.usefixtures("vendor_home"),
]

CHIPS = ("rk3566", "rk3588", "rv1106")


def samples(model: Path, folder: Path) -> Path:
    """A dataset of eight samples of noise for a model's inputs."""
    rng = np.random.default_rng(0)
    shapes = [
        [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in onnx.load(model).graph.input
    ]
    return dataset(folder, [[rng.standard_normal(shape) for shape in shapes] for _ in range(8)])


def compiled(
    model: Path, tmp_path: Path, chips: tuple[str, ...] = ("rk3588",), **recipe: Any
) -> tuple[Compiled, ...]:
    """The model for chips, each as it has to be; both simulators on two samples."""
    values = {"model": str(model), "dataset": str(samples(model, tmp_path)), **recipe}
    out = tmp_path / f"out-{model.stem}"
    made = tuple(compile_for(out, values, chips=chips, samples=2).chips)
    assert not [(one.problem, one.cause) for one in made if one.problem]
    return made


def handed_over(one: Compiled) -> str:
    """SHA-256 of the file that the toolkit was given."""
    return str(json.loads(Path(one.side_file).read_text(encoding="ascii"))["onnx_sha256"])


def renamed(model: Path, path: Path, names: dict[str, str]) -> Path:
    """The model with other names of tensors."""
    found = onnx.load(model)
    for node in found.graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
    for value in (*found.graph.initializer, *found.graph.input, *found.graph.output):
        value.name = names.get(value.name, value.name)
    del found.graph.value_info[:]
    onnx.save(found, path)
    return path


def test_names_inside_do_not_matter(tmp_path: Path, zoo: Path) -> None:
    good, bad = (zoo / "compile" / f"clip_{each}.onnx" for each in ("good", "bad"))
    hostile = renamed(
        good, tmp_path / "a.onnx", {"lo": "scalar", "hi": "scalar_1", "w1": "k" * 659}
    )
    ints = renamed(bad, tmp_path / "b.onnx", {"scalar": "ints", "scalar_1": "ints_1"})
    made = {path: compiled(path, tmp_path)[0] for path in (good, bad, hostile, ints)}
    for one in made.values():
        (row,) = one.outputs
        assert (row.equal, row.cosine) == (1.0, pytest.approx(1))
        assert row.sqnr_db is not None
        assert row.sqnr_db > 30
    # the compiler's own bytes differ from run to run
    given = {path: handed_over(one) for path, one in made.items()}
    assert given[good] == given[hostile] != given[bad]
    assert given[bad] == given[ints]


def test_ports_keep_their_names_and_reports_have_the_users(tmp_path: Path, zoo: Path) -> None:
    long = "StatefulPartitionedCall/" * 40 + "Identity"
    good = zoo / "compile" / "clip_good.onnx"
    model = renamed(good, tmp_path / "net.onnx", {"x": "scalar", "o1": long})
    graph = onnx.load(model)
    for node in graph.graph.node:
        node.name = f"über/{node.op_type} {node.output[0][-8:]}"
    onnx.save(graph, model)
    names = {node.name for node in graph.graph.node if node.op_type == "Conv"}
    target = {graph.graph.node[0].output[0]: "cpu"}
    (one,) = compiled(model, tmp_path, op_target=target)
    assert one.outputs[0].max_steps == 1  # a convolution on the CPU is none of ours
    found = inspect_vendor(Path(one.path))
    assert [each.tensor.name for each in found.inputs] == ["scalar"]
    (port,) = (each.tensor.name for each in found.outputs)
    assert port.endswith("/Identity~" + port[-8:])
    codes = {each.code for each in one.findings}
    assert "port-name-cut" in codes
    assert "compiled-otherwise" not in codes
    rows = [row for row in one.layers if row.op.startswith("Conv")]
    assert {row.name.partition(":")[2] for row in rows} == names
    assert {row.id for row in rows} == names
    # what the user asked for by a tensor's name came to its convolution
    assert [row.target for row in rows] == ["CPU", "NPU", "NPU"]
    side = json.loads(Path(one.side_file).read_text(encoding="ascii"))
    assert target.keys() <= side["config"]["op_target"].keys()
    seen = vendor_graph(Path(one.path)).graph
    assert names <= {name.partition(":")[2] for name, *_ in seen.nodes}
    assert Path(one.log).read_text(encoding="utf-8").count("über/Conv")


@pytest.mark.parametrize("quantized", [True, False])
def test_op_target_of_three_dimensions_is_told_and_left_out(
    quantized: bool, tmp_path: Path
) -> None:
    """The toolkit ignores such a name with Q/DQ, and refuses it without."""
    net = Maker((1, 3, 16, 16))
    rows = []
    for stride in (1, 2):
        conv = net.add("Conv", "x", net.numbers(16, 3, 3, 3), pads=[1] * 4, strides=[stride] * 2)
        rows.append(net.add("Reshape", conv, net.whole(1, 16, -1)))
    joined = net.add("Concat", *rows, axis=2)
    model = tmp_path / "net.onnx"
    onnx.save(net.model(net.add("Sigmoid", joined)), model)
    target = {joined: "cpu"}
    (one,) = compiled(model, tmp_path, op_target=target, do_quantization=quantized)
    found = {each.code: each for each in one.findings}
    assert joined in found["op-target-without-effect"].what
    (row,) = (row for row in one.layers if row.op == "Concat")
    assert row.target == row.estimated_target == "NPU"


@pytest.mark.parametrize("op", ["Sqrt", "Div", "Sigmoid"])
def test_the_remedy_of_float16_is_followed(op: str, tmp_path: Path) -> None:
    net = Maker((1, 3, 16, 16))
    x = net.conv("x", 3, 16, then="Relu")
    parts = [x, net.add("Sigmoid", x)] if op == "Div" else [x]
    layer = net.add(op, *parts, name="it")
    model = tmp_path / "net.onnx"
    onnx.save(net.model(net.conv(layer, 16, 8)), model)
    for one in compiled(model, tmp_path, ("rk3566", "rk3588"), quantized_layers={layer: "float16"}):
        (row,) = (row for row in one.layers if row.id == layer and row.op == op)
        assert (row.dtype, row.target, row.estimated_target) == ("FLOAT16", "NPU", "NPU")
        assert all(each.estimated_target for each in one.layers)
        assert [each.equal for each in one.outputs] == [1.0]


EQUAL = 0.99
"""Share of the values that are the same integers in both simulators; others are a step apart."""


@pytest.mark.parametrize("level", [2, 3])
@pytest.mark.parametrize("name", ["mm_add", "fpn_linear_Relu", "conv1d", "slices", "chain44"])
def test_shapes_of_real_models_are_int8_with_our_numbers(
    name: str, level: int, tmp_path: Path, zoo: Path
) -> None:
    model = zoo / "compile" / f"{name}.onnx"
    made = compiled(model, tmp_path, ("rk3588", "rv1106"), optimization_level=level)
    for one in made:
        assert one.quantized_by == "ours"
        assert {row.dtype for row in one.layers if row.op.startswith("Conv")} == {"INT8"}
        for row in one.outputs:
            assert row.cosine > 0.99999
            # a float16 output has no integers
            assert row.equal >= EQUAL or row.max_steps is None


GRAPHS = (
    *("acts", "chain36_6", "chain44", "clip_bad", "clip_good", "conv1d", "conv1d_c8", "instnorm"),
    *("fpn_linear_Relu", "fpn_nearest_Relu", "ln_mm", "lstm", "mm_add", "mm_only", "pad16", "pad6"),
    *("shareddw", "sharedhead", "slices"),
)


@pytest.mark.parametrize("name", GRAPHS)
def test_every_graph_compiles_for_every_kind_of_chip(name: str, tmp_path: Path, zoo: Path) -> None:
    for one in compiled(zoo / "compile" / f"{name}.onnx", tmp_path, CHIPS):
        inspect_vendor(Path(one.path))
        codes = {each.code for each in one.findings}
        assert ("compiled-another-way" in codes) == (name == "lstm")
        for row in one.outputs:
            assert row.cosine > 0.9999
            assert row.sqnr_db is None or row.sqnr_db > 25


def test_nothing_is_forgotten(zoo: Path) -> None:
    assert sorted(GRAPHS) == sorted(path.stem for path in (zoo / "compile").glob("*.onnx"))


def patches(path: Path, kernel: int, stride: int, size: int) -> Path:
    """What a ViT begins with."""
    rng = np.random.default_rng(0)
    weight = (rng.standard_normal((16, 3, kernel, kernel)) * 0.1).astype(np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], strides=[stride] * 2)
    side = (size - kernel) // stride + 1
    ends = {"x": [1, 3, size, size]}, {"y": [1, 16, side, side]}
    return save_model(path, [node], *ends, {"w": weight})


@pytest.mark.parametrize(("kernel", "stride", "size"), [(16, 16, 64), (14, 14, 72), (32, 32, 64)])
def test_patches_are_int8_with_our_numbers(
    kernel: int, stride: int, size: int, tmp_path: Path
) -> None:
    model = patches(tmp_path / "patches.onnx", kernel, stride, size)
    for one in compiled(model, tmp_path, CHIPS):
        assert {row.dtype for row in one.layers if row.op.startswith("Conv")} == {"INT8"}
        (row,) = one.outputs
        assert row.equal == 1.0


def one_node(path: Path, weight: tuple[int, ...], shape: tuple[int, ...], **more: Any) -> Path:
    """A model of one convolution with random weights."""
    rng = np.random.default_rng(0)
    array = (rng.standard_normal(weight) * 0.1).astype(np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="odd layer", **more)
    return save_model(path, [node], {"x": shape}, {"y": None}, {"w": array})


def test_a_layer_normalization_has_its_defaults_written(tmp_path: Path) -> None:
    constants = {"scale": np.full(32, 2, np.float32), "bias": np.full(32, 0.5, np.float32)}
    node = helper.make_node("LayerNormalization", ["x", "scale", "bias"], ["y"])
    shape = [1, 16, 32]
    path = save_model(tmp_path / "norm.onnx", [node], {"x": shape}, {"y": shape}, constants)
    (one,) = compiled(path, tmp_path, do_quantization=False)
    assert one.outputs[0].cosine > 0.9999


def test_where_the_toolkit_fails_another_way_is_taken_and_told(tmp_path: Path) -> None:
    """A kernel of 31: it cuts that into parts in float16, which rv1106 does not have."""
    model = one_node(tmp_path / "net.onnx", (8, 8, 31), (1, 8, 128))
    (one,) = compiled(model, tmp_path, ("rv1106",))
    assert one.quantized_by == "vendor"
    (told,) = (each for each in one.findings if each.code == "compiled-another-way")
    assert told.severity == "warning"
    assert "the toolkit's own quantization" in told.what
    assert "cycles by the compiler" in told.what
    assert "SQNR" in told.what
    assert "float" in told.cause
    assert "n0000" not in told.cause + told.what
    side = json.loads(Path(one.side_file).read_text(encoding="ascii"))
    assert side["quantized_by"] == "toolkit"
    # who asks for ours by name gets no other
    values = {"model": str(model), "dataset": str(samples(model, tmp_path))}
    out = tmp_path / "ours"
    (refused,) = compile_for(out, values, chips=("rv1106",), quantizer="ours").chips
    assert (refused.path, refused.exit_code) == ("", 16)
    assert "floating point" in refused.cause
    assert "optimization_level 2, optimization_level 0, quantized_method layer" in refused.remedy
    assert list(out.iterdir()) == []


def test_after_a_crash_another_process_goes_on(tmp_path: Path) -> None:
    """A grouped convolution with a stride of 8: SIGSEGV."""
    model = one_node(tmp_path / "net.onnx", (16, 4, 16), (1, 8, 128), strides=[8], group=2)
    (one,) = compiled(model, tmp_path, ("rk3588",))
    (told,) = (each for each in one.findings if each.code == "compiled-another-way")
    assert "killed by SIGSEGV" in told.cause
    assert "crashed" in told.cause


def test_states_that_are_outputs_are_kept(tmp_path: Path) -> None:
    """An LSTM whose h and c are outputs, as of silero-vad: KeyError before."""
    rng = np.random.default_rng(1)
    arrays = {"w": (1, 64, 12), "r": (1, 64, 16), "b": (1, 128)}
    stored = {n: rng.normal(0, 0.3, shape).astype(np.float32) for n, shape in arrays.items()}
    nodes = [
        helper.make_node(
            "LSTM", ["x", "w", "r", "b", "", "h", "c"], ["s", "hn", "cn"], "lstm", hidden_size=16
        ),
        helper.make_node("Squeeze", ["s", "axis"], ["q"], "q"),
        helper.make_node("Sigmoid", ["q"], ["y"], "y"),
    ]
    state = [1, 1, 16]
    inputs = {"x": [4, 1, 12], "h": state, "c": state}
    outputs = {"y": [4, 1, 16], "hn": state, "cn": state}
    constants = {**stored, "axis": np.array([1], np.int64)}
    save_model(tmp_path / "voice.onnx", nodes, inputs, outputs, constants)
    (one,) = compiled(tmp_path / "voice.onnx", tmp_path)
    assert "compiled-another-way" not in {each.code for each in one.findings}
    assert [row.name for row in one.outputs] == ["y", "hn", "cn"]
    assert min(row.cosine for row in one.outputs) > 0.9999


def test_attention_without_a_scale_is_compiled_at_level_2(tmp_path: Path) -> None:
    # the crash that `check` and `chips` tell before: engine.cost.crashes
    for form, level in (("plain", 2), ("scale", 3)):
        model = tmp_path / f"{form}.onnx"
        onnx.save(attention(form), model)
        (one,) = compiled(model, tmp_path)
        side = json.loads(Path(one.side_file).read_text(encoding="ascii"))
        assert side["config"]["optimization_level"] == level


def test_zeros_around_a_map_below_zero_stay_before_a_pool(tmp_path: Path) -> None:
    """The toolkit takes them into the pads of the pool: cosine 0.93 before."""
    m = Maker((1, 3, 32, 32))
    below = m.constant(np.full(16, -1, np.float32))
    convolved = m.add("Conv", "x", m.numbers(16, 3, 3, 3), below, pads=[1] * 4)
    zero = m.constant(np.array(0, np.float32))
    padded = m.add("Pad", convolved, m.whole(0, 0, 1, 1, 0, 0, 1, 1), zero)
    pooled = m.add("MaxPool", padded, kernel_shape=[3, 3], strides=[2, 2])
    onnx.save(m.model(m.conv(pooled, 16, 8, 1)), tmp_path / "border.onnx")
    for one in compiled(tmp_path / "border.onnx", tmp_path, ("rk3566", "rk3588", "rv1106")):
        assert min(row.cosine for row in one.outputs) > 0.99999
