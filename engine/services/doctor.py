"""The worker's query ``doctor``: whether what is heavy loads and computes right here."""

from __future__ import annotations

import time

from engine.services.handler import answers
from engine.wire.doctor import DOCTOR, Check, Checks
from engine.wire.method import Nothing

__all__ = ["doctor"]


@answers(DOCTOR)
def doctor(_params: Nothing) -> Checks:
    """Load the heavy libraries and try the integer kernels against the numpy reference."""
    from engine.graph.execute import kernels_saturate, ort
    from engine.simulate.selfcheck import check_saturation

    begun = time.perf_counter()
    worst = check_saturation()
    took = f"{time.perf_counter() - begun:.2f} s"
    name = "integer kernels"
    if worst is None:
        kernels = Check(name, "ok", f"{_sums(kernels_saturate())} ({took})")
    else:
        kernels = Check(name, "bad", worst.what, worst.remedy)
    answered = f"answers; onnxruntime {ort.__version__} on {ort.get_device()}"
    return Checks((Check("worker", "ok", answered), kernels, _walls()))


def _walls() -> Check:
    """What holds back the process that converts models of PyTorch and TensorFlow."""
    from engine.base.confine import walls

    found = walls()
    has = [f"Landlock {found.landlock}"] if found.landlock else []
    has += ["seccomp"] if found.seccomp else []
    lacks = [] if found.landlock else ["Landlock"]
    lacks += [] if found.seccomp else ["seccomp"]
    return Check(
        "sandbox of converters",
        "note" if lacks else "ok",
        f"{' and '.join(has) or 'none'}; operators of models are checked against a list",
        f"This kernel has no {' and no '.join(lacks)}: convert models of strangers on "
        "Linux 5.13 or later."
        if lacks
        else "",
    )


def _sums(saturating: bool) -> str:
    if saturating:
        return (
            "as the reference, in ONNX Runtime's precision mode: this processor's own 8-bit sums "
            "saturate"
        )
    return "as the reference; this processor's own 8-bit sums are exact, no precision mode is set"
