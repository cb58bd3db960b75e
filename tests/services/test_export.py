"""ONNX that leaves the program: it runs elsewhere, or it is not written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import engine.quantize
import engine.services.build
from engine.base.errors import QuantizationError
from engine.base.events import NullReporter
from engine.graph.execute import ort
from engine.graph.ir import Graph
from engine.services.build import export
from tests.quantize.models import Net


def _recipe(folder: Path) -> dict[str, Any]:
    """Two layers of one weight."""
    net = Net()
    x, weight = net.input(1, 4, 6, 6), net.constant(net.normal(4, 4, 1, 1))
    out = net.op("Relu", net.op("Conv", net.op("Conv", x, weight), weight))
    onnx.save(net.proto(out), folder / "net.onnx")
    np.save(folder / "sample.npy", net.feeds(1)[0][x])
    (folder / "dataset.txt").write_text("sample.npy\n")
    return {"model": str(folder / "net.onnx"), "dataset": str(folder / "dataset.txt")}


def written(recipe: dict[str, Any], path: Path, **more: Any) -> dict[str, Any]:
    asked = {"recipe": recipe, "path": str(path), "format": "onnx", **more}
    told: dict[str, Any] = export(asked, NullReporter())
    return told


@pytest.mark.parametrize("quantize", [True, False])
def test_an_export_opens_in_every_plain_session(tmp_path: Path, quantize: bool) -> None:
    recipe = _recipe(tmp_path) | {"do_quantization": quantize}
    path = tmp_path / "out.onnx"
    written(recipe, path)
    onnx.checker.check_model(str(path), full_check=True)
    sample = np.load(tmp_path / "sample.npy", allow_pickle=False)
    for entry in ("0", "1"):
        options = ort.SessionOptions()
        options.add_session_config_entry("session.x64quantprecision", entry)
        session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        assert session.run(None, {"input0": sample})[0].shape == (1, 4, 6, 6)


def test_one_that_does_not_run_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = _recipe(tmp_path)
    right = engine.quantize.lower_for_vendor

    def wrong(graph: Graph, level: int) -> onnx.ModelProto:
        model = right(graph, level)
        model.graph.node[-1].input[0] = "nothing"
        return model

    monkeypatch.setattr(engine.services.build, "lower_for_vendor", wrong)
    path = tmp_path / "out.onnx"
    with pytest.raises(QuantizationError, match="does not run in ONNX Runtime"):
        written(recipe, path)
    assert not path.exists()


@pytest.mark.parametrize("layers", [True, False])
def test_an_export_lists_the_files_that_the_model_pulled_in(tmp_path: Path, layers: bool) -> None:
    recipe = _recipe(tmp_path)
    proto = onnx.load(recipe["model"])
    beside = {"save_as_external_data": True, "location": "weights.bin", "size_threshold": 0}
    onnx.save(proto, recipe["model"], **beside)
    (told,) = written(recipe, tmp_path / "o.onnx", layers=layers)["findings"]
    assert "'weights.bin'" in told["what"]
