"""A TFLite file as frozen data: graphs, tensors, operators and options (schema.fbs, version 3)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from tflite.BuiltinOperator import BuiltinOperator
from tflite.BuiltinOptions import BuiltinOptions
from tflite.BuiltinOptions2 import BuiltinOptions2
from tflite.TensorType import TensorType

from engine.base.errors import SourceModelError
from engine.base.formats.flatbuffers import FlatBuffer, FlatError, FlatTable
from engine.base.text import sanitize
from engine.frontends.facts import facts

# The options of operators: names, types and defaults of their fields (``options.toml``).
#
# What is read and what is written (:mod:`engine.export.tflite`) are the same tables.

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
    return {
        field.name: field.default if table is None else _read(field, table) for field in kind.fields
    }


def _read(field: OptionField, table: FlatTable) -> Value:
    readers: dict[str, Callable[[int], Value]] = {
        "f": table.real,
        "s": table.text,
        "i*": table.numbers,
        "f*": table.reals,
    }
    if field.kind in readers:
        return readers[field.kind](field.number)
    return table.number(field.number, field.kind, int(field.default))  # type: ignore[arg-type]


IDENTIFIER = b"TFL3"
_VERSION = 3
_MAX_RANK = 32
_MAX_TEXT = 1 << 16
# Vectors may be shared, and are: exporters write equal ones once. What is read of their files takes
# less than 6 times the file's size.
_SHARING = 32
_T = TypeVar("_T")


def _numbers(holder: type) -> Mapping[int, str]:
    return {value: name for name, value in vars(holder).items() if isinstance(value, int)}


_OPERATORS = _numbers(BuiltinOperator)
# field of the table, field of its type -> the union's members
_UNIONS = ((4, 3, _numbers(BuiltinOptions)), (12, 11, _numbers(BuiltinOptions2)))
_TYPES = {number: name.lower() for number, name in _numbers(TensorType).items()}


@dataclass(frozen=True)
class Quantization:
    """``real = (q - zero_point) * scale``, per tensor or along ``axis``; arrays are 1-D."""

    scale: np.ndarray
    zero_point: np.ndarray
    axis: int
    custom: bool


@dataclass(frozen=True)
class Dimension:
    """One level of a sparse tensor: dense, or compressed with segments and indices (CSR)."""

    dense_size: int
    segments: tuple[int, ...] | None
    indices: tuple[int, ...] | None


@dataclass(frozen=True)
class Sparsity:
    """How a sparse tensor is laid out (``SparsityParameters``)."""

    traversal_order: tuple[int, ...]
    block_map: tuple[int, ...]
    dimensions: tuple[Dimension, ...]


@dataclass(frozen=True)
class Tensor:
    """A tensor of a subgraph.

    Attributes:
        name: as the file has it; may be empty or used twice.
        shape: with 1 where ``signature`` has -1.
        signature: -1 where a dimension is dynamic; the shape where the file has none.
        dtype: numpy's name of the element type, or the schema's for what numpy lacks.
        data: raw bytes of a constant; None where it is computed.
        quantization: None where it has none.
        variable: whether it keeps its value between runs.
        sparsity: None for dense ones.
    """

    name: str
    shape: tuple[int, ...]
    signature: tuple[int, ...]
    dtype: str
    data: np.ndarray | None
    quantization: Quantization | None
    variable: bool
    sparsity: Sparsity | None


@dataclass(frozen=True)
class Operator:
    """An operator: its type, tensor numbers (-1 where left out), options by name.

    The type is in capitals; a custom operator that is read has its own name.
    """

    type: str
    custom_code: str
    version: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, Value]

    @property
    def label(self) -> str:
        """The type as users know it; of a custom operator its own name."""
        return self.custom_code if self.type == "CUSTOM" and self.custom_code else self.type


@dataclass(frozen=True)
class Subgraph:
    """A graph of operators in order of execution."""

    name: str
    tensors: tuple[Tensor, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operators: tuple[Operator, ...]


@dataclass(frozen=True)
class Signature:
    """A named entry: (name, tensor number) of its inputs and outputs."""

    key: str
    subgraph: int
    inputs: tuple[tuple[str, int], ...]
    outputs: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Model:
    """A whole file."""

    version: int
    description: str
    subgraphs: tuple[Subgraph, ...]
    signatures: tuple[Signature, ...]


def parse_model(data: bytes, name: str) -> Model:
    """Read a file; weights stay views on ``data``.

    Args:
        data: the whole file.
        name: of the file, for errors.

    Raises:
        SourceModelError: no TFLite file, of another version, truncated, or damaged.
    """
    if len(data) < 8 or data[4:8] != IDENTIFIER:
        raise SourceModelError(
            f"{sanitize(name)} is not a TFLite model: 'TFL3' is not at byte 4.",
            remedy="Give the .tflite file that the converter wrote.",
        )
    try:
        return _model(data)
    except FlatError as error:
        raise SourceModelError(
            f"{sanitize(name)} is damaged: {error}.",
            cause="A download or a copy was interrupted, or the file was changed.",
            remedy="Get or convert the file again.",
        ) from error


def _model(data: bytes) -> Model:
    root = FlatBuffer(data, _SHARING * len(data) + (1 << 16)).root()
    version = root.number(0, "I")
    if version != _VERSION:
        raise FlatError(f"it says version {version} of the format, and only 3 is known")
    codes = [_code(table) for table in root.tables(1)]
    buffers = [_buffer(data, table) for table in root.tables(4)]
    subgraphs = tuple(_subgraph(table, codes, buffers) for table in root.tables(2))
    if not subgraphs:
        raise FlatError("it has no graph")
    signatures = tuple(_signature(table) for table in root.tables(7))
    for signature in signatures:
        graph = _pick(subgraphs, signature.subgraph, "graph of a signature")
        for _, tensor in (*signature.inputs, *signature.outputs):
            _pick(graph.tensors, tensor, "tensor of a signature")
    return Model(version, _text(root, 3), subgraphs, signatures)


def _buffer(file: bytes, table: FlatTable) -> np.ndarray | None:
    data = _vector(table, 0, "u1")
    # files above 2 GB keep their weights behind the flatbuffer: Buffer.offset and .size
    offset, size = table.number(1, "Q"), table.number(2, "Q")
    if (data is None or not len(data)) and offset > 1:
        if offset + size > len(file):
            raise FlatError(f"a buffer ends at byte {offset + size}, behind the end")
        data = np.frombuffer(file, np.uint8, size, offset)
    return data if data is not None and len(data) else None


def _vector(table: FlatTable, field: int, dtype: str) -> np.ndarray | None:
    """A vector of numbers, as a view on the file."""
    content = table.view(field, np.dtype(dtype).itemsize)
    return None if content is None else np.frombuffer(content, dtype)


def _text(table: FlatTable, field: int) -> str:
    text = table.text(field)
    if len(text) > _MAX_TEXT:
        raise FlatError(f"a name has {len(text)} letters")
    return text


def _pick(items: tuple[_T, ...] | list[_T], index: int, what: str) -> _T:
    if not 0 <= index < len(items):
        raise FlatError(f"a {what} has the number {index}, and there are {len(items)}")
    return items[index]


def _code(table: FlatTable) -> tuple[str, str, int]:
    """(type, custom name, version); codes above 127 have a field of their own."""
    number = max(table.number(0, "b"), table.number(3, "i"))
    known = _OPERATORS.get(number, f"BUILTIN_{number}")
    return known, _text(table, 1), table.number(2, "i", 1)


def _subgraph(
    table: FlatTable, codes: list[tuple[str, str, int]], buffers: list[np.ndarray | None]
) -> Subgraph:
    tensors = tuple(_tensor(item, buffers) for item in table.tables(0))
    operators = tuple(_operator(item, codes) for item in table.tables(3))
    ends = [table.numbers(field) for field in (1, 2)]
    for index in (i for numbers in ends for i in numbers):
        _pick(tensors, index, "input or output of the graph")
    for operator in operators:
        for index in operator.inputs:
            if index != -1:
                _pick(tensors, index, f"tensor of {operator.type}")
        for index in operator.outputs:
            _pick(tensors, index, f"tensor of {operator.type}")
    return Subgraph(_text(table, 4), tensors, ends[0], ends[1], operators)


def _operator(table: FlatTable, codes: list[tuple[str, str, int]]) -> Operator:
    kind, custom, version = _pick(codes, table.number(0, "I"), "type of an operator")
    known = OPTIONS.get(kind, NO_OPTIONS)
    read = kind == "CUSTOM" and custom in CUSTOM
    options = None
    for content, union, members in _UNIONS if known.fields else ():
        if members.get(table.number(union, "B")) == known.name:
            options = table.table(content)
    return Operator(
        type=custom if read else kind,
        custom_code=custom,
        version=version,
        inputs=table.numbers(1),
        outputs=table.numbers(2),
        options=read_custom(custom, bytes(table.view(5, 1) or b""))
        if read
        else read_options(known, options),
    )


def _tensor(table: FlatTable, buffers: list[np.ndarray | None]) -> Tensor:
    shape = table.numbers(0)
    signature = table.numbers(7) or shape
    if len(shape) > _MAX_RANK or len(signature) != len(shape):
        raise FlatError(f"a tensor has the shape {shape[:_MAX_RANK]} and signature {signature[:9]}")
    number = table.number(2, "I")
    data = _pick(buffers, number, "buffer of a tensor") if buffers or number else None
    quantization = table.table(4)
    sparsity = table.table(6)
    return Tensor(
        name=_text(table, 3),
        shape=shape,
        signature=signature,
        dtype=_TYPES.get(table.number(1, "b"), "unknown"),
        data=data,
        quantization=_quantization(quantization) if quantization is not None else None,
        variable=bool(table.number(5, "?")),
        sparsity=_sparsity(sparsity) if sparsity is not None else None,
    )


def _quantization(table: FlatTable) -> Quantization | None:
    scale = _vector(table, 2, "<f4")
    details = table.number(4, "B")
    if scale is None or not len(scale):
        return None if not details else Quantization(np.ones(0, np.float32), np.zeros(0), 0, True)
    zero = _vector(table, 3, "<i8")
    if zero is None or len(zero) == 0:
        zero = np.zeros(len(scale), np.int64)
    if len(zero) == 1 and len(scale) > 1:
        zero = np.repeat(zero, len(scale))
    if len(zero) != len(scale):
        raise FlatError(f"a tensor has {len(scale)} scales and {len(zero)} zero points")
    return Quantization(scale, zero, table.number(6, "i"), bool(details))


_SEGMENTS = {1: "<i4", 2: "<u2", 3: "u1"}


def _sparsity(table: FlatTable) -> Sparsity:
    def indices(level: FlatTable, kind: int, field: int) -> tuple[int, ...] | None:
        holder = level.table(field)
        if holder is None or level.number(kind, "B") not in _SEGMENTS:
            return None
        numbers = _vector(holder, 0, _SEGMENTS[level.number(kind, "B")])
        return None if numbers is None else tuple(numbers.tolist())

    levels = tuple(
        Dimension(level.number(1, "i"), None, None)
        if level.number(0, "b") == 0
        else Dimension(0, indices(level, 2, 3), indices(level, 4, 5))
        for level in table.tables(2)
    )
    return Sparsity(table.numbers(0), table.numbers(1), levels)


def _signature(table: FlatTable) -> Signature:
    def names(field: int) -> tuple[tuple[str, int], ...]:
        return tuple((_text(item, 0), item.number(1, "I")) for item in table.tables(field))

    return Signature(_text(table, 2), table.number(4, "I"), names(0), names(1))
