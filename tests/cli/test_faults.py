"""Bad input: what happened, the likely cause, the remedy, a documented exit code, nothing left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from rknntui.demo import demo_folder
from tests.cli.conftest import ROOT, Run

MODEL = demo_folder() / "digits_demo.onnx"
DATASET = demo_folder() / "dataset.txt"


def files(folder: Path) -> set[str]:
    return {p.name for p in folder.iterdir()}


def test_missing_file(rknntui: Run) -> None:
    ran = rknntui("build", "none.onnx", "--no-quantize")
    assert ran.code == 4
    assert "does not exist" in ran.err
    assert "remedy:" in ran.err


def test_truncated_onnx(rknntui: Run, tmp_path: Path) -> None:
    data = MODEL.read_bytes()
    (tmp_path / "half.onnx").write_bytes(data[: len(data) // 2])
    ran = rknntui("build", "half.onnx", "--no-quantize", "-o", "x.rknn")
    assert ran.code == 4, ran.err
    assert "remedy:" in ran.err
    assert files(tmp_path) == {"half.onnx"}


def test_text_named_onnx(rknntui: Run, tmp_path: Path) -> None:
    (tmp_path / "notes.onnx").write_text("these are only words\n")
    ran = rknntui("inspect", "notes.onnx", "--json")
    assert ran.code == 4
    assert "text" in (ran.json["error"]["what"] + ran.json["error"]["cause"]).lower()


def test_unsupported_operator(rknntui: Run, tmp_path: Path) -> None:
    node = helper.make_node("cstThing", ["x"], ["y"], name="odd", domain="my.domain")
    value = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 3]) for n in "xy"]
    graph = helper.make_graph([node], "g", value[:1], value[1:])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my.domain", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "c.onnx")
    ran = rknntui("build", "c.onnx", "--no-quantize")
    assert ran.code == 5
    assert "cstThing" in ran.err


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("missing.png", ("line 2", "missing.png")),
        ("{first} {first}", ("line 2", "2")),
        ("wrong.npy", ("line 2", "wrong.npy", "3x5")),
    ],
)
def test_dataset_lines(rknntui: Run, tmp_path: Path, line: str, words: tuple[str, ...]) -> None:
    first = demo_folder() / "calibration" / "000.png"
    np.save(tmp_path / "wrong.npy", np.zeros((3, 5), np.float32))
    (tmp_path / "d.txt").write_text(f"{first}\n{line.format(first=first)}\n")
    ran = rknntui("build", MODEL, "--dataset", "d.txt", "-o", "x.rknn")
    assert ran.code == 6, ran.err
    for word in words:
        assert word in ran.err, ran.err
    assert not (tmp_path / "x.rknn").exists()


def test_corrupt_container(rknntui: Run, tmp_path: Path) -> None:
    assert rknntui("build", MODEL, "--no-quantize", "-o", "m.rknn").code == 0
    data = bytearray((tmp_path / "m.rknn").read_bytes())
    data[len(data) // 2] ^= 0xFF
    (tmp_path / "m.rknn").write_bytes(data)
    ran = rknntui("simulate", "m.rknn", "-i", demo_folder() / "calibration" / "000.png")
    assert ran.code == 9, ran.err


def test_read_only_folder(rknntui: Run) -> None:
    ran = rknntui("build", MODEL, "--no-quantize", "-o", "/proc/x.rknn")
    assert ran.code == 10
    assert "remedy:" in ran.err


def test_wrong_usage(rknntui: Run) -> None:
    for arguments, word in (
        (("bild", MODEL), "build"),
        (("build", MODEL, "--quantized-method", "chanel"), "channel"),
        (("build",), "TARGET"),
        (("build", MODEL, "--optimization-level", "9"), "3"),
    ):
        ran = rknntui(*arguments)
        assert ran.code == 2
        assert word in ran.err
    ran = rknntui("build", MODEL, "--outputs", "logitz", "--no-quantize")
    assert ran.code == 4
    assert "logits" in ran.err


def test_ctrl_c_cancels(tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-m", "rknntui", "build", MODEL, "--dataset", DATASET]
    child = subprocess.Popen(
        [*map(str, command), "-o", "x.rknn", "--refresh"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stderr is not None
    first = child.stderr.readline()  # the first stage is done: the job runs
    assert first.startswith("[1/")
    child.send_signal(signal.SIGINT)
    begun = time.monotonic()
    _, err = child.communicate(timeout=20)
    assert time.monotonic() - begun < 10
    assert child.returncode == 130, err
    assert "Traceback" not in err
    assert files(tmp_path) == set()


def test_a_folder_with_our_modules_names_is_harmless(rknntui: Run, tmp_path: Path) -> None:
    trap = "open('trapped', 'w').close()\n"
    for name in ("engine", "rknntui"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(trap)
    for name in ("themes.py", "onnx.py", "numpy.py", "click.py", "sitecustomize.py", "json.py"):
        (tmp_path / name).write_text(trap)
    ran = rknntui("build", MODEL, "--no-quantize", "-q")
    assert ran.code == 0, ran.err
    assert not (tmp_path / "trapped").exists()
