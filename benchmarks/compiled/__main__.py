"""Our quantized models through the vendor's compiler and simulator, in four tables.

Usage: python -m benchmarks.compiled --work DIR [--models NAME ...] [--tables ...] [--report]

Tables: `convolutions` (what the compiler prints for rk3566, rk3588 and rv1106, beside our plan),
`agreement` (its simulator beside ours, layer by layer and whole), `quantizers` (our quantization
and the vendor's own, both in the vendor's simulator, on the same photographs). Each measurement is
one line of DIR/results.jsonl; what stands there is not measured again. --report measures nothing.

The toolkit is the default one of generation 2 (`rknntui vendor list`). Models and photographs
are those of the shared folder beside the checkout. All outputs are simulated, none is of a board.
`mmse` takes the vendor minutes on large inputs.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import onnx

from benchmarks.clock import Figures
from benchmarks.compiled.agreement import compare_layers, compare_whole, simulated, sqnr
from benchmarks.compiled.cases import CASES, Loaded, load_case
from benchmarks.compiled.report import report
from benchmarks.compiled.tables import beside_plan, convolutions, not_in_integers
from engine.base.errors import EngineError
from engine.cost.printed import parse_printed
from engine.graph.execute import FUSING_LEVEL, Session, as_compiled
from engine.graph.ir import Graph
from engine.quantize import lower_for_vendor
from engine.toolkit.environments import find
from tests.vendor.toolkit import Toolkit

CHIPS = ("rk3566", "rk3588", "rv1106")
OURS = ("normal", "accurate")
THEIRS = ("normal", "kl_divergence", "mmse")
_WHOLE, _LAYERS = 17, 2
_SAME = ("rfb320-caffe", "rfb320-tflite")  # the net of rfb320-onnx


class Measure:
    """One model after the other; the toolkit stays open."""

    def __init__(self, toolkit: Toolkit, work: Path) -> None:
        self.toolkit = toolkit
        self.work = work
        self.loaded: Loaded | None = None

    def case(self, name: str) -> Loaded:
        """The case, decoded once."""
        if self.loaded is None or self.loaded.case.name != name:
            folder = self.work / "samples" / name
            folder.mkdir(parents=True, exist_ok=True)
            self.loaded = load_case(name, folder)
        return self.loaded

    def convolutions(self, name: str, algorithm: str, chip: str) -> Figures:
        """The compiler's table of layers for one chip."""
        graph = self.case(name).pipeline(algorithm).quantized.graph.graph
        path = self.work / "model.onnx"
        model = lower_for_vendor(graph)
        onnx.save(model, path)
        printed = parse_printed(
            self.toolkit.build("table", path, {"target_platform": chip}, verbose=True)
        )
        self.toolkit.release("table")
        return {
            "layers": len(printed.layers),
            "convolutions": len(convolutions(printed)),
            "others": [f"{row.op} {row.dtype} {row.target}" for row in not_in_integers(printed)],
            "plan": asdict(beside_plan(printed, Graph.from_proto(model), chip)),
        }

    def agreement(self, name: str, algorithm: str) -> Figures:
        """Integers of every layer, and the outputs."""
        case = self.case(name)
        pipeline = case.pipeline(algorithm)
        graph, reference = pipeline.quantized.graph.graph, pipeline.optimised.graph.graph
        feeds = case.feeds(graph, case.evaluation[:_WHOLE])
        differences = compare_layers(graph, feeds[:_LAYERS], self.toolkit, self.work)
        worst = max(differences, key=lambda one: one.unequal / max(one.values, 1))
        values = case.values(case.evaluation[:_WHOLE])
        whole = {}
        for level, ours in ((2, graph), (FUSING_LEVEL, as_compiled(graph))):
            theirs = simulated(graph, values, self.toolkit, self.work, level)
            whole[level] = [asdict(one) for one in compare_whole(ours, reference, feeds, theirs)]
        return {
            "layers": len({one.layer for one in differences}),
            "values": sum(one.values for one in differences),
            "unequal": sum(one.unequal for one in differences),
            "largest": max(one.largest for one in differences),
            "worst": [worst.layer, worst.unequal, worst.values],
            "whole": whole,
        }

    def ours(self, name: str, algorithm: str) -> Figures:
        """SQNR of our quantization in the vendor's simulator, over all evaluation samples."""
        case = self.case(name)
        graph = case.pipeline(algorithm).quantized.graph.graph
        rows = simulated(graph, case.values(case.evaluation), self.toolkit, self.work)
        return {"sqnr": self._against_float(case, rows)}

    def theirs(self, name: str, algorithm: str) -> Figures:
        """The same of the vendor's own quantization, which gets pixels, mean and std."""
        case = self.case(name)
        path = case.model
        if path.suffix != ".onnx":  # the same float graph for both
            path = self.work / "float.onnx"
            onnx.save(lower_for_vendor(case.pipeline().optimised.graph.graph), path)
        channels = case.case.channels
        config = {
            "mean_values": [[case.case.mean] * channels],
            "std_values": [[case.case.std] * channels],
            "quantized_algorithm": algorithm,
            "quantized_method": "channel",
        }
        self.toolkit.build("theirs", path, config, case.calibration)
        rows = self.toolkit.infer("theirs", [[sample[None]] for sample in case.evaluation])
        self.toolkit.release("theirs")
        return {"sqnr": self._against_float(case, rows)}

    @staticmethod
    def _against_float(case: Loaded, rows: list[list[np.ndarray]]) -> list[float]:
        graph = case.pipeline().optimised.graph.graph
        session = Session(graph)
        golden = [session.run(feed) for feed in case.feeds(graph, case.evaluation)]
        return [
            sqnr(
                np.concatenate([np.ravel(row[spec.name]) for row in golden]),
                np.concatenate([np.ravel(row[at]) for row in rows]),
            )
            for at, spec in enumerate(graph.outputs)
        ]


def _turns(measure: Measure, models: list[str], tables: list[str]) -> list[tuple[Figures, object]]:
    """(what identifies a measurement, what makes it)."""
    turns: list[tuple[Figures, object]] = []

    def add(make: Callable[..., Figures], *words: str) -> None:
        key = {"table": make.__name__, "of": list(words)}
        turns.append((key, lambda: make(*words)))

    for name in models:
        for algorithm in OURS:
            if "convolutions" in tables:
                for chip in CHIPS:
                    add(measure.convolutions, name, algorithm, chip)
            if "agreement" in tables:
                add(measure.agreement, name, algorithm)
    nets = [name for name in models if CASES[name].high and name not in _SAME]
    for name in nets if "quantizers" in tables else ():
        for algorithm in OURS:
            add(measure.ours, name, algorithm)
        for algorithm in THEIRS:
            add(measure.theirs, name, algorithm)
    return sorted(turns, key=lambda one: "mmse" in one[0]["of"])  # what takes minutes comes last


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, required=True, help="the only folder written to")
    parser.add_argument("--models", nargs="+", choices=list(CASES), default=list(CASES))
    tables = ["convolutions", "agreement", "quantizers"]
    parser.add_argument("--tables", nargs="+", choices=tables, default=tables)
    parser.add_argument("--report", action="store_true", help="print tables, measure nothing")
    return parser.parse_args()


def main() -> int:
    """Measure what is missing, then print the tables."""
    arguments = _arguments()
    work = arguments.work.absolute()
    work.mkdir(parents=True, exist_ok=True)
    results = work / "results.jsonl"
    rows: list[Figures] = []
    if results.exists():
        rows = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
    if not arguments.report:
        (work / "toolkit").mkdir()
        toolkit = Toolkit(Path(find(2).python), work / "toolkit")
        measure = Measure(toolkit, work)
        for key, make in _turns(measure, arguments.models, arguments.tables):
            if any(key.items() <= row.items() for row in rows):
                continue
            try:
                row = {**key, **make()}  # type: ignore[operator]
            except EngineError as error:
                row = {**key, "failed": str(error)[-400:]}
            rows.append(row)
            with results.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(row) + "\n")
            print(*key["of"], key["table"], row.get("failed", ""), file=sys.stderr, flush=True)
        toolkit.close()
    print(report(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
