"""The zoo's models against the outputs that TFLite's interpreter gave for them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from engine.frontends.load import find_source, load_source
from engine.frontends.loaded import Loaded
from engine.frontends.source import LoadOptions
from engine.graph.execute.session import Session
from engine.graph.ir import verify
from tests.frontends.tflite.tflite_models import interpret

# model -> largest difference from XNNPACK's outputs; whole steps for integers
MODELS = {
    "kws_dscnn_float": 3e-3,  # int8 weights with float activations: TFLite quantizes those too
    "kws_dscnn_int8": 0,
    "micro_speech_int8": 0,
    "mnist_lstm_float": 1e-4,
    "person_detect_int8": 0,
    "resnet8_cifar10_float": 1e-4,
    "resnet8_cifar10_int8": 0,
    "version-RFB-320_without_postprocessing": 1e-4,
    "vww_96_float": 1e-4,
    "vww_96_int8": 0,
}


def _load(zoo: Path, name: str, options: LoadOptions | None = None) -> Loaded:
    loaded = load_source(find_source(zoo / "tflite" / f"{name}.tflite", options=options))
    verify(loaded.graph)
    return loaded


@pytest.mark.parametrize("name", MODELS)
def test_a_model_gives_its_reference(name: str, zoo: Path) -> None:
    with np.load(zoo / "ref" / f"tflite_{name}.npz", allow_pickle=False) as stored:
        arrays = dict(stored)
    feeds = {key.split(":", 1)[1]: value for key, value in arrays.items() if key.startswith("in")}
    expected = {k.split(":", 1)[1]: v for k, v in arrays.items() if k.startswith("out")}
    loaded = _load(zoo, name)
    assert [spec.name for spec in loaded.graph.outputs] == list(expected)
    got = Session(loaded.graph).run(feeds)
    for key, value in expected.items():
        assert got[key].dtype == value.dtype
        difference = np.abs(got[key].astype(np.float64) - value.astype(np.float64)).max()
        assert difference <= MODELS[name], key


def test_integer_models_run_as_integer_kernels(zoo: Path, tmp_path: Path) -> None:
    import onnx

    place = tmp_path / "run.onnx"
    Session(_load(zoo, "resnet8_cifar10_int8").graph, optimised_model=place)
    kinds = [node.op_type for node in onnx.load(place).graph.node]
    # the first convolution reads the int8 input itself, which ONNX Runtime computes in float
    assert kinds.count("QLinearConv") == 8
    assert kinds.count("QLinearAdd") == 3
    assert kinds.count("QGemm") == 1
    assert not {"Add", "Gemm", "MatMul"} & set(kinds)


def _photograph(path: Path) -> np.ndarray:
    """A picture as the face detector takes it: (1, 240, 320, 3), RGB, mean 127, deviation 128."""
    with Image.open(path) as picture:
        small = picture.convert("RGB").resize((320, 240), Image.Resampling.BILINEAR)
    return ((np.asarray(small, np.float32) - 127) / 128)[None]


def test_the_face_detector_agrees_with_its_onnx_copy_on_photographs(zoo: Path) -> None:
    name = "version-RFB-320_without_postprocessing"
    tflite = Session(_load(zoo, name).graph)
    data = (zoo / "tflite" / f"{name}.tflite").read_bytes()
    other = load_source(find_source(zoo / "onnx" / "version-RFB-320_without_postprocessing.onnx"))
    onnx_copy = Session(other.graph)
    (given,) = (spec.name for spec in other.graph.inputs)
    pictures = sorted((zoo / "images" / "faces").glob("*.jpg"))
    assert len(pictures) == 10
    for path in pictures:
        x = _photograph(path)
        boxes, scores = tflite.run({"input_1": x}).values()
        results = onnx_copy.run({given: x.transpose(0, 3, 1, 2)})
        by_width = {array.shape[-1]: array for array in results.values()}
        # TFLite itself is 5.9e-4 away from the ONNX copy, whose weights were rounded otherwise
        assert np.abs(scores - by_width[2]).max() <= 1e-3, path.name
        assert np.abs(boxes - by_width[4]).max() <= 1e-3, path.name
        for ours, theirs in zip((boxes, scores), interpret(data, {"input_1": x}), strict=True):
            assert np.abs(ours - theirs).max() <= 1e-4, path.name


def test_a_dilated_convolution_is_one_again(zoo: Path) -> None:
    graph = _load(zoo, "version-RFB-320_without_postprocessing").graph
    dilations = [
        tuple(node.attributes["dilations"].as_ints())
        for node in graph.nodes
        if node.op_type == "Conv"
    ]
    assert (5, 5) in dilations
    # the input, and the eight heads that the file reshapes with channels last
    assert sum(node.op_type == "Transpose" for node in graph.nodes) == 9


def test_nchw_inputs_need_no_transpose(zoo: Path) -> None:
    name = "vww_96_int8"
    with np.load(zoo / "ref" / f"tflite_{name}.npz", allow_pickle=False) as stored:
        x, expected = stored["in0:input_1_int8"], stored["out0:Identity_int8"]
    loaded = _load(zoo, name, LoadOptions(input_is_nchw=True))
    assert loaded.graph.inputs[0].shape == (1, 3, 96, 96)
    (got,) = Session(loaded.graph).run({"input_1_int8": x.transpose(0, 3, 1, 2)}).values()
    assert np.array_equal(got, expected)
