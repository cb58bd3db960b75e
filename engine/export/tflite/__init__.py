"""A quantized build as a TFLite file of 8 bits, for driver stacks that read nothing else."""

from __future__ import annotations

from engine.export.tflite.convert import TfliteModel, to_tflite

__all__ = ["TfliteModel", "to_tflite"]
