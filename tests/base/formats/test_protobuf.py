"""The reader of protobuf: what protobuf writes comes back, and any bytes end within bounds."""

from __future__ import annotations

import io

import pytest
from google.protobuf import struct_pb2
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto

from engine.base.formats.protobuf import (
    FIXED64,
    LENGTH,
    VARINT,
    FieldBudget,
    ProtobufError,
    TruncatedError,
    fields,
    file_fields,
    signed,
    varints,
)

LAST = (1 << 63) - 1


@given(st.lists(st.integers(-LAST - 1, LAST), max_size=8), st.binary(max_size=200), st.text())
def test_what_protobuf_writes_is_read(dims: list[int], raw: bytes, name: str) -> None:
    data = TensorProto(dims=dims, data_type=1, name=name, raw_data=raw).SerializeToString()
    found = list(fields(memoryview(data)))
    sizes = [value for number, _, value, _ in found if number == 1]
    assert [signed(value) for value in sizes] == dims
    payloads = {number: bytes(payload) for number, wire, _, payload in found if wire == LENGTH}
    assert payloads.get(8, b"") == name.encode()
    assert payloads.get(9, b"") == raw
    assert (2, VARINT, 1) in [field[:3] for field in found]


def test_doubles_and_packed_numbers() -> None:
    value = struct_pb2.Value(number_value=2.5)
    ((number, wire, _, payload),) = fields(memoryview(value.SerializeToString()))
    assert (number, wire, len(payload)) == (2, FIXED64, 8)
    packed = TensorProto(int64_data=[0, 127, 128, LAST]).SerializeToString()
    ((_, _, _, payload),) = fields(memoryview(packed))
    assert list(varints(payload)) == [0, 127, 128, LAST]


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused_alike_in_memory_and_from_a_file(data: bytes) -> None:
    def read(source: object) -> object:
        try:
            return list(source)  # type: ignore[call-overload]
        except ProtobufError as error:
            return str(error)

    memory = read((n, w, bytes(p)) for n, w, _, p in fields(memoryview(data)))
    from_file = read(
        (number, wire, data[start : start + size] if wire != VARINT else b"")
        for number, wire, start, size in file_fields(io.BytesIO(data), len(data), 1000)
    )
    assert memory == from_file


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"\x0a\x05abc", "field 1 needs 2 more bytes"),
        (b"\x09abc", "field 1 needs 5 more bytes"),
        (b"\x0a", "a number is cut"),
        (b"\x0a\xff\xff\xff\xff\x0f", "needs 4294967295 more bytes"),
    ],
)
def test_what_is_cut_is_told(data: bytes, says: str) -> None:
    with pytest.raises(TruncatedError, match=says):
        list(fields(memoryview(data)))


def test_what_is_no_protobuf_is_told() -> None:
    for data, says in ((b"\x0b", "wire type 3"), (b"\x02\x00", "number 0"), (b"\xff" * 11, "long")):
        with pytest.raises(ProtobufError, match=says):
            list(fields(memoryview(data)))


def test_the_number_of_fields_is_bounded_over_all_messages() -> None:
    budget = FieldBudget(5)
    message = memoryview(b"\x08\x01" * 3)
    assert len(list(budget.fields(message))) == 3
    with pytest.raises(ProtobufError, match="more than 5 fields"):
        list(budget.fields(message))
    with pytest.raises(ProtobufError, match="more than 2 fields"):
        list(file_fields(io.BytesIO(bytes(message)), 6, 2))
