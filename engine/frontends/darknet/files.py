"""The two files of a Darknet network: its ``.cfg`` text, and its ``.weights``.

The text is sections of ``key=value`` lines, after ``read_cfg`` (src/parser.c) and ``option_list.c``
of AlexeyAB's darknet: every blank of a line is dropped, a line that starts with ``#`` or ``;`` is a
comment, of a repeated key the first counts, and a number ends where its digits end (``atoi``,
``atof``). The weights are a header and one long run of float32, without names.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple

import numpy as np

from engine.base.errors import SourceModelError
from engine.base.findings import Finding
from engine.base.text import sanitize

MAX_CFG = 16 << 20
MAX_SECTIONS = 4096
_MAX_NUMBERS = 4096
_INTEGER = re.compile(r"[+-]?\d{1,18}")
_REAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?")
_BLANKS = str.maketrans("", "", " \t\r\n")


@dataclass
class Section:
    """One section: its type without brackets, the line it starts at, and its options."""

    type: str
    line: int
    options: dict[str, str] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)

    def text(self, key: str, default: str) -> str:
        """The text of an option."""
        return self.options.get(key, default)

    def integer(self, key: str, default: int) -> int:
        """An option as a whole number.

        Raises:
            SourceModelError: its value does not begin with one.
        """
        value = self.options.get(key)
        return default if value is None else int(self._number(key, _INTEGER, value))

    def real(self, key: str, default: float) -> float:
        """An option as a number.

        Raises:
            SourceModelError: its value does not begin with one.
        """
        value = self.options.get(key)
        return default if value is None else float(self._number(key, _REAL, value))

    def flag(self, key: str) -> bool:
        """Whether an option is there and not 0."""
        return self.real(key, 0) != 0

    def integers(self, key: str) -> tuple[int, ...]:
        """The whole numbers of a list; empty where there is no such option."""
        return tuple(int(self._number(key, _INTEGER, item)) for item in self._items(key))

    def reals(self, key: str) -> tuple[float, ...]:
        """The numbers of a list; empty where there is no such option."""
        return tuple(float(self._number(key, _REAL, item)) for item in self._items(key))

    def _items(self, key: str) -> Iterator[str]:
        items = self.options.get(key, "").partition("#")[0].split(",", _MAX_NUMBERS)
        if len(items) > _MAX_NUMBERS:
            raise SourceModelError(
                f"Line {self.lines[key]} lists more than {_MAX_NUMBERS} numbers.",
                remedy="Check that this is the right file.",
            )
        return (item for item in items if item)

    def _number(self, key: str, pattern: re.Pattern[str], value: str) -> str:
        number = pattern.match(value)
        if number is None:
            raise SourceModelError(
                f"Line {self.lines[key]}: {sanitize(f'{key}={value}', 120)} is not a number.",
                cause="A typing error, or a comment on the same line as the value.",
                remedy="Correct the line.",
            )
        return number[0]


@dataclass(frozen=True)
class Config:
    """A whole file: ``[net]``, the layers in order, and what was noticed."""

    net: Section
    layers: tuple[Section, ...]
    findings: tuple[Finding, ...]


def read_cfg(data: bytes, name: str) -> Config:
    """Read the bytes of a ``.cfg`` file.

    Raises:
        SourceModelError: no sections, the first is not ``[net]``, or more of them than networks
            have.
    """
    sections: list[Section] = []
    findings: list[Finding] = []
    text = data.decode("utf-8", "replace").removeprefix("\ufeff")
    for number, raw in enumerate(text.split("\n"), start=1):
        line = raw.translate(_BLANKS)
        if not line or line[0] in "#;":
            continue
        if line[0] == "[":
            sections.append(Section(line.removeprefix("[").removesuffix("]"), number))
        elif not sections:
            raise SourceModelError(
                f"Line {number} of {name} stands before the first section: {sanitize(line, 60)}.",
                remedy="Begin the file with [net].",
            )
        else:
            note = _option(sections[-1], line, number)
            if note:
                findings.append(_noticed(name, number, note))
        if len(sections) > MAX_SECTIONS:
            raise SourceModelError(
                f"{name} has more than {MAX_SECTIONS} sections.",
                remedy="Check that this is the right file.",
            )
    if not sections or sections[0].type not in ("net", "network"):
        beginning = (
            f"begins with [{sanitize(sections[0].type, 60)}]" if sections else "has no section"
        )
        raise SourceModelError(
            f"{name} {beginning}; a Darknet configuration begins with [net].",
            remedy="Check that this is the right file.",
        )
    if len(sections) == 1:
        raise SourceModelError(f"{name} has no layers.", remedy="Check that the file is whole.")
    return Config(sections[0], tuple(sections[1:]), tuple(findings[:50]))


def _option(section: Section, line: str, number: int) -> str:
    """Take one ``key=value`` line into a section; what is odd about it, or nothing."""
    key, equals, value = line.partition("=")
    if not equals or not value:
        return f"{sanitize(line, 60)} has no value; it is ignored, as darknet does"
    if key in section.options:
        if section.options[key] == value:
            return ""
        return (
            f"{sanitize(key, 60)} is repeated; the first value counts, "
            f"{sanitize(section.options[key], 60)}, as in darknet"
        )
    section.options[key] = value
    section.lines[key] = number
    return ""


def _noticed(name: str, number: int, note: str) -> Finding:
    return Finding("cfg-line", "warning", f"{name}, line {number}", f"Line {number}: {note}.")


MAX_WEIGHTS = 4 << 30


class Blob(NamedTuple):
    """A run of weights that a layer reads: what it is, its shape, whether its axes are stored so
    that the first one, which counts filters, comes last.
    """

    role: str
    shape: tuple[int, ...]
    flipped: bool = False

    @property
    def floats(self) -> int:
        """How many they are."""
        return prod(self.shape)


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
        self.said = ".".join(map(str, self.version))
        self.transposed = major > 1000 or minor > 1000
        self.tail_bytes = (len(data) - start) % 4
        self.floats = np.frombuffer(data, "<f4", (len(data) - start) // 4, start)
        self.lacking: tuple[int, SourceModelError] | None = None
        """The first layer whose weights are not all there, and what is to be told of it."""
        self.last = -1
        """The last layer that took some."""
        self._next = 0

    @property
    def left(self) -> int:
        """How many floats were not taken."""
        return len(self.floats) - self._next

    def take(self, blob: Blob, index: int, layer: str) -> np.ndarray | None:
        """The next floats, shaped, for a layer; None behind the file's end: see :attr:`lacking`."""
        count = blob.floats
        if self.lacking is None and count > self.left:
            self.lacking = index, self._too_short(blob, f"layer {index} ({layer})")
        if self.lacking is not None:
            return None
        array = self.floats[self._next : self._next + count]
        self._next += count
        self.last = index
        # flipped weights are (channels x size x size, filters); connected ones are transposed
        if blob.flipped or (self.transposed and len(blob.shape) == 2):
            array = array.reshape(-1, blob.shape[0]).T
        return array.reshape(blob.shape)

    def _too_short(self, blob: Blob, layer: str) -> SourceModelError:
        return SourceModelError(
            f"{self.name} ends in {layer}: its {blob.role} need {blob.floats} floats, "
            f"{self.left} are left ({blob.floats - self.left} are missing there).",
            cause="The file was cut short, is of another network, or holds only the first "
            "layers, as files for starting a training do.",
            remedy="Give the weights that were trained with this very .cfg, or cut the network "
            "with 'outputs' before this layer.",
        )

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
