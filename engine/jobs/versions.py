"""What beside the recipe decides a stage's result: libraries and the versions of our own stages."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import engine

__all__ = ["STAGE_VERSIONS", "code_digest", "libraries"]

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


@cache
def code_digest() -> str:
    """Hexadecimal SHA-256 of the engine's own code (its files take some milliseconds to read)."""
    root = Path(engine.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        if path.suffix in (".py", ".csv", ".yaml") and path.is_file():
            digest.update(path.relative_to(root).as_posix().encode("utf-8"))
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
