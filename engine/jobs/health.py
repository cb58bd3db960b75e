"""What the worker can say of its own health, for ``doctor``."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import engine
from engine.base.folders import cache_folder, state_folder
from engine.base.text import human_bytes, printable

__all__ = ["doctor"]


def doctor(_params: dict[str, Any]) -> dict[str, Any]:
    """``checks`` [{name, state: ok|note|bad, found, remedy}]."""
    checks = [
        _check("worker", "ok", f"version {engine.__version__}, process {os.getpid()} answers"),
        _runtime(),
        _writable("worker's cache", cache_folder()),
        _writable("worker's history", state_folder()),
        _cache_size(),
    ]
    return {"checks": checks}


def _check(name: str, state: str, found: str, remedy: str = "") -> dict[str, str]:
    return {"name": name, "state": state, "found": found, "remedy": remedy}


def _runtime() -> dict[str, str]:
    try:
        from engine.graph.execute.runtime import ort

        providers = ort.get_available_providers()
        version = str(ort.__version__)
    except Exception as error:  # noqa: BLE001 - a broken library raises anything
        return _check(
            "ONNX Runtime",
            "bad",
            printable(f"cannot be imported: {error}", 200),
            "Install rknntui again with pip.",
        )
    if "CPUExecutionProvider" not in providers:
        remedy = "Install onnxruntime from the package index."
        return _check("ONNX Runtime", "bad", f"{version} without a CPU provider", remedy)
    return _check("ONNX Runtime", "ok", f"{version}, telemetry off")


def _writable(name: str, folder: Path) -> dict[str, str]:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryFile(dir=folder) as stream:
            stream.write(b"x" * 4096)
    except OSError as error:
        found = f"{folder} cannot be written: {error.strerror or error}"
        return _check(name, "note", found, "Free space, or make it writable: it only costs time.")
    return _check(name, "ok", f"{folder} can be written")


def _cache_size() -> dict[str, str]:
    from engine.jobs.cache import StageCache

    cache = StageCache()
    size = 0
    count = 0
    for path in cache.folder.glob("*/*"):
        try:
            size += path.stat().st_size
        except OSError:
            continue
        count += path.name == "index.json"
    return _check(
        "cache", "ok", f"{count} results, {human_bytes(size)} of at most {human_bytes(cache.limit)}"
    )
