"""Writes GraphDefs byte by byte, so that tests need no TensorFlow for them."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

TYPES = {"float32": 1, "int32": 3, "uint8": 4, "bool": 10, "int64": 9}


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def message(number: int, payload: bytes | str) -> bytes:
    data = payload.encode() if isinstance(payload, str) else payload
    return varint(number << 3 | 2) + varint(len(data)) + data


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def real(value: float) -> bytes:
    """An attribute that is a float."""
    return varint(4 << 3 | 5) + struct.pack("<f", value)


def shape(sizes: Sequence[int] | None) -> bytes:
    if sizes is None:
        return number(3, 1)
    return b"".join(message(2, number(1, size)) for size in sizes)


def kind(name: str) -> bytes:
    return number(6, TYPES[name])


def tensor(array: np.ndarray) -> bytes:
    return message(
        8,
        number(1, TYPES[array.dtype.name])
        + message(2, shape(array.shape))
        + message(4, array.tobytes()),
    )


def node(name: str, op: str, inputs: Sequence[str] = (), **attributes: bytes) -> bytes:
    body = message(1, name) + message(2, op)
    body += b"".join(message(3, one) for one in inputs)
    for key, value in attributes.items():
        body += message(5, message(1, key) + message(2, value))
    return message(1, body)


def placeholder(name: str, sizes: Sequence[int] | None, dtype: str = "float32") -> bytes:
    return node(name, "Placeholder", dtype=kind(dtype), shape=message(7, shape(sizes)))


def constant(name: str, array: np.ndarray) -> bytes:
    return node(name, "Const", dtype=kind(array.dtype.name), value=tensor(array))


def unary(name: str, op: str, source: str) -> bytes:
    return node(name, op, [source], T=kind("float32"))


def binary(name: str, op: str, a: str, b: str) -> bytes:
    return node(name, op, [a, b], T=kind("float32"))


def graph(*nodes: bytes, producer: int = 1087) -> bytes:
    return b"".join(nodes) + message(4, number(1, producer))
