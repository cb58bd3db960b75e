"""The options of operators: names, types and defaults of their fields (``options.toml``).

What is read and what is written (:mod:`engine.export.tflite`) are the same tables.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass

from engine.base.formats.flatbuffers import FlatError, FlatTable
from engine.frontends.facts import facts

SAME, VALID = 0, 1
"""Numbers of the option ``padding``."""

RELU, RELU_N1_TO_1, RELU6, TANH = 1, 2, 3, 4
"""Numbers of the option ``activation``, which is fused; 0 is none."""


def same_pads(size: int, count: int, stride: int, reach: int) -> tuple[int, int]:
    """What ``SAME`` pads before and behind: an odd element goes to the end.

    As ``tensorflow/lite/kernels/padding.h`` has it.

    Args:
        size: elements.
        count: windows.
        stride: of the window.
        reach: elements that a window spans, with its dilation.
    """
    total = max((count - 1) * stride + reach - size, 0)
    return total // 2, total - total // 2


Value = int | float | str | tuple[int, ...] | tuple[float, ...]


@dataclass(frozen=True)
class OptionField:
    """A field: its number in the table, its default, a kind (``b ? i I q f s``, ``i*``, ``f*``)."""

    number: int
    name: str
    kind: str
    default: Value


@dataclass(frozen=True)
class OptionTable:
    """A table of the union ``BuiltinOptions``, by its name in the schema."""

    name: str
    fields: tuple[OptionField, ...]


NO_OPTIONS = OptionTable("", ())


def _table(name: str, *fields: str) -> OptionTable:
    """``stride_w:i``, ``dilation:i=1``, ``-``: fields in the schema's order; ``-`` is not read."""
    read = []
    for number, field in enumerate(fields):
        if field == "-":
            continue
        label, kind = field.split(":")
        kind, _, default = kind.partition("=")
        empties: dict[str, Value] = {"f": 0.0, "s": "", "i*": (), "f*": ()}
        empty = empties.get(kind, int(default or 0))
        read.append(OptionField(number, label, kind, empty))
    return OptionTable(name, tuple(read))


OPTIONS: Mapping[str, OptionTable] = {
    operator: _table(*text.split()) for operator, text in facts(__package__, "options.toml").items()
}
"""Operator -> its options; an operator that is not listed has none that this reader needs."""

CUSTOM: Mapping[str, tuple[str, ...]] = {
    "Convolution2DTransposeBias": ("padding", "stride_w", "stride_h"),
}
"""Custom operators that are read -> their options: whole numbers of 32 bits in this order."""


def read_custom(name: str, data: bytes) -> dict[str, Value]:
    """The options of a custom operator.

    Raises:
        FlatError: there are fewer than it has.
    """
    fields = CUSTOM[name]
    if len(data) < 4 * len(fields):
        raise FlatError(f"{name} has {len(data)} bytes of options")
    return dict(zip(fields, struct.unpack_from(f"<{len(fields)}i", data), strict=True))


def read_options(kind: OptionTable, table: FlatTable | None) -> dict[str, Value]:
    """Every field of ``kind``; the schema's defaults where the file leaves fields or all out.

    Raises:
        FlatError: the table points outside the file.
    """
    if table is None:
        return {field.name: field.default for field in kind.fields}
    return {field.name: _read(field, table) for field in kind.fields}


def _read(field: OptionField, table: FlatTable) -> Value:
    if field.kind == "f":
        return table.real(field.number)
    if field.kind == "s":
        return table.text(field.number)
    if field.kind == "i*":
        return table.numbers(field.number)
    if field.kind == "f*":
        return table.reals(field.number)
    return table.number(field.number, field.kind, int(field.default))  # type: ignore[arg-type]
