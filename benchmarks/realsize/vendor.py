"""One measurement of rknn-toolkit2 on one model; run by `python -m benchmarks.realsize` with the
vendor's own Python.

Usage: VENDOR/bin/python vendor.py JOB.json: the job as `__main__.py` writes it; prints one JSON
line. What the toolkit prints goes to vendor.log beside the job.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import clock  # type: ignore[import-not-found]

PLATFORM = "rk3588"


def _check(step: str, code: int | None) -> None:
    if code not in (0, None):
        raise RuntimeError(f"{step} failed with {code}")


def _measure(job: clock.Job) -> clock.Figures:
    from rknn.api import RKNN

    figures = {"import_mb": clock.status_mb("VmRSS")}
    with clock.taken(figures, "all"):
        toolkit = RKNN(verbose=False)
        code = toolkit.config(
            mean_values=[job["mean"]],
            std_values=[job["std"]],
            target_platform=PLATFORM,
            quantized_dtype="w8a8",
            quantized_algorithm="normal" if job["what"] == "proposal" else job["what"],
            quantized_method="channel",
        )
        _check("config", code)
        with clock.taken(figures, "load"):
            _check("load_onnx", toolkit.load_onnx(job["model"]))
        if job["what"] == "proposal":
            code = toolkit.hybrid_quantization_step1(
                dataset=job["dataset"], proposal=True, proposal_dataset_size=1
            )
            _check("hybrid_quantization_step1", code)
        else:
            _check("build", toolkit.build(do_quantization=True, dataset=job["dataset"]))
    return figures


if __name__ == "__main__":
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    clock.measure(_measure, "vendor.log")
