"""The committed demo files are what the README says of them."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import onnx
from PIL import Image

from engine.graph.execute.runtime import ort
from rknntui.demo import demo_recipe, demo_test_samples

MODEL_SHA256 = "49200b99caeacadaccf5d52a397684da690119ab8cbf8b2b3d29a56e1aa52ba8"
TEST_SHA256 = "ed1bc2a49fd412636b6a90823dd53e7cd6a995b9028c056cec5995e6b1ee2ef7"


def samples(demo: Path) -> tuple[np.ndarray, np.ndarray]:
    with np.load(demo / "test.npz", allow_pickle=False) as arrays:
        return arrays["samples"], arrays["labels"]


def calibration(demo: Path) -> np.ndarray:
    lines = (demo / "dataset.txt").read_text(encoding="ascii").split()
    return np.stack([np.asarray(Image.open(demo / line)) for line in lines])


def right(model: Path, images: np.ndarray, labels: np.ndarray) -> int:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    inputs = (images[:, None].astype(np.float32) - 127.5) / 127.5
    answers = [session.run(None, {"image": x[None]})[0].argmax() for x in inputs]
    return int((np.array(answers) == labels).sum())


def test_files_are_the_ones_that_were_measured(demo: Path) -> None:
    for name, expected in (("digits_demo.onnx", MODEL_SHA256), ("test.npz", TEST_SHA256)):
        assert hashlib.sha256((demo / name).read_bytes()).hexdigest() == expected, name


def test_small_enough_and_worth_optimising(demo: Path) -> None:
    path = demo / "digits_demo.onnx"
    assert path.stat().st_size < 200_000
    nodes = onnx.load(path).graph.node
    operators = {node.op_type for node in nodes}
    assert {"Conv", "BatchNormalization", "Add", "GlobalAveragePool", "Gemm"} <= operators
    assert any(a.name == "group" and a.i > 1 for n in nodes for a in n.attribute)


def test_samples_are_bytes_and_disjoint(demo: Path) -> None:
    images, labels = samples(demo)
    assert images.shape == (500, 8, 8)
    assert images.dtype == np.uint8
    assert set(labels) == set(range(10))
    pictures = calibration(demo)
    assert pictures.shape == (100, 8, 8)
    assert pictures.dtype == np.uint8
    both = {image.tobytes() for image in images} & {picture.tobytes() for picture in pictures}
    assert not both


def test_float_accuracy(demo: Path) -> None:
    images, labels = samples(demo)
    # 494 where it was made; one may turn with the last bits of another CPU's kernels.
    assert abs(right(demo / "digits_demo.onnx", images, labels) - 494) <= 1


def test_recipe_names_files_that_exist() -> None:
    recipe = demo_recipe()
    assert Path(recipe["model"]).is_file()
    assert Path(recipe["dataset"]).is_file()
    assert demo_test_samples().is_file()
    recipe["model"] = ""
    assert demo_recipe()["model"], "each call gives a recipe of its own"
