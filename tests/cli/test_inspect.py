"""``rknntui inspect``: models of every framework, the vendor's files, what a load would meet."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.cli.conftest import Ran, Run
from tests.container.vendor import build
from tests.frontends.caffe import nets as caffe
from tests.frontends.darknet import networks as darknet
from tests.frontends.mxnet import networks as mxnet
from tests.frontends.tensorflow import wire as tensorflow
from tests.graph.models import finish, tensor

Inspect = Callable[..., Ran]

PREFLIGHT = {
    "recognised": dict,
    "files": list,
    "versions": list,
    "inputs": list,
    "outputs": list,
    "candidates": dict,
    "operators": list,
    "notes": list,
}


@pytest.fixture
def inspect(warm: Run) -> Inspect:
    """``rknntui inspect ARGUMENTS``."""
    return partial(warm, "inspect")


# -- models of each framework ----------------------------------------------------------------------


def onnx_model(folder: Path, op: str = "Relu", domain: str = "") -> Path:
    """One operator; one of a domain of its own is custom."""
    node = helper.make_node(op, ["x"], ["y"], "r", domain=domain)
    model = finish([node], [tensor("x", 1, 2)], [tensor("y", 1, 2)])
    if domain:
        model.opset_import.add(domain=domain, version=1)
    onnx.save(model, path := folder / "net.onnx")
    return path


def caffe_model(folder: Path) -> Path:
    return caffe.write(folder, caffe.inputs(x=(1, 2, 4, 4)) + caffe.layer("ReLU", "x"), {"it": []})


def darknet_model(folder: Path) -> Path:
    cfg = darknet.head(3, 8, 8) + "[convolutional]\nfilters=4\nsize=3\nstride=1\npad=1\n"
    return darknet.source(folder, cfg, np.ones(4 + 4 * 3 * 9)).model


def mxnet_model(folder: Path) -> Path:
    net = mxnet.Network()
    last = net.add("Activation", "act", [net.variable("data")], act_type="relu")
    return mxnet.source(folder, net.text(last), {}).model


def tensorflow_model(folder: Path) -> Path:
    path = folder / "net.pb"
    nodes = tensorflow.placeholder("x", (1, 4)), tensorflow.unary("y", "Relu", "x")
    path.write_bytes(tensorflow.graph(*nodes))
    return path


MADE: dict[str, Callable[[Path], Path]] = {
    "onnx": onnx_model,
    "caffe": caffe_model,
    "darknet": darknet_model,
    "mxnet": mxnet_model,
    "tensorflow": tensorflow_model,
}
SIZES = {"mxnet": ("--input-size-list", "1x2x3x4")}


@pytest.mark.parametrize("framework", list(MADE))
def test_the_preflight_of_each_framework(inspect: Inspect, tmp_path: Path, framework: str) -> None:
    path = MADE[framework](tmp_path)
    told = inspect(path, "--json", *SIZES.get(framework, ()), exit=0)
    view = told.json
    assert view["kind"] == view["preflight"]["recognised"]["kind"] == framework
    assert {name: type(value) for name, value in view["preflight"].items()} == PREFLIGHT
    assert set(view["preflight"]["recognised"]) == {"kind", "format", "why"}
    assert all(len(row) == 3 for row in view["preflight"]["operators"])
    assert all(len(row) == 3 for row in view["preflight"]["versions"])
    assert view["loaded"] is (framework != "tensorflow")
    assert not [f for f in view["findings"] if f["severity"] == "error"]


@pytest.mark.parametrize("framework", ["onnx", "caffe", "darknet", "mxnet"])
def test_load_tells_the_graph_and_layers_lists_it(
    inspect: Inspect, tmp_path: Path, framework: str
) -> None:
    path = MADE[framework](tmp_path)
    told = inspect(path, "--load", "--layers", "--json", *SIZES.get(framework, ()), exit=0)
    load, graph = told.json["load"], told.json["graph"]
    assert load["nodes"] == len(graph["nodes"]) > 0
    assert load["inputs"][0]["shape"][0] == 1
    words = inspect(path, "--load", "--layers", *SIZES.get(framework, ()))
    assert "loaded " in words.out
    assert f"  {load['inputs'][0]['name']}" in words.out


def test_sizes_that_are_missing_are_told_once_and_stop_a_load(
    inspect: Inspect, tmp_path: Path
) -> None:
    path = mxnet_model(tmp_path)
    seen = inspect(path, exit=0)
    assert seen.out.count("says no size") == 1
    assert "input_size_list" in seen.out
    stopped = inspect(path, "--load", "--json", exit=4)
    assert "input_size_list" in stopped.json["error"]["remedy"]


def test_wrong_names_get_the_nearest(inspect: Inspect, tmp_path: Path) -> None:
    path = darknet_model(tmp_path)
    inspect(path, "--outputs", "conv_O", exit=0, says="Did you mean 'conv_0'")
    stopped = inspect(path, "--outputs", "conv_O", "--load")
    assert stopped.code in (3, 4)
    assert "Did you mean 'conv_0'" in stopped.err


def test_weights_of_another_name(inspect: Inspect, tmp_path: Path) -> None:
    path = darknet_model(tmp_path)
    other = (tmp_path / "net.weights").rename(tmp_path / "trained.weights")
    (tmp_path / "older.weights").write_bytes(other.read_bytes())
    inspect(path, exit=4, says="older.weights, trained.weights")
    told = inspect(path, "--weights", other, "--json", exit=0)
    assert told.json["preflight"]["files"] == ["net.cfg", "trained.weights"]
    inspect(other, "--weights", path, exit=4)


def test_custom_code_runs_only_where_it_is_allowed(inspect: Inspect, tmp_path: Path) -> None:
    onnx_model(tmp_path, "cstTwice", "rknn_cst")
    sprung = tmp_path / "sprung"
    (tmp_path / "ops.py").write_text(
        f"open({str(sprung)!r}, 'w')\nclass Twice:\n    op_type = 'cstTwice'\n"
        "    def shape_infer(self, node, shapes, dtypes):\n        return shapes, dtypes\n"
        "    def compute(self, node, inputs):\n        return [2 * inputs[0]]\n"
    )
    recipe = tmp_path / "r.yaml"
    recipe.write_text("version: 1\nsource: {model: net.onnx, custom_ops: [ops.py:Twice]}\n")
    inspect(recipe, exit=0, says="--allow-code")
    inspect(recipe, "--load", exit=3)
    assert not sprung.exists()
    allowed = inspect(recipe, "--load", "--json", "--allow-code", tmp_path / "ops.py", exit=0)
    assert allowed.json["load"]["operators"] == {"rknn_cst:cstTwice": 1}
    assert sprung.exists()


# -- the vendor's files, and what is no model -------------------------------------------------


@pytest.mark.parametrize("kind", list(build.KINDS))
def test_vendor_files(inspect: Inspect, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(build.KINDS[kind]())
    told = inspect(path, "--json", exit=0)
    assert told.json["kind"] == ("rknnop" if kind == "op-package" else "rknn_vendor")
    assert told.json["vendor"]
    words = inspect(path, exit=0)
    assert ("operators: " in words.out) is (kind not in ("op-package", "encrypted"))
    assert inspect(path, "--load").code in (4, 9)


def test_of_an_encrypted_file_is_told_what_can_be_seen_alone(
    inspect: Inspect, tmp_path: Path
) -> None:
    file = tmp_path / "m.rknn"
    file.write_bytes(build.encrypted(2))
    text = inspect(file).out
    assert "encryption level: 2" in text
    assert "layers, " not in text
    assert "dynamic" not in text


def test_a_compiled_file_is_told_with_its_side_file(inspect: Inspect, tmp_path: Path) -> None:
    file = tmp_path / "m.rknn"
    file.write_bytes(build.npu())
    side = {
        "side_file_version": 1,
        "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
        "toolkit": "rknn-toolkit2 9",
    }
    beside = tmp_path / "m.rknn.json"
    beside.write_text(json.dumps(side), encoding="ascii")
    inspect(file, says="compiled from:\n  toolkit: rknn-toolkit2 9\n")
    beside.write_text(json.dumps(side | {"sha256": "00"}), encoding="ascii")
    inspect(file, says="side file is of another")


@pytest.mark.parametrize(
    ("content", "code"),
    [(b"", 4), (b"<!DOCTYPE html><html>", 4), (build.npu()[:200], 9)],
    ids=["empty", "web page", "cut"],
)
def test_what_is_no_model_has_its_code(
    inspect: Inspect, tmp_path: Path, content: bytes, code: int
) -> None:
    path = tmp_path / "file.onnx"
    path.write_bytes(content)
    told = inspect(path, "--json", exit=code)
    assert json.loads(told.out)["error"]["exit_code"] == code


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [
        "caffe/RFB-320.caffemodel",
        "darknet/yolo-fastest-1.1.weights",
        "mxnet/mtcnn_det2-symbol.json",
        "tensorflow/keras_lstm.pb",
        "tflite/kws_dscnn_int8.tflite",
        "tflite/mnist_lstm_float.tflite",
        "onnx/version-RFB-320.onnx",
        "rknn_vendor/multiple_input_RK3588.rknn",
        "rknn_vendor/ResizeArea.rknnop",
    ],
)
def test_files_of_the_zoo(inspect: Inspect, zoo: Path, name: str) -> None:
    inspect(zoo / name, exit=0, says="SHA-256")


@pytest.mark.long
def test_a_state_dict_is_explained(inspect: Inspect, zoo: Path) -> None:
    inspect(zoo / "pytorch" / "version-RFB-320.pth", exit=4, says="torch.jit.trace")


@pytest.mark.long
@pytest.mark.tensorflow
def test_tensorflow_loads_in_a_job(inspect: Inspect, zoo: Path) -> None:
    pytest.importorskip("tensorflow")
    told = inspect(zoo / "tensorflow" / "conv_128.pb", "--load", "--json", exit=0)
    assert told.json["load"]["outputs"][0]["shape"] == [1, 128, 128, 1]
