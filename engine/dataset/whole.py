"""Whether a picture has all its pixels: Pillow leaves those black or flat that a file lacks.

A PNG whose compressed data ends early, but in form, has zeros in the rows that are missing. A JPEG
whose data ends early before its end marker has one colour there. Such rows are looked for, and only
where there are some the file is looked through a second time.
"""

from __future__ import annotations

import io
import random
import zlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import BinaryIO

from PIL import Image, ImageFile

_CHUNK = 1 << 16
# bytes that one byte of deflate can stand for (258 by two bits, RFC 1951)
_LARGEST_RATIO = 1032
_FEW_BYTES = 1 << 10
# more than any JPEG of 89 million pixels has; what follows the end marker is of no interest
_LARGEST_FILE = 1 << 29
# markers of a frame (ITU-T T.81, table B.1)
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
# scans of one JPEG, and pixels of all its scans: twelve scans of the largest picture
_MOST_SCANS = 100
_MOST_SCANNED = 12 * 89_478_485
# the rows that a pass of an interlaced PNG has, and the last two of another one
_LAST_ROWS = 2
_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
# (first row, every so many, first column, every so many) of the passes (PNG, clause 8.2)
_PASSES = (
    (0, 8, 0, 8),
    (0, 8, 4, 8),
    (4, 8, 0, 4),
    (0, 4, 2, 4),
    (2, 4, 0, 2),
    (0, 2, 1, 2),
    (1, 2, 0, 1),
)
_NOISE = 4096


@dataclass(frozen=True)
class _Png:
    """The head of a PNG, and where its compressed data lie: (offset, length) of each part."""

    width: int
    height: int
    depth: int
    colour: int
    interlaced: bool
    parts: tuple[tuple[int, int], ...]

    @property
    def size(self) -> int:
        """Bytes of all rows, each with the number of its filter."""
        if not self.interlaced:
            return self.height * self._row(self.width)
        total = 0
        for row, rows, column, columns in _PASSES:
            high = -(-(self.height - row) // rows)
            wide = -(-(self.width - column) // columns)
            total += max(high, 0) * self._row(wide) if wide > 0 else 0
        return total

    def _row(self, width: int) -> int:
        return 1 + -(-width * self.depth * _CHANNELS[self.colour] // 8)


def check_png(path: Path) -> int:
    """Judge a PNG by its head, before anything is decoded; gives its bits a channel.

    Raises:
        ValueError: its head is damaged, or it has less data than its pixels need; says what.
        OSError: it cannot be read.
    """
    with path.open("rb") as stream:
        head = _png(stream)
    have = sum(length for _, length in head.parts)
    if head.size > have * _LARGEST_RATIO + _FEW_BYTES:
        raise ValueError(f"{have} bytes cannot hold its {head.width}x{head.height} pixels")
    return head.depth


def require_whole(path: Path, image: Image.Image) -> None:
    """Decode a picture, at the size that was asked for, and check that none of its pixels lack.

    Raises:
        ValueError: some do.
        OSError, and others: as Pillow's decoders raise.
    """
    ImageFile.LOAD_TRUNCATED_IMAGES = False  # whoever imported Pillow before may have set it
    if image.format in ("JPEG", "MPO"):
        with path.open("rb") as stream:
            data = stream.read(_LARGEST_FILE)
        if image.info.get("progressive"):
            _refuse_many_scans(data)
        image.load()
        _require_scans(data, image)
        return
    image.load()
    if image.format == "PNG":
        with path.open("rb") as stream:
            head = _png(stream)
            if head.interlaced or _empty_rows(image):
                _require_rows(stream, head)


def _png(stream: BinaryIO) -> _Png:
    stream.seek(8)
    head: tuple[int, ...] = ()
    parts = []
    while len(start := stream.read(8)) == 8:
        length, kind = int.from_bytes(start[:4], "big"), start[4:]
        if kind == b"IHDR":
            data = stream.read(13)
            sizes = (int.from_bytes(data[:4], "big"), int.from_bytes(data[4:8], "big"))
            head = (*sizes, *data[8:13])
            stream.seek(length - len(data), 1)
        elif kind == b"IDAT":
            parts.append((stream.tell(), length))
            stream.seek(length, 1)
        elif kind == b"IEND":
            break
        else:
            stream.seek(length, 1)
        stream.seek(4, 1)
    if len(head) != 7 or head[3] not in _CHANNELS:
        raise ValueError("its head is damaged")
    return _Png(head[0], head[1], head[2], head[3], bool(head[6]), tuple(parts))


def _empty_rows(image: Image.Image) -> bool:
    """Whether one of the last rows is zero all over."""
    width, height = image.size
    for row in range(max(0, height - _LAST_ROWS), height):
        if not any(image.crop((0, row, width, row + 1)).tobytes()):
            return True
    return False


def _require_rows(stream: BinaryIO, head: _Png) -> None:
    """Decompress the data, a part at a time, and count the bytes."""
    inflate = zlib.decompressobj()
    count = 0
    for offset, length in head.parts:
        stream.seek(offset)
        end = offset + length
        while count < head.size and (data := stream.read(min(end - stream.tell(), _CHUNK))):
            while data and count < head.size and not inflate.eof:
                count += len(inflate.decompress(data, _CHUNK))
                data = inflate.unconsumed_tail
    if count < head.size:
        raise ValueError(f"its rows end after {count} of {head.size} bytes")


@cache
def _noise() -> bytes:
    """Bytes that are no marker, the same each time."""
    draw = random.Random(0)
    return bytes(draw.randrange(255) for _ in range(_NOISE))


def _require_scans(data: bytes, image: Image.Image) -> None:
    """Decode again with noise before the end marker: pixels that change were never there."""
    end, _, _ = _end_of_scans(data)
    if end < 0:
        raise ValueError("it has no end marker")
    if not image.info.get("progressive") and not _flat_end(image):
        return
    with Image.open(io.BytesIO(data[:end] + _noise() + data[end:]), formats=("JPEG",)) as again:
        again.draft(image.mode, image.size)
        again.load()
        if again.size == image.size and again.tobytes() != image.tobytes():
            raise ValueError("its data end before its pixels do")


def _refuse_many_scans(data: bytes) -> None:
    """Each scan of a progressive JPEG goes over all pixels, and an empty one has a few bytes.

    Encoders write about ten; ITU-T T.81 sets no bound.
    """
    _, scans, pixels = _end_of_scans(data)
    if scans > _MOST_SCANS or scans * pixels > _MOST_SCANNED:
        raise ValueError(f"it has {scans} scans of {pixels} pixels, more than any encoder writes")


def _end_of_scans(data: bytes) -> tuple[int, int, int]:
    """Where the end marker is, -1 where there is none; the scans before it; pixels of the frame."""
    at, scans, pixels = 2, 0, 0
    while 0 <= at < len(data) - 1:
        kind = data[at + 1]
        if data[at] != 0xFF:
            return -1, scans, pixels
        if kind == 0xD9:
            return at, scans, pixels
        if kind == 0xFF or kind == 0x01 or 0xD0 <= kind <= 0xD8:
            at += 1 if kind == 0xFF else 2
            continue
        if kind in _FRAMES:
            high, wide = data[at + 5 : at + 7], data[at + 7 : at + 9]
            pixels = int.from_bytes(high, "big") * int.from_bytes(wide, "big")
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
        if kind == 0xDA:
            scans += 1
            # entropy-coded data, to the next marker that is none of a restart
            at = data.find(b"\xff", at)
            while 0 <= at < len(data) - 1 and (data[at + 1] == 0 or 0xD0 <= data[at + 1] <= 0xD7):
                at = data.find(b"\xff", at + 2)
    return -1, scans, pixels


def _flat_end(image: Image.Image) -> bool:
    """Whether the last pixels of the last row are of one colour; what is missing is."""
    width, height = image.size
    corner = image.crop((max(0, width - 8), height - 1, width, height))
    ranges = corner.getextrema()
    bands = ranges if isinstance(ranges[0], tuple) else (ranges,)
    return all(low == high for low, high in bands)
