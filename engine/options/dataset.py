"""Options of preprocessing and of the calibration dataset."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

from engine.options.kinds import channels, choice, flags, integer, path
from engine.options.section import Section

# Checks of single options beside their kind: empty, or what the value must be.

_SMALLEST_DIVISOR = 1e-30  # below it float32 pixels become infinite


def check_divisors(rows: Any) -> str:
    """Pixels are divided by every number."""
    fits = all(abs(n) >= _SMALLEST_DIVISOR for row in rows for n in row)
    return "" if fits else "without 0: pixels are divided by it"


def check_mean_and_scale(rows: Any) -> str:
    """The mean of every channel, then one scale [RKNN-TS 1.4.0, 1.2]."""
    if any(len(row) < 2 for row in rows):
        return "the mean of every channel and then the scale, as 128 128 128 128"
    return check_divisors([row[-1:] for row in rows])


def check_permutation(rows: Any) -> str:
    """Every channel once, in any order [RKNN-T1 1.3.2, 3.6.3]."""
    fits = all(sorted(row) == list(range(len(row))) for row in rows)
    return "" if fits else "every channel's number once, from 0, as 2 1 0"


def check_epochs(number: Any) -> str:
    """-1 or a number of rounds."""
    return "" if number != 0 else "-1 (all samples) or at least 1"


class Preprocessing(Section):
    """From a file of the dataset to an input of the network."""

    NAME = "preprocess"
    TITLE = "Preprocessing"
    STAGE = "calibrate"

    mean_values = channels(
        "Subtracted from every pixel, one list of channels per input: [[127, 127, 127]]. Default: "
        "0.",
    )
    std_values = channels(
        "Every pixel is divided by it after the mean, one list per input. Default: 1.",
        rule=check_divisors,
    )
    quant_img_RGB2BGR = flags(  # noqa: N815
        "Whether images are converted from RGB to BGR when they are read; not for npy.",
        default=False,
    )
    channel_mean_value = channels(
        "The mean of every channel, then one scale, per input: 128 128 128 128#0 0 0 255.",
        generations=(1,),
        rule=check_mean_and_scale,
    )
    reorder_channel = channels(
        "The channel order of images, npy and inference inputs: 2 1 0 converts RGB to BGR.",
        generations=(1,),
        rule=check_permutation,
    )
    resize_filter = choice(
        "Interpolation for images whose size differs from the input.",
        default="bilinear",
        choices=("bilinear", "nearest", "bicubic", "lanczos", "box"),
        about={
            "bilinear": "Linear interpolation; the most common choice.",
            "nearest": "The nearest pixel; fast, jagged.",
            "bicubic": "Cubic interpolation; sharper.",
            "lanczos": "Windowed sinc; sharpest.",
            "box": "The mean of the covered pixels; for downscaling.",
        },
        generations=(),
    )
    resize_fit = choice(
        "Whether an image is stretched, cropped in the middle, or padded with the mean.",
        default="stretch",
        choices=("stretch", "crop", "pad"),
        about={
            "stretch": "Resize to the input size; proportions are not kept.",
            "crop": "Keep proportions; crop what is outside the input.",
            "pad": "Keep proportions; fill the borders with the mean.",
        },
        generations=(),
    )


class Calibration(Section):
    """The calibration dataset."""

    NAME = "dataset"
    TITLE = "Calibration dataset"
    STAGE = "calibrate"

    dataset = path(
        "A dataset.txt with one sample per line, or a folder of images.",
        generations=(1, 2),
    )
    dataset_count = integer(
        "Number of images that are selected from a folder.",
        default=100,
        minimum=1,
        maximum=100_000,
        generations=(),
    )
    dataset_seed = integer(
        "Seed of the selection of images from a folder.",
        default=0,
        minimum=0,
        generations=(),
    )
    batch_size = integer(
        "Samples per round of calibration; epochs is the number of rounds.",
        default=100,
        minimum=1,
        maximum=100_000,
        generations=(1, 2),
    )
    epochs = integer(
        "Rounds of calibration with batch_size samples each; -1: use all samples.",
        default=-1,
        minimum=-1,
        maximum=100_000,
        generations=(1, 2),
        rule=check_epochs,
    )


# Samples where a dataset is not named yet.

IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp"})
"""Of the pictures that a folder of samples has."""
_LOOKED = 200
"""Entries of a folder that are looked at."""


def samples_beside(model: Path | str) -> str:
    """What a recipe could have as ``dataset``: a ``dataset.txt`` or a folder of pictures.

    It lies beside the model, in a folder beside it, or one level higher.

    Args:
        model: path of a source model.

    Returns:
        its path; empty where there is none.
    """
    folder = Path(model).parent
    for place in (folder, folder.parent):
        if (listed := place / "dataset.txt").is_file():
            return str(listed)
        for inner in sorted(_looked_at(place)):
            if not inner.name.startswith(".") and _has_pictures(inner):
                return str(inner)
    return str(folder) if _has_pictures(folder) else ""


def _looked_at(folder: Path) -> list[Path]:
    try:
        return list(islice(folder.iterdir(), _LOOKED))
    except OSError:  # it is no folder, too
        return []


def _has_pictures(folder: Path) -> bool:
    return any(path.suffix.lower() in IMAGE_SUFFIXES for path in _looked_at(folder))
