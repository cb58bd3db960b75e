"""CPU seconds of `rknntui compile` for one chip, beside the vendor's own build of the same model.

Usage: python -m benchmarks.compile_cpu --work DIR [--models NAME ...] [--samples 20] [--runs 3]
       [--options="--samples 0"]

The vendor's side is a script as its user writes it: config, load_onnx, build with its quantization
on the same samples, export_rknn; in the toolkit's own Python. Ours is the command with an empty
cache, its second opinion included. Seconds are user and system time of a process and all that it
started; load on the machine raises them too, so compare ratios, on a quiet one. The sides take
turns; the smallest of the runs is shown. Published graphs without weights get drawn ones
(benchmarks/realsize/weights.py).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from benchmarks.realsize.samples import photographs
from benchmarks.realsize.weights import filled
from benchmarks.zoo import zoo_folder
from engine.toolkit.environments import find

CHIP = "rk3588"
_VENDOR = f"""
import sys
from rknn.api import RKNN
model, dataset, mean, std, target = sys.argv[1:]
rknn = RKNN()
assert rknn.config(mean_values=[eval(mean)], std_values=[eval(std)],
                   target_platform="{CHIP}") in (0, None)
assert rknn.load_onnx(model=model) == 0
assert rknn.build(do_quantization=True, dataset=dataset) == 0
assert rknn.export_rknn(target) == 0
rknn.release()
"""


@dataclass(frozen=True)
class Net:
    """A graph of the zoo.

    Attributes:
        file: of it.
        height, width: of the input in pixels.
        mean, std: of every channel, in pixels.
        drawn: whether it has no weights.
    """

    file: str
    height: int
    width: int
    mean: float
    std: float
    drawn: bool = True


NETS = {
    "RFB-320": Net(
        "onnx/version-RFB-320_without_postprocessing.onnx", 240, 320, 127.0, 128.0, drawn=False
    ),
    "ResNet-18": Net("shapes/resnet18.onnx", 224, 224, 120.0, 58.0),
    "YOLOv8n": Net("shapes/published/yolov8n.onnx", 640, 640, 0.0, 255.0),
}


def _prepared(name: str, folder: Path, count: int) -> tuple[Path, Path]:
    """The model with weights and a list of samples; what is there is taken as it is."""
    net = NETS[name]
    model, dataset = folder / f"{name}.onnx", folder / f"{name}-{count}.txt"
    if model.exists() and dataset.exists():
        return model, dataset
    square = photographs(zoo_folder() / "images", max(net.height, net.width), count)
    pixels = [each[:, :, : net.height, : net.width].copy() for each in square]
    source = onnx.load(zoo_folder() / net.file)
    if net.drawn:
        sample = (pixels[0].astype(np.float32) - np.float32(net.mean)) / np.float32(net.std)
        source = filled(source, {source.graph.input[0].name: sample})
    onnx.save(source, model)
    paths = [folder / f"{name}-{at:02}.npy" for at in range(count)]
    for path, sample in zip(paths, pixels, strict=True):
        np.save(path, sample)
    dataset.write_text("".join(f"{path}\n" for path in paths), encoding="utf-8")
    return model, dataset


def _cpu_of(command: Sequence[str], folder: Path, **variables: str) -> float:
    """User and system seconds of a command and its children, in an empty folder.

    Raises:
        RuntimeError: it failed; what it printed stays in ``log.txt`` there.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"XDG_CACHE_HOME": str(folder / "cache"), **variables}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with (folder / "log.txt").open("wb") as log:
        code = subprocess.call(command, cwd=folder, env=environment, stdout=log, stderr=log)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if code:
        raise RuntimeError(f"{command[0]} ended with {code}: {folder / 'log.txt'}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Measure and print a line for each model."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--models", nargs="+", choices=list(NETS), default=list(NETS))
    parser.add_argument("--samples", type=int, default=20)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--options", default="", help="more of our command")
    arguments = parser.parse_args()
    work: Path = arguments.work.absolute()
    work.mkdir(parents=True, exist_ok=True)
    vendor = find(2, None)
    ours = str(Path(sys.executable).with_name("rknntui"))
    for name in arguments.models:
        net = NETS[name]
        model, dataset = _prepared(name, work, arguments.samples)
        mean, std = (json.dumps([each] * 3) for each in (net.mean, net.std))
        theirs_command = [vendor.python, "-c", _VENDOR, str(model), str(dataset)]
        theirs_command += [mean, std, "model.rknn"]
        our_command = [ours, "compile", str(model), "--chip", CHIP, "-o", "model.rknn"]
        our_command += ["--dataset", str(dataset), f"--mean-values=[{mean}]"]
        our_command += [f"--std-values=[{std}]", *arguments.options.split()]
        # what an installed program has after its first run: byte code that is not made again
        compiled = {"PYTHONPYCACHEPREFIX": str(work / "bytecode")}
        _cpu_of(our_command, work / "ours", **compiled)
        rows = [
            (
                _cpu_of(theirs_command, work / "vendor"),
                _cpu_of(our_command, work / "ours", **compiled),
            )
            for _ in range(arguments.runs)
        ]
        theirs, our = (min(side) for side in zip(*rows, strict=True))
        figures = {"model": name, "vendor_cpu_s": round(theirs, 2), "our_cpu_s": round(our, 2)}
        print(json.dumps({**figures, "ratio": round(our / theirs, 2), "runs": rows}), flush=True)


if __name__ == "__main__":
    main()
