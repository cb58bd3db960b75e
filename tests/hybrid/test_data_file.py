"""The .data file: plain numbers, never a pickle; the vendor's is told apart and refused."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from engine.base.errors import RecipeError
from engine.hybrid import Facts, HybridData, read_data, write_data


def sample() -> HybridData:
    feeds = tuple({"image": np.full((1, 2), float(n), np.float32)} for n in range(3))
    facts = Facts(generation=2, recipe={"quantized_dtype": "w8a8"}, model="ab")
    return HybridData(facts, {"calibration/seen.json": b"{}", "weights/0.pb": b"w"}, feeds)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "m.data"
    path.write_bytes(write_data(sample()))
    read = read_data(path)
    assert read.facts.recipe == {"quantized_dtype": "w8a8"}
    assert read.part("calibration") == {"seen.json": b"{}"}
    assert [float(feed["image"][0, 0]) for feed in read.samples] == [0.0, 1.0, 2.0]
    assert write_data(sample()) == path.read_bytes()


def test_there_is_no_pickle_in_it() -> None:
    with zipfile.ZipFile(io.BytesIO(write_data(sample()))) as archive:
        for name in archive.namelist():
            assert not archive.read(name).startswith(b"\x80")


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_the_vendors_pickle_is_refused_with_the_reason(tmp_path: Path, protocol: int) -> None:
    path = tmp_path / "m.data"
    # a protocol's mark and an empty dictionary: what the vendor's file begins with
    path.write_bytes(bytes([0x80, protocol]) + b"}.")
    with pytest.raises(RecipeError, match=r"vendor") as raised:
        read_data(path)
    assert "pickle" in raised.value.cause
    assert "step 1" in raised.value.remedy


def _zip(*members: tuple[str, bytes], compress: int = zipfile.ZIP_STORED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compress) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return stream.getvalue()


def _object_array() -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    return stream.getvalue()


def _flagged(offset: int, value: int) -> bytes:
    """An archive with a byte of its directory's first entry changed."""
    content = bytearray(write_data(sample()))
    content[content.index(b"PK\x01\x02") + offset] = value
    return bytes(content)


FACTS = (
    b'{"format": "rknntui-hybrid-data", "version": 1, "generation": 2, "recipe": {}, '
    b'"inputs": [["image"]]}'
)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PK\x03\x04 cut",
        write_data(sample())[:-30],
        _zip(("other.json", b"{}")),
        _zip(("hybrid.json", b"[]")),
        _zip(("hybrid.json", FACTS.replace(b'"version": 1', b'"version": 9'))),
        _zip(("hybrid.json", FACTS), compress=zipfile.ZIP_DEFLATED),
        _zip(("hybrid.json", FACTS), ("samples/0/0.npy", _object_array())),
        _zip(("hybrid.json", b"[" * 100_000)),
        _zip(("hybrid.json", FACTS.replace(b'"recipe": {}', b'"recipe": []'))),
        _zip(("hybrid.json", FACTS.replace(b'"recipe": {}', b'"recipe": {}, "api": "x"'))),
        _zip(("hybrid.json", FACTS.replace(b'"recipe": {}', b'"recipe": {}, "source": [1]'))),
        _flagged(8, 1),  # encrypted
        _flagged(6, 99),  # of a version of zip to come
    ],
    ids=str.split(
        "empty cut truncated other list version deflated objects deep recipe api source "
        "encrypted unknown"
    ),
)
def test_damaged_and_foreign_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "m.data"
    path.write_bytes(content)
    with pytest.raises(RecipeError):
        read_data(path)
    assert path.read_bytes() == content


def test_a_file_of_more_than_4_gib_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "m.data"
    with path.open("wb") as file:
        file.truncate((4 << 30) + 1)  # takes no room
    with pytest.raises(RecipeError) as raised:
        read_data(path)
    assert raised.value.what.endswith("is read up to 4294967296.")


@pytest.mark.long
def test_a_file_has_at_most_100000_members(tmp_path: Path) -> None:
    path = tmp_path / "m.data"
    path.write_bytes(_zip(*((f"{n}", b"") for n in range(100_001))))
    with pytest.raises(RecipeError, match="not those of one file"):
        read_data(path)
