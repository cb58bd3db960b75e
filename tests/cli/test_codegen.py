"""``rknntui codegen``: a project from a model, a container, a compiled model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from PIL import Image

from tests.cli.conftest import Run
from tests.graph.models import finish, nodes_of, tensor


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A mean over the picture, and a product: four scores."""
    weights = np.arange(12, dtype=np.float32).reshape(3, 4) / 10
    nodes = nodes_of(
        "mean = GlobalAveragePool (image); flat = Flatten (mean); scores = MatMul (flat, weights)"
    )
    ends = [tensor("image", 1, 3, 8, 8)], [tensor("scores", 1, 4)]
    path = tmp_path / "my net.onnx"
    onnx.save(finish(nodes, *ends, {"weights": weights}, opset=19), path)
    pixels = np.random.default_rng(0).integers(0, 256, (10, 12, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "photo.png")
    (tmp_path / "names").write_text("cat\ndog\ncow\nant\n")
    return path


def test_a_project_of_a_model(warm: Run, model: Path, tmp_path: Path) -> None:
    words = [model, "-o", "app", "--chip", "rk3566", "-i", "photo.png", "--no-quantize"]
    words += ["--mean-values", "10,20,30", "--std-values", "2,2,2"]
    done = warm(
        "codegen", *words, "--task", "classification", "--labels", "names", "--json", exit=0
    )
    assert {"CMakeLists.txt", "src/task.h", "data/labels.txt"} <= set(done.json["files"])
    assert done.json["findings"] == []
    app = tmp_path / "app"
    given = np.load(app / "data/sample0/input0.npy")
    assert (given.dtype, given.shape) == (np.uint8, (1, 8, 8, 3))
    weights = np.arange(12, dtype=np.float32).reshape(3, 4) / 10
    mean = (given.reshape(-1, 3).mean(axis=0) - [10, 20, 30]) / 2
    golden = np.load(app / "data/sample0/output0.npy")
    np.testing.assert_allclose(golden[0], mean @ weights, rtol=0.01)  # float16, as on the NPU
    assert "rk3566" in (app / "README.md").read_text()

    done = warm("codegen", *words)
    assert done.code != 0
    assert "exists already" in done.err
    done = warm("codegen", *words, "--overwrite", "--language", "python", "--normalise", exit=0)
    assert not (app / "src").exists()
    given = np.load(app / "data/sample0/input0.npy")
    assert (given.dtype, given.shape) == (np.float32, (1, 8, 8, 3))
    np.testing.assert_allclose(given.mean(axis=(0, 1, 2)), mean, rtol=1e-4)


def test_what_is_refused(warm: Run, model: Path, tmp_path: Path) -> None:
    plain = [model, "-o", "app", "--no-quantize"]
    for words, said in (
        ([], "No chip is given."),
        (["--chip", "z80"], "no chip"),
        (["--chip", "rk3588", "--task", "yolov5"], "does not look like yolov5"),
        (["--chip", "rk3588", "-i", "none.png"], "does not exist"),
        (["--chip", "rk3588", "--anchors", "1,x"], "not numbers"),
    ):
        done = warm("codegen", *plain, *words)
        assert done.code != 0
        assert said in done.err, done.err
        assert not (tmp_path / "app").exists()
    assert not [each for each in tmp_path.iterdir() if each.name.endswith(".part")]


def test_a_container_and_random_values(warm: Run, model: Path, tmp_path: Path) -> None:
    flags = ["--no-quantize", "--target-platform", "rk1808"]
    warm("export", model, "-o", "net.rknn", *flags, exit=0)
    warm("codegen", tmp_path / "net.rknn", "-o", "app", exit=0)
    assert 'RKNN_API "generation1"' in (tmp_path / "app/CMakeLists.txt").read_text()
    warm("codegen", model, "-o", "again", *flags, exit=0)
    first, second = (np.load(tmp_path / a / "data/sample0/input0.npy") for a in ("app", "again"))
    np.testing.assert_array_equal(first, second)


@pytest.mark.zoo
def test_a_compiled_model(warm: Run, zoo: Path, tmp_path: Path) -> None:
    (compiled,) = list((zoo / "rknn_vendor").glob("*.rknn"))[:1]
    warm("codegen", compiled, "-o", "app", exit=0, says="no golden outputs")
    assert (tmp_path / "app/model").is_dir()
    kept = [each for each in (tmp_path / "app/model").iterdir() if each.suffix == ".rknn"]
    assert kept[0].read_bytes() == compiled.read_bytes()
    done = warm("codegen", compiled, "-o", "other", "-i", "photo.png")
    assert done.code != 0
    assert "does not run here" in done.err
