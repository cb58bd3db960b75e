"""The models of real size, and photographs as their samples.

Photographs are those that the vendor's model zoo ships for calibration, and some faces, stretched
to the input and kept as .npy files of pixels (1, 3, H, W) uint8: nobody's picture decoder is part
of a time, and both sides are given mean and std.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from PIL import Image

from benchmarks.realsize.weights import filled

_FOLDERS = ("coco", "imagenet", "faces")
_NET = ((123.675, 116.28, 103.53), (58.395, 57.12, 57.375))
_PLAIN = ((0.0, 0.0, 0.0), (255.0, 255.0, 255.0))
_PIXELS = ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))


@dataclass(frozen=True)
class Model:
    """A published graph of the zoo: its file, input size in pixels, mean and std per channel."""

    file: str
    size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def normalise(self, pixels: np.ndarray) -> np.ndarray:
        """Model input (1, 3, H, W) float32 of pixels (1, 3, H, W) uint8."""
        mean, std = (np.array(x, np.float32).reshape(1, 3, 1, 1) for x in (self.mean, self.std))
        return (pixels.astype(np.float32) - mean) / std


MODELS = {
    "yolov8n": Model("yolov8n.onnx", 640, *_PLAIN),
    "yolov8m": Model("yolov8m.onnx", 640, *_PLAIN),
    "yolox_s": Model("yolox_s.onnx", 640, *_PIXELS),
    "resnet50": Model("resnet50-v2-7.onnx", 224, *_NET),
    "mobilesam": Model("mobilesam_encoder_tiny.onnx", 448, *_NET),
}
"""Three detectors, a classifier, and a transformer over pictures (TinyViT, the encoder of
MobileSAM)."""


def photographs(images: Path, size: int, count: int) -> list[np.ndarray]:
    """The first photographs of every folder in turn, as pixels (1, 3, size, size) uint8."""
    folders = [sorted((images / name).glob("*.jp*g")) for name in _FOLDERS]
    longest = max(len(paths) for paths in folders)
    turns = [paths[i] for i in range(longest) for paths in folders if i < len(paths)]
    if len(turns) < count:
        raise ValueError(f"there are {len(turns)} photographs, {count} are asked for")
    pictures = []
    for path in turns[:count]:
        with Image.open(path) as image:
            shown = image.convert("RGB").resize((size, size), Image.Resampling.BILINEAR)
        pictures.append(np.ascontiguousarray(np.asarray(shown).transpose(2, 0, 1)[None]))
    return pictures


def prepared(zoo: Path, name: str, folder: Path, counts: Sequence[int]) -> Path:
    """The model with weights in ``folder``, and ``NAME-COUNT.txt`` with samples for every count.

    Files that are there are taken as they are.
    """
    spec, target = MODELS[name], folder / f"{name}.onnx"
    lists = {count: folder / f"{name}-{count}.txt" for count in counts}
    if target.exists() and all(path.exists() for path in lists.values()):
        return target
    folder.mkdir(parents=True, exist_ok=True)
    pixels = photographs(zoo / "images", spec.size, max(counts))
    names = [folder / f"{name}-{number:02}.npy" for number in range(len(pixels))]
    for path, sample in zip(names, pixels, strict=True):
        np.save(path, sample)
    if not target.exists():
        model = onnx.load(zoo / "shapes" / "published" / spec.file)
        onnx.save(filled(model, {model.graph.input[0].name: spec.normalise(pixels[0])}), target)
    for count, path in lists.items():
        path.write_text("".join(f"{n}\n" for n in names[:count]), encoding="utf-8")
    return target
