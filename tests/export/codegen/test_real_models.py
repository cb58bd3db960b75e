"""Projects of real models: the right faces and boxes, in both languages."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from engine.api import RKNN
from tests.export.codegen.projects import answer, cmake, compile_project, run, well
from tests.export.codegen.test_equal import numbers

ROOT = Path(__file__).resolve().parents[3]

RKNNLITE = '''"""rknnlite over the simulator: containers of this program run."""
from engine.api import RKNN

class RKNNLite:
    def __init__(self):
        self.rknn = RKNN()
        self.load_rknn = self.rknn.load_rknn
        self.init_runtime = self.rknn.init_runtime

    def inference(self, inputs, data_format=None):
        return self.rknn.inference(inputs, data_format)
'''


def run_python(path: Path, folder: Path, *words: str) -> str:
    """What a project of Python prints that runs over the simulator."""
    package = folder / "site" / "rknnlite"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").touch()
    (package / "api.py").write_text(RKNNLITE)
    places = os.pathsep.join([str(ROOT), str(package.parent)])
    return well(sys.executable, path / "main.py", *words, cwd=path, PYTHONPATH=places)


def found_in(text: str) -> list[list[float]]:
    """Class, score and box of each line that tells one."""
    lines = text.splitlines()
    return [numbers(line)[:6] for line in lines if line.count(".") == 5 and line[0].isdigit()]


@pytest.mark.zoo
@pytest.mark.long
@pytest.mark.cc
@pytest.mark.skipif(cmake() is None, reason="no CMake or no C++ compiler here")
def test_faces_of_rfb_320(zoo: Path, tmp_path: Path) -> None:
    picture = zoo / "images" / "faces" / "13.jpg"
    dataset = tmp_path / "dataset.txt"
    dataset.write_text(f"{picture}\n")
    told = {}
    for name in ("version-RFB-320", "version-RFB-320_without_postprocessing"):
        rknn = RKNN()
        rknn.config(mean_values=[[127] * 3], std_values=[[128] * 3], target_platform="rv1106")
        assert rknn.load_onnx(str(zoo / "onnx" / f"{name}.onnx")) == 0
        assert rknn.build(True, str(dataset)) == 0
        for language in ("cpp", "python"):
            path = tmp_path / f"{name}-{language}"
            done = rknn.codegen(str(path), [str(picture)], language=language, task="ultraface")
            assert done == 0
        assert rknn.export_rknn(str(path / "model" / f"{name.replace('-', '_')}.rknn")) == 0
        told[name] = found_in(run_python(path, tmp_path))
        path = tmp_path / f"{name}-cpp"
        compile_project(path)
        done_cpp = run(path, answer(path, tmp_path / "lib", "mini"))
        assert done_cpp.returncode == 0, done_cpp.stderr
        assert np.allclose(found_in(done_cpp.stdout), told[name], atol=0.0101)
    placed, decoded = told.values()
    # two faces, where the picture (450x344) has them; boxes of the graph and of the priors agree
    assert len(placed) == len(decoded) == 2
    for one, other in zip(sorted(placed), sorted(decoded), strict=True):
        assert one[0] == other[0] == 1
        assert np.allclose(one[2:], other[2:], atol=4), "8 bits have steps of some pixels"
    printed = run_python(tmp_path / "version-RFB-320-python", tmp_path, str(picture))
    width, height = Image.open(picture).size
    scale = np.array([width / 320, height / 240] * 2)
    wanted = [np.array(box[2:]) * scale for box in placed]
    assert np.allclose([box[2:] for box in found_in(printed)], wanted, atol=0.1)


@pytest.mark.zoo
@pytest.mark.long
def test_boxes_of_yolo_fastest(zoo: Path, tmp_path: Path) -> None:
    picture = str(zoo / "images" / "dog_bike_car_416x416.jpg")
    labels = (zoo / "darknet" / "coco.names").read_text().split("\n")
    told = []
    for decode in (False, True):
        rknn = RKNN()
        rknn.config(mean_values=[[0] * 3], std_values=[[255] * 3], target_platform="rk3588")
        names = [str(zoo / "darknet" / f"yolo-fastest-1.1.{end}") for end in ("cfg", "weights")]
        assert rknn.load_darknet(*names, decode=decode) == 0
        assert rknn.build(False) == 0
        path = tmp_path / f"decode-{decode}"
        assert rknn.codegen(str(path), [picture], language="python", task="darknet") == 0
        assert rknn.export_rknn(str(path / "model" / "yolo_fastest_1_1.rknn")) == 0
        told.append(found_in(run_python(path, tmp_path)))
    # the heads that the graph decodes are another way to the same boxes
    assert np.allclose(told[0], told[1], atol=0.0101)
    best = {labels[int(box[0])] for box in told[0]}
    assert {"dog", "bicycle", "car"} <= best
    dog = next(box for box in told[0] if labels[int(box[0])] == "dog")
    assert np.allclose(dog[2:], [52, 127, 151, 285], atol=12)
