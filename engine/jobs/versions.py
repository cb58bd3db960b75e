"""What beside the recipe decides a stage's result: libraries and the versions of our own stages."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version

import engine

__all__ = ["STAGE_VERSIONS", "libraries"]

STAGES = ("load", "optimise", "calibrate", "quantize", "evaluate", "container")

STAGE_VERSIONS = dict.fromkeys(STAGES, f"{engine.__version__}.1")
"""Raised where the code of a stage gives another result for the same inputs."""


@cache
def libraries() -> tuple[tuple[str, str], ...]:
    """(name, version) of the libraries that decide numbers or bytes."""
    found = []
    for name in ("numpy", "onnx", "onnx-ir", "onnxruntime", "pillow", "protobuf"):
        try:
            found.append((name, version(name)))
        except PackageNotFoundError:
            found.append((name, "unknown"))
    return tuple(found)
