"""Build a model with the vendor's toolkit and let it print its tables.

Runs in the toolkit's own environment. Usage: ``python print_tables.py MODEL.onnx CHIP i8|fp LOG``;
everything that is printed goes to LOG. Inputs are random numbers of the model's shapes.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import numpy as np


def main() -> None:
    """Build, and say so in the log."""
    model, platform, quant, log = sys.argv[1:5]
    target = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    os.dup2(target, 1)
    os.dup2(target, 2)
    import onnx
    from rknn.api import RKNN

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
        toolkit.config(target_platform=platform)
        if toolkit.load_onnx(model) == 0:
            options = {"dataset": "dataset.txt"} if quant == "i8" else {}
            toolkit.build(do_quantization=quant == "i8", **options)
        os.chdir("/")


if __name__ == "__main__":
    main()
