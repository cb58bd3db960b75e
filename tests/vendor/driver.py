"""The vendor's toolkit as a program: JSON lines in, JSON lines out, arrays as .npy files.

Runs in the toolkit's own environment (`rknntui vendor install`). What the toolkit prints goes to
the file that is the only argument. Requests:

    {"do": "build", "name": N, "model": PATH, "config": {...}, "dataset": PATH or null,
     "verbose": true to have the tables of the compiler printed}
    {"do": "export", "name": N, "path": PATH}
    {"do": "infer", "name": N, "samples": [[PATH, ...], ...], "layout": "nchw", "out": FOLDER}
    {"do": "release", "name": N}
    {"do": "analyse", "name": N, "inputs": [PATH], "out": FOLDER}

An answer is {"ok": true, ...} or {"ok": false, "error": TEXT}. `infer` writes
OUT/SAMPLE_OUTPUT.npy.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

PLATFORM = "rk3588"


def check(step: str, code: int | None) -> None:
    """Raise where the toolkit reports failure."""
    if code not in (0, None):
        raise RuntimeError(f"{step} failed with {code}")


def build(built: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
    """Configure, load and build; a dataset asks for quantization by the toolkit."""
    from rknn.api import RKNN

    toolkit = RKNN(verbose=bool(request.get("verbose")))
    check("config", toolkit.config(**{"target_platform": PLATFORM} | request["config"]))
    check("load_onnx", toolkit.load_onnx(request["model"]))
    dataset = request["dataset"]
    options = {"do_quantization": True, "dataset": dataset} if dataset else {}
    check("build", toolkit.build(**(options or {"do_quantization": False})))
    ctypes.CDLL(None).fflush(None)  # its tables are printed by native code
    built[request["name"]] = [toolkit, False]
    return {}


def export(built: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
    """Write the compiled model."""
    check("export_rknn", built[request["name"]][0].export_rknn(request["path"]))
    return {}


def infer(built: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
    """Run the simulator on every sample."""
    entry = built[request["name"]]
    toolkit, started = entry
    if not started:
        check("init_runtime", toolkit.init_runtime())
        entry[1] = True
    out = Path(request["out"])
    for index, sample in enumerate(request["samples"]):
        arrays = [np.load(path) for path in sample]
        layout = {"data_format": [request["layout"]] * len(arrays)} if request["layout"] else {}
        found = toolkit.inference(inputs=arrays, **layout)
        if found is None:
            raise RuntimeError("inference gave nothing")
        for output, array in enumerate(found):
            np.save(out / f"{index}_{output}.npy", array)
    return {"outputs": len(found)}


def analyse(built: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
    """Write the tensors of every layer."""
    toolkit = built[request["name"]][0]
    code = toolkit.accuracy_analysis(inputs=request["inputs"], output_dir=request["out"])
    check("accuracy_analysis", code)
    return {}


def release(built: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
    """Forget a model."""
    built.pop(request["name"])[0].release()
    return {}


ACTIONS = {
    "build": build,
    "export": export,
    "infer": infer,
    "analyse": analyse,
    "release": release,
}


def main() -> None:
    """Answer requests until there are no more."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    log = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    built: dict[str, Any] = {}
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"ok": True, **ACTIONS[request["do"]](built, request)}
        except Exception as error:  # noqa: BLE001  (whatever the toolkit raises is an answer)
            answer = {"ok": False, "error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
