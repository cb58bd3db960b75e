"""What beside recipe and files decides a result: libraries, and the code of this program."""

from __future__ import annotations

import hashlib
import os
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

__all__ = ["code_fingerprint", "library_versions"]


@cache
def library_versions() -> tuple[tuple[str, str], ...]:
    """(name, version) of the libraries that decide numbers or bytes."""
    found = []
    for name in ("numpy", "onnx", "onnx-ir", "onnxruntime", "pillow", "protobuf"):
        try:
            found.append((name, version(name)))
        except PackageNotFoundError:
            found.append((name, "unknown"))
    return tuple(found)


@cache
def code_fingerprint() -> str:
    """Hexadecimal SHA-256 of the engine's own code (its files take some milliseconds to read)."""
    root = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(files):
            if name.endswith((".py", ".csv", ".yaml")):
                path = Path(folder, name)
                digest.update(str(path)[len(str(root)) :].replace(os.sep, "/").encode("utf-8"))
                digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
