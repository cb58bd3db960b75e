"""The nets of the shared benchmark with their samples, as both quantizers get them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from engine.frontends.onnx import load_onnx
from engine.graph.execute import Session
from engine.graph.ir import Graph
from engine.graph.passes import optimise
from engine.quantize import Observations, Quantized, QuantizeSettings, calibrate, quantize

__all__ = ["MODELS", "Net", "cosine", "load_net", "sqnr"]

MODELS = ("digits", "resnet8", "vww96", "rfb320")


@dataclass(frozen=True)
class Net:
    """One net.

    Attributes:
        path: the ONNX file.
        config: how the toolkit is told mean and std.
        graph: loaded and optimised.
        calibration, evaluation: pixels (N, C, H, W) uint8.
        spec: mean and std.
        observations: of the graph over the calibration samples.
    """

    path: Path
    config: Mapping[str, Any]
    graph: Graph
    calibration: np.ndarray
    evaluation: np.ndarray
    spec: Any
    observations: Observations

    @property
    def input(self) -> str:
        """Name of the only input."""
        return self.graph.inputs[0].name

    def values(self, pixels: np.ndarray) -> np.ndarray:
        """The float input (N, C, H, W) of pixels (N, C, H, W)."""
        values: np.ndarray = self.spec.normalise(pixels.transpose(0, 2, 3, 1))
        return values

    def quantized(self, algorithm: str, granularity: str = "channel") -> Quantized:
        """The graph quantized with one of our algorithms."""
        settings = QuantizeSettings(algorithm=algorithm, granularity=granularity)
        values = self.values(self.calibration)
        return quantize(
            self.graph,
            self.observations,
            settings,
            feeds=lambda: [{self.input: value[None]} for value in values],
        )

    def run(self, session: Session, pixels: np.ndarray) -> list[np.ndarray]:
        """Outputs of all samples, one array (N, ...) per output of the graph."""
        rows = [session.run({self.input: v[None]}) for v in self.values(pixels)]
        return [np.concatenate([row[spec.name] for row in rows]) for spec in self.graph.outputs]


def load_net(bench: Path, name: str) -> Net:
    """Decode the samples, load the graph and calibrate it."""
    sys.path.insert(0, str(bench))
    sys.dont_write_bytecode = True
    try:
        data = importlib.import_module("data")
    finally:
        sys.path.remove(str(bench))
    spec = data.MODELS[name]
    pixels = [data.load(name, role).pixels.transpose(0, 3, 1, 2) for role in ("calib", "eval")]
    graph = optimise(load_onnx(spec.path).graph).graph
    values = spec.normalise(pixels[0].transpose(0, 2, 3, 1))
    feeds = [{graph.inputs[0].name: value[None]} for value in values]
    channels = pixels[0].shape[1]
    config = {"mean_values": [[spec.mean] * channels], "std_values": [[spec.std] * channels]}
    return Net(spec.path, config, graph, *pixels, spec, calibrate(graph, feeds))


def cosine(first: np.ndarray, second: np.ndarray) -> float:
    """Cosine of the angle between two arrays."""
    a, b = (array.astype(np.float64).ravel() for array in (first, second))
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def sqnr(reference: np.ndarray, found: np.ndarray) -> float:
    """Signal to noise ratio in dB over all samples of one output."""
    expected = reference.astype(np.float64).ravel()
    noise = np.square(expected - found.astype(np.float64).ravel()).sum()
    return float(10 * np.log10(np.square(expected).sum() / noise))
