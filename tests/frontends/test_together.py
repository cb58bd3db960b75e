"""One detector of four frameworks, and every load method of the vendor's class."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from engine.api import RKNN
from engine.frontends.load import find_source, inspect_source, load_source
from engine.frontends.source import LoadOptions
from engine.graph.execute import Session
from engine.graph.ir import verify

FACES = 4


def outputs(path: Path, feed: np.ndarray) -> list[np.ndarray]:
    graph = load_source(find_source(path)).graph
    verify(graph)
    return list(Session(graph).run({graph.inputs[0].name: feed}).values())


def scores_of(found: list[np.ndarray]) -> np.ndarray:
    """The (1, anchors, 2) scores among a detector's outputs, or the first two of one output."""
    by_width = {array.shape[-1]: array for array in found}
    return by_width[2] if 2 in by_width else by_width[6][..., :2]


def test_the_copies_of_one_detector_agree_on_photographs(zoo: Path) -> None:
    """RFB-320 in Caffe, ONNX and TFLite (the last without its post-processing)."""
    for picture in sorted((zoo / "images" / "faces").glob("*.jpg"))[:FACES]:
        with Image.open(picture) as image:
            pixels = np.asarray(image.convert("RGB").resize((320, 240)), np.float32)
        nhwc = ((pixels - 127) / 128)[np.newaxis]
        nchw = np.ascontiguousarray(nhwc.transpose(0, 3, 1, 2))
        plain = "version-RFB-320_without_postprocessing"
        onnx = outputs(zoo / "onnx" / f"{plain}.onnx", nchw)
        caffe = outputs(zoo / "caffe" / "RFB-320.prototxt", nchw)
        tflite = outputs(zoo / "tflite" / f"{plain}.tflite", nhwc)
        for other in (caffe, tflite):
            assert np.abs(scores_of(other) - scores_of(onnx)).max() < 1e-4
        boxes = {array.shape[-1]: array for array in onnx}[4]
        assert np.abs({a.shape[-1]: a for a in caffe}[4] - boxes).max() < 1e-4


@pytest.mark.parametrize(
    ("framework", "path", "options"),
    [
        ("caffe", "caffe/mtcnn_det2.prototxt", {}),
        ("caffe", "caffe/mobilenet_v2.prototxt", {"random_weights": True}),
        ("darknet", "darknet/yolo-fastest-1.1.cfg", {}),
        ("mxnet", "mxnet/mtcnn_det2-symbol.json", {"input_size_list": ((3, 24, 24),)}),
        ("onnx", "onnx/multiple_input_test.onnx", {}),
        ("tflite", "tflite/kws_dscnn_int8.tflite", {}),
    ],
)
def test_a_look_tells_what_a_load_gives(
    zoo: Path, framework: str, path: str, options: dict[str, Any]
) -> None:
    source = find_source(zoo / path, None, LoadOptions(**options))
    told, loaded = inspect_source(source), load_source(source)
    assert source.framework == told.framework == loaded.source.framework == framework
    assert told.files == loaded.source.files
    assert not told.refused
    assert [t.name for t in told.inputs] == [spec.name for spec in loaded.graph.inputs]
    assert [t.name for t in told.outputs] == [spec.name for spec in loaded.graph.outputs]
    assert sum(told.operators.values()) == len(told.layers)
    assert told.parameters > 0 or options


NET, WEIGHTS = Path("caffe/mtcnn_det1.prototxt"), Path("caffe/mtcnn_det1.caffemodel")
YOLO, PNET = Path("darknet/yolo-fastest-1.1.cfg"), Path("mxnet/mtcnn_det1-symbol.json")
VWW = Path("tflite/vww_96_float.tflite")

LOADS: dict[str, tuple[str, list[Any], dict[str, Any], int]] = {
    "caffe 2": ("caffe", [NET, WEIGHTS], {}, 2),
    "caffe 1": ("caffe", [NET, "caffe", WEIGHTS], {}, 1),
    "caffe V1.1.0": ("caffe", [NET, "caffe", WEIGHTS, ["data"]], {}, 2),
    "caffe random": ("caffe", [NET], {}, 2),
    "tflite": ("tflite", [VWW], {}, 1),
    "tflite nchw": ("tflite", [VWW], {"input_is_nchw": True}, 2),
    "onnx": ("onnx", [Path("onnx/concat_block.onnx")], {}, 1),
    "darknet": ("darknet", [YOLO, YOLO.with_suffix(".weights")], {}, 1),
    "mxnet": ("mxnet", [PNET, PNET.with_name("mtcnn_det1-0001.params"), [[3, 12, 12]]], {}, 1),
}
"""Name -> framework, arguments (paths are of the zoo), options, generation."""


@pytest.mark.parametrize("name", LOADS)
def test_load_methods_of_both_generations(
    zoo: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    framework, arguments, options, generation = LOADS[name]
    rknn = RKNN(generation=generation)
    given = [zoo / one if isinstance(one, Path) else one for one in arguments]
    load = getattr(rknn, f"load_{framework}")
    assert load(*given, **options) == 0, capsys.readouterr().err
    assert rknn.build(do_quantization=False) == 0, capsys.readouterr().err
    rknn.release()


def test_files_that_are_no_model_answer_with_what_they_are(
    zoo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rknn = RKNN()
    assert rknn.load_pytorch(zoo / "pytorch/version-RFB-320.pth", [[1, 3, 240, 320]]) == -1
    told = capsys.readouterr().err
    assert "a state dict of 244 tensors" in told
    assert "torch.jit.trace" in told
    assert rknn.load_tflite(zoo / "onnx/concat_block.onnx") == 0  # content decides, not the method
    assert rknn.load_keras("model.h5") == -1
    assert "TFLiteConverter" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "told"), [("kws_dscnn_float", True), ("vww_96_float", False)])
def test_float_inputs_of_8_bit_weights_are_told(zoo: Path, name: str, told: bool) -> None:
    loaded = load_source(find_source(zoo / "tflite" / f"{name}.tflite"))
    assert ("hybrid-in-float" in [finding.code for finding in loaded.findings]) == told
