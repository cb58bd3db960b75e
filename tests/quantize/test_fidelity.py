"""RFB-320 on the shared photographs: not worse than onnxruntime.quantization on either output."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from engine.frontends.onnx import load_onnx
from engine.graph.execute import Session
from engine.graph.metrics import sqnr
from engine.graph.passes import optimise
from engine.quantize import calibrate, quantize
from engine.simulate import integer_coverage


@pytest.mark.long
def test_rfb320_against_onnxruntime_quantization(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(shared / "bench"))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    import data  # type: ignore[import-not-found]
    import harness  # type: ignore[import-not-found]
    import peer_ort  # type: ignore[import-not-found]

    spec, pixels = data.MODELS["rfb320"], data.load("rfb320", "calib").pixels
    job = harness.Job.stage("rfb320", "minmax-u8s8", pixels, tmp_path / "peer")
    peer_ort.load()(job)
    graph = optimise(load_onnx(spec.path).graph).graph
    (image,) = (spec.name for spec in graph.inputs)
    quantized = quantize(graph, calibrate(graph, [{image: x[None]} for x in job.inputs])).graph

    coverage = integer_coverage(quantized)
    assert {layer.op for layer in coverage if not layer.integer} == {"Softmax"}
    assert sum(layer.kernel == "QLinearConv" for layer in coverage) == 52

    golden, ours = Session(graph), Session(quantized)
    peer = Session((job.work / "quantized.onnx").read_bytes())
    evaluation = spec.normalise(data.load("rfb320", "eval").pixels)
    runs = [[s.run({image: x[None]}) for x in evaluation] for s in (golden, ours, peer)]
    for name in ("scores", "boxes"):
        expected, found, theirs = (np.concatenate([r[name] for r in rows]) for rows in runs)
        assert sqnr(expected, found) >= sqnr(expected, theirs) - 0.2, name
