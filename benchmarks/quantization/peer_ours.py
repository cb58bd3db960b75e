"""Our quantizer as one more peer of the benchmark (docs/references.md), by its `bench/run.py`.

python3 -B SHARED/bench/run.py --work DIR --python-vendor VENDOR/bin/python \
    --extra ours PYTHON benchmarks/quantization/peer_ours.py normal,kl_divergence,mmse,accurate

Settings are our algorithms, per channel. Timed is what the other peers' builds do: load, optimise,
calibrate, quantize; decoding and imports are apart. Needs `bench` on the path (run.py puts it
there) and this checkout's environment.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import harness  # type: ignore[import-not-found]
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

SETTINGS = ("normal", "kl_divergence", "mmse", "accurate", "vendor")


def load() -> harness.Build:
    """Import the engine."""
    from engine.frontends.onnx import load_onnx
    from engine.graph.execute import Session
    from engine.graph.passes import optimise
    from engine.quantize import QuantizeSettings, calibrate, quantize

    def build(job: harness.Job) -> Callable[[], harness.Run]:
        """Load, optimise, calibrate and quantize; the graph is serialised as a build does it."""
        with job.prepare.timed():
            graph = optimise(load_onnx(job.spec.path).graph).graph
        name = graph.inputs[0].name

        def feeds() -> Iterable[Mapping[str, np.ndarray]]:
            for pixels in job.calibration:  # normalised one by one, as a dataset is read
                yield {name: job.spec.normalise(pixels[None])}

        settings = QuantizeSettings(algorithm=job.setting)
        quantized = quantize(graph, calibrate(graph, feeds()), settings, feeds=feeds)
        quantized.graph.to_bytes()

        def start() -> harness.Run:
            """One session on one thread, of the options that the simulator has."""
            session = Session(quantized.graph, threads=1)
            outputs = [spec.name for spec in quantized.graph.outputs]

            def run(_pixels: np.ndarray, value: np.ndarray) -> list[np.ndarray]:
                arrays = session.run({name: value})
                return [arrays[output] for output in outputs]

            return run

        return start

    return build


if __name__ == "__main__":
    harness.main("ours", SETTINGS, load)
