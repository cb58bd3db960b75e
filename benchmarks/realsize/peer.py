"""onnxruntime.quantization (MinMax, QDQ, per channel, U8S8) on one model; run by
`python -m benchmarks.realsize`.

Usage: python peer.py JOB.json: prints one JSON line. Timed is what our build does without
evaluation: load, opset conversion and folding, calibrate, quantize, write.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import version_converter
from onnxruntime import quantization  # noqa: TID251 (the driver switches telemetry off)
from onnxruntime.quantization.preprocess import quant_pre_process  # noqa: TID251

from benchmarks import clock


class _Reader(quantization.CalibrationDataReader):
    """Feeds the samples one by one, normalised as they are read."""

    def __init__(self, name: str, job: clock.Job) -> None:
        paths = Path(job["dataset"]).read_text(encoding="utf-8").split()
        self._feeds = self._over(name, paths, job)

    @staticmethod
    def _over(name: str, paths: list[str], job: clock.Job) -> Iterator[dict[str, np.ndarray]]:
        mean, std = (
            np.array(each, np.float32).reshape(1, 3, 1, 1) for each in (job["mean"], job["std"])
        )
        for path in paths:
            yield {name: (np.load(path).astype(np.float32) - mean) / std}

    def get_next(self) -> dict[str, np.ndarray] | None:
        """The next sample, None at the end."""
        return next(self._feeds, None)


def _measure(job: clock.Job) -> clock.Figures:
    figures: clock.Figures = {"import_mb": clock.status_mb("VmRSS")}
    with clock.taken(figures, "all"):
        _build(job)
    return figures


def _build(job: clock.Job) -> None:
    model = onnx.load(job["model"])
    if model.opset_import[0].version < 13:
        model = version_converter.convert_version(model, 13)
    onnx.save(model, "source.onnx")
    quant_pre_process("source.onnx", "prepared.onnx", skip_symbolic_shape=True)
    quantization.quantize_static(
        "prepared.onnx",
        "quantized.onnx",
        _Reader(model.graph.input[0].name, job),
        quant_format=quantization.QuantFormat.QDQ,
        per_channel=True,
        activation_type=quantization.QuantType.QUInt8,
        weight_type=quantization.QuantType.QInt8,
        calibrate_method=quantization.CalibrationMethod.MinMax,
    )


if __name__ == "__main__":
    clock.measure(_measure, "peer.log")
