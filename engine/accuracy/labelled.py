"""Labelled samples: a folder for each class, a list of files with labels, or arrays in an npz.

* a folder: every subfolder is a class, its pictures are samples. Folders named by numbers have
  that number as label, else classes are numbered from 0 in the order of their names.
* a text file: a sample a line, one path for each input, then the label, split by blanks; paths
  start at the list's folder.
* an npz: ``samples`` uint8 (N, H, W) or (N, H, W, C) and whole ``labels`` (N,), or the same as
  ``x_test`` and ``y_test``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine.base.errors import DatasetError
from engine.base.events import Reporter
from engine.base.text import sanitize, shape_text
from engine.dataset import Dataset, Preprocess, read_dataset, samples
from engine.graph.ir import TensorSpec
from engine.graph.ir.arrays import read_npz
from engine.options.dataset import IMAGE_SUFFIXES

Label = int | str
"""Number of a class; text only where a scoring function makes sense of it."""

_LIMIT = 1 << 30
_NAMES = (("samples", "labels"), ("x_test", "y_test"))
_PICTURES = IMAGE_SUFFIXES | {".npy"}
_REMEDY = (
    "Give a folder with a subfolder for each class, a text file with a path and a label a line, or "
    "an npz with samples uint8 (N, H, W) or (N, H, W, C) and labels (N,)."
)


@dataclass(frozen=True)
class LabelledDataset:
    """Samples and their labels; pictures of folders and lists are read when they are needed.

    Attributes:
        labels: one for each sample.
        classes: names of the classes by their number; empty where none are known.
        dataset: the files of the samples, or None.
        pixels: uint8 (N, H, W, C), or None.
    """

    labels: Sequence[Label]
    classes: tuple[str, ...] = ()
    dataset: Dataset | None = None
    pixels: np.ndarray | None = None

    def __len__(self) -> int:
        """Number of samples."""
        return len(self.labels)

    def where(self, index: int) -> str:
        """How messages name a sample."""
        return f"sample {index + 1}" if self.dataset is None else self.dataset.where(index)

    def paths(self, index: int) -> tuple[str, ...]:
        """The files of a sample; none of an npz."""
        return () if self.dataset is None else tuple(str(p) for p in self.dataset.entries[index])

    def feeds(
        self, inputs: Sequence[TensorSpec], preprocess: Preprocess, reporter: Reporter | None
    ) -> Iterator[dict[str, np.ndarray]]:
        """The samples as inputs of a model, one in memory at a time.

        Raises:
            DatasetError: a file cannot be read, or a sample does not fit the inputs.
        """
        if self.dataset is not None:
            yield from samples(self.dataset, inputs, preprocess, reporter)
            return
        plans = preprocess.plans(inputs)
        plan = plans[0]
        pixels: np.ndarray = np.empty(0) if self.pixels is None else self.pixels
        size = (plan.height, plan.width, plan.channels) if plan.takes_images else None
        if len(plans) != 1 or pixels.shape[1:] != size:
            takes = "several inputs" if len(plans) != 1 else shape_text(size or plan.shape)
            raise DatasetError(
                f"The samples are {shape_text(pixels.shape[1:])}; the model takes {takes}.",
                remedy="Scale the samples to the input's height, width and channels.",
            )
        for one in pixels:
            if reporter is not None:
                reporter.check_cancelled()
            yield {plan.name: plan.normalise_pixels(one)}


def read_labelled(path: Path) -> LabelledDataset:
    """Read labelled samples, or where they are; arrays of at most 1 GiB, never unpickled.

    Raises:
        DatasetError: missing, damaged, too large, without samples; names the line.
    """
    if path.is_dir():
        return _of_folder(path)
    if path.suffix.lower() == ".npz":
        return _of_arrays(path)
    listed = read_dataset(path)
    labels: list[Label] = []
    for index, entry in enumerate(listed.entries):
        if len(entry) < 2:
            raise DatasetError(f"{listed.where(index)} has no label.", remedy=_REMEDY)
        last = entry[-1]  # a path like the others until here
        inside = last.is_relative_to(path.parent)
        labels.append(_label(str(last.relative_to(path.parent) if inside else last)))
    entries = tuple(entry[:-1] for entry in listed.entries)
    return LabelledDataset(labels, (), Dataset(path, entries, listed.lines))


def _label(text: str) -> Label:
    return int(text) if text.isascii() and text.isdigit() else text


def _of_folder(folder: Path) -> LabelledDataset:
    try:
        classes = sorted(
            one.name for one in folder.iterdir() if one.is_dir() and not one.name.startswith(".")
        )
        numbers = [_label(name) for name in classes]
        numbered = all(isinstance(number, int) for number in numbers)
        entries: list[tuple[Path, ...]] = []
        labels: list[Label] = []
        for place, name in enumerate(classes):
            files = sorted(p for p in (folder / name).iterdir() if p.suffix.lower() in _PICTURES)
            entries += [(file,) for file in files]
            labels += [numbers[place] if numbered else place] * len(files)
    except OSError as error:
        raise DatasetError(
            f"{sanitize(str(folder))} could not be read: {error.strerror or error}.",
            remedy=_REMEDY,
        ) from error
    if not entries:
        raise DatasetError(
            f"{sanitize(str(folder))} has no samples in folders of classes.", remedy=_REMEDY
        )
    return LabelledDataset(
        labels, () if numbered else tuple(classes), Dataset(folder, tuple(entries))
    )


def _of_arrays(path: Path) -> LabelledDataset:
    shown = sanitize(str(path))
    try:
        arrays = read_npz(path, [name for pair in _NAMES for name in pair], _LIMIT)
        pair = next((pair for pair in _NAMES if pair[0] in arrays), _NAMES[0])
        pixels, labels = arrays[pair[0]], arrays[pair[1]]
    except KeyError as error:
        raise DatasetError(f"{shown} has no array {error}.", remedy=_REMEDY) from error
    except (OSError, ValueError) as error:
        raise DatasetError(
            f"{shown} is not a readable npz file: {sanitize(str(error), 200)}.", remedy=_REMEDY
        ) from error
    if pixels.ndim == 3:
        pixels = pixels[..., np.newaxis]
    fits = pixels.ndim == 4 and pixels.dtype == np.uint8 and labels.shape == pixels.shape[:1]
    if not fits or labels.dtype.kind not in "iu" or not len(labels):
        shapes = f"samples {pixels.dtype} {pixels.shape}, labels {labels.dtype} {labels.shape}"
        raise DatasetError(f"{shown} has {shapes}.", remedy=_REMEDY)
    return LabelledDataset([int(label) for label in labels], pixels=pixels)
