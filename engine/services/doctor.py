"""The worker's query ``doctor``: whether what is heavy loads and computes right here."""

from __future__ import annotations

import json
import subprocess
import time
from typing import TYPE_CHECKING

from engine.base.process import child_environment, engine_command
from engine.services.registry import answers
from engine.wire.doctor import DOCTOR, Check, Checks
from engine.wire.method import Nothing

if TYPE_CHECKING:
    from engine.base.confine import Walls

_PATIENCE_SECONDS = 20


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
    """What holds back the processes of PyTorch, TensorFlow and the vendor's toolkits here."""
    from engine.base.confine import Walls

    # only a process that asked for it knows: containers refuse what the kernel has
    try:
        done = subprocess.run(
            engine_command("engine.base.confine"),
            env=child_environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=_PATIENCE_SECONDS,
        )
        walls = Walls(**json.loads(done.stdout))
    except (OSError, subprocess.TimeoutExpired, ValueError, TypeError):
        walls = Walls()
    return _check_of(walls)


def _check_of(barriers: Walls) -> Check:
    walls = {
        f"Landlock {barriers.landlock}".removesuffix(" 0"): (barriers.landlock > 0, "Linux 5.13"),
        "seccomp": (barriers.seccomp, "x86-64 or arm64"),
        "namespaces": (barriers.namespaces, "user namespaces allowed"),
    }
    has = [name for name, (there, _) in walls.items() if there]
    lacks = {name: needs for name, (there, needs) in walls.items() if not there}
    return Check(
        "sandbox",
        "note" if lacks else "ok",
        f"of converters and toolkits: {', '.join(has) or 'none'}; operators of models are checked "
        "against a list",
        "Not active here: "
        + ", ".join(f"{name} (needs {needs})" for name, needs in lacks.items())
        + ". Convert and compile models of strangers where it is."
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
