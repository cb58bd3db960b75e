"""Opening one file of a dataset: jpg, png and bmp by Pillow, npy by numpy, each within bounds.

What a file is, its first bytes say, not its suffix. Errors here say what is wrong with the
file; who reads a dataset adds the line.
"""

from __future__ import annotations

import stat
import struct
import zlib
from pathlib import Path
from typing import Literal

import numpy as np
from PIL import Image, UnidentifiedImageError

from engine.base.errors import DatasetError
from engine.base.text import sanitize
from engine.dataset.whole import check_png, require_whole
from engine.graph.ir.arrays import read_npy

PIXEL_LIMIT = 89_478_485
"""Pixels of the largest picture that is decoded: Pillow's own limit, 256 MiB as RGB."""

SIDE_LIMIT = 65_535
"""Pixels of a side, JPEG's own limit: Pillow keeps a pointer a row."""

_FORMATS = ("JPEG", "PNG", "BMP")
# modes of more than 8 bits a channel: Pillow would clip them at 255
_DEEP_MODES = frozenset({"I", "F", "I;16", "I;16B", "I;16L", "I;16N"})
# what Pillow's decoders raise on corrupt files
_CORRUPT = (
    OSError,
    SyntaxError,
    ValueError,
    TypeError,
    IndexError,
    KeyError,
    EOFError,
    OverflowError,
    MemoryError,
    struct.error,
    zlib.error,
    Image.DecompressionBombError,
    Image.DecompressionBombWarning,
)
_ORIENTATION = 0x0112

Kind = Literal["picture", "npy"]


def named(path: Path) -> str:
    """A path for a message: a list may name files with control characters, or that are no UTF-8."""
    return sanitize(str(path), 300)


def reject_device_file(path: Path) -> None:
    """A device or pipe may never end, or never begin.

    Raises:
        DatasetError: the path is one.
        OSError: it is missing or unreadable.
    """
    mode = path.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise DatasetError(
            f"{named(path)} is not a file but a device, pipe or socket.",
            cause="Files are read more than once, which these cannot.",
            remedy="Give a file.",
        )


def file_kind(path: Path) -> Kind:
    """Whether a file is an npy array or else has to be a picture.

    Raises:
        DatasetError: missing or unreadable; empty; an npz archive.
    """
    try:
        reject_device_file(path)
        with path.open("rb") as stream:
            start = stream.read(8)
    except FileNotFoundError as error:
        raise DatasetError(
            f"{named(path)} does not exist.",
            cause="The path is wrong, or the dataset list was moved: its relative paths start at "
            "its own folder. A path with spaces is read as two paths.",
            remedy="Correct or remove the line.",
        ) from error
    except OSError as error:
        raise DatasetError(
            f"{named(path)} could not be read: {error.strerror or error}.",
            remedy="Check that it is a file and that you have permission to read it.",
        ) from error
    if start.startswith(b"\x93NUMPY"):
        return "npy"
    if not start:
        raise DatasetError(f"{named(path)} is empty.", remedy="Replace or remove it.")
    if start.startswith(b"PK\x03\x04") and path.suffix.lower() in (".npz", ".npy"):
        raise DatasetError(
            f"{named(path)} is an npz archive.",
            remedy="Save its array alone with numpy.save; a dataset takes npy.",
        )
    return "picture"


def open_image(path: Path) -> Image.Image:
    """A picture whose head was read and checked; its pixels are decoded by whoever uses it.

    The caller closes it (it is a context manager). No draft mode: it would change pixels. An EXIF
    orientation is not applied, as the vendor's toolkits do not.

    Raises:
        DatasetError: not a jpg, png or bmp; corrupt; more than 8 bits a channel; too many pixels.
    """
    try:
        image = Image.open(path, formats=_FORMATS)
    except UnidentifiedImageError as error:
        raise DatasetError(
            f"{named(path)} is not a jpg, png, bmp or npy file.",
            cause="It is damaged, or of another format under this name.",
            remedy="Convert it to jpg or png, or remove it.",
        ) from error
    except _CORRUPT as error:
        raise unreadable(path, error) from error
    try:
        _check_image(path, image)
    except DatasetError:
        image.close()
        raise
    return image


def _check_image(path: Path, image: Image.Image) -> None:
    width, height = image.size
    if width * height > PIXEL_LIMIT:
        raise DatasetError(
            f"{named(path)} is {width}x{height}; images are decoded up to {PIXEL_LIMIT} pixels.",
            cause="It is far larger than any input, or a decompression bomb.",
            remedy="Scale it down or remove it.",
        )
    if max(width, height) > SIDE_LIMIT:
        raise DatasetError(
            f"{named(path)} is {width}x{height}; a side has up to {SIDE_LIMIT} pixels.",
            cause="It is not a photograph, or a decompression bomb.",
            remedy="Cut it, or remove it.",
        )
    depth = 8
    if image.format == "PNG":
        try:
            depth = check_png(path)
        except (ValueError, OSError) as error:
            raise unreadable(path, error) from error
    if depth > 8 or image.mode in _DEEP_MODES:  # of colours with 16 bits Pillow drops 8 silently
        raise DatasetError(
            f"{named(path)} has more than 8 bits a channel (mode {image.mode}).",
            remedy="Convert it to 8 bits, or give the values as npy.",
        )


def unreadable(path: Path, error: BaseException) -> DatasetError:
    """The error for a picture whose decoder failed."""
    detail = sanitize(str(error), 160) or type(error).__name__
    return DatasetError(
        f"{named(path)} cannot be decoded: {detail}.",
        cause="The image is truncated or damaged.",
        remedy="Replace or remove it.",
    )


def orientation(image: Image.Image) -> int:
    """The EXIF orientation of an opened picture; 1 (upright) where there is none."""
    try:
        value = image.getexif().get(_ORIENTATION, 1)
    except _CORRUPT:
        return 1
    return value if isinstance(value, int) else 1


def to_rgb_or_gray(path: Path, image: Image.Image, channels: int) -> Image.Image:
    """The decoded picture in RGB for 3 channels, grey (ITU-R 601 luma) for 1; alpha is dropped.

    Raises:
        DatasetError: truncated or damaged.
    """
    try:
        require_whole(path, image)
        return image.convert("RGB" if channels == 3 else "L")
    except _CORRUPT as error:
        raise unreadable(path, error) from error


def image_fault(path: Path) -> str:
    """Why a picture cannot be used; empty when it can. Decodes it as cheaply as possible."""
    try:
        with open_image(path) as image:
            try:
                # whether all data is there shows at an eighth of the size too; pixels are not used
                if not image.info.get("progressive"):  # whose last scans only refine
                    image.draft("L", (1, 1))
                require_whole(path, image)
            except _CORRUPT as error:
                raise unreadable(path, error) from error
    except DatasetError as error:
        return error.what.removeprefix(f"{named(path)} ").rstrip(".")
    return ""


def open_array(path: Path) -> np.ndarray:
    """An npy file as a read-only memory map: nothing but its head is read.

    Raises:
        DatasetError: truncated or damaged; an array of Python objects, which would run code when
            loaded; not numbers.
    """
    try:
        array = read_npy(path, mapped=True)
    except (OSError, ValueError) as error:
        if "Python objects" in str(error):
            raise DatasetError(
                f"{named(path)} contains Python objects, not numbers.",
                cause="numpy.save stored it by pickle, which can run code when loaded.",
                remedy="Save an array of numbers: numpy.save(path, array.astype('float32')).",
            ) from error
        raise DatasetError(
            f"{named(path)} is not a readable npy file: {sanitize(str(error), 160)}.",
            cause="It is truncated or damaged.",
            remedy="Save it again with numpy.save.",
        ) from error
    return array
