"""A model one of whose inputs is a single number, as a sampling rate is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from engine.api import RKNN
from tests.cli.conftest import Run, commands_share_a_worker, kept_worker, warm
from tests.graph.models import finish, nodes_of, tensor

__all__ = ["commands_share_a_worker", "kept_worker", "warm"]

SIZES = [[1, 16], []]


@pytest.fixture
def voice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """``y = (x @ w) * (rate / 16000)``, samples and a dataset beside it."""
    rng = np.random.default_rng(0)
    nodes = nodes_of(
        "m = MatMul (x, w); real = Cast <to = 1> (rate); gain = Div (real, base); y = Mul (m, gain)"
    )
    inputs = [tensor("x", 1, "time"), tensor("rate", dtype=TensorProto.INT64)]
    weight = rng.normal(size=(16, 4)).astype(np.float32)
    constants = {"w": weight, "base": np.array(16000, np.float32)}
    model = finish(nodes, inputs, [tensor("y", 1, 4)], constants, opset=17, ir_version=8)
    onnx.save(model, tmp_path / "voice.onnx")
    for number, rate in enumerate((8000, 16000)):
        np.save(tmp_path / f"x{number}.npy", rng.normal(size=(1, 16)).astype(np.float32))
        np.save(tmp_path / f"rate{number}.npy", np.array(rate if number else [rate]))
    (tmp_path / "dataset.txt").write_text("x0.npy rate0.npy\nx1.npy rate1.npy\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("quantize", [True, False])
def test_through_the_class(voice: Path, quantize: bool) -> None:
    rknn = RKNN()
    assert rknn.config() is None
    assert rknn.load_onnx("voice.onnx", input_size_list=SIZES) == 0
    assert rknn.build(do_quantization=quantize, dataset="dataset.txt" if quantize else None) == 0
    assert rknn.init_runtime() == 0
    x = np.load("x1.npy", allow_pickle=False)
    one = rknn.inference([x, np.array(16000)])
    assert one is not None
    assert one[0].shape == (1, 4)
    for rate in (np.array([16000]), np.int64(16000)):
        again = rknn.inference([x, rate])
        assert again is not None
        np.testing.assert_array_equal(again[0], one[0])
    if quantize:
        assert rknn.accuracy_analysis(["x1.npy", "rate1.npy"], output_dir="snapshot") == 0
        assert Path("snapshot/error_analysis.txt").exists()
    assert rknn.inference([x, np.zeros(2)]) is None
    rknn.release()


def test_through_the_command_line(voice: Path, warm: Run) -> None:
    flags = ("voice.onnx", "--input-size-list", "1x16;scalar", "--dataset", "dataset.txt")
    assert warm("build", *flags, "-o", "voice.rknn").code == 0
    for number in (0, 1):
        inputs = ("-i", f"x{number}.npy", "-i", f"rate{number}.npy")
        whole = warm("simulate", *flags, *inputs, "--json")
        packed = warm("simulate", "voice.rknn", *inputs, "--json")
        assert whole.code == packed.code == 0, whole.err
        whole_outputs, packed_outputs = whole.json["outputs"], packed.json["outputs"]
        assert all(output.pop("beside") for output in whole_outputs)  # a container has no float
        assert not any(output.pop("beside") for output in packed_outputs)
        assert whole_outputs == packed_outputs
    assert warm("accuracy", *flags, "--output-impact").code == 0
    assert warm("export", *flags, "--format", "onnx", "-o", "voice_qdq.onnx").code == 0
    checked = warm("dataset", "check", "dataset.txt", "--model", *flags[:3])
    assert checked.code == 0
    assert "rate0.npy (" not in checked.out + checked.err
    sizes = ("--input-size-list", "[[1,16],[]]")
    assert warm("recipe", "new", flags[0], *sizes, *flags[3:], "-o", "r.yaml").code == 0
    assert "input_size_list: [[1, 16], []]" in (voice / "r.yaml").read_text()
    assert warm("build", "r.yaml").code == 0
