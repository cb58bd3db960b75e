"""Frozen graphs through the warm child: the numbers are TensorFlow's, or the load is refused."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from engine.base.errors import (
    SourceModelError,
    UnsupportedOperatorError,
)
from engine.base.events import NullReporter
from engine.frontends import converter_process
from engine.frontends.load import find_source
from engine.frontends.loaded import Loaded
from engine.frontends.tensorflow import load
from engine.graph.execute.session import Session
from engine.graph.ir.verify import verify
from tests.frontends.tensorflow import wire
from tests.frontends.tensorflow.test_inspect import SMALL, WEIGHTS, source

pytestmark = [pytest.mark.tensorflow]
needs_child = pytest.mark.usefixtures("installed")

TOY = wire.graph(
    wire.placeholder("image", [-1, 4, 6, 3]),
    wire.constant("kernel", np.ones((1, 1, 3, 2), np.float32)),
    wire.node(
        "conv",
        "Conv2D",
        ["image", "kernel"],
        T=wire.kind("float32"),
        strides=wire.message(1, b"".join(wire.number(3, s) for s in (1, 1, 1, 1))),
        padding=wire.message(2, "SAME"),
    ),
    wire.unary("relu", "Relu", "conv"),
    wire.unary("neg", "Neg", "conv"),
)


def run(loaded: Loaded, *arrays: np.ndarray) -> list[np.ndarray]:
    names = [spec.name for spec in loaded.graph.inputs]
    return list(Session(loaded.graph).run(dict(zip(names, arrays, strict=True))).values())


def codes(loaded: Loaded) -> set[str]:
    return {finding.code for finding in loaded.findings}


@needs_child
@pytest.mark.parametrize("name", ["conv_128", "custom_op_math", "keras_lstm", "kws_dscnn"])
def test_models_of_the_zoo_match_their_references(zoo: Path, name: str) -> None:
    loaded = load(find_source(zoo / "tensorflow" / f"{name}.pb"), NullReporter())
    verify(loaded.graph)
    with np.load(zoo / "ref" / f"tf_{name}.npz") as reference:
        inputs = [reference[k] for k in reference if k == "x" or k.startswith("in:")]
        outputs = [reference[k] for k in reference if k == "y" or k.startswith("out:")]
        names = [k[4:] for k in reference if k.startswith("out:")]
    found = run(loaded, *inputs)
    for got, wanted in zip(found, outputs, strict=True):
        np.testing.assert_allclose(got, wanted, atol=1e-5)
    assert not names or [spec.name for spec in loaded.graph.outputs] == names
    assert "numbers-compared" in codes(loaded)
    assert loaded.source.framework == "tensorflow"
    assert [file for file, _ in loaded.source.files] == [f"{name}.pb"]


@needs_child
@pytest.mark.parametrize("suffix", ["", ":0"])
def test_nodes_and_tensors_name_inputs_and_outputs(tmp_path: Path, suffix: str) -> None:
    model = source(
        tmp_path,
        TOY,
        inputs=(f"conv{suffix}",),
        outputs=(f"neg{suffix}", f"relu{suffix}"),
        input_size_list=((4, 6, 2),),
    )
    loaded = load(model, NullReporter())
    assert [(s.name, tuple(s.shape)) for s in loaded.graph.inputs] == [("conv:0", (1, 4, 6, 2))]
    assert [s.name for s in loaded.graph.outputs] == ["neg:0", "relu:0"]
    x = np.linspace(-1, 1, 48, dtype=np.float32).reshape(1, 4, 6, 2)
    neg, relu = run(loaded, x)
    np.testing.assert_array_equal(neg, -x)
    np.testing.assert_array_equal(relu, np.maximum(x, 0))


@needs_child
def test_inputs_stay_nhwc_or_become_nchw(tmp_path: Path) -> None:
    x = np.linspace(-1, 1, 72, dtype=np.float32).reshape(1, 4, 6, 3)
    plain = load(source(tmp_path, TOY, outputs=("relu",)), NullReporter())
    turned = load(source(tmp_path, TOY, outputs=("relu",), input_is_nchw=True), NullReporter())
    assert [tuple(s.shape) for s in plain.graph.inputs] == [(1, 4, 6, 3)]
    assert [tuple(s.shape) for s in turned.graph.inputs] == [(1, 3, 4, 6)]
    assert "dynamic-batch-fixed" in codes(plain)
    wanted = np.maximum(x.sum(axis=3, keepdims=True).repeat(2, axis=3), 0)
    for loaded, fed in ((plain, x), (turned, x.transpose(0, 3, 1, 2).copy())):
        np.testing.assert_allclose(run(loaded, fed)[0], wanted, rtol=1e-5, atol=1e-5)


@needs_child
def test_a_graph_behind_a_decoder_of_pictures_takes_bytes(tmp_path: Path) -> None:
    data = wire.graph(
        wire.node("contents", "Placeholder", dtype=wire.number(6, 7)),
        wire.node("DecodeJpeg", "DecodeJpeg", ["contents"]),
        wire.node(
            "Cast", "Cast", ["DecodeJpeg"], SrcT=wire.kind("uint8"), DstT=wire.kind("float32")
        ),
        wire.unary("out", "Neg", "Cast"),
    )
    loaded = load(source(tmp_path, data, input_size_list=((2, 2, 3),)), NullReporter())
    picture = np.arange(12, dtype=np.uint8).reshape(1, 2, 2, 3)
    np.testing.assert_array_equal(run(loaded, picture)[0], -picture.astype(np.float32))
    with pytest.raises(SourceModelError, match="decodes files"):
        load(source(tmp_path, data, inputs=("contents",)), NullReporter())


@needs_child
def test_a_predefined_constant_takes_the_place_of_a_placeholder(tmp_path: Path) -> None:
    data = wire.graph(
        wire.placeholder("x", [1, 3]),
        wire.placeholder("scope/scale", []),
        wire.binary("y", "Mul", "x", "scope/scale"),
    )
    with pytest.raises(SourceModelError, match="need the placeholder 'scope/scale'") as caught:
        load(source(tmp_path, data, inputs=("x",)), NullReporter())
    assert "predef_file" in caught.value.remedy
    predef = tmp_path / "prd.npz"
    np.savez(predef, **{"scope#scale": np.float32(3)})  # type: ignore[arg-type]
    loaded = load(source(tmp_path, data, predef_file=predef), NullReporter())
    np.testing.assert_array_equal(run(loaded, WEIGHTS[:1, :3])[0], 3 * WEIGHTS[:1, :3])


@needs_child
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"input_size_list": ((1, 4, 6, 3), (1,))}, "has 2 entries; there are 1 inputs"),
        ({"input_size_list": ((5, 5),)}, "has 4 axes"),
        ({"input_size_list": ((4, 6, 5),)}, "does not take the graph"),
        ({"inputs": ("image", "kernel"), "outputs": ("image",)}, "No output needs|has no value"),
        ({"inputs": ("relu",), "outputs": ("neg",)}, "No output needs the input 'relu:0'"),
    ],
)
def test_options_that_do_not_fit_say_why(
    tmp_path: Path, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(SourceModelError, match=words):
        load(source(tmp_path, TOY, **options), NullReporter())


@needs_child
def test_what_tensorflow_rejects_is_an_error_in_its_words(tmp_path: Path) -> None:
    data = wire.graph(wire.placeholder("x", [1, 3]), wire.unary("y", "MatMul", "x"))
    with pytest.raises(SourceModelError, match="does not take the graph"):
        load(source(tmp_path, data), NullReporter())


@needs_child
def test_a_wrong_conversion_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = import_module("engine.frontends.tensorflow.load")
    true = module.load_onnx

    def spoiled(path: Path) -> Loaded:
        proto = onnx.load(path)
        for node in proto.graph.node:
            if node.op_type == "Softmax":
                node.op_type = "LogSoftmax"
        onnx.save(proto, path)
        return true(path)

    monkeypatch.setattr(module, "load_onnx", spoiled)
    with pytest.raises(SourceModelError, match=r"output 'net/scores:0' differs by"):
        load(source(tmp_path, SMALL), NullReporter())


def test_without_tensorflow_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        converter_process, "find_spec", lambda name: None if name == "tensorflow" else name
    )
    with pytest.raises(SourceModelError, match="tensorflow is not installed") as caught:
        load(source(tmp_path, TOY), NullReporter())
    assert "pip install" in caught.value.remedy


@needs_child
def test_operators_that_read_files_never_run(tmp_path: Path) -> None:
    data = wire.graph(
        wire.placeholder("x", [1, 3]),
        wire.node("f", "ReadFile", ["name"]),
        wire.node("name", "Const"),
        wire.binary("y", "AddV2", "x", "f"),
    )
    with pytest.raises(UnsupportedOperatorError, match="reads or writes files"):
        load(source(tmp_path, data), NullReporter())
