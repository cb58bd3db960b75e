"""Where the error of `accurate` is: all roundings, activations alone, weights alone, outputs alone.

Usage: python -m benchmarks.quantization.ceilings [--models rfb320 digits] [--folds 4]

Every fold quantizes with the other calibration samples and measures on its own: the evaluation
split is not read. Prints SQNR in dB per output, pooled over the held samples of all folds. Needs
the shared folder as `python -m benchmarks.quantization` does.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.quantization.builders import MODELS, find_bench, load_work
from engine.base.events import NullReporter
from engine.frontends.onnx import load_onnx
from engine.graph.execute import Session
from engine.graph.ir import Graph
from engine.graph.metrics import ErrorSums, error_sums
from engine.graph.passes import optimise
from engine.quantize import QuantizeSettings, calibrate
from engine.quantize.algorithms.accurate import prepare
from engine.quantize.algorithms.accurate.select import CandidateEvaluator
from engine.quantize.interface import CalibratedGraph, LayerWeights, Prepared
from engine.quantize.planning.plan import plan
from engine.report import sqnr_text

Feed = Mapping[str, np.ndarray]


class _Exact:
    """Stands for the parameters of weights that are not rounded."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def dequantize(self, _: np.ndarray) -> np.ndarray:
        return self._array


def _float_weights(ready: Prepared) -> dict[str, LayerWeights]:
    exact_weights = {}
    for name, own in ready.weights.items():
        planned = ready.plan.weights[name]
        weight = ready.graph.constant(planned.weight)
        bias = None if planned.bias is None else ready.graph.constant(planned.bias)
        exact_weights[name] = replace(own, params=_Exact(weight), bias=bias)
    return exact_weights


def _forms(graph: Graph, seen: list[Feed], held: list[Feed]) -> Iterable[tuple[str, list[Feed]]]:
    """Name of what is rounded, and the outputs on the held samples."""
    decided = plan(graph)
    settings = QuantizeSettings(algorithm="accurate")
    calibration = calibrate(graph, seen)
    ready = prepare(
        CalibratedGraph(graph, decided, calibration, settings, lambda: seen, NullReporter())
    )
    plain = _float_weights(ready)
    outputs = [spec.name for spec in graph.outputs]
    for title, tensors, weights in (
        ("all", None, ready.weights),
        ("activations", None, plain),
        ("weights", (), ready.weights),
        ("outputs", outputs, plain),
    ):
        trial = CandidateEvaluator(ready.graph, ready.plan, tensors)
        inputs = trial.inputs(ready.activations, weights)
        yield title, [trial.run(feed, inputs) for feed in held]


def _measure(graph: Graph, feeds: list[Feed], folds: int) -> dict[str, list[float | None]]:
    session = Session(graph)
    sums: dict[str, dict[str, ErrorSums]] = {}
    for fold in range(folds):
        held = feeds[fold::folds]
        seen = [feed for row, feed in enumerate(feeds) if row % folds != fold]
        exact = [session.run(feed) for feed in held]
        for title, rounded in _forms(graph, seen, held):
            own = sums.setdefault(title, {})
            for reference, outputs in zip(exact, rounded, strict=True):
                for name, array in reference.items():
                    one = error_sums(array, outputs[name])[0]
                    own[name] = own.get(name, ErrorSums()) + one
    return {title: [one.sqnr for one in own.values()] for title, own in sums.items()}


def main() -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--folds", type=int, default=4)
    args = parser.parse_args()
    bench = find_bench()
    if isinstance(bench, str):
        print(f"skipped: {bench}", file=sys.stderr)
        return 0
    with tempfile.TemporaryDirectory(prefix="rknntui-ceilings-") as folder:
        for model in args.models:
            work = load_work(bench, model, Path(folder))
            graph = optimise(load_onnx(work.path).graph).graph
            feeds = [{work.input: sample[None]} for sample in work.calibration]
            for title, levels in _measure(graph, feeds, args.folds).items():
                decibels = ";".join(sqnr_text(level, unit=False, digits=1) for level in levels)
                print(f"{model:8} {title:12} {decibels}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
