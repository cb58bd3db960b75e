"""Inspects some samples of a dataset: statistics of images and arrays, within bounds.

At most :data:`MOST` samples, spread over the whole dataset, and about :data:`SECONDS` of time: what
is told from it says how many were looked at. Pictures are made small first, arrays are read a part
at a time, so that neither large files nor many of them take memory.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image

from engine.base.errors import DatasetError
from engine.dataset.dataset_list import Dataset, file_digest
from engine.dataset.decode import file_kind, open_array, open_image, to_rgb_or_gray
from engine.dataset.preprocess import InputPlan

MOST = 64
SECONDS = 4.0
_SIDE = 96
"""Pixels of the longer side of what a picture is judged by."""
_PART = 1 << 21
"""Elements of an array that are read at once."""
_ELEMENTS = 1 << 23
"""Elements of an array that are read at all; of a larger one rows are left out evenly."""
_HASHED_BYTES = 256 << 20
"""Bytes of files of equal size that are compared by their contents."""


@dataclass(frozen=True)
class ImageStats:
    """Statistics of one image, of its pixels in 0..255 before mean and std.

    Attributes:
        path: of the file.
        size: width and height in pixels.
        gray: whether red, green and blue are equal (nearly: JPEG) or the file has no colour.
        mean: of red, green and blue (of a grey picture all the same).
        spread: standard deviation over all pixels and channels.
        sky: how much bluer (blue minus red) the upper third is than the lower one.
        skin: share of pixels of the lower half with the colour of skin, and of those that would
            have it with red and blue exchanged (a sky would, so the upper half does not count).
    """

    path: Path
    size: tuple[int, int]
    gray: bool
    mean: tuple[float, float, float]
    spread: float
    sky: float
    skin: tuple[float, float]


@dataclass(frozen=True)
class ArrayStats:
    """Statistics of one npy file: of its values before mean and std, the finite ones.

    Attributes:
        path: of the file.
        low, high: smallest and largest value.
        bad: number of values that are NaN or infinite.
    """

    path: Path
    low: float
    high: float
    bad: int


@dataclass
class DatasetStats:
    """Statistics of the inspected files, per input of the model.

    Attributes:
        images, arrays: index of the input -> figures of its files, in the dataset's order.
    """

    images: dict[int, list[ImageStats]] = field(default_factory=lambda: defaultdict(list))
    arrays: dict[int, list[ArrayStats]] = field(default_factory=lambda: defaultdict(list))


def inspect_samples(dataset: Dataset, plans: Sequence[InputPlan]) -> DatasetStats:
    """Look at samples that are spread over a dataset; files that cannot be read are passed over.

    Args:
        dataset: what to look at.
        plans: of the inputs, in the order of a line's files.
    """
    looks = DatasetStats()
    until = time.monotonic() + SECONDS
    count = min(MOST, len(dataset))
    for step in range(count):
        if step and time.monotonic() > until:
            break
        entry = dataset.entries[step * len(dataset) // count]
        if len(entry) != len(plans):
            continue
        for index, (path, plan) in enumerate(zip(entry, plans, strict=True)):
            try:
                if file_kind(path) == "npy":
                    looks.arrays[index].append(_array(path))
                elif plan.takes_images:
                    looks.images[index].append(_image(path))
            except DatasetError:
                continue  # the check of every file tells it
    return looks


def _image(path: Path) -> ImageStats:
    with open_image(path) as image:
        size = image.size
        coloured = image.mode not in ("L", "1", "LA")
        image.draft("RGB", (_SIDE, _SIDE))  # of JPEG an eighth is decoded as cheaply
        small = to_rgb_or_gray(path, image, 3)
    small.thumbnail((_SIDE, _SIDE), Image.Resampling.BOX)
    pixels = np.asarray(small)
    real = pixels.reshape(-1, 3).astype(np.float64)
    red, green, blue = (pixels[..., i].astype(np.int16) for i in range(3))
    grey = not coloured or float(np.abs(red - blue).mean() + np.abs(red - green).mean()) < 2.0
    bluer = (blue - red).astype(np.float64)
    third, half = max(1, pixels.shape[0] // 3), pixels.shape[0] // 2
    return ImageStats(
        path=path,
        size=size,
        gray=grey,
        mean=(float(real[:, 0].mean()), float(real[:, 1].mean()), float(real[:, 2].mean())),
        spread=float(real.std()),
        sky=float(bluer[:third].mean() - bluer[-third:].mean()),
        skin=(_skin(red, green, blue, half), _skin(blue, green, red, half)),
    )


def _skin(red: np.ndarray, green: np.ndarray, blue: np.ndarray, top: int) -> float:
    """Share of pixels below row ``top`` in the range of skin at daylight (Kovac et al., 2003)."""
    red, green, blue = red[top:], green[top:], blue[top:]
    largest = np.maximum(np.maximum(red, green), blue)
    smallest = np.minimum(np.minimum(red, green), blue)
    skin = (red > 95) & (green > 40) & (blue > 20) & (largest - smallest > 15)
    skin &= (np.abs(red - green) > 15) & (red > green) & (red > blue)
    return float(skin.mean())


def _array(path: Path) -> ArrayStats:
    array = open_array(path)
    flat = array.reshape(-1) if array.flags.c_contiguous else array.ravel(order="K")
    parts = -(-flat.size // _PART)
    every = max(1, -(-flat.size // _ELEMENTS))
    ends: list[float] = []
    bad = 0
    for part in range(0, parts, every):
        numbers = flat[part * _PART : (part + 1) * _PART].astype(np.float64)
        finite = numbers[np.isfinite(numbers)]
        bad += numbers.size - finite.size
        if finite.size:
            ends += float(finite.min()), float(finite.max())
    return ArrayStats(path, min(ends, default=0.0), max(ends, default=0.0), bad)


def duplicate_files(dataset: Dataset) -> list[tuple[Path, Path]]:
    """Pairs (file, an earlier one) with the same content under another name.

    Only files of equal size are read, and of them the first :data:`_HASHED_BYTES`.
    """
    sizes: dict[int, list[Path]] = defaultdict(list)
    for path in dict.fromkeys(path for entry in dataset.entries for path in entry):
        try:
            sizes[path.stat().st_size].append(path)
        except OSError:
            continue  # the check of every file tells it
    pairs: list[tuple[Path, Path]] = []
    left = _HASHED_BYTES
    for size, group in sizes.items():
        seen: dict[str, Path] = {}
        for path in group if len(group) > 1 else ():
            left -= size
            if left < 0:
                return pairs
            try:
                first = seen.setdefault(file_digest(path), path)
            except (DatasetError, OSError):
                continue
            if first is not path:
                pairs.append((path, first))
    return pairs
