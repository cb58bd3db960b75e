"""Accepted pictures have all their pixels, and no picture takes more memory than its pixels."""

from __future__ import annotations

import io
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageFile

from engine.base.errors import DatasetError
from engine.dataset.decode import image_fault, open_image, to_rgb_or_gray
from engine.dataset.whole import _PASSES

CODE = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (1_000_000_000, 1_000_000_000))
from pathlib import Path
from engine.base.errors import DatasetError
from engine.dataset.decode import open_image, to_rgb_or_gray
try:
    with open_image(Path(sys.argv[1])) as image:
        to_rgb_or_gray(Path(sys.argv[1]), image, 3)
except DatasetError as error:
    print(error.what)
"""


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(
    width: int, height: int, rows: bytes, *, depth: int = 8, colour: int = 2, interlaced: int = 0
) -> bytes:
    """A PNG in form, whatever ``rows`` hold."""
    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def read(path: Path) -> np.ndarray:
    with open_image(path) as image:
        return np.asarray(to_rgb_or_gray(path, image, 3))


def refused(path: Path, words: str) -> None:
    with pytest.raises(DatasetError, match=words):
        read(path)
    assert image_fault(path)


def row(width: int, value: int) -> bytes:
    return b"\0" + bytes([value]) * 3 * width


@pytest.mark.parametrize("rows", [0, 4, 15])
def test_a_png_with_too_few_rows(rows: int, tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(png(16, 16, row(16, 9) * rows))
    refused(path, "cannot be decoded")
    path.write_bytes(png(16, 16, row(16, 9) * rows + row(16, 9)[:20]))
    refused(path, "cannot be decoded")


def test_a_png_of_black_rows_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(png(16, 16, row(16, 9) * 4 + row(16, 0) * 12))
    assert read(path)[:4].min() == 9
    assert not image_fault(path)


@pytest.mark.parametrize("missing", [0, 1, 60])
def test_an_interlaced_png(missing: int, tmp_path: Path) -> None:
    width, height = 13, 11
    rows = b""
    for first, every, left, step in _PASSES:
        wide = len(range(left, width, step))
        rows += (b"\0" + b"\x07" * 3 * wide) * len(range(first, height, every)) if wide else b""
    path = tmp_path / "a.png"
    path.write_bytes(png(width, height, rows[: len(rows) - missing], interlaced=1))
    if missing:
        refused(path, "cannot be decoded")
    else:
        assert (read(path) == 7).all()


@pytest.mark.parametrize("size", [(1, 89_000_000), (9400, 9400)])
def test_a_few_bytes_that_say_many_pixels(size: tuple[int, int], tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(png(*size, b"", colour=0))
    assert path.stat().st_size < 100
    command = [sys.executable, "-c", CODE, str(path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "cannot hold" in ran.stdout or "a side has up to 65535" in ran.stdout


@pytest.mark.parametrize(("colour", "channels"), [(0, 1), (2, 3), (4, 2), (6, 4)])
def test_sixteen_bits_a_channel(colour: int, channels: int, tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(png(4, 4, (b"\0" + bytes(8 * channels)) * 4, depth=16, colour=colour))
    refused(path, "more than 8 bits")


def jpeg(*, progressive: bool = False, flat: bool = False) -> bytes:
    pixels = np.random.default_rng(0).integers(0, 255, (96, 72, 3)).astype(np.uint8)
    if flat:
        pixels[40:] = 200
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "JPEG", quality=90, progressive=progressive)
    return stream.getvalue()


@pytest.mark.parametrize("progressive", [False, True])
@pytest.mark.parametrize("flat", [False, True])
def test_a_jpeg_that_is_cut(progressive: bool, flat: bool, tmp_path: Path) -> None:
    whole = jpeg(progressive=progressive, flat=flat)
    path = tmp_path / "a.jpg"
    for content in (whole, whole + b"trailing" * 9):
        path.write_bytes(content)
        assert read(path).shape == (96, 72, 3)
        assert not image_fault(path)
    for end in (b"", b"\xff\xd9"):
        path.write_bytes(whole[: int(len(whole) * 0.6)] + end)
        refused(path, "cannot be decoded")


def test_a_jpeg_of_many_scans(tmp_path: Path) -> None:
    """A scan of a few bytes makes the decoder go over all pixels once more."""
    whole, path = jpeg(progressive=True), tmp_path / "a.jpg"
    last = whole.rindex(b"\xff\xda")
    path.write_bytes(whole[:-2] + whole[last:-2] * 200 + whole[-2:])
    assert "scans" in image_fault(path)
    refused(path, "scans")


def test_whoever_lets_pillow_fill_in_does_not_change_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    path = tmp_path / "a.jpg"
    path.write_bytes(jpeg()[:-400])
    refused(path, "cannot be decoded")
