"""Usual normalisations: which inputs they are set for, and what a file's name suggests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.options import option
from engine.options.normalisation import NORMALISATIONS, usual_of
from engine.services.recipes import validate


def test_values_are_set_for_the_inputs_that_take_pictures() -> None:
    named = {usual.name: usual for usual in NORMALISATIONS}
    shapes = [(1, 224, 224, 3), (1, 10)]
    assert named["ImageNet, BGR"].changes(shapes) == {
        "mean_values": [[103.53, 116.28, 123.675], [0.0]],
        "std_values": [[57.375, 57.12, 58.395], [1.0]],
        "quant_img_RGB2BGR": True,
    }
    assert named["0 to 1"].changes([(1, 1, 8, 8)]) == {
        "mean_values": [[0.0]],
        "std_values": [[255.0]],
    }
    assert named["ImageNet"].changes([(1, 1, 8, 8)]) == {}
    assert named["Caffe"].text == "mean 103.94,116.78,123.68 std 1, channels BGR"


@pytest.mark.parametrize(
    ("name", "framework", "usual"),
    [
        ("version-RFB-320.onnx", "onnx", "-1 to 1 (127, 128)"),
        ("yolov8n.onnx", "onnx", "0 to 1"),
        ("yolox_s.onnx", "onnx", "pixels as they are"),
        ("mobilenet_v2.onnx", "onnx", "ImageNet"),
        ("mobilenet_v1.tflite", "tflite", "-1 to 1 (127.5)"),
        ("mobilenet_v2.prototxt", "caffe", "Caffe, scaled"),
        ("mine.onnx", "onnx", None),
    ],
)
def test_a_name_suggests_one(name: str, framework: str, usual: str | None) -> None:
    found = usual_of(name, framework)
    assert (found and found.name) == usual


def proposed(recipe: dict[str, object]) -> list[Any]:
    found = validate({"recipe": recipe})["findings"]
    return [finding for finding in found if finding["code"] == "mean-std-proposed"]


def test_a_proposal_is_a_finding_until_mean_and_std_are_set(demo: Path, tmp_path: Path) -> None:
    model = tmp_path / "yolov5_digits.onnx"
    model.write_bytes((demo / "digits_demo.onnx").read_bytes())
    recipe: dict[str, object] = {"model": str(model), "do_quantization": False}
    assert "a guess from the file's name is 0 to 1: mean 0 std 255" in proposed(recipe)[0]["what"]
    changes = proposed(recipe)[0]["changes"]
    assert all(option(name).check(value) == value for name, value in changes.items())
    assert not proposed({**recipe, **changes})
