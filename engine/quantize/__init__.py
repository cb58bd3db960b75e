"""Calibration and quantization: from a float graph and samples to a QDQ graph and its table."""

from engine.quantize.calibrate import Observation, Observations, calibrate
from engine.quantize.quantize import ALGORITHMS, DTYPES, GRANULARITIES, Quantized, quantize

__all__ = [
    "ALGORITHMS",
    "DTYPES",
    "GRANULARITIES",
    "Observation",
    "Observations",
    "Quantized",
    "calibrate",
    "quantize",
]
