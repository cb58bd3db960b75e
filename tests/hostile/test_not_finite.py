"""NaN and infinity in outputs are told; exit code 70 is not for a file's content."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.helper import make_node as node

from rknntui.cli.root import cli
from tests.hostile.inside import COMMANDS, inside
from tests.hostile.models import model

NAN, INF = float("nan"), float("inf")


def numbers(name: str, *values: float) -> TensorProto:
    return helper.make_tensor(name, TensorProto.FLOAT, [len(values)], values)


def rounded(scale: float) -> onnx.ModelProto:
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    constants = [
        helper.make_tensor("s", TensorProto.FLOAT, [], [scale]),
        helper.make_tensor("z", TensorProto.UINT8, [], [0]),
    ]
    return model(nodes, constants)


def normalised(variance: float) -> onnx.ModelProto:
    constants = [numbers(n, 1, 1, 1) for n in "sbm"] + [numbers("v", variance, 1, 1)]
    return model([node("BatchNormalization", ["x", *"sbmv"], ["y"])], constants)


MODELS = {
    "nan in weights": (model([node("Mul", ["x", "w"], ["y"])], [numbers("w", NAN, 1, 2)]), 1),
    "infinity in weights": (model([node("Mul", ["x", "w"], ["y"])], [numbers("w", INF, 1, 2)]), 1),
    "all of it": (model([node("Add", ["x", "w"], ["y"])], [numbers("w", NAN, INF, -INF)]), 3),
    "division by 0": (model([node("Div", ["x", "w"], ["y"])], [numbers("w", 0, 1, 2)]), 1),
    "scale nan": (rounded(NAN), 3),
    "scale infinite": (rounded(INF), 3),
    "negative variance": (normalised(-1), 1),
    "nothing": (
        model(
            [node("Slice", ["x", "a", "a"], ["y"])],
            [helper.make_tensor("a", TensorProto.INT64, [1], [0])],
        ),
        0,
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_an_output_that_is_not_finite(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in COMMANDS:
        monkeypatch.setattr(command, "with_worker", inside)
    proto, count = MODELS[name]
    onnx.save(proto, tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", np.ones((1, 3), np.float32))

    def told(*flags: str) -> str:
        arguments = ["simulate", str(tmp_path / "m.onnx"), "--no-quantize", *flags]
        cli.main(args=[*arguments, "-i", str(tmp_path / "x.npy")], standalone_mode=False)
        return capsys.readouterr().out

    (output,) = json.loads(told("--json"))["outputs"]
    assert output["not_finite"] == count
    assert all(np.isfinite(item["value"]) for item in output["top"])
    heads, cells = (line.split("  ") for line in told().splitlines()[:2])
    assert ("NaN, inf" in map(str.strip, heads)) == (count > 0)
    assert not count or str(count) in map(str.strip, cells)
