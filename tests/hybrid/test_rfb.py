"""RFB-320: the two layers that matter most, found from calibration photographs by themselves."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from engine.frontends.onnx import load_onnx
from engine.graph.passes import optimise
from engine.hybrid import Evaluator, search, subsample
from engine.quantize import QuantizeSettings, calibrate
from engine.wire.hybrid import SearchParams


@pytest.mark.long
def test_two_layers_gain_on_photographs_that_were_not_seen(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(shared / "bench"))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    import data  # type: ignore[import-not-found]

    spec = data.MODELS["rfb320"]
    graph = optimise(load_onnx(spec.path).graph).graph
    (image,) = (spec.name for spec in graph.inputs)
    feeds = {
        role: [{image: x[None]} for x in spec.normalise(data.load("rfb320", role).pixels)]
        for role in ("calib", "eval")
    }
    seen = calibrate(graph, feeds["calib"])
    settings = QuantizeSettings()

    def of(role: str) -> Evaluator:
        chosen: list[dict[str, np.ndarray]] = feeds[role]
        return Evaluator(
            graph, seen, settings, subsample(chosen), everything=lambda: iter(feeds["calib"])
        )

    result = search(of("calib"), SearchParams(budget=2))
    evaluation = of("eval")
    before = evaluation.run().sqnr
    after = evaluation.run(result.best.layers).sqnr
    assert len(result.best.promoted) == 2
    for output, least in (("boxes", 1.5), ("scores", 0.0)):
        gained = (after[output] or 0) - (before[output] or 0)
        assert gained >= least, output
