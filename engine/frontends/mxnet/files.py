"""The two files of an MXNet network: its symbol, and its parameters.

A symbol is a JSON list of nodes, of versions 0.x to 1.9. Operators' attributes stand under
``param`` (0.x), ``attr`` (0.9 to 1.1) or ``attrs``, all of them as text. Before 0.9 auxiliary
states (the running mean of a BatchNorm) are not listed as inputs.

Parameters are named arrays, after ``NDArray::Save`` (src/ndarray/ndarray.cc): uint64 0x112, uint64
0, uint64 count, the arrays, uint64 count, the names (uint64 length, bytes). An array begins with a
uint32: 0xF993FAC8 (V1), FAC9 (V2), FACA (V3), or, in the first versions, its number of dimensions.
Little endian throughout.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from engine.base.errors import SourceModelError
from engine.base.plain import JsonObject
from engine.base.text import sanitize

MAX_SYMBOL = 64 << 20
MAX_NODES = 20_000
_MAX_INPUTS = 4096


@dataclass(frozen=True)
class Node:
    """One node: operator (``null`` for a variable), name, (node, output) of inputs, attributes."""

    op: str
    name: str
    inputs: tuple[tuple[int, int], ...]
    attributes: dict[str, str]


@dataclass(frozen=True)
class Symbol:
    """The nodes in order, the (node, output) that are the outputs, and the version in words."""

    nodes: tuple[Node, ...]
    heads: tuple[tuple[int, int], ...]
    version: str


def read_symbol(data: bytes, name: str) -> Symbol:
    """Read the bytes of a symbol file.

    Raises:
        SourceModelError: no JSON, no symbol, or nodes that refer to what is not there.
    """
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _damaged(name, f"it is not JSON ({sanitize(str(error), 120)})") from error
    nodes = content.get("nodes") if isinstance(content, dict) else None
    if not isinstance(nodes, list) or not nodes:
        raise _damaged(name, "it has no list of nodes")
    if len(nodes) > MAX_NODES:
        raise _damaged(name, f"it has {len(nodes)} nodes; {MAX_NODES} are read")
    read = tuple(_node(item, index, name) for index, item in enumerate(nodes))
    heads = content.get("heads")
    ends = _references(heads, len(read), name, "the outputs") if heads else ((len(read) - 1, 0),)
    return Symbol(read, tuple(dict.fromkeys(ends)), _version(content))


def _damaged(name: str, what: str) -> SourceModelError:
    return SourceModelError(
        f"{name} is not a symbol of MXNet: {what}.",
        cause="The file was cut short, changed, or is of another program.",
        remedy="Export the network again: net.export(...) or sym.save(...).",
    )


def _node(item: Any, index: int, name: str) -> Node:
    if not isinstance(item, dict) or not all(
        isinstance(item.get(key), str) for key in ("op", "name")
    ):
        raise _damaged(name, f"node {index} has no operator or no name")
    attributes: dict[str, str] = {}
    for key in ("param", "attr", "attrs"):
        texts = item.get(key)
        if isinstance(texts, dict):
            attributes |= {str(k): str(v)[:100_000] for k, v in texts.items()}
    where = f"node {index} ({sanitize(item['name'], 80)})"
    return Node(
        item["op"],
        item["name"][:1000] or f"node{index}",
        _references(item.get("inputs") or [], index, name, where),
        attributes,
    )


def _references(items: Any, below: int, name: str, where: str) -> tuple[tuple[int, int], ...]:
    references = []
    for item in items if isinstance(items, list) else [None]:
        pair: list[Any] = item if isinstance(item, list) else [item, 0]
        numbers = pair[:2]
        if len(numbers) != 2 or not all(type(n) is int for n in numbers):
            raise _damaged(name, f"{where} has inputs that are no numbers of nodes")
        if not (0 <= numbers[0] < below and 0 <= numbers[1] < 1000):
            raise _damaged(name, f"{where} reads output {numbers[1]} of node {numbers[0]}")
        references.append((numbers[0], numbers[1]))
    if len(references) > _MAX_INPUTS:
        raise _damaged(name, f"{where} has {len(references)} inputs")
    return tuple(references)


def _version(content: JsonObject) -> str:
    """``1.9.1`` from the number 10901 that later versions write; empty in older files."""
    attributes = content.get("attrs")
    entry = attributes.get("mxnet_version") if isinstance(attributes, dict) else None
    number = entry[-1] if isinstance(entry, list) and entry else None
    if type(number) is not int or not 0 < number < 1_000_000:
        return ""
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


MAX_PARAMS = 4 << 30
_MAX_ARRAYS = 100_000
_MAX_RANK = 32
_V1, _V2, _V3 = 0xF993FAC8, 0xF993FAC9, 0xF993FACA
_SPARSE = {1: ("row_sparse", 1), 2: ("csr", 2)}

# mshadow's type flags (3rdparty/mshadow/mshadow/base.h)
_DTYPES: dict[int, np.dtype] = {
    0: np.dtype("<f4"),
    1: np.dtype("<f8"),
    2: np.dtype("<f2"),
    3: np.dtype("u1"),
    4: np.dtype("<i4"),
    5: np.dtype("i1"),
    6: np.dtype("<i8"),
    7: np.dtype("?"),
    8: np.dtype("<i2"),
    9: np.dtype("<u2"),
    10: np.dtype("<u4"),
    11: np.dtype("<u8"),
    12: np.dtype(ml_dtypes.bfloat16),
}


@dataclass(frozen=True)
class Params:
    """The arrays of a file.

    Attributes:
        arrays: name without its ``arg:`` or ``aux:`` -> array, a view of the file's bytes.
        sparse: name -> kind of storage, of arrays that are not dense.
        versions: the forms of arrays that were met, such as ``V2``.
    """

    arrays: dict[str, np.ndarray]
    sparse: dict[str, str]
    versions: tuple[str, ...]


class _Reader:
    def __init__(self, data: bytes, name: str) -> None:
        self._data = memoryview(data)
        self._at = 0
        self._name = name
        self.versions: set[str] = set()

    def fail(self, what: str) -> SourceModelError:
        return SourceModelError(
            f"{self._name} is damaged at byte {self._at}: {what}.",
            cause="The file was cut short or changed after it was written.",
            remedy="Copy, download or save it again.",
        )

    def take(self, count: int) -> memoryview:
        if count > len(self._data) - self._at:
            raise self.fail(f"{count} bytes are needed, {len(self._data) - self._at} are left")
        self._at += count
        return self._data[self._at - count : self._at]

    def number(self, form: str) -> int:
        return int(struct.unpack(f"<{form}", self.take(struct.calcsize(form)))[0])

    def shape(self, rank: int, form: str) -> tuple[int, ...]:
        if rank > _MAX_RANK:
            raise self.fail(f"an array has {rank} dimensions")
        width = struct.calcsize(form)
        dims: tuple[int, ...] = struct.unpack(f"<{rank}{form}", self.take(rank * width))
        if any(not 0 <= dim < 1 << 40 for dim in dims):
            raise self.fail(f"an array has the shape {dims}")
        return dims

    def values(self, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
        count = 1
        for dim in shape:
            count *= dim
        return np.frombuffer(self.take(count * dtype.itemsize), dtype).reshape(shape)

    def dtype(self) -> np.dtype:
        flag = self.number("i")
        if flag not in _DTYPES:
            raise self.fail(f"the type of an array has the unknown number {flag}")
        return _DTYPES[flag]

    def array(self) -> np.ndarray | str | None:
        """The next array; the kind of storage where it is sparse; None where it has no data."""
        tag = self.number("I")
        if tag in (_V2, _V3):
            self.versions.add("V2" if tag == _V2 else "V3")
            stored = self.number("i")
            if stored in _SPARSE:
                return self._sparse(stored)
            if stored != 0:
                raise self.fail(f"an array has the unknown kind of storage {stored}")
            return self._dense(self._long_shape(), scalar=tag == _V3)
        self.versions.add("V1" if tag == _V1 else "legacy")
        return self._dense(self._long_shape() if tag == _V1 else self.shape(tag, "I"))

    def _long_shape(self) -> tuple[int, ...] | None:
        rank = self.number("i")
        if rank < -1:
            raise self.fail(f"an array has {rank} dimensions")
        return None if rank == -1 else self.shape(rank, "q")

    def _dense(self, shape: tuple[int, ...] | None, *, scalar: bool = False) -> np.ndarray | None:
        if shape is None or (not shape and not scalar):
            return None
        self.take(8)  # the device that it was on
        return self.values(self.dtype(), shape)

    def _sparse(self, stored: int) -> str:
        kind, count = _SPARSE[stored]
        storage = self._long_shape() or ()
        self._long_shape()
        self.take(8)
        dtype = self.dtype()
        extra = [(self.dtype(), self._long_shape() or ()) for _ in range(count)]
        self.values(dtype, storage)
        for other, shape in extra:
            self.values(other, shape)
        return kind

    def count(self, what: str, least: int) -> int:
        number = self.number("Q")
        if number > min(_MAX_ARRAYS, (len(self._data) - self._at) // least):
            raise self.fail(f"it says that it has {number} {what}")
        return number

    def text(self) -> str:
        length = self.number("Q")
        if length > 10_000:
            raise self.fail(f"a name has {length} bytes")
        return bytes(self.take(length)).decode("utf-8", "replace")


def read_params(data: bytes, name: str) -> Params:
    """Read the bytes of a ``.params`` file.

    Raises:
        SourceModelError: truncated, of another kind, or without names.
    """
    reader = _Reader(data, name)
    if reader.number("Q") != 0x112:
        raise SourceModelError(
            f"{name} is not a file of MXNet parameters: it does not begin with 0x112.",
            remedy="Give the .params file that was saved with the symbol.",
        )
    reader.number("Q")
    stored = [reader.array() for _ in range(reader.count("arrays", 4))]
    names = [reader.text() for _ in range(reader.count("names", 8))]
    if stored and not names:
        raise SourceModelError(
            f"{name} holds {len(stored)} arrays without names.",
            cause="It was saved from a list, not from a network.",
            remedy="Save the network again: net.export(...) or mod.save_checkpoint(...).",
        )
    if len(names) != len(stored):
        raise reader.fail(f"it has {len(stored)} arrays and {len(names)} names")
    arrays: dict[str, np.ndarray] = {}
    sparse: dict[str, str] = {}
    for key, value in zip(names, stored, strict=True):
        bare = key.partition(":")[2] if key[:4] in ("arg:", "aux:") else key
        if isinstance(value, str):
            sparse[sanitize(bare, 200)] = value
        elif value is not None:
            arrays[bare] = value
    return Params(arrays, sparse, tuple(sorted(reader.versions)))
