"""Sanity checks of a calibration dataset: figures, the likely cause, and a remedy."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from engine.base.findings import Finding
from engine.base.text import sanitize
from engine.dataset.dataset_list import Dataset
from engine.dataset.inspect import ArrayStats, DatasetStats, ImageStats, duplicate_files
from engine.dataset.preprocess import InputPlan

_FEW = 20
"""The manuals advise 20 to 100 samples [RKNN-T2 1.1.0, 3.5.2; RKNN-T2 2.3.0, 2.2]."""


def sanity_findings(
    dataset: Dataset,
    plans: Sequence[InputPlan],
    looks: DatasetStats,
    *,
    one_option: bool = False,
) -> tuple[Finding, ...]:
    """What is doubtful about a dataset for these inputs.

    Args:
        dataset: as it was read.
        plans: preprocessing of each input.
        looks: figures of samples of it.
        one_option: whether mean and std come from generation 1's ``channel_mean_value``, which
            a remedy then changes.
    """
    findings = [*_count(dataset), *_copies(dataset)]
    for index, plan in enumerate(plans):
        seen = _Seen(plan, plans, looks.images[index], looks.arrays[index])
        for check in _IMAGE_CHECKS if seen.images else ():
            findings += check(seen)
        for check in _ARRAY_CHECKS if seen.arrays else ():
            findings += check(seen)
    return tuple(_in_one_option(f) if one_option else f for f in findings)


@dataclass(frozen=True)
class _Seen:
    """What was seen of one input: its preprocessing, that of all inputs, and figures of files."""

    plan: InputPlan
    plans: Sequence[InputPlan]
    images: Sequence[ImageStats]
    arrays: Sequence[ArrayStats]

    @property
    def name(self) -> str:
        """The input's name, for a finding."""
        return sanitize(self.plan.name, 60)


def _in_one_option(finding: Finding) -> Finding:
    """A remedy in the terms of ``channel_mean_value``: means, then the one scale."""
    changes = dict(finding.changes)
    means, stds = changes.pop("mean_values", None), changes.pop("std_values", None)
    if means is not None and stds is not None:
        changes["channel_mean_value"] = [
            [*mean, std[0]] for mean, std in zip(means, stds, strict=True)
        ]
    return replace(finding, changes=changes)


def _count(dataset: Dataset) -> Iterator[Finding]:
    count = len(dataset)
    if count == 1:
        yield Finding(
            "only-one-sample",
            "warning",
            "dataset",
            "There is only one sample: its largest values become the limits of every tensor.",
            cause="Whatever is brighter, larger or elsewhere in another image is cut off there.",
            remedy=f"Give {_FEW} to 100 samples of what the deployed program will see.",
        )
    elif count < _FEW:
        yield Finding(
            "samples-few",
            "warning",
            "dataset",
            f"There are {count} samples; the vendor's manuals advise {_FEW} to 100.",
            cause="Ranges that few samples show are too narrow for others.",
            remedy="Add samples of what the deployed program will see.",
        )


def _copies(dataset: Dataset) -> Iterator[Finding]:
    pairs = duplicate_files(dataset)
    if pairs:
        copy, first = pairs[0]
        yield Finding(
            "files-equal",
            "warning",
            "dataset",
            f"{len(pairs)} files hold what another one holds, such as {_name_of(copy)} and "
            f"{_name_of(first)}.",
            cause="They were copied under other names.",
            remedy="Remove the copies: they cost time and weigh what they show twice.",
        )


# Sanity checks of calibration images.
#
# Bounds were chosen by argument, not on data that is measured with: what training frameworks
# normalise to (values within about 3 of zero, spread about 1), and what light does (skies are blue
# and above, skin is red).

_KNOWN_MEANS = (123.68, 116.78, 103.94)
"""Of ImageNet in RGB, as Caffe's and TensorFlow's nets are trained with; BGR is the reverse."""
_USUAL_SPREAD = (0.02, 8.0)
"""Standard deviation of an input's values: training aims at 1, pictures in 0..1 have 0.1 to 0.4."""
_FLAT = 1.5
"""Standard deviation of pixels below which a picture shows nothing (JPEG noise has about 1)."""
_STRETCHED = 1.2
"""Change of proportions that an eye sees."""
_COLOURED = 8
"""Colour pictures that a hint about their channel order needs."""


def _normalised(seen: _Seen) -> Iterator[Finding]:
    """Values as the network gets them, against what training would give."""
    plan = seen.plan
    if plan.quant is not None or plan.dtype == "uint8":
        return
    if _are_fractions(plan):
        yield _fractions_finding(seen)
        return
    if plan.mean is None and plan.std is None:
        return  # pixels as they are: told on its own
    shown = [p for p in seen.images if p.spread >= _FLAT]
    if not shown:
        return
    mean, spread = _values(plan, shown)
    low, high = _USUAL_SPREAD
    if plan.std is None and spread > high:
        yield Finding(
            "std-unset",
            "info",
            "std_values",
            f"Input {seen.name} gets values of about {mean:.0f} ± {spread:.0f}: a "
            "mean is subtracted, nothing is divided.",
            cause="Older Caffe nets are trained so; others divide too.",
            remedy="Set std_values if the model was trained with it.",
        )
    elif not low <= spread <= high or abs(mean) > 4 * max(spread, 1.0):
        yield Finding(
            "range-unusual",
            "warning",
            "mean_values",
            f"Input {seen.name} gets values of about {mean:.3g} ± {spread:.3g}; "
            "trained nets usually see about 0 ± 1, or 0 to 1.",
            cause="mean_values or std_values are on another scale than pixels of 0..255, or the "
            "model normalises by itself and they are applied twice.",
            remedy="Set them as the model was trained, in units of pixels.",
        )


def _values(plan: InputPlan, images: Sequence[ImageStats]) -> tuple[float, float]:
    """Mean and standard deviation of the input's values, over all pictures and channels."""
    std = np.asarray(plan.std or (1.0,) * plan.channels)
    mean = np.asarray(plan.mean or (0.0,) * plan.channels)
    colours = np.array([p.mean for p in images])[:, : plan.channels]
    if plan.channel_order is not None:
        colours = colours[:, list(plan.channel_order)]
    centres = (colours - mean) / std
    inner = float(np.mean([p.spread for p in images])) / float(np.abs(std).mean())
    return float(centres.mean()), float(np.hypot(centres.std(), inner))


def _gray(seen: _Seen) -> Iterator[Finding]:
    images, channels = seen.images, seen.plan.channels
    grey = [p for p in images if p.gray and p.spread >= _FLAT]
    if channels == 3 and grey:
        most = len(grey) * 2 > len(images)
        yield Finding(
            "pictures-grey",
            "warning" if most else "info",
            "dataset",
            f"{_part_of(len(grey), images, 'images')} are grey, such as "
            f"{_name_of(grey[0].path)}; input {seen.name} takes colour.",
            cause="Grey images never show what the net makes of colours: ranges may be narrow.",
            remedy="Give colour images, unless the deployed program sees grey ones too.",
        )
    elif channels == 1 and len(grey) < len(images):
        yield Finding(
            "colour-made-grey",
            "info",
            "dataset",
            f"{_part_of(len(images) - len(grey), images, 'images')} have colours; input "
            f"{seen.name} takes one channel and gets their brightness (ITU-R 601).",
            remedy="Make the deployed program convert them the same way.",
        )


def _order(seen: _Seen) -> Iterator[Finding]:
    """Channel order: of the means against that of the pictures, and of what the pictures show."""
    plan = seen.plan
    if plan.channels != 3:
        return
    swapped = plan.channel_order == (2, 1, 0)
    if plan.mean is not None and plan.reorder is None:
        known_mean = _KNOWN_MEANS if swapped else _KNOWN_MEANS[::-1]
        if all(abs(m - k) < 2 for m, k in zip(plan.mean, known_mean, strict=True)):
            mean_order, read = ("RGB", "BGR") if swapped else ("BGR", "RGB")
            yield Finding(
                "mean-order-differs",
                "warning",
                "quant_img_RGB2BGR",
                f"mean_values of input {seen.name} are ImageNet's in the order "
                f"{mean_order}, and images reach it as {read}.",
                cause="The order is turned first, then the mean is subtracted.",
                remedy=f"Set quant_img_RGB2BGR to {'no' if swapped else 'yes'}, or turn the means.",
                changes={"quant_img_RGB2BGR": not swapped},
            )
    hints = _turned_hints(seen.images)
    if hints:
        yield Finding(
            "pictures-look-turned",
            "info",
            "dataset",
            f"The images look as if red and blue were exchanged in the files: {hints}.",
            cause="They may have been saved by OpenCV from RGB arrays. This is only a hint, from "
            "what most photographs show.",
            remedy="Look at the preview: if skies are orange, save the images again.",
        )


def _turned_hints(images: Sequence[ImageStats]) -> str:
    """Figures that all speak for exchanged channels; empty where one does not.

    Photographs on average: red above blue, the upper part bluer than the lower, and skin, where
    there is any, red. Each sign turns round when channels are exchanged.
    """
    coloured = [p for p in images if not p.gray]
    if len(coloured) < _COLOURED:
        return ""
    warm = float(np.mean([p.mean[0] - p.mean[2] for p in coloured]))
    sky = float(np.mean([p.sky for p in coloured]))
    skin, turned = (float(np.mean([p.skin[i] for p in coloured])) for i in (0, 1))
    if warm > -4 or sky > -3 or turned < 0.01 or turned < 2 * skin:
        return ""
    return (
        f"blue is {-warm:.0f} above red on average, the lower third is {-sky:.0f} bluer than the "
        f"upper, and {turned:.0%} of pixels would be skin if exchanged ({skin:.0%} as they are)"
    )


def _flat(seen: _Seen) -> Iterator[Finding]:
    flat = [p for p in seen.images if p.spread < _FLAT]
    if flat:
        yield Finding(
            "pictures-constant",
            "warning",
            "dataset",
            f"{_part_of(len(flat), seen.images, 'images')} show one colour only, such as "
            f"{_name_of(flat[0].path)}.",
            cause="They are black frames, covers, or were damaged on the way.",
            remedy="Remove them: they contribute nothing to calibration ranges.",
        )


def _proportions(seen: _Seen) -> Iterator[Finding]:
    plan, images = seen.plan, seen.images
    if plan.resize_fit == "stretch":
        ratios = [
            max(ratio, 1 / ratio)
            for p in images
            if (ratio := p.size[0] * plan.height / (p.size[1] * plan.width))
        ]
        stretched = [ratio for ratio in ratios if ratio > _STRETCHED]
        if stretched:
            yield Finding(
                "pictures-stretched",
                "warning" if len(stretched) * 2 > len(images) else "info",
                "resize_fit",
                f"{_part_of(len(stretched), images, 'images')} are stretched, by up to "
                f"{max(stretched):.1f}: their proportions are not those of {plan.width}x"
                f"{plan.height}.",
                cause="Images are scaled to the input's width and height.",
                remedy="Set resize_fit to pad or crop if the deployed program keeps proportions.",
                changes={"resize_fit": "pad"},
            )
    small = [p for p in images if 2 * p.size[0] <= plan.width and 2 * p.size[1] <= plan.height]
    if small:
        width, height = small[0].size
        yield Finding(
            "pictures-small",
            "info",
            "dataset",
            f"{_part_of(len(small), images, 'images')} are less than half as large as the "
            f"input, such as {_name_of(small[0].path)} ({width}x{height}).",
            cause="They are thumbnails, or of another dataset; enlarged they have no fine detail.",
            remedy="Give images of about the size that the deployed program sees.",
        )


_IMAGE_CHECKS = (_normalised, _gray, _order, _flat, _proportions)


# Sanity checks of the npy files of a calibration dataset.


def _finite(seen: _Seen) -> Iterator[Finding]:
    bad = [] if seen.plan.mask else [a for a in seen.arrays if a.bad]
    if bad:
        yield Finding(
            "npy-not-finite",
            "error",
            "dataset",
            f"{_part_of(len(bad), seen.arrays, 'npy files')} hold NaN or infinity, such as "
            f"{_name_of(bad[0].path)} ({bad[0].bad} values).",
            cause="Whatever wrote them divided by zero or overflowed.",
            remedy="Write finite numbers; a build stops at such a file.",
        )


def _constant(seen: _Seen) -> Iterator[Finding]:
    flat = [a for a in seen.arrays if a.low == a.high and math.prod(seen.plan.shape) > 1]
    if flat:
        yield Finding(
            "npy-constant",
            "warning",
            "dataset",
            f"{_part_of(len(flat), seen.arrays, 'npy files')} hold one value only, such as "
            f"{_name_of(flat[0].path)} ({flat[0].low:g}).",
            cause="The arrays are constant: placeholders, or damaged files.",
            remedy="Give samples of real data: a constant shows no range.",
        )


def _array_range(seen: _Seen) -> Iterator[Finding]:
    """Arrays that look like pixels, under options for fractions, and without any."""
    plan = seen.plan
    low, high = min(a.low for a in seen.arrays), max(a.high for a in seen.arrays)
    if plan.quant is not None or not plan.dtype.startswith("float") or not plan.takes_images:
        return
    if low < 0 or high <= 2.0 or high > 255:
        return
    if _are_fractions(plan):
        yield _fractions_finding(seen)
    elif plan.mean is None and plan.std is None:
        yield Finding(
            "npy-pixels",
            "warning",
            "mean_values",
            f"The npy files hold {low:g} to {high:g}, which look like pixels, and input "
            f"{seen.name} gets them as they are.",
            cause="mean_values and std_values are unset; they apply to npy too.",
            remedy="Set them as the model was trained, unless it normalises by itself.",
        )


_ARRAY_CHECKS = (_finite, _constant, _array_range)


# Texts that the checks of images and of arrays share.


def _name_of(path: Path) -> str:
    """The name of a sample's file, for a finding."""
    return sanitize(path.name, 60)


def _part_of(count: int, looks: Sequence[Any], what: str) -> str:
    """How many of the files that were looked at; ``what`` they are, in the plural."""
    return f"{count} of {len(looks)} {what} that were checked"


def _are_fractions(plan: InputPlan) -> bool:
    """Whether mean and std are written for pixels of 0..1."""
    return (
        plan.std is not None
        and max(abs(s) for s in plan.std) <= 1.0
        and (plan.mean is None or max(abs(m) for m in plan.mean) <= 1.0)
    )


def _fractions_finding(seen: _Seen) -> Finding:
    """Mean and std of an input are of pixels of 0..1; the change brings all inputs' to 0..255."""
    plan, plans = seen.plan, seen.plans
    std = max(plan.std or (1.0,))
    return Finding(
        "mean-std-of-fractions",
        "warning",
        "std_values",
        f"mean_values and std_values of input {seen.name} are at most 1, and pixels "
        f"are 0..255: values reach {255 / std:.0f}.",
        cause="Training code divides pixels by 255 first; the options take pixels as they are.",
        remedy="Multiply both by 255.",
        changes={
            "mean_values": [_in_pixels(p, p.mean, 0.0) for p in plans],
            "std_values": [_in_pixels(p, p.std, 1.0) for p in plans],
        },
    )


def _in_pixels(plan: InputPlan, row: tuple[float, ...] | None, neutral: float) -> list[float]:
    """Mean or std of an input in units of pixels; of one that is not in fractions as it is."""
    factor = 255.0 if _are_fractions(plan) else 1.0
    return [round(number * factor, 4) for number in row or (neutral,)]
