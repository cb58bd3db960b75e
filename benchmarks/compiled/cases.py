"""The models that are compiled for the NPU, from every framework, each with its samples.

Photographs are those of the shared benchmark's split: every model sees the same ones in calibration
and the others afterwards. Windows of speech are not at hand: the keyword model gets the two that
come with its files, and mixtures of them with noise of their own size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks.zoo import zoo_folder
from engine.api.typed import pipeline_of
from engine.graph.ir import Graph
from engine.pipeline.pipeline import Pipeline
from engine.recipe import Recipe


@dataclass(frozen=True)
class Case:
    """A model of the zoo.

    Attributes:
        name: of the case.
        model: the file, below the shared folder.
        high, wide: of the input, in pixels; 0: windows of speech.
        mean, std: of every channel.
        channels: of the input.
        options: more of the recipe.
    """

    name: str
    model: str
    high: int = 0
    wide: int = 0
    mean: float = 0.0
    std: float = 1.0
    channels: int = 3
    options: tuple[tuple[str, object], ...] = ()


def _mtcnn(number: int, side: int) -> Case:
    sizes = (("input_size_list", [[3, side, side]]),)
    model = f"zoo/mxnet/mtcnn_det{number}-symbol.json"
    return Case(f"mtcnn{number}-mxnet", model, side, side, 127.5, 128, options=sizes)


# With channels last a Transpose stays at the input, and a Pad of its own on the CPU.
_NCHW = (("input_is_nchw", True),)
_RFB = "version-RFB-320_without_postprocessing"
_ALL = (
    Case("rfb320-onnx", f"zoo/onnx/{_RFB}.onnx", 240, 320, 127, 128),
    Case("rfb320-caffe", "zoo/caffe/RFB-320.prototxt", 240, 320, 127, 128),
    Case("rfb320-tflite", f"zoo/tflite/{_RFB}.tflite", 240, 320, 127, 128, options=_NCHW),
    Case("yolo-fastest-darknet", "zoo/darknet/yolo-fastest-1.1.cfg", 320, 320, 0, 255),
    _mtcnn(1, 12),
    _mtcnn(2, 24),
    _mtcnn(3, 48),
    Case("keywords-tensorflow", "zoo/tensorflow/kws_dscnn.pb", channels=1, options=_NCHW),
    Case("digits-onnx", "zoo/digits/digits.onnx", 32, 32, 127.5, 127.5, channels=1),
    Case("resnet8-onnx", "bench/models/resnet8.onnx", 32, 32),
    Case("vww96-onnx", "bench/models/vww96.onnx", 96, 96, 0, 255),
)
CASES = {case.name: case for case in _ALL}
"""By name: those of the issue first, then the other nets of the shared benchmark."""


@dataclass(frozen=True)
class Loaded:
    """A case with its samples.

    Attributes:
        calibration, evaluation: samples (N, C, H, W), pixels in uint8 or speech in float32.
        dataset: list of the files of the calibration.
    """

    case: Case
    model: Path
    calibration: np.ndarray
    evaluation: np.ndarray
    dataset: Path

    def pipeline(self, algorithm: str = "normal", chip: str = "rk3588") -> Pipeline:
        """Our build."""
        return pipeline_of(self.recipe(algorithm, chip), None, True, ())

    def recipe(self, algorithm: str, chip: str) -> Recipe:
        """What is asked of the build."""
        case = self.case
        values: dict[str, object] = {
            "model": str(self.model),
            "dataset": str(self.dataset),
            "mean_values": [[case.mean] * case.channels],
            "std_values": [[case.std] * case.channels],
            "quantized_algorithm": algorithm,
            "target_platform": chip,
        }
        return Recipe.from_values(values | dict(case.options))

    def values(self, samples: np.ndarray) -> np.ndarray:
        """Samples as the float inputs of the model."""
        mean, std = np.float32(self.case.mean), np.float32(self.case.std)
        normalised: np.ndarray = (samples.astype(np.float32) - mean) / std
        return normalised

    def feeds(self, graph: Graph, samples: np.ndarray) -> list[Mapping[str, np.ndarray]]:
        """One feed for each sample."""
        return [{graph.inputs[0].name: value[None]} for value in self.values(samples)]


@cache
def _split(role: str) -> tuple[Path, ...]:
    lines = (zoo_folder().parent / "bench" / "split.csv").read_text(encoding="utf-8").splitlines()
    rows = [line.split(",") for line in lines[1:]]
    return tuple(zoo_folder() / row[2] for row in rows if row[:2] == ["rfb320", role])


def _digits(role: str) -> np.ndarray:
    part, count = ("train", 20) if role == "calib" else ("test", 540)
    with np.load(zoo_folder() / "digits" / "digits_split.npz") as archive:
        pixels: np.ndarray = archive[f"x_{part}"][:count][:, None]
    return pixels


def _speech(role: str) -> np.ndarray:
    recordings = []
    for name, key in (("tf_kws_dscnn", "x"), ("tflite_kws_dscnn_float", "in0:input_1")):
        with np.load(zoo_folder() / "ref" / f"{name}.npz") as archive:
            recordings.append(archive[key].transpose(0, 3, 1, 2))
    random = np.random.default_rng(0 if role == "calib" else 1)
    shares = random.uniform(-0.2, 1.2, (20, 1, 1, 1))
    noise = random.normal(0, 0.5, (20, *recordings[0].shape[1:]))
    return np.asarray(shares * recordings[0] + (1 - shares) * recordings[1] + noise, np.float32)


def _samples(case: Case, role: str) -> np.ndarray:
    if not case.high:
        return _speech(role)
    if case.channels == 1:
        return _digits(role)
    pixels = []
    for path in _split(role):
        with Image.open(path) as image:
            shown = image.convert("RGB").resize((case.wide, case.high), Image.Resampling.BILINEAR)
        pixels.append(np.asarray(shown))
    return np.ascontiguousarray(np.stack(pixels).transpose(0, 3, 1, 2))


def load_case(name: str, folder: Path) -> Loaded:
    """Decode the samples of a case and write those of the calibration into an empty folder."""
    case = CASES[name]
    calibration = _samples(case, "calib")
    paths = [folder / f"calibration_{at}.npy" for at in range(len(calibration))]
    for path, sample in zip(paths, calibration, strict=True):
        np.save(path, sample[None])
    dataset = folder / "dataset.txt"
    dataset.write_text("".join(f"{path}\n" for path in paths), encoding="utf-8")
    model = zoo_folder().parent / case.model
    return Loaded(case, model, calibration, _samples(case, "eval"), dataset)
