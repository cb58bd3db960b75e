"""Samples of a dataset, one at a time, as the network takes them."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image, ImageOps

from engine.base.errors import DatasetError
from engine.base.events import Reporter
from engine.base.findings import Finding
from engine.base.peers.limits import machine_bytes
from engine.base.text import sanitize, shape_text
from engine.dataset.dataset_list import Dataset, with_line
from engine.dataset.decode import file_kind, named, open_array, open_image, to_rgb_or_gray
from engine.dataset.preprocess import InputPlan, Preprocess, shape_error

if TYPE_CHECKING:
    from engine.graph.ir import TensorSpec

# Images in the size of an input: decoded, scaled, and cached for the next pass.
#
# A build reads its samples 2 to 8 times: to calibrate, to choose ranges and weights, to compare.

_FILTERS = {
    "bilinear": Image.Resampling.BILINEAR,
    "nearest": Image.Resampling.NEAREST,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
    "box": Image.Resampling.BOX,
}
_CACHE_BYTES = 128_000_000
# a file that is written twice within a tick of its file system's clock looks unchanged
_SETTLED_NS = 2_000_000_000


@dataclass(frozen=True)
class DecodedImage:
    """A decoded image.

    Attributes:
        pixels: (H, W, C) uint8, RGB or grey, not writable; of the input's size, or with
            ``resize_fit`` pad as large as fits into it.
        size: width and height of the file.
    """

    pixels: np.ndarray
    size: tuple[int, int]


class ImageCache:
    """A cache of images by file and size, least recently used dropped first; for several threads.

    Arrays of npy files are not kept: the system's page cache has them.

    Args:
        limit: bytes of pixels; by default 128 MB, on a small machine a 64th of its memory.
    """

    def __init__(self, limit: int | None = None) -> None:
        self._limit = min(_CACHE_BYTES, machine_bytes() // 64) if limit is None else limit
        self._total = 0
        self._round = 0
        self._kept: OrderedDict[tuple[object, ...], tuple[DecodedImage, int]] = OrderedDict()
        self._lock = threading.Lock()

    def begin_round(self) -> None:
        """The samples are read anew. What was used since then is not dropped.

        Samples are read in order, again and again: where they do not fit, dropping what was used
        longest ago would drop each one before it is read again.
        """
        with self._lock:
            self._round += 1

    def get(self, path: Path, plan: InputPlan) -> DecodedImage:
        """A picture as ``plan`` takes it; decoded only where it is not kept.

        Raises:
            DatasetError: it cannot be read or decoded.
        """
        try:
            status = path.stat()
        except OSError:
            return _decoded(path, plan)  # which tells what is wrong
        key = (
            *(status.st_dev, status.st_ino, status.st_size, status.st_ctime_ns),
            *(plan.width, plan.height, plan.channels, plan.resize_filter, plan.resize_fit),
        )
        with self._lock:
            if key in self._kept:
                image, _ = self._kept.pop(key)
                self._kept[key] = image, self._round
                return image
        image = _decoded(path, plan)
        if time.time_ns() - status.st_ctime_ns > _SETTLED_NS:
            with self._lock:
                self._keep(key, image)
        return image

    def _keep(self, key: tuple[object, ...], image: DecodedImage) -> None:
        room = self._limit - image.pixels.nbytes
        while self._total > room and self._kept:
            oldest = next(iter(self._kept))
            dropped, used = self._kept[oldest]
            if used == self._round:
                break
            self._total -= dropped.pixels.nbytes
            del self._kept[oldest]
        if self._total <= room and key not in self._kept:
            self._kept[key] = image, self._round
            self._total += image.pixels.nbytes


IMAGES = ImageCache()
"""Of this process: a build, the trials and the guide that follow it read the same files."""


def _decoded(path: Path, plan: InputPlan) -> DecodedImage:
    with open_image(path) as image:
        size = image.size
        decoded = to_rgb_or_gray(path, image, plan.channels)
    target, method = (plan.width, plan.height), _FILTERS[plan.resize_filter]
    if size == target or plan.resize_fit == "stretch":
        scaled = decoded.resize(target, method)
    elif plan.resize_fit == "crop":
        scaled = ImageOps.fit(decoded, target, method, centering=(0.5, 0.5))
    else:
        scaled = ImageOps.contain(decoded, target, method)
    pixels = np.asarray(scaled).reshape(scaled.height, scaled.width, plan.channels)
    pixels.flags.writeable = False
    return DecodedImage(pixels, size)


# an npy of at most this size whose input divides pixels by more was probably normalised before
_NORMALISED = 16.0


@dataclass
class ReadingStats:
    """What was noticed while reading; becomes findings."""

    pictures: int = 0
    resized: int = 0
    example: str = ""
    ambiguous: int = 0
    normalised_twice: int = 0

    def findings(self, plans: Sequence[InputPlan]) -> Iterator[Finding]:
        """The findings so far."""
        if self.resized:
            yield Finding(
                "pictures-resized",
                "warning",
                "dataset",
                f"{self.resized} of {self.pictures} images were scaled to the input "
                f"({self.example}).",
                cause="They have another size than the input.",
                remedy="Nothing, if the deployed program scales the same way: resize_filter "
                f"{plans[0].resize_filter}, resize_fit {plans[0].resize_fit}.",
            )
        if self.ambiguous:
            rule = "NHWC" if plans[0].generation == 1 else "the model's own layout"
            yield Finding(
                "npy-layout-ambiguous",
                "warning",
                "dataset",
                f"{self.ambiguous} npy files fit both NCHW and NHWC; they were read as {rule}.",
                cause="Channels, height and width are equal.",
                remedy="Check that the files are written that way.",
            )
        if self.normalised_twice:
            yield Finding(
                "npy-normalised-twice",
                "warning",
                "mean_values",
                f"{self.normalised_twice} npy files hold fractions of at most "
                f"{_NORMALISED:g}, and mean and std for pixels were applied to them.",
                cause="The files were probably normalised before they were saved.",
                remedy="Save the pixels, or unset mean_values and std_values.",
            )


def load_file(path: Path, plan: InputPlan, tally: ReadingStats) -> np.ndarray:
    """One file as the input of ``plan``.

    Returns:
        An array of ``plan.shape`` and ``plan.dtype``, contiguous.

    Raises:
        DatasetError: missing, unreadable, damaged, of the wrong shape or type; names the file.
    """
    if file_kind(path) == "npy":
        return _load_array(path, plan, tally)
    return plan.normalise_pixels(load_pixels(path, plan, tally))


def load_pixels(path: Path, plan: InputPlan, tally: ReadingStats) -> np.ndarray:
    """A picture in the size and channel order of ``plan``, before mean and std.

    Returns:
        (H, W, C), uint8; float32 where a border was added, which has the mean.

    Raises:
        DatasetError: as :func:`load_file`.
    """
    require_image_input(path, plan)
    image = IMAGES.get(path, plan)
    note_image(image.size, plan, tally)
    pixels = image.pixels
    if plan.channel_order is not None:
        pixels = pixels[..., plan.channel_order]
    if pixels.shape[:2] != (plan.height, plan.width):
        pixels = _padded(pixels, plan)
    return pixels


def require_image_input(path: Path, plan: InputPlan) -> None:
    """Raise DatasetError where a picture was given to an input that takes none."""
    if plan.takes_images:
        return
    raise DatasetError(
        f"{named(path)} is an image or unknown; input {sanitize(plan.name, 80)} of shape "
        f"{shape_text(plan.shape)} takes npy files only.",
        cause="Images fit inputs of four dimensions with 1 or 3 channels.",
        remedy="Save the values with numpy.save and name the npy file.",
    )


def note_image(size: tuple[int, int], plan: InputPlan, tally: ReadingStats) -> None:
    """Count a picture of that width and height, and whether it will be scaled."""
    tally.pictures += 1
    if size != (plan.width, plan.height):
        tally.resized += 1
        if not tally.example:
            width, height = size
            tally.example = f"{width}x{height} to {plan.width}x{plan.height}"


def _padded(pixels: np.ndarray, plan: InputPlan) -> np.ndarray:
    """The whole picture in the middle; the rest has the mean and so becomes 0 after it."""
    height, width = pixels.shape[:2]
    canvas = np.empty((plan.height, plan.width, plan.channels), dtype=np.float32)
    canvas[:] = np.asarray(plan.mean or (0.0,), dtype=np.float32)
    top, left = (plan.height - height) // 2, (plan.width - width) // 2
    canvas[top : top + height, left : left + width] = pixels
    return canvas


def place_array(path: Path, plan: InputPlan, tally: ReadingStats) -> np.ndarray:
    """An npy file as an unread view in the model's layout; DatasetError where it does not fit."""
    array = open_array(path)
    placed = plan.to_model_layout(array)
    if placed is None:
        raise shape_error(named(path), array.shape, plan)
    if plan.ambiguous(array.shape):
        tally.ambiguous += 1
    return placed


def _load_array(path: Path, plan: InputPlan, tally: ReadingStats) -> np.ndarray:
    placed = place_array(path, plan, tally)
    if (
        plan.std is not None
        and min(plan.std) >= _NORMALISED
        and placed.dtype.kind == "f"
        and placed.size
        and float(np.abs(placed).max()) <= _NORMALISED
    ):
        tally.normalised_twice += 1
    try:
        return plan.normalise(np.asarray(placed))
    except DatasetError as error:
        raise DatasetError(
            f"{named(path)} {error.what}.", cause=error.cause, remedy=error.remedy
        ) from error


class SampleStream(Iterator[dict[str, np.ndarray]]):
    """Iterates over the samples of a dataset; ``findings`` tells what was noticed so far."""

    def __init__(
        self,
        dataset: Dataset,
        inputs: Sequence[TensorSpec],
        preprocess: Preprocess,
        reporter: Reporter | None = None,
    ) -> None:
        self._dataset = dataset
        self._plans = preprocess.plans(inputs)
        self._reporter = reporter
        self._tally = ReadingStats()
        self._next = 0
        IMAGES.begin_round()
        for index, entry in enumerate(dataset.entries):
            if len(entry) != len(self._plans):
                raise input_count_error(dataset, index, self._plans)

    def __len__(self) -> int:
        """Number of samples of the dataset."""
        return len(self._dataset)

    def __next__(self) -> dict[str, np.ndarray]:
        """The next sample: input name -> array."""
        if self._next == len(self._dataset):
            raise StopIteration
        self._next += 1
        return self[self._next - 1]

    def __getitem__(self, index: int) -> dict[str, np.ndarray]:
        """One sample, whichever is next; raises as :meth:`__next__`."""
        if self._reporter is not None:
            self._reporter.check_cancelled()
        entry = self._dataset.entries[index]
        try:
            return {
                plan.name: load_file(path, plan, self._tally)
                for plan, path in zip(self._plans, entry, strict=True)
            }
        except DatasetError as error:
            raise with_line(self._dataset, index, error) from error

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was noticed in the samples read so far."""
        return tuple(self._tally.findings(self._plans))


def samples(
    dataset: Dataset,
    inputs: Sequence[TensorSpec],
    preprocess: Preprocess,
    reporter: Reporter | None = None,
) -> SampleStream:
    """The samples of a dataset as inputs of a model, one in memory at a time.

    Args:
        dataset: what to read.
        inputs: of the model, in the order of a line's files; sizes fixed.
        preprocess: mean, std, swap, filter, fit.
        reporter: asked before every sample whether to stop.

    Returns:
        An iterator of input name -> array in the model's shape, layout and dtype.

    Raises:
        DatasetError: at once for a line with the wrong number of files; later, at its turn, for a
            file that is missing, damaged or does not fit. Names line and file.
        RecipeError: mean, std or swap do not fit the inputs.
    """
    return SampleStream(dataset, inputs, preprocess, reporter)


def require_files(dataset: Dataset, reporter: Reporter | None = None) -> None:
    """Look whether every file can be opened, before long work that would end at one of them.

    Only the first bytes are read; what is wrong further on is told when the sample is read.

    Args:
        dataset: whose files.
        reporter: asked before every sample whether to stop.

    Raises:
        DatasetError: some cannot; names the line and file of the first, and how many more.
    """
    first: DatasetError | None = None
    more = 0
    for index, entry in enumerate(dataset.entries):
        if reporter is not None:
            reporter.check_cancelled()
        for path in entry:
            try:
                file_kind(path)
            except DatasetError as error:
                more += first is not None
                first = first or with_line(dataset, index, error)
    if first is not None:
        others = f" So it is with {more} more of its files." if more else ""
        raise DatasetError(f"{first.what}{others}", cause=first.cause, remedy=first.remedy)


def input_count_error(dataset: Dataset, index: int, plans: Sequence[InputPlan]) -> DatasetError:
    """The error for a line that has not one file per input."""
    entry = dataset.entries[index]
    names = ", ".join(sanitize(plan.name, 40) for plan in plans[:8])
    files = ", ".join(sanitize(path.name, 60) for path in entry[:4])
    cause = "The line lacks files, or the model has more inputs than you think."
    if len(entry) > len(plans):
        cause = "The line has too many files, or a path contains spaces and is read as two paths."
    return DatasetError(
        f"{dataset.where(index)} has {len(entry)} files ({files}) "
        f"for {len(plans)} inputs ({names}).",
        cause=cause,
        remedy="Give one file per input on every line, separated by spaces, in the inputs' order.",
    )
