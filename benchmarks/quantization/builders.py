"""The two quantizers that are compared, over models and samples of the shared benchmark folder."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from benchmarks.zoo import zoo_folder
from engine.frontends.onnx import load_onnx
from engine.graph.execute import lower_for_runtime, ort
from engine.graph.ir import Graph
from engine.graph.passes import optimise
from engine.quantize import calibrate, quantize

MODELS = ("rfb320", "digits", "resnet8", "vww96")


@dataclass(frozen=True)
class Bench:
    """The shared folder's modules (`data`, `metrics`, `harness`, `peer_ort`) and where it is."""

    folder: Path
    data: ModuleType
    metrics: ModuleType
    harness: ModuleType
    peer_ort: ModuleType


def find_bench() -> Bench | str:
    """The shared benchmark folder, or why there is none."""
    zoo = zoo_folder()
    folder = zoo.parent / "bench"
    if not (folder / "peer_ort.py").is_file() or not zoo.is_dir():
        return f"there is no {folder} beside a model zoo: set RKNNTUI_ZOO"
    sys.path.insert(0, str(folder))
    sys.dont_write_bytecode = True
    import data
    import harness
    import metrics
    import peer_ort

    return Bench(folder, data, metrics, harness, peer_ort)


@dataclass(frozen=True)
class Work:
    """One model with its samples; `job` is what the peer's script takes."""

    name: str
    path: Path
    input: str
    calibration: np.ndarray  # (N, C, H, W) float32
    evaluation: np.ndarray
    labels: np.ndarray | None
    job: Any


def load_work(bench: Bench, name: str, folder: Path, limit: int | None = None) -> Work:
    """Decode the samples of a model; not part of any measured time."""
    spec = bench.data.MODELS[name]
    pixels = bench.data.load(name, "calib").pixels[:limit]
    evaluation = bench.data.load(name, "eval")
    graph = load_onnx(spec.path).graph
    return Work(
        name,
        spec.path,
        graph.inputs[0].name,
        spec.normalise(pixels),
        spec.normalise(evaluation.pixels),
        evaluation.labels,
        bench.harness.Job.stage(name, "minmax-u8s8", pixels, folder / name),
    )


def build_ours(work: Work) -> Graph:
    """Load, optimise, calibrate, quantize: the stages of a build, without evaluation."""
    graph = optimise(load_onnx(work.path).graph).graph
    feeds: list[Mapping[str, np.ndarray]] = [{work.input: x[None]} for x in work.calibration]
    quantized = quantize(graph, calibrate(graph, feeds))
    quantized.graph.to_bytes()
    return quantized.graph


def build_peer(bench: Bench, work: Work) -> Path:
    """onnxruntime.quantization, MinMax, per channel, U8S8, as the shared `peer_ort.py` calls it."""
    bench.peer_ort.load()(work.job)
    return Path(work.job.work / "quantized.onnx")


def session(model: Graph | bytes, *, precise: bool = True) -> Any:
    """One thread, the runtime's default optimization; `precise`: no saturating kernels."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    if precise:
        options.add_session_config_entry("session.x64quantprecision", "1")
    data = lower_for_runtime(model).to_bytes() if isinstance(model, Graph) else model
    return ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
