"""The worker's query ``doctor``: whether what is heavy loads and computes right here."""

from __future__ import annotations

import time
from typing import Any

__all__ = ["doctor"]


def doctor(params: dict[str, Any]) -> dict[str, Any]:
    """Load the heavy libraries and try the integer kernels against the numpy reference."""
    from engine.graph.execute import kernels_saturate, ort
    from engine.simulate.selfcheck import check_saturation

    begun = time.perf_counter()
    worst = check_saturation()
    took = f"{time.perf_counter() - begun:.2f} s"
    kernels = {
        "name": "integer kernels",
        "state": "ok" if worst is None else "bad",
        "found": f"{_sums(kernels_saturate())} ({took})" if worst is None else worst.what,
        "remedy": "" if worst is None else worst.remedy,
    }
    worker = {
        "name": "worker",
        "state": "ok",
        "found": f"answers; onnxruntime {ort.__version__} on {ort.get_device()}",
        "remedy": "",
    }
    return {"checks": [worker, kernels, _walls()]}


def _walls() -> dict[str, str]:
    """What holds back the process that converts models of PyTorch and TensorFlow."""
    from engine.base.confine import walls

    found = walls()
    has = [f"Landlock {found.landlock}"] if found.landlock else []
    has += ["seccomp"] if found.seccomp else []
    lacks = [] if found.landlock else ["Landlock"]
    lacks += [] if found.seccomp else ["seccomp"]
    return {
        "name": "sandbox of converters",
        "state": "note" if lacks else "ok",
        "found": f"{' and '.join(has) or 'none'}; operators of models are checked against a list",
        "remedy": f"This kernel has no {' and no '.join(lacks)}: convert models of strangers on "
        "Linux 5.13 or later."
        if lacks
        else "",
    }


def _sums(saturating: bool) -> str:
    if saturating:
        return (
            "as the reference, in ONNX Runtime's precision mode: this processor's own 8-bit sums "
            "saturate"
        )
    return "as the reference; this processor's own 8-bit sums are exact, no precision mode is set"
