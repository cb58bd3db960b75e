"""One measurement of rknn-toolkit2 on one model; run by `python -m benchmarks.realsize` with the
vendor's own Python.

Usage: VENDOR/bin/python vendor.py JOB.json: the job as `__main__.py` writes it; prints one JSON
line. What the toolkit prints goes to vendor.log beside the job.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
import clock  # type: ignore[import-not-found]

PLATFORM = "rk3588"


def _check(step: str, code: int | None) -> None:
    if code not in (0, None):
        raise RuntimeError(f"{step} failed with {code}")


def _measure(job: dict[str, Any]) -> dict[str, float]:
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


def main() -> None:
    """Measure with everything printed sent to a file."""
    path = Path(sys.argv[1]).absolute()
    job = json.loads(path.read_text(encoding="utf-8"))
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    folder = path.with_suffix(".work")
    folder.mkdir(exist_ok=True)
    os.chdir(folder)
    saved = os.dup(1)
    with (folder / "vendor.log").open("wb") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        figures = _measure(job)
        sys.stdout.flush()
        os.dup2(saved, 1)
    figures["peak_mb"] = clock.own_peak_mb()
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
