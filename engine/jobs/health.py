"""The worker's query ``doctor``: whether what is heavy loads and computes right here."""

from __future__ import annotations

import time
from typing import Any

__all__ = ["doctor"]


def doctor(params: dict[str, Any]) -> dict[str, Any]:
    """Load the heavy libraries and try the integer kernels against the numpy reference."""
    from engine.graph.execute.runtime import ort
    from engine.simulate.selfcheck import check_saturation

    begun = time.perf_counter()
    worst = check_saturation()
    took = f"{time.perf_counter() - begun:.2f} s"
    kernels = {
        "name": "integer kernels",
        "state": "ok" if worst is None else "bad",
        "found": f"as the reference ({took})" if worst is None else worst.what,
        "remedy": "" if worst is None else worst.remedy,
    }
    worker = {
        "name": "worker",
        "state": "ok",
        "found": f"answers; onnxruntime {ort.__version__} on {ort.get_device()}",
        "remedy": "",
    }
    return {"checks": [worker, kernels]}
