"""The two arithmetics of quantized graphs, in four tables.

Usage: python -m benchmarks.arithmetic [--models NAME ...] [--tables TABLE ...] [--samples N]

Tables: ``kernels`` (every integer kernel beside exact sums in numpy), ``times`` (processor time of
both arithmetics beside the float session, one thread), ``rounding`` (how far other roundings move
the outputs), ``depth`` (of each tenth of the net, how many values both arithmetics have equal).
Models and photographs are those of the shared folder beside the checkout. All is simulated, times
are measured here.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.arithmetic.kernels import Held, hold_kernels
from benchmarks.compiled.cases import CASES, Loaded, load_case
from engine.accuracy.rounding import rounding_sensitivity
from engine.graph.execute import Session, open_model
from engine.quantize import lower_for_vendor
from engine.report import rounding_lines
from engine.simulate import open_arithmetic

TABLES = ("kernels", "times", "rounding", "depth")
_RUNS = 15


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.arithmetic", description=__doc__)
    parser.add_argument("--models", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--tables", nargs="*", default=list(TABLES), choices=TABLES)
    parser.add_argument("--samples", type=int, default=1, help="photographs of each model")
    arguments = parser.parse_args()
    held: dict[str, Held] = {}
    for name in arguments.models:
        with tempfile.TemporaryDirectory(prefix="rknntui-") as folder:
            loaded = load_case(name, Path(folder))
            for table in arguments.tables:
                _PRINT[table](loaded, arguments.samples, held)
    for one in sorted(held.values(), key=lambda one: one.kernel):
        print(
            f"{one.kernel}: {one.layers} layers, {one.values} values, {one.unequal} unequal by "
            f"{one.largest}, at most {one.edge:.1e} of a step from an edge"
        )


def _kernels(loaded: Loaded, samples: int, held: dict[str, Held]) -> None:
    done = loaded.pipeline().quantized
    graph = done.graph.graph
    hold_kernels(graph, done.layers, loaded.feeds(graph, loaded.evaluation[:samples]), held)


def _times(loaded: Loaded, _samples: int, _held: dict[str, Held]) -> None:
    pipeline = loaded.pipeline()
    graph, golden = pipeline.quantized.graph.graph, pipeline.optimised.graph.graph
    (feed,) = loaded.feeds(graph, loaded.evaluation[:1])
    file = open_model(lower_for_vendor(graph).SerializeToString(), level="disabled")
    names = [spec.name for spec in graph.outputs]
    runs: dict[str, Callable[[], object]] = {
        "float": lambda: sessions["float"].run(feed),
        "float, unoptimized": lambda: sessions["float, unoptimized"].run(feed),
        "integer": lambda: sessions["integer"].run(feed),
        "reference": lambda: sessions["reference"].run(feed),
        "file, unoptimized": lambda: file.run(names, dict(feed)),
    }
    sessions = {
        "float": Session(golden),
        "float, unoptimized": Session(golden, level="disabled"),
        "integer": open_arithmetic(graph),
        "reference": open_arithmetic(graph, "reference"),
    }
    taken = {name: _least(run) for name, run in runs.items()}
    base = taken["float"]
    ratios = ", ".join(f"{name} x {value / base:.2f}" for name, value in taken.items())
    print(f"{loaded.case.name}: float {base:.2f} ms; {ratios} (measured, processor time)")


def _least(run: Callable[[], object]) -> float:
    """Milliseconds of processor time, the least of some runs."""
    run()
    times = []
    for _ in range(_RUNS):
        begun = time.process_time()
        run()
        times.append(time.process_time() - begun)
    return 1e3 * min(times)


def _rounding(loaded: Loaded, samples: int, _held: dict[str, Held]) -> None:
    pipeline = loaded.pipeline()
    done, golden = pipeline.quantized, pipeline.optimised.graph.graph
    graph = done.graph.graph
    feeds = loaded.feeds(graph, loaded.evaluation[:samples])
    sensitivity = rounding_sensitivity(graph, done.layers, feeds, golden=golden)
    print(f"{loaded.case.name}: {sensitivity.seconds} s (measured)")
    for line, output in zip(rounding_lines(sensitivity), sensitivity.outputs, strict=False):
        gap = "none" if output.arithmetic_db is None else f"{output.arithmetic_db:.1f} dB"
        print(f"  {line}; between the arithmetics {gap}, {output.moved:.2%} of the values move")


def _depth(loaded: Loaded, samples: int, _held: dict[str, Held]) -> None:
    done = loaded.pipeline().quantized
    graph = done.graph.graph
    convolutions = [
        (layer, stored.stored)
        for layer in done.layers.layers
        if layer.op == "Conv" and (stored := done.layers.stored.get(layer.outputs[0])) is not None
    ]
    names = [name for _, name in convolutions]
    sides = [open_arithmetic(graph, way, outputs=names) for way in ("integer", "reference")]
    equal = np.zeros(len(names))
    feeds = loaded.feeds(graph, loaded.evaluation[:samples])
    for feed in feeds:
        one, other = (side.run(feed, names) for side in sides)
        equal += [float(np.mean(one[name] == other[name])) for name in names]
    print(f"{loaded.case.name}: equal integers behind a convolution, of {len(names)}")
    for at in sorted({round(place * (len(names) - 1) / 10) for place in range(11)}):
        share = 1 - equal[at] / len(feeds)
        print(f"  {at + 1}. {convolutions[at][0].id}: {share:.3%} differ")


_PRINT = {"kernels": _kernels, "times": _times, "rounding": _rounding, "depth": _depth}

if __name__ == "__main__":
    main()
