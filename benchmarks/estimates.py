"""Time of estimating a graph on every chip: lowering, placement, cycles, memory and time.

Usage: python -m benchmarks.estimates [--model FILE.onnx] [--rounds 5] [--json FILE]

The file is loaded and its layers are found before the clock starts; nothing is cached between the
rounds. The goal is 2 s for a graph of YOLOv8m's size. Without ``--model`` it is YOLOv8m of the
model zoo. Times depend on the machine and its load: compare within one run.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
from pathlib import Path

from benchmarks.clock import Figures, taken
from benchmarks.zoo import zoo_folder

GOAL_SECONDS = 2.0
MODEL = "shapes/published/yolov8m.onnx"


def measure(model: Path, rounds: int) -> Figures:
    """Seconds of each round, and their median."""
    from engine import Recipe
    from engine.api.typed import pipeline_of
    from engine.cost.estimate import CostSettings, estimate
    from engine.quantize import plan

    pipeline = pipeline_of(Recipe.from_values({"model": str(model)}), None, False, ())
    graph, layers = pipeline.loaded.graph.graph, plan(pipeline.optimised.graph.graph).layers
    figures: Figures = {"model": model.name, "nodes": len(list(graph.nodes)), "rounds": []}
    for _ in range(rounds):
        gc.collect()
        one: Figures = {}
        with taken(one, "estimate"):
            estimates = estimate(graph, CostSettings(), layers)
        figures["rounds"].append(one)
        figures["chips"] = len(estimates)
        figures["problems"] = [each.chip for each in estimates if each.problem]
    for name in ("estimate_wall_s", "estimate_cpu_s"):
        figures[f"median_{name}"] = statistics.median(one[name] for one in figures["rounds"])
    return figures


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    model = arguments.model
    if model is None:
        folder = zoo_folder()
        model = None if folder is None else folder / MODEL
    if model is None or not model.is_file():
        raise SystemExit("YOLOv8m of the model zoo is missing: name a file with --model.")
    figures = measure(model, arguments.rounds)
    print(
        f"{figures['model']}, {figures['nodes']} nodes, {figures['chips']} chips: median "
        f"{figures['median_estimate_wall_s']:.2f} s wall, {figures['median_estimate_cpu_s']:.2f} s "
        f"CPU (goal {GOAL_SECONDS:g} s)"
    )
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(figures, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
