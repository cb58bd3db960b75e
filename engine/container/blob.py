"""The frame of a container: head, section table, sections, layer list. Knows no content.

All integers little-endian. Head as the vendor's version 6 (docs/container.md), so that
Netron finds the JSON::

    0   "RKNN", u32 0, u64 6, u64 D
    24  "OPENMODL", u32 blob version, 28 zero bytes      (the vendor's reserved bytes)
    64  D bytes of data
    64+D  u64 J, J bytes of JSON: the layer list

Data, offsets from its start; D and every offset are multiples of 64::

    0   "OPENMODL", u32 blob version, u32 C, u64 J, SHA-256 of the JSON, 8 zero bytes
    64  C entries of 80 bytes: name (32 bytes, ASCII, zeros behind), u64 offset, u64 size, SHA-256
    ..  SHA-256 of all before it, zeros up to a multiple of 64
    ..  the sections in the order of the table, each followed by zeros up to a multiple of 64

There is one way to write a content, and the reader accepts no other: any changed byte is noticed.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.base.errors import ContainerError
from engine.container.magic import MAGIC
from engine.container.other_formats import refuse_other_format

BLOB_VERSION = 1
HEAD_SIZE = 64
_VENDOR_VERSION = 6
_ALIGN = 64
_MOST_SECTIONS = 64
_HEAD = struct.Struct("<4sIQQ8sI28s")
_PREFIX = struct.Struct("<8sIIQ32s8s")
_ENTRY = struct.Struct("<32sQQ32s")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")


@dataclass(frozen=True)
class Frame:
    """The parts of a container whose checksums hold.

    Attributes:
        sections: name -> bytes, in the file's order.
        layers: the JSON of the layer list.
    """

    sections: Mapping[str, memoryview]
    layers: memoryview


def aligned(size: int) -> int:
    """The next multiple of 64."""
    return -(-size // _ALIGN) * _ALIGN


def section_offsets(sizes: Sequence[int]) -> tuple[list[int], int]:
    """Offset of each section from the start of the data, and the size D of the data."""
    position = aligned(_PREFIX.size + _ENTRY.size * len(sizes) + 32)
    offsets = []
    for size in sizes:
        offsets.append(position)
        position += aligned(size)
    return offsets, position


def pack(sections: Mapping[str, bytes | bytearray], layers: bytes) -> bytes:
    """The bytes of a container.

    Args:
        sections: name (lower case letters, digits, underscores; at most 32) -> bytes.
        layers: the JSON of the layer list.
    """
    if len(sections) > _MOST_SECTIONS or not all(_NAME.fullmatch(name) for name in sections):
        raise ValueError(f"not section names: {list(sections)}")
    offsets, size = section_offsets([len(content) for content in sections.values()])
    table = bytearray(
        _PREFIX.pack(
            MAGIC,
            BLOB_VERSION,
            len(sections),
            len(layers),
            hashlib.sha256(layers).digest(),
            bytes(8),
        )
    )
    for (name, content), offset in zip(sections.items(), offsets, strict=True):
        digest = hashlib.sha256(content).digest()
        table += _ENTRY.pack(name.encode("ascii"), offset, len(content), digest)
    table += hashlib.sha256(table).digest()
    head = _HEAD.pack(b"RKNN", 0, _VENDOR_VERSION, size, MAGIC, BLOB_VERSION, bytes(28))
    parts: list[bytes | bytearray] = [head, table, bytes(aligned(len(table)) - len(table))]
    for content in sections.values():
        parts += [content, bytes(aligned(len(content)) - len(content))]
    parts += [struct.pack("<Q", len(layers)), layers]
    return b"".join(parts)


def check_head(head: bytes, file_size: int, name: str) -> int:
    """Whether a file of this size can be a whole container, by its first 64 bytes.

    Args:
        head: the first 64 bytes, or all where there are fewer.
        file_size: bytes of the whole file.
        name: what messages call it.

    Returns:
        The size of the part that has the sections.

    Raises:
        ContainerError: foreign, newer, damaged in its head, or cut short.
    """
    refuse_other_format(name, head)
    if file_size < HEAD_SIZE + _PREFIX.size:
        raise _truncated(name)
    _, zero, version, size, _, blob_version, reserved = _HEAD.unpack_from(head)
    if blob_version > BLOB_VERSION:
        raise ContainerError(
            f"{name} has the container version {blob_version}; this program reads {BLOB_VERSION}.",
            cause="It was written by a newer version of this program.",
            remedy="Update this program.",
        )
    head_fits = (zero, version, blob_version, reserved) == (
        0,
        _VENDOR_VERSION,
        BLOB_VERSION,
        bytes(28),
    )
    _require(head_fits and size % _ALIGN == 0, name, "its head")
    if file_size < HEAD_SIZE + size + 8:
        raise _truncated(name)
    return int(size)


def unpack(data: bytes, name: str) -> Frame:
    """Take a container apart; nothing is copied.

    Args:
        data: the whole file.
        name: what messages call it.

    Raises:
        ContainerError: foreign, newer, truncated or changed in any byte.
    """
    size = check_head(data[:HEAD_SIZE], len(data), name)
    view = memoryview(data)
    blob = view[HEAD_SIZE : HEAD_SIZE + size]
    json_size, json_digest, entries = _table(blob, name)
    rest = view[HEAD_SIZE + size :]
    _require(struct.unpack_from("<Q", rest)[0] == json_size, name, "the size of its layer list")
    if len(rest) < 8 + json_size:
        raise _truncated(name)
    layers = rest[8:]
    _require(len(layers) == json_size, name, "its end")
    _require(hashlib.sha256(layers).digest() == json_digest, name, "its layer list")
    return Frame(_sections(blob, entries, name), layers)


def _table(blob: memoryview, name: str) -> tuple[int, bytes, list[tuple[str, int, int, bytes]]]:
    """JSON size, JSON digest and (name, offset, size, digest) of every section, verified."""
    _require(len(blob) >= _PREFIX.size, name, "its section table")
    magic, version, count, json_size, json_digest, reserved = _PREFIX.unpack_from(blob)
    end = _PREFIX.size + _ENTRY.size * count
    fits = (
        magic == MAGIC
        and version == BLOB_VERSION
        and count <= _MOST_SECTIONS
        and reserved == bytes(8)
        and end + 32 <= len(blob)
    )
    _require(fits, name, "its section table")
    digest = hashlib.sha256(blob[:end]).digest()
    _require(digest == bytes(blob[end : end + 32]), name, "its section table")
    entries = []
    for index in range(count):
        raw, offset, size, section_digest = _ENTRY.unpack_from(
            blob, _PREFIX.size + _ENTRY.size * index
        )
        text = raw.rstrip(b"\0").decode("ascii", "replace")
        _require(_NAME.fullmatch(text) is not None, name, "the name of a section")
        entries.append((text, offset, size, section_digest))
    _require(len({entry[0] for entry in entries}) == count, name, "its section table")
    return json_size, json_digest, entries


def _sections(
    blob: memoryview, entries: Sequence[tuple[str, int, int, bytes]], name: str
) -> dict[str, memoryview]:
    offsets, end = section_offsets([entry[2] for entry in entries])
    _require(end == len(blob), name, "the size of its data")
    table_end = _PREFIX.size + _ENTRY.size * len(entries) + 32
    _require(not any(blob[table_end : aligned(table_end)]), name, "its section table")
    sections = {}
    for (section, offset, size, digest), expected in zip(entries, offsets, strict=True):
        _require(offset == expected, name, f"the place of section {section}")
        content = blob[offset : offset + size]
        _require(hashlib.sha256(content).digest() == digest, name, f"section {section}")
        _require(not any(blob[offset + size : offset + aligned(size)]), name, f"section {section}")
        sections[section] = content
    return sections


def _require(holds: bool, name: str, what: str) -> None:
    if not holds:
        raise corrupt_error(name, what)


def corrupt_error(name: str, what: str) -> ContainerError:
    """The error for a container that was changed after it was written."""
    return ContainerError(
        f"{name} is damaged: {what} does not hold.",
        cause="The file was changed or damaged after it was written.",
        remedy="Copy it again from its source, or export it again.",
    )


def _truncated(name: str) -> ContainerError:
    return ContainerError(
        f"{name} is cut short.",
        cause="A copy or download did not finish.",
        remedy="Copy it again, or export it again.",
    )
