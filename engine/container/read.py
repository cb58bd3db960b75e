"""Containers back into what they hold; every size, offset and checksum is looked at."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.base.content import reading
from engine.base.errors import ContainerError, QuantizationError, SourceModelError
from engine.base.files import read_bounded
from engine.base.plain import JsonObject, JsonValue
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
from engine.container.other_formats import refuse_other_format
from engine.container.write import SIZE_LIMIT, Container
from engine.graph.ir import Graph, QuantTable
from engine.graph.layers import LayerMap

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
    about = parts.mapping("about")
    table = parts.table()
    return Container(
        name=_typed(about.get("name"), str, name),
        graph=parts.graph("graph", "weights"),
        quantized=_typed(about.get("quantized"), bool, name),
        recipe=parts.mapping("recipe"),
        provenance=_provenance(parts.mapping("provenance"), name),
        table=table,
        layers=parts.layers(table),
        summary=parts.mapping("summary") if "summary" in frame.sections else None,
        custom_string=parts.text("custom_string"),
        target_platform=_optional_text(about.get("target_platform"), name),
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
        raise ContainerError(
            f"{name} could not be read: {error.strerror or error}.",
            remedy="Check that you have permission to read it.",
        ) from error


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

    def text(self, section: str) -> str | None:
        if section not in self._sections:
            return None
        return _optional_text(self.json(section), self._name)

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
        after = self.mapping("segments").get("after")
        if not isinstance(after, list):
            raise corrupt_error(self._name, "section segments")
        return tuple(_cut(one, self._name) for one in after)

    def graph(self, section: str, weights: str) -> Graph:
        return join_graph(self._sections[section], self._sections[weights], self._name, section)


def _no_constant(text: str) -> Any:
    raise ValueError(text)


def _typed(value: Any, kind: type, name: str) -> Any:
    if not isinstance(value, kind):
        raise corrupt_error(name, "section about")
    return value


def _optional_text(value: Any, name: str) -> str | None:
    return None if value is None else str(_typed(value, str, name))


def _cut(value: JsonValue, name: str) -> tuple[int, str]:
    if isinstance(value, list) and len(value) == 2:
        uid, layer = value
        if type(uid) is int and uid >= 0 and isinstance(layer, str):
            return uid, layer
    raise corrupt_error(name, "section segments")


def _pair(value: JsonValue) -> tuple[str, str]:
    if not isinstance(value, list):
        raise TypeError
    first, second = value
    return str(first), str(second)


def _provenance(data: JsonObject, name: str) -> Provenance:
    try:
        dataset, source, libraries = data["dataset"], data["source"], data["libraries"]
        samples = data["samples"]
        if not (isinstance(source, list) and isinstance(libraries, list)):
            raise TypeError
        return Provenance(
            tool=str(data["tool"]),
            source=tuple(map(_pair, source)),
            dataset=None if dataset is None else _pair(dataset),
            samples=int(samples if isinstance(samples, int | float | str) else ""),
            libraries=tuple(map(_pair, libraries)),
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise corrupt_error(name, "section provenance") from error
