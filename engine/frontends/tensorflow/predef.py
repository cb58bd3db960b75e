"""The file of predefined constants: an npz, name -> value, read without unpickling anything."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import IO

import numpy as np

from engine.base.errors import SourceModelError
from engine.base.text import human_bytes, printable

__all__ = ["read_predef"]

_MAX_ARRAYS = 1000
_MAX_BYTES = 64 << 20


def read_predef(path: Path) -> dict[str, np.ndarray]:
    """Constants by the name of the placeholder that each takes the place of.

    The manual of toolkit 1 has them written by ``np.savez('prd.npz', **{name: value})``, with ``#``
    for every ``/`` of a name.

    Raises:
        SourceModelError: missing, no npz, one that holds Python objects, or more than 64 MiB.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            if len(members) > _MAX_ARRAYS or sum(m.file_size for m in members) > _MAX_BYTES:
                raise _refusal(
                    path, f"it holds more than {_MAX_ARRAYS} arrays or {human_bytes(_MAX_BYTES)}"
                )
            return {_name(m): _read(archive, m) for m in members}
    except OSError as error:
        raise SourceModelError(
            f"{printable(str(path))}, the predefined file, could not be read: "
            f"{error.strerror or error}.",
            remedy="Check the path.",
        ) from error
    except (ValueError, zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        raise _refusal(path, printable(str(error), 200)) from error


def _refusal(path: Path, why: str) -> SourceModelError:
    return SourceModelError(
        f"{printable(str(path))} is no file of predefined constants: {why}.",
        remedy="Write it with np.savez('prd.npz', **{'name#of#placeholder': value}).",
    )


def _name(member: zipfile.ZipInfo) -> str:
    return member.filename.removesuffix(".npy").replace("#", "/")


def _read(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    with archive.open(member) as stream:
        shape, dtype = _header(stream)
        size = math.prod(shape) * dtype.itemsize
        if dtype.hasobject or dtype.kind not in "fiub":
            raise ValueError(f"{member.filename} has elements of type {dtype}")
        # numpy makes room for what the header says before it reads
        if size > member.file_size:
            raise ValueError(f"{member.filename} is cut")
    with archive.open(member) as stream:
        return np.lib.format.read_array(stream, allow_pickle=False)


def _header(stream: IO[bytes]) -> tuple[tuple[int, ...], np.dtype]:
    version = np.lib.format.read_magic(stream)
    read = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }.get(version)
    if read is None:
        raise ValueError(f"an array has the version {version}")
    shape, _, dtype = read(stream)
    return shape, dtype
