"""``accurate`` against ``normal`` on photographs and digits that calibration did not see."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from engine.frontends.onnx import load_onnx
from engine.graph.execute import Session
from engine.graph.metrics import sqnr
from engine.graph.passes import optimise
from engine.quantize import QuantizeSettings, calibrate, quantize


@pytest.mark.long
@pytest.mark.parametrize("model", ["digits", "resnet8", "vww96", "rfb320"])
def test_better_than_normal_on_held_out_samples(
    model: str, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(shared / "bench"))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    import data  # type: ignore[import-not-found]

    spec = data.MODELS[model]
    graph = optimise(load_onnx(spec.path).graph).graph
    (name,) = (tensor.name for tensor in graph.inputs)
    pixels = data.load(model, "calib").pixels
    feeds = [{name: x[None]} for x in spec.normalise(pixels)]
    # two folds: each half of the calibration samples is judged by what the other half gave
    pairs: dict[str, list[list[np.ndarray]]] = {}
    exact = Session(graph)
    for fold in (0, 1):
        seen, held = feeds[1 - fold :: 2], feeds[fold::2]
        found = calibrate(graph, seen)
        sessions = [exact]
        for algorithm in ("normal", "accurate"):
            settings = QuantizeSettings(algorithm=algorithm)
            quantized = quantize(graph, found, settings, feeds=lambda seen=seen: seen)
            sessions.append(Session(quantized.graph))
        for feed in held:
            results = [session.run(feed) for session in sessions]
            for output in results[0]:
                pairs.setdefault(output, []).append([r[output] for r in results])
    for output, rows in pairs.items():
        reference, normal, accurate = (np.stack(part) for part in zip(*rows, strict=True))
        assert sqnr(reference, accurate) > sqnr(reference, normal) + 1, output
