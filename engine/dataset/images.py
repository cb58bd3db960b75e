"""Images in the size of an input: decoded, scaled, and cached for the next pass.

A build reads its samples 2 to 8 times: to calibrate, to choose ranges and weights, to compare.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from engine.base.peers.limits import machine_bytes
from engine.dataset.decode import open_image, to_rgb_or_gray
from engine.dataset.preprocess import InputPlan

__all__ = ["IMAGES", "DecodedImage", "ImageCache"]

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
    wanted, method = (plan.width, plan.height), _FILTERS[plan.resize_filter]
    if size == wanted or plan.resize_fit == "stretch":
        scaled = decoded.resize(wanted, method)
    elif plan.resize_fit == "crop":
        scaled = ImageOps.fit(decoded, wanted, method, centering=(0.5, 0.5))
    else:
        scaled = ImageOps.contain(decoded, wanted, method)
    pixels = np.asarray(scaled).reshape(scaled.height, scaled.width, plan.channels)
    pixels.flags.writeable = False
    return DecodedImage(pixels, size)
