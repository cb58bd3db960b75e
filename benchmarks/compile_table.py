"""What ``rknntui compile`` makes of a model from each framework.

Usage: python -m benchmarks.compile_table [--samples 4] [--only NAME] [--chip CHIP]

It is a table of docs/measurements/compiled.md.

Needs a toolkit of the vendor (rknntui vendor install) and the model zoo. Every model is compiled in
a temporary folder, by the command line, for all chips in one go. "convolutions" are those that the
compiler's own table has as INT8 on the NPU, of all that it has. Cycles are the compiler's and the
plan's; the cosine is the lowest over the outputs, of the vendor's simulator to ours.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.zoo import zoo_folder

CHIPS = ("rk3566", "rk3588", "rv1106")
SECONDS = 900


@dataclass(frozen=True)
class Model:
    """A model of the zoo.

    Attributes:
        path: in the zoo.
        framework: that it is from.
        data: folder of pictures in the zoo; empty: an npz of inputs is varied instead.
        flags: of the command line.
    """

    path: str
    framework: str
    data: str
    flags: tuple[str, ...]


_FACES = ("--mean-values", "127,127,127", "--std-values", "128,128,128")
_MTCNN = ("--mean-values", "127.5,127.5,127.5", "--std-values", "128,128,128")
MODELS = {
    "RFB-320": Model("onnx/version-RFB-320_simplified.onnx", "ONNX", "images/faces", _FACES),
    "RFB-320, Caffe": Model("caffe/RFB-320.prototxt", "Caffe", "images/faces", _FACES),
    "RFB-320, TFLite": Model(
        "tflite/version-RFB-320_without_postprocessing.tflite", "TFLite", "images/faces", _FACES
    ),
    "yolo-fastest": Model(
        "darknet/yolo-fastest-1.1.cfg", "Darknet", "images/coco", ("--std-values", "255,255,255")
    ),
    **{
        f"MTCNN, net {n}": Model(
            f"mxnet/mtcnn_det{n}-symbol.json",
            "MXNet",
            "images/faces",
            (*_MTCNN, "--input-size-list", f"[[1,3,{size}]]"),
        )
        for n, size in ((1, "120,160"), (2, "24,24"), (3, "48,48"))
    },
    "keywords": Model("tensorflow/kws_dscnn.pb", "TensorFlow", "", ()),
}


def main() -> None:
    """Compile them and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--only", choices=MODELS)
    parser.add_argument("--chip", action="append", choices=CHIPS)
    asked = parser.parse_args()
    print("| model | from | chip | convolutions | on the CPU | cycles | plan | cosine | file |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, model in MODELS.items():
        if asked.only in (None, name):
            for one in compiled(model, asked.chip or CHIPS, asked.samples):
                print(f"| {name} | {model.framework} | {row(one)} |", flush=True)


def compiled(model: Model, chips: tuple[str, ...] | list[str], samples: int) -> list[Any]:
    """What the command says of each chip."""
    zoo = zoo_folder()
    with tempfile.TemporaryDirectory() as folder:
        data = zoo / model.data if model.data else features(zoo, Path(folder))
        words = ["compile", str(zoo / model.path), "--dataset", str(data), *model.flags]
        words += [word for chip in chips for word in ("--chip", chip)]
        words += ["-o", f"{folder}/out", "--samples", str(samples), "--json", "--quiet"]
        done = subprocess.run(
            [sys.executable, "-m", "rknntui", *words],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    if not done.stdout:
        raise SystemExit(done.stderr)
    figures = json.loads(done.stdout)
    if "chips" not in figures:
        raise SystemExit(done.stdout)
    return list(figures["chips"])


def features(zoo: Path, folder: Path) -> Path:
    """A list of inputs of the keyword model: the one of the zoo, and it with noise."""
    recording = np.load(zoo / "ref" / "tf_kws_dscnn.npz")["x"].astype(np.float32)
    random = np.random.default_rng(0)
    paths = []
    for at in range(12):
        noise = random.normal(0, 0.3 * recording.std(), recording.shape) if at else 0.0
        paths.append(folder / f"{at}.npy")
        np.save(
            paths[-1], (recording * (random.uniform(0.6, 1.2) if at else 1) + noise).astype("f4")
        )
    listed = folder / "dataset.txt"
    listed.write_text("".join(f"{path}\n" for path in paths), encoding="utf-8")
    return listed


def row(one: Any) -> str:
    """A chip's cells."""
    if one["problem"]:
        return f"{one['chip']} | {one['problem']} | | | | | "
    layers = [each for each in one["layers"] if not each["op"].endswith("putOperator")]
    convolutions = [each for each in layers if each["op"].startswith("Conv")]
    good = sum((each["dtype"], each["target"]) == ("INT8", "NPU") for each in convolutions)
    off = sum(each["target"] != "NPU" for each in layers)
    plan = sum(each["estimated_total_cycles"] or 0 for each in layers)
    lowest = min((each["cosine"] for each in one["outputs"]), default=float("nan"))
    return (
        f"{one['chip']} | {good} of {len(convolutions)} | {off} | {one['total_cycles']} | {plan} | "
        f"{lowest:.6f} | {one['size'] / 1e6:.2f} MB"
    )


if __name__ == "__main__":
    main()
