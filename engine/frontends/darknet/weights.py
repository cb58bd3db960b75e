"""Darknet's ``.weights`` file: a header and one long run of float32, without names."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np

from engine.base.errors import SourceModelError

__all__ = ["Blob", "WeightsFile"]

MAX_BYTES = 4 << 30


@dataclass(frozen=True)
class Blob:
    """A run of weights that a layer reads: what it is, and its shape."""

    role: str
    shape: tuple[int, ...]

    @property
    def count(self) -> int:
        """How many floats."""
        count = 1
        for dim in self.shape:
            count *= dim
        return count


class WeightsFile:
    """Reads runs of float32 in the order of the layers, and tells when they do not fit.

    Header (``load_weights_upto`` in src/parser.c): int32 major, minor, revision, then the number
    of pictures seen in training: 64 bits from version 0.2 on (unless major or minor is 1000 or
    more), else 32. A major or minor above 1000 says that fully connected weights are transposed.

    Args:
        data: the whole file.
        name: for errors.

    Raises:
        SourceModelError: shorter than a header.
    """

    def __init__(self, data: bytes, name: str) -> None:
        if len(data) < 16:
            raise SourceModelError(
                f"{name} has {len(data)} bytes, less than the header of Darknet weights.",
                cause="A download or a copy was interrupted.",
                remedy="Copy or download it again.",
            )
        self.name = name
        self.version: tuple[int, int, int] = struct.unpack_from("<3i", data)
        major, minor, _ = self.version
        wide = major * 10 + minor >= 2 and major < 1000 and minor < 1000
        start = 20 if wide and len(data) >= 20 else 16
        self.seen = int.from_bytes(data[12:start], "little")
        self.transposed = major > 1000 or minor > 1000
        self.tail_bytes = (len(data) - start) % 4
        self.floats = np.frombuffer(data, "<f4", (len(data) - start) // 4, start)
        self._next = 0

    @property
    def left(self) -> int:
        """How many floats were not taken."""
        return len(self.floats) - self._next

    def take(self, blob: Blob, layer: str) -> np.ndarray:
        """The next floats, shaped; a view of the file's bytes.

        Raises:
            SourceModelError: the file ends before; says how many floats are missing, and where.
        """
        if blob.count > self.left:
            raise SourceModelError(
                f"{self.name} ends in {layer}: its {blob.role} need {blob.count} floats, "
                f"{self.left} are left ({blob.count - self.left} are missing there).",
                cause="The file was cut short, is of another network, or holds only the first "
                "layers, as files for starting a training do.",
                remedy="Give the weights that were trained with this very .cfg, or cut the network "
                "with 'outputs' before this layer.",
            )
        array = self.floats[self._next : self._next + blob.count].reshape(blob.shape)
        self._next += blob.count
        return array

    def refuse_rest(self, layer: str) -> None:
        """Refuse a file with more floats than the network has weights.

        Raises:
            SourceModelError: says how many are left over after ``layer``, the last one.
        """
        if not self.left and not self.tail_bytes:
            return
        rest = f"{self.left} floats" if self.left else ""
        if self.tail_bytes:
            rest = f"{rest} and {self.tail_bytes} bytes".removeprefix(" and ")
        raise SourceModelError(
            f"{self.name} holds {rest} more than the network has weights: it needs {self._next} "
            f"floats up to its last layer, {layer}, of {len(self.floats)}.",
            cause="The weights are of another .cfg, for instance with other classes or filters.",
            remedy="Give the .cfg that these weights were trained with.",
        )
