"""Build models with the vendor's toolkit and let it print its tables.

Runs in the toolkit's own environment. Usage: ``python print_tables.py FOLDER CHIP:i8|fp|w4,...
MODEL.onnx ...``; what is printed goes to ``FOLDER/MODEL__CHIP__QUANT.log``. Inputs are random
numbers of the model's shapes. Each build has a process of its own, so that a crash ends only it.
"""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from rknn.api import RKNN

LINES = 1
"""``_IOLBF`` of C: every line is written when it ends."""


def main() -> None:
    """Build all of them."""
    folder, pairs, *models = sys.argv[1:]
    for model in models:
        for pair in pairs.split(","):
            chip, quant = pair.split(":")
            log = Path(folder) / f"{Path(model).stem}__{chip}__{quant}.log"
            child = os.fork()
            if child == 0:
                try:
                    build(model, chip, quant, log)
                finally:
                    os._exit(0)
            os.waitpid(child, 0)


def build(model: str, chip: str, quant: str, log: Path) -> None:
    """One build, and what it says in the log."""
    target = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    os.dup2(target, 1)
    os.dup2(target, 2)
    # native code prints the tables, in blocks that would be cut by what Python prints
    libc = ctypes.CDLL(None)
    libc.setvbuf(ctypes.c_void_p.in_dll(libc, "stdout"), None, LINES, 0)
    graph = onnx.load(model).graph
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        row = []
        for at, value in enumerate(graph.input):
            shape = [each.dim_value for each in value.type.tensor_type.shape.dim]
            numbers = np.random.default_rng(at).standard_normal(shape).astype(np.float32)
            np.save(f"{at}.npy", numbers)
            row.append(f"{at}.npy")
        Path("dataset.txt").write_text(" ".join(row) + "\n", encoding="utf-8")
        toolkit = RKNN(verbose=True)
        dtype = {"quantized_dtype": "w4a16"} if quant == "w4" else {}
        toolkit.config(target_platform=chip, **dtype)
        if toolkit.load_onnx(model) == 0:
            options = {} if quant == "fp" else {"dataset": "dataset.txt"}
            toolkit.build(do_quantization=quant != "fp", **options)
        libc.fflush(None)
        sys.stdout.flush()
        os.chdir("/")


if __name__ == "__main__":
    main()
