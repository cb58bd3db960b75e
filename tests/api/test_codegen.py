"""``codegen`` as the manual has it [RKNN-T2 2.3.0, 2.17]."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from engine.api import RKNN
from tests.api import conftest
from tests.graph.models import finish, nodes_of, tensor


@pytest.fixture
def built(tmp_path: Path) -> RKNN:
    x, y = (tensor(name, 1, 3, 4, 4) for name in "xy")
    path = tmp_path / "net.onnx"
    onnx.save(finish(nodes_of("y = Relu (x)"), [x], [y], opset=19), path)
    return conftest.built(model=str(path), quantize=False, target_platform="rk3588")


def test_the_manuals_call(built: RKNN, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sample = np.linspace(-1, 1, 48, dtype=np.float32).reshape(1, 3, 4, 4)
    np.save(tmp_path / "x.npy", sample)
    folder = str(tmp_path / "rknn_app_demo")
    ret = built.codegen(output_path=folder, inputs=[str(tmp_path / "x.npy")], overwrite=True)
    assert ret == 0, capsys.readouterr().err
    given = np.load(tmp_path / "rknn_app_demo/data/sample0/input0.npy")
    np.testing.assert_array_equal(given, sample.transpose(0, 2, 3, 1))
    golden = np.load(tmp_path / "rknn_app_demo/data/sample0/output0.npy")
    np.testing.assert_allclose(golden, np.maximum(sample, 0), atol=1e-3)
    assert (tmp_path / "rknn_app_demo/CMakeLists.txt").is_file()
    # overwrite is False where nothing is said
    assert built.codegen(folder) == -1
    assert "exists already" in capsys.readouterr().err
    assert built.codegen(folder, None, True) == 0


def test_what_is_refused(built: RKNN, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path / "app")
    for rknn, arguments, said in (
        (RKNN(), {}, "Call build or load_rknn first"),
        (built, {"inputs": 5}, "inputs is 5"),
        (built, {"language": "rust"}, "Give one of cpp, python"),
        (built, {"task": "magic"}, "task is 'magic'"),
        (built, {"inputs": ["a", "b"]}, "does not exist"),
        (built, {"chip": "z80"}, "no chip"),
    ):
        assert rknn.codegen(folder, **arguments) == -1
        assert said in capsys.readouterr().err
    assert not (tmp_path / "app").exists()
