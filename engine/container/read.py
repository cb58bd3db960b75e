"""Containers back into what they hold; every size, offset and checksum is looked at."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar, cast

from engine.base.content import reading
from engine.base.errors import ContainerError, QuantizationError, SourceModelError
from engine.base.files import read_bounded
from engine.base.plain import JsonObject
from engine.base.text import sanitize
from engine.build import Provenance
from engine.container.blob import HEAD_SIZE, Frame, corrupt_error, unpack
from engine.container.encryption import (
    HEADER_SIZE,
    decrypted_chunks,
    encrypted_size,
    is_encrypted,
    read_header,
)
from engine.container.graphs import join_graph, join_table
from engine.container.keys import Key, needed_key
from engine.container.magic import unreadable_error
from engine.container.other_formats import refuse_other_format
from engine.container.write import SIZE_LIMIT, About, Container
from engine.graph.ir import Graph, QuantTable
from engine.graph.layers import LayerMap
from engine.wire.codec import typed

R = TypeVar("R")
_NEEDED = ("about", "recipe", "provenance", "graph", "weights")


def read_container(source: Path | bytes, key: Key | None = None) -> Container:
    """What a container holds.

    Args:
        source: its path, or its bytes.
        key: of an encrypted one; None: the one that the process knows
            (:func:`engine.container.keys.needed_key`).

    Raises:
        ContainerError: missing or unreadable file; a vendor's or another foreign file; written by a
            newer version; truncated; changed in any byte.
        KeyNeededError, WrongKeyError: it is encrypted, and no key or another one is given.
    """
    name = sanitize(str(source), 300) if isinstance(source, Path) else "The container"
    stored = _bytes_of(source, name) if isinstance(source, Path) else source
    data, level = _opened(stored, name, key)
    frame = unpack(data, name)
    for section in _NEEDED:
        if section not in frame.sections:
            raise corrupt_error(name, f"it has no section {section}, and so it")
    with reading(lambda why: corrupt_error(name, f"what its sections say ({why})")):
        return _container(frame, name, stored, level)


def _opened(stored: bytes, name: str, key: Key | None) -> tuple[bytes, int | None]:
    """The bytes of a container, and the level that it was encrypted with."""
    if not is_encrypted(stored):
        return stored, None
    header = read_header(stored[:HEADER_SIZE], len(stored), name)
    source = io.BytesIO(memoryview(stored)[HEADER_SIZE:])
    the_key = needed_key(f"{name} (level {header.level})") if key is None else key
    data = b"".join(decrypted_chunks(source, header, name, the_key))
    if is_encrypted(data):
        raise corrupt_error(name, "what is in it (it was encrypted twice)")
    return data, header.level


def _container(frame: Frame, name: str, stored: bytes, level: int | None) -> Container:
    parts = _Parts(frame.sections, name)
    about = parts.record("about", About)
    table = parts.table()
    return Container(
        name=about.name,
        graph=parts.graph("graph", "weights"),
        quantized=about.quantized,
        recipe=parts.mapping("recipe"),
        provenance=parts.record("provenance", Provenance),
        table=table,
        layers=parts.layers(table),
        summary=parts.mapping("summary") if "summary" in frame.sections else None,
        custom_string=parts.text("custom_string"),
        target_platform=about.target_platform,
        float_graph=parts.graph("float_graph", "float_weights")
        if {"float_graph", "float_weights"} <= frame.sections.keys()
        else None,
        segments=parts.segments(),
        sha256=hashlib.sha256(stored).hexdigest(),
        size=len(stored),
        sections=tuple((key, len(part)) for key, part in frame.sections.items()),
        encryption_level=level,
    )


def _bytes_of(path: Path, name: str) -> bytes:
    try:
        if path.is_file():
            with path.open("rb") as stream:  # a vendor's file of 1 GB is refused by its head
                refuse_other_format(name, stream.read(HEAD_SIZE), path)
        return read_bounded(path, encrypted_size(SIZE_LIMIT), "a container")
    except SourceModelError as error:
        raise ContainerError(error.what, cause=error.cause, remedy=error.remedy) from error
    except OSError as error:
        raise unreadable_error(name, error) from error


@dataclass(frozen=True)
class _Segments:
    after: tuple[tuple[int, str], ...]


class _Parts:
    """Sections turned into objects; whatever does not fit is a damaged container."""

    def __init__(self, sections: Mapping[str, memoryview], name: str) -> None:
        self._sections = sections
        self._name = name

    def json(self, section: str) -> Any:
        try:
            return json.loads(bytes(self._sections[section]), parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            raise corrupt_error(self._name, f"section {section} (no JSON)") from error

    def mapping(self, section: str) -> JsonObject:
        data = self.json(section)
        if not isinstance(data, dict):
            raise corrupt_error(self._name, f"section {section}")
        return data

    def record(self, section: str, kind: type[R]) -> R:
        """The fields of a record; what a newer version writes beside them is left."""
        data = self.mapping(section)
        names = {field.name for field in fields(cast("Any", kind))}
        try:
            return typed(kind, {name: data[name] for name in names & data.keys()})
        except TypeError as error:
            raise corrupt_error(self._name, f"section {section}") from error

    def text(self, section: str) -> str | None:
        text = self.json(section) if section in self._sections else None
        if text is None or isinstance(text, str):
            return text
        raise corrupt_error(self._name, f"section {section}")

    def table(self) -> QuantTable | None:
        if "quant_table" not in self._sections:
            return None
        values = self._sections.get("quant_values", memoryview(b""))
        try:
            return join_table(self.json("quant_table"), values)
        except QuantizationError as error:
            raise corrupt_error(self._name, "section quant_table") from error

    def layers(self, table: QuantTable | None) -> LayerMap | None:
        if "layer_map" not in self._sections:
            return None
        return LayerMap.from_json(self.mapping("layer_map"), table or {})

    def segments(self) -> tuple[tuple[int, str], ...]:
        if "segments" not in self._sections:
            return ()
        after = self.record("segments", _Segments).after
        if any(uid < 0 for uid, _ in after):
            raise corrupt_error(self._name, "section segments")
        return after

    def graph(self, section: str, weights: str) -> Graph:
        return join_graph(self._sections[section], self._sections[weights], self._name, section)


def _no_constant(text: str) -> Any:
    raise ValueError(text)
