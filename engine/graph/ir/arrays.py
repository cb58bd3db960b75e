"""Arrays of numbers from npy and npz files: heads are checked before room is made, no pickle."""

from __future__ import annotations

import io
import math
import os
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

import numpy as np

from engine.base.content import ContentError, reading
from engine.base.files import open_regular

_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
_NUMBERS = "fiub"


def npy_bytes(array: np.ndarray) -> bytes:
    """An array as the content of an npy file."""
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=False)
    return stream.getvalue()


def read_npy(source: Path | bytes, *, mapped: bool = False) -> np.ndarray:
    """The array of an npy file.

    Args:
        source: its path, or its bytes.
        mapped: a read-only map of the file, of which nothing but the head is read.

    Raises:
        OSError: it could not be read.
        ValueError: it is no npy file, is cut, or holds something else than numbers.
    """
    if isinstance(source, bytes):
        return _array(io.BytesIO(source), len(source))
    with open_regular(source) as stream:
        size = os.fstat(stream.fileno()).st_size
        if not mapped:
            return _array(stream, size)
        _check(stream, size)
    with reading():
        array: np.ndarray = np.load(source, mmap_mode="r", allow_pickle=False)
        return array


def read_npz(path: Path, names: Iterable[str] | None, limit: int) -> dict[str, np.ndarray]:
    """Arrays of an npz archive by name.

    Args:
        path: of the archive.
        names: those that are wanted, where they are there; None for all.
        limit: bytes that all members of the archive may have unpacked.

    Raises:
        OSError: it could not be read.
        ValueError: it is no npz, a member is damaged or holds something else than numbers, or it
            holds more than ``limit`` bytes.
    """
    selected = None if names is None else set(names)
    with open_regular(path) as stream, reading(), zipfile.ZipFile(stream) as archive:
        members = archive.infolist()
        if sum(member.file_size for member in members) > limit:
            raise ValueError(f"it holds more than {limit >> 20} MiB")
        arrays = {}
        for member in members:
            name = member.filename.removesuffix(".npy")
            if selected is None or name in selected:
                with archive.open(member) as packed:
                    content = packed.read(member.file_size + 1)
                arrays[name] = read_npy(content)
        return arrays


def _array(stream: BinaryIO, size: int) -> np.ndarray:
    _check(stream, size)
    stream.seek(0)
    with reading():
        array: np.ndarray = np.lib.format.read_array(stream, allow_pickle=False)
        return array


def _check(stream: BinaryIO, size: int) -> None:
    """Refuse what is no array of numbers, or is shorter than its head says."""
    with reading():
        version = np.lib.format.read_magic(stream)
        if version not in _HEADERS:
            raise ValueError(f"its version {version} is not known")
    with reading(lambda _: ContentError("its head is damaged")):
        try:
            shape, _, dtype = _HEADERS[version](stream)
        except MemoryError:  # Python's parser says so of what is nested deeply; a head is 64 KiB
            raise ValueError("its head is nested too deeply") from None
    with reading():
        if dtype.hasobject:
            raise ValueError("it contains Python objects")
        if dtype.kind not in _NUMBERS or not dtype.itemsize or dtype.subdtype is not None:
            raise ValueError(f"its dtype {dtype} is none of whole or floating point numbers")
        if any(type(dim) is not int or dim < 0 for dim in shape):
            raise ValueError(f"its shape is {shape}")
        said, there = math.prod(shape) * dtype.itemsize, size - stream.tell()
        if said > there:
            raise ValueError(f"it is cut: its head tells of {said} bytes, {there} are there")
