"""ONNX Runtime, imported the one way that leaves nothing behind: no telemetry, no log lines."""

from __future__ import annotations

import os

# Without this, importing onnxruntime 1.31 writes a device id and a database into the home folder.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

import onnxruntime as ort

# 3: errors only; warnings would be written over the screen
ort.set_default_logger_severity(3)

__all__ = ["ort"]
