"""The wire reader: what writers of caffemodels write, and damage of every kind."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.base.errors import SourceModelError
from engine.frontends.caffe import weights as caffemodel_module
from engine.frontends.caffe.weights import read_caffemodel
from tests.frontends.caffe.nets import caffemodel, chunk, floats, varint

shapes = st.lists(st.integers(1, 4), max_size=5).map(tuple)


def _read(data: bytes):
    return read_caffemodel(memoryview(data), "net.caffemodel")


@given(
    st.dictionaries(st.text(max_size=8), st.lists(shapes, max_size=3), max_size=4),
    st.booleans(),
    st.booleans(),
)
@settings(max_examples=50)
def test_whatever_is_written_is_read(layers: dict, v1: bool, double: bool) -> None:
    blobs = {n: [floats(i, *s) for i, s in enumerate(each)] for n, each in layers.items()}
    stored = _read(caffemodel(blobs, v1=v1, double=double))
    assert [layer.name for layer in stored] == list(blobs)
    for layer, arrays in zip(stored, blobs.values(), strict=True):
        for found, wanted in zip(layer.blobs, arrays, strict=True):
            assert found.shape == wanted.shape
            assert found.dtype == np.float32
            assert np.array_equal(found, wanted)


def test_old_blobs_have_four_axes() -> None:
    (layer,) = _read(caffemodel({"a": [floats(1, 5)]}, legacy=True))
    assert layer.blobs[0].shape == (1, 1, 1, 5)


def test_packed_weights_are_not_copied() -> None:
    data = bytearray(caffemodel({"a": [np.ones(7)]}))
    (layer,) = _read(bytes(data))
    assert layer.blobs[0].base is not None


def test_numbers_one_by_one_and_unknown_fields() -> None:
    one_by_one = b"".join(b"\x2d" + np.float32(x).tobytes() for x in (1, 2, 3))
    body = chunk(7, varint(1 << 3) + varint(3)) + one_by_one + chunk(99, b"?") + varint(800) + b"\1"
    data = chunk(77, b"new") + chunk(100, chunk(1, b"a") + chunk(7, body) + chunk(500, b"x"))
    (layer,) = _read(data)
    assert layer.blobs[0].tolist() == [1, 2, 3]


WHOLE = caffemodel({"conv": [floats(1, 4, 3), floats(2, 4)], "fc": [floats(3, 2, 2)]})
DAMAGED = {
    "needs 1 more bytes": WHOLE[:-1],
    "the shape 2 and 3 numbers": chunk(
        100, chunk(7, chunk(7, chunk(1, b"\x02")) + chunk(5, bytes(12)))
    ),
    "broken numbers": chunk(100, chunk(7, chunk(5, bytes(7)))),
    "wire type 3": b"\x0b",
    "a number is cut": b"\xff",
    "too long": b"\xff" * 12,
    "more than 32 axes": chunk(100, chunk(7, chunk(7, chunk(1, b"\x01" * 40)))),
    "name of a layer has 5000 bytes": chunk(100, chunk(1, b"x" * 5000)),
}


@pytest.mark.parametrize("words", DAMAGED)
def test_damage_is_told(words: str) -> None:
    with pytest.raises(SourceModelError, match=words) as caught:
        _read(DAMAGED[words])
    assert caught.value.what.startswith("net.caffemodel is a damaged caffemodel")


def test_the_number_of_fields_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caffemodel_module, "_MAX_FIELDS", 100)
    with pytest.raises(SourceModelError, match="more than 100 fields"):
        _read(b"\x08\x01" * 101)


@given(st.binary(max_size=80))
@settings(max_examples=100)
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(SourceModelError):
        assert isinstance(_read(data), tuple)


@given(st.integers(0, len(WHOLE) - 1))
@settings(max_examples=30)
def test_a_cut_file_never_gives_other_numbers(length: int) -> None:
    try:
        stored = _read(WHOLE[:length])
    except SourceModelError:
        return
    whole = _read(WHOLE)
    for layer, wanted in zip(stored, whole, strict=False):
        assert [b.tolist() for b in layer.blobs] == [b.tolist() for b in wanted.blobs]
