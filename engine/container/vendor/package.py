"""Packages of custom operators of generation 1 (``.rknnop``), and the same behind a layer list.

A package is a head like a model's (``RKNN``, u32 0, u64 2), then six parts, each a u64 length and
so many bytes, up to the end of the file. Only the fifth, a YAML text, is read: the rest is code.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from engine.base.plain import JsonObject
from engine.container.vendor.model import CustomSection, OpPackage
from engine.container.vendor.values import (
    BoundedReader,
    as_list,
    as_mapping,
    as_text,
    open_bounded,
    read_json,
)

KERNEL_MAGIC = b"SHDR"
_HEAD = 16
_VERSION = 2
_PARTS = (
    "kernel",
    "host library 1",
    "host library 2",
    "host library 3",
    "description",
    "Python source",
)
_DESCRIPTION_LIMIT = 16 << 10
_MOST_PARTS = 16
_MOST_ARGUMENTS = 1000
_CODE = {
    "kernel": "vx_kernel_bin",
    "host library x86": "op_lib_x86",
    "host library aarch64": "op_lib_aarch64",
}


def inspect_op_package(path: Path) -> OpPackage:
    """What a package of a custom operator says of it.

    Raises:
        ContainerError: missing, unreadable, damaged, or no package.
    """
    with open_bounded(path) as span:
        if not is_package(span):
            raise span.damaged_error("there is no package of a custom operator (.rknnop)")
        return read_package(span)


def is_package(span: BoundedReader) -> bool:
    """Whether a file starts as a package does."""
    head = span.head(_HEAD + 12)
    return head[:4] == b"RKNN" and head[8:9] == b"\x02" and head[24:28] == KERNEL_MAGIC


def _tail(span: BoundedReader, start: int, most: int) -> list[BoundedReader]:
    """The parts from ``start`` to the end, each behind its u64 length."""
    parts: list[BoundedReader] = []
    while start < span.size:
        if len(parts) == most:
            raise span.damaged_error(f"there are more than {most} parts")
        (size,) = span.unpack("Q", start, "the length of a part")
        parts.append(span.inner(start + 8, size, f"part {len(parts) + 1}"))
        start += 8 + size
    return parts


def read_package(span: BoundedReader) -> OpPackage:
    """A package that was opened.

    Raises:
        ContainerError: it is damaged, or of a version that is not known.
    """
    (version,) = span.unpack("Q", 8, "the version")
    if version != _VERSION:
        raise span.damaged_error(f"the package has version {version}, and {_VERSION} is known")
    parts = _tail(span, _HEAD, _MOST_PARTS)
    if len(parts) != len(_PARTS):
        raise span.damaged_error(f"there are {len(parts)} parts, not {len(_PARTS)}")
    text = _description(parts[_PARTS.index("description")])
    name = as_text(text.get("name"))
    if not name:
        raise span.damaged_error("the description does not name the operator")
    op_version = text.get("op_version")
    return OpPackage(
        name=name,
        op_version=op_version if type(op_version) is int and 0 <= op_version < 1 << 31 else 0,
        target_platform=as_text(text.get("target_platform")),
        framework=as_text(text.get("framework")),
        inputs=_arguments(text.get("inputs"), span),
        outputs=_arguments(text.get("outputs"), span),
        params=_arguments(text.get("params"), span),
        sections=tuple((part, piece.size) for part, piece in zip(_PARTS, parts, strict=True)),
    )


def _description(span: BoundedReader) -> JsonObject:
    if span.size > _DESCRIPTION_LIMIT:
        raise span.damaged_error(f"the description has {span.size} bytes")
    raw = span.read()
    if raw.count(b"[") + raw.count(b"{") > _MOST_ARGUMENTS:  # a nest of them costs seconds
        raise span.damaged_error("the description has too many brackets")
    try:
        return as_mapping(yaml.safe_load(raw.decode("utf-8")))
    except (yaml.YAMLError, ValueError, TypeError, RecursionError, AttributeError) as error:
        raise span.damaged_error("the description is not YAML text") from error


def _arguments(value: Any, span: BoundedReader) -> tuple[tuple[str, str], ...]:
    """(name, type) of ``{name: {type: TYPE}}``."""
    entries = as_mapping(value)
    if len(entries) > _MOST_ARGUMENTS:
        raise span.damaged_error(f"an operator has more than {_MOST_ARGUMENTS} arguments")
    return tuple((str(k), as_text(as_mapping(v).get("type"))) for k, v in entries.items())


def read_custom_sections(span: BoundedReader, start: int) -> tuple[tuple[CustomSection, ...], int]:
    """(custom operators, bytes of their code) behind a layer list that ends at ``start``.

    A part with a JSON list of operators, and a part with the pieces of code that they name.

    Raises:
        ContainerError: it is damaged.
    """
    parts = _tail(span, start, _MOST_PARTS)
    if len(parts) != 2:
        raise span.damaged_error(f"{len(parts)} parts follow the layer list; 2 are known")
    table, code = parts
    entries = as_list(read_json(table))
    if len(entries) > _MOST_ARGUMENTS:
        raise table.damaged_error(f"there are more than {_MOST_ARGUMENTS} custom operators")
    return tuple(_section(as_mapping(entry), table, code) for entry in entries), code.size


def _section(entry: JsonObject, table: BoundedReader, code: BoundedReader) -> CustomSection:
    pieces = []
    for piece, field in _CODE.items():
        place, size = entry.get(f"{field}_offset"), entry.get(f"{field}_len")
        if place is None and size is None:
            continue
        if type(place) is not int or type(size) is not int:
            raise table.damaged_error(f"the place of the {piece} is not a number")
        code.check(place, size, f"the {piece}")
        pieces.append((piece, size))
    return CustomSection(
        name=as_text(entry.get("name")),
        inputs=_arguments(entry.get("inputs"), table),
        outputs=_arguments(entry.get("outputs"), table),
        params=_arguments(entry.get("params"), table),
        code=tuple(pieces),
    )
