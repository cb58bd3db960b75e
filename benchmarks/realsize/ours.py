"""One measurement of this program on one model; run by `python -m benchmarks.realsize`.

Usage: python ours.py JOB.json: the job as `__main__.py` writes it; prints one JSON line.

The driver sets the environment that a worker process has: one thread for linear algebra.

`what` of a job:
    normal, kl_divergence, mmse, accurate: a whole build, evaluation and container included, in one
        process without caches, stage by stage. Its SQNR is of the calibration samples.
    floats: the float graph alone, run on every sample, and in turn with it a calibration.
    proposal: hybrid step 1 with proposal on one sample, by the vendor's API.
    propose: `rknntui hybrid propose` with as many samples as it takes by itself.
    search: a hybrid search for two layers.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from benchmarks import clock
from benchmarks.clock import Figures, Job
from engine.base.events import CallbackReporter, Event, Partial, StageFinished, StageStarted
from engine.base.plain import Values

PLATFORM = "rk3588"


class _Stages:
    """CPU, wall and memory peak of every stage of a build."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, float]] = {}
        self.points: list[Figures] = []
        self._begun = (0.0, 0.0)
        self.reporter = CallbackReporter(self._take)

    def _take(self, event: Event) -> None:
        if isinstance(event, StageStarted):
            self._begun = (clock.cpu_seconds(), time.perf_counter())
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        elif isinstance(event, StageFinished):
            row = self.rows.setdefault(event.stage, {"cpu_s": 0.0, "wall_s": 0.0, "peak_mb": 0.0})
            row["cpu_s"] += clock.cpu_seconds() - self._begun[0]
            row["wall_s"] += time.perf_counter() - self._begun[1]
            row["peak_mb"] = max(row["peak_mb"], clock.status_mb("VmHWM"))
        elif isinstance(event, Partial):
            self.points.append({"at_s": time.perf_counter(), "kind": event.kind})

    @property
    def peak_mb(self) -> float:
        return max((row["peak_mb"] for row in self.rows.values()), default=0.0)


def _recipe(job: Job, algorithm: str) -> Values:
    return {
        "model": job["model"],
        "dataset": job["dataset"],
        "mean_values": [job["mean"]],
        "std_values": [job["std"]],
        "target_platform": PLATFORM,
        "quantized_algorithm": algorithm,
        "quantized_method": "channel",
    }


def _build(job: Job, algorithm: str) -> Figures:
    from engine.pipeline.build import build
    from engine.pipeline.pipeline import Pipeline
    from engine.pipeline.stages import STAGES
    from engine.recipe import Recipe

    stages = _Stages()
    figures: Figures = {"import_mb": clock.status_mb("VmRSS")}
    with clock.taken(figures, "all"):
        done = build(
            Pipeline(Recipe.from_values(_recipe(job, algorithm)), STAGES, reporter=stages.reporter)
        )
    figures["stages"] = stages.rows
    figures["peak_mb"] = max(stages.peak_mb, clock.own_peak_mb())
    figures["sqnr_db"] = [output.sqnr_db for output in done.summary.outputs]
    return figures


def _feeds(job: Job, name: str) -> list[dict[str, np.ndarray]]:
    mean, std = (
        np.array(each, np.float32).reshape(1, 3, 1, 1) for each in (job["mean"], job["std"])
    )
    paths = Path(job["dataset"]).read_text(encoding="utf-8").split()
    return [{name: (np.load(path).astype(np.float32) - mean) / std} for path in paths]


def _floats(job: Job) -> Figures:
    """The float runs in a session of the simulator's options, before and after a calibration."""
    from engine.frontends.onnx import load_onnx
    from engine.graph.execute import Session
    from engine.graph.passes import optimise
    from engine.quantize import calibrate

    graph = optimise(load_onnx(Path(job["model"])).graph).graph
    feeds = _feeds(job, graph.inputs[0].name)
    figures: Figures = {}
    session = Session(graph, threads=1)
    session.run(feeds[0])
    for turn in range(2):
        with clock.taken(figures, "float"):
            for feed in feeds:
                session.run(feed)
        if not turn:
            with clock.taken(figures, "calibrate"):
                calibrate(graph, iter(feeds))
    for key in ("float_cpu_s", "float_wall_s"):
        figures[key] /= 2
    figures["samples"] = len(feeds)
    figures["peak_mb"] = clock.own_peak_mb()
    return figures


def _proposal(job: Job) -> Figures:
    """As vendor.py: the same calls of the same API."""
    from engine.api import RKNN

    figures: Figures = {}
    with clock.taken(figures, "all"):
        toolkit = RKNN(verbose=False)
        codes = [
            toolkit.config(
                mean_values=[job["mean"]],
                std_values=[job["std"]],
                target_platform=PLATFORM,
                quantized_dtype="w8a8",
                quantized_algorithm="normal",
                quantized_method="channel",
            ),
            toolkit.load_onnx(job["model"]),
            toolkit.hybrid_quantization_step1(
                dataset=job["dataset"], proposal=True, proposal_dataset_size=1
            ),
        ]
    if any(codes):
        raise RuntimeError(f"a step failed: {codes}")
    figures["peak_mb"] = clock.own_peak_mb()
    return figures


def _hybrid(job: Job, what: str) -> Figures:
    from engine.services import hybrid

    stages = _Stages()
    figures: Figures = {}
    values = {"recipe": _recipe(job, "normal")}
    with clock.taken(figures, "all"):
        if what == "propose":
            proposal = hybrid.propose(values, stages.reporter)
        else:
            proposal = hybrid.search({**values, "budget": 2}, stages.reporter)
    figures |= {"stages": stages.rows, "peak_mb": max(stages.peak_mb, clock.own_peak_mb())}
    if what == "search":
        figures["trials"] = proposal["trials"]
        figures["curve"] = [
            {key: point[key] for key in ("tensor", "seconds", "outputs")}
            for point in proposal["curve"]
        ]
        figures["layers"] = proposal["best"]["lifted"]
    else:
        figures["layers"] = list(proposal["layers"])
        figures["after"] = proposal["after"]
    return figures


def _measures() -> Iterator[tuple[str, Callable[[Job], Figures]]]:
    for algorithm in ("normal", "kl_divergence", "mmse", "accurate"):
        yield algorithm, lambda job, own=algorithm: _build(job, own)
    yield "floats", _floats
    yield "proposal", _proposal
    for what in ("propose", "search"):
        yield what, lambda job, own=what: _hybrid(job, own)


def _measure(job: Job) -> Figures:
    """Import everything, then measure."""
    os.environ["XDG_CACHE_HOME"] = str(Path("cache").absolute())  # not that of an earlier run
    import engine.accuracy.evaluate
    import engine.api
    import engine.hybrid
    import engine.pipeline.stages
    import engine.quantize  # noqa: F401

    return dict(_measures())[job["what"]](job)


if __name__ == "__main__":
    clock.measure(_measure, "ours.log", (1,))
