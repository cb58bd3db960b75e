"""What is measured of one model: fidelity, CPU of a build, time of a sample, memory of a build."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.clock import Figures, cpu_seconds, status_mb
from benchmarks.quantization.builders import (
    Bench,
    Work,
    build_ours,
    build_peer,
    session,
)
from benchmarks.zoo import REPOSITORY
from engine.graph.ir import Graph
from engine.simulate import Simulator, integer_coverage

Run = Callable[[np.ndarray], list[np.ndarray]]


def _cpu_of(action: Callable[[], object]) -> float:
    start = cpu_seconds()
    action()
    return cpu_seconds() - start


def build_cpu(bench: Bench, work: Work, turns: int) -> Figures:
    """CPU seconds of both builds, alternated, and of the integer coverage that a build adds."""
    ours, peer, coverage = [], [], []
    for turn in range(turns):
        actions = [(ours, lambda: build_ours(work)), (peer, lambda: build_peer(bench, work))]
        for times, action in actions if turn % 2 else reversed(actions):
            times.append(_cpu_of(action))
        graph = build_ours(work)
        coverage.append(_cpu_of(lambda graph=graph: integer_coverage(graph)))
    ratios = [a / b for a, b in zip(ours, peer, strict=True)]
    return {
        "build_cpu_s": float(np.median(ours)),
        "peer_build_cpu_s": float(np.median(peer)),
        "build_ratio": float(np.median(ratios)),
        "build_ratios": ratios,
        "coverage_cpu_s": float(np.median(coverage)),
    }


def _outputs(run: Run, samples: np.ndarray) -> list[np.ndarray]:
    rows = [run(sample[None]) for sample in samples]
    return [np.concatenate(parts) for parts in zip(*rows, strict=True)]


def _pairs(
    first: Run, second: Run, samples: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Milliseconds of both on the same sample in turn, the first of the two changing."""
    for run in (first, second):
        run(samples[:1])
    times = np.empty((2, count))
    for turn in range(count):
        sample = samples[turn % len(samples)][None]
        for index in (0, 1) if turn % 2 else (1, 0):
            start = time.perf_counter()
            (first, second)[index](sample)
            times[index, turn] = 1e3 * (time.perf_counter() - start)
    return times[0], times[1]


def _ratio(times: tuple[np.ndarray, np.ndarray]) -> dict[str, float]:
    return {
        "ms": float(np.median(times[0])),
        "other_ms": float(np.median(times[1])),
        "ratio": float(np.median(times[0] / times[1])),
    }


def simulation(bench: Bench, work: Work, qdq: Graph, peer: Path, pairs: int) -> Figures:
    """Fidelity of both against the float model, and paired times of one sample."""

    def runner(opened: Any) -> Run:
        name = opened.get_inputs()[0].name
        return lambda sample: opened.run(None, {name: sample})

    reference = bench.harness.float_model(work.path).SerializeToString()
    golden = runner(session(reference))
    ours = runner(session(qdq))
    theirs = runner(session(peer.read_bytes()))
    saturating = runner(session(peer.read_bytes(), precise=False))
    simulator = Simulator(qdq, qdq)
    whole: Run = lambda sample: list(simulator.run({work.input: sample}).values())  # noqa: E731
    expected = _outputs(golden, work.evaluation)
    result: Figures = {}
    for name, run in (("ours", ours), ("peer", theirs), ("peer_saturating", saturating)):
        arrays = _outputs(run, work.evaluation)
        arrays = [a.reshape(b.shape) for a, b in zip(arrays, expected, strict=True)]
        fidelity = bench.metrics.fidelity(expected, arrays, work.labels)
        result[f"sqnr_{name}"] = fidelity.sqnr
        result[f"cosine_{name}"] = fidelity.cosine
        if fidelity.top1 is not None:
            result[f"top1_{name}"], result["top1_float"] = fidelity.top1, fidelity.top1_float
    result["sqnr_vendor_normal"] = vendor_row(bench, work.name)
    result["against_peer"] = _ratio(_pairs(ours, theirs, work.evaluation, pairs))
    result["peer_against_itself"] = _ratio(_pairs(theirs, theirs, work.evaluation, pairs))
    result["simulator_against_peer"] = _ratio(_pairs(whole, theirs, work.evaluation, pairs))
    result["against_float"] = _ratio(_pairs(ours, golden, work.evaluation, pairs))
    coverage = integer_coverage(qdq)
    result["integer_layers"] = sum(layer.integer for layer in coverage)
    result["layers"] = len(coverage)
    return result


def vendor_row(bench: Bench, model: str) -> list[float]:
    """SQNR of rknn-toolkit2's `normal` as published in the shared results.csv (same samples)."""
    with (bench.folder / "results.csv").open(newline="", encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            if (row["model"], row["peer"], row["setting"]) == (model, "vendor", "normal"):
                return [float(value) for value in row["sqnr"].split(";")]
    return []


def memory_here(work: Work) -> dict[str, float]:
    """Peak of one build in this process, above what imports and decoded samples take."""
    before = status_mb("VmRSS")
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    build_ours(work)
    return {
        "import_mb": before,
        "peak_mb": status_mb("VmHWM"),
        "above_mb": status_mb("VmHWM") - before,
    }


def memory(model: str) -> dict[str, float]:
    """:func:`memory_here` in a fresh process."""
    done = subprocess.run(
        [sys.executable, "-B", "-m", "benchmarks.quantization", "--memory-of", model],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    figures: dict[str, float] = json.loads(done.stdout)
    return figures
