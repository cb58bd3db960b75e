"""Time from a source model to a checked graph: our readers warm, and TFLite against tf2onnx.

Usage: python -m benchmarks.loading [--rounds 15] [--starts 5] [--json FILE]

Warm: a look and a load in a process that has everything imported, median of the rounds in wall and
in CPU time (all of it on one thread), beside the goal of 40 ms + 20 ms per MB (10**6 bytes of all
files). Cold: from the start of the process to the
checked graph, our ``engine.frontends`` and the command ``python -m tf2onnx.convert``, in turn on
the same file; median of the pairwise ratios. Needs the model zoo, and tf2onnx for the second part;
says so where they are missing. Times depend on the machine: compare within one run.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

from benchmarks.clock import Figures
from benchmarks.zoo import REPOSITORY, zoo_folder

os.environ["ORT_DISABLE_TELEMETRY"] = "1"

WARM = (
    "caffe/RFB-320.prototxt",
    "caffe/mobilenet_v2_random.caffemodel",
    "caffe/mtcnn_det1.prototxt",
    "caffe/mtcnn_det3.prototxt",
    "darknet/yolo-fastest-1.1.cfg",
    "mxnet/mtcnn_det1-symbol.json",
    "mxnet/mtcnn_det3-symbol.json",
    "tflite/micro_speech_int8.tflite",
    "tflite/mnist_lstm_float.tflite",
    "tflite/person_detect_int8.tflite",
    "tflite/resnet8_cifar10_float.tflite",
    "tflite/resnet8_cifar10_int8.tflite",
    "tflite/vww_96_int8.tflite",
    "tflite/version-RFB-320_without_postprocessing.tflite",
    "onnx/version-RFB-320.onnx",
    "digits/digits.onnx",
)
SIZES = {
    "mxnet/mtcnn_det1-symbol.json": (1, 3, 12, 12),
    "mxnet/mtcnn_det3-symbol.json": (1, 3, 48, 48),
}
COLD = (
    "tflite/resnet8_cifar10_int8.tflite",
    "tflite/version-RFB-320_without_postprocessing.tflite",
)

PROGRAM = """
import sys
from engine.frontends.load import load_source
from engine.frontends.load import find_source
from engine.graph.ir import verify
verify(load_source(find_source(sys.argv[1])).graph)
"""


def warm(zoo: Path, name: str, rounds: int) -> Figures:
    from engine.frontends.load import find_source, inspect_source, load_source
    from engine.frontends.source import LoadOptions

    size = SIZES.get(name)
    options = LoadOptions(input_size_list=(size,) if size else None)
    looks, loads, cpu = [], [], []
    for _ in range(rounds):
        gc.collect()
        begun = time.perf_counter()
        source = find_source(zoo / name, None, options)
        inspect_source(source)
        looked, busy = time.perf_counter(), time.process_time()
        load_source(source)
        cpu.append(time.process_time() - busy)
        loads.append(time.perf_counter() - looked)
        looks.append(looked - begun)
    files = [path for path in (source.model, source.weights) if path is not None]
    megabytes = sum(path.stat().st_size for path in files) / 1e6
    return {
        "model": name,
        "mb": round(megabytes, 3),
        "look_ms": round(1e3 * statistics.median(looks[1:]), 1),
        "load_ms": round(1e3 * statistics.median(loads[1:]), 1),
        "load_cpu_ms": round(1e3 * statistics.median(cpu[1:]), 1),
        "goal_ms": round(40 + 20 * megabytes, 1),
    }


def cold(zoo: Path, name: str, starts: int) -> Figures:
    path = str(zoo / name)
    with tempfile.TemporaryDirectory() as folder:
        output = str(Path(folder) / "peer.onnx")
        ours = [sys.executable, "-P", "-c", PROGRAM, path]
        peer = [sys.executable, "-m", "tf2onnx.convert", "--tflite", path, "--output", output]
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}

        def run(command: list[str]) -> float:
            begun = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True, env=environment)
            return time.perf_counter() - begun

        run(ours)
        run(peer)
        pairs = [(run(ours), run(peer)) for _ in range(starts)]
    return {
        "model": name,
        "ours_s": round(statistics.median(a for a, _ in pairs), 3),
        "tf2onnx_s": round(statistics.median(b for _, b in pairs), 3),
        "ratio": round(statistics.median(a / b for a, b in pairs), 3),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    zoo = zoo_folder()
    if not zoo.is_dir():
        print(f"there is no model zoo at {zoo}: set RKNNTUI_ZOO")
        return 0
    timings: dict[str, list[Figures]] = {"warm": [], "cold": []}
    print(f"{'model':56} {'MB':>7} {'look ms':>8} {'load ms':>8} {'cpu ms':>7} {'goal':>6}")
    for name in WARM:
        r = warm(zoo, name, arguments.rounds)
        timings["warm"].append(r)
        late = "" if r["load_ms"] <= r["goal_ms"] else "  missed"
        print(
            f"{name:56} {r['mb']:7.3f} {r['look_ms']:8.1f} {r['load_ms']:8.1f} "
            f"{r['load_cpu_ms']:7.1f} "
            f"{r['goal_ms']:6.1f}{late}"
        )
    if find_spec("tf2onnx") is None or find_spec("tensorflow") is None:
        print("tf2onnx and tensorflow are not installed: no comparison with them")
    else:
        print(f"\n{'start to checked graph':56} {'ours s':>8} {'tf2onnx':>8} {'ratio':>6}")
        for name in COLD:
            r = cold(zoo, name, arguments.starts)
            timings["cold"].append(r)
            print(f"{name:56} {r['ours_s']:8.3f} {r['tf2onnx_s']:8.3f} {r['ratio']:6.3f}")
    if arguments.json:
        arguments.json.write_text(json.dumps(timings, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
