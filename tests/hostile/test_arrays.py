"""Heads of npy files that say what cannot be: refused before numpy divides or makes room."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import DatasetError, SourceModelError
from engine.dataset.decode import open_array
from engine.frontends.ends import initial_array
from rknntui.demo import demo_folder
from tests.cli.conftest import Run


def npy(path: Path, head: Any, data: bytes = b"") -> Path:
    text = head if isinstance(head, str) else repr(head)
    text += " " * (-(len(text) + 11) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + data)
    return path


def head(descr: Any, shape: tuple[int, ...]) -> dict[str, Any]:
    return {"descr": descr, "fortran_order": False, "shape": shape}


HEADS: dict[str, tuple[Any, str]] = {
    "no size": (head("|V0", (-1,)), "dtype"),
    "no letters": (head("|S0", (-1,)), "dtype"),
    "no fields": (head([], (-1,)), "dtype"),
    "negative": (head("<f4", (-1,)), "shape"),
    "negative twice": (head("<f4", (-2, -2)), "shape"),
    "longer": (head("<f4", (1 << 40,)), "4398046511104 bytes"),
    "far longer": (head("<f4", (1 << 62, 1 << 62)), "bytes"),
    "text": ("{'descr': '<f4', 'shape': (" + "(" * 2000, "damaged"),
    "odd": ("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'x': ", ""),
}


@pytest.mark.parametrize("name", HEADS)
def test_a_head_that_cannot_be(name: str, tmp_path: Path) -> None:
    said, words = HEADS[name]
    path = npy(tmp_path / "a.npy", said, b"abcd")
    with pytest.raises(DatasetError, match="not a readable npy") as caught:
        open_array(path)
    assert words in caught.value.what
    with pytest.raises(SourceModelError, match="initial value"):
        initial_array("x", str(path))


def test_the_check_of_a_dataset_names_the_line(rknntui: Run, tmp_path: Path) -> None:
    npy(tmp_path / "a.npy", head("|V0", (-1,)))
    (tmp_path / "d.txt").write_text("a.npy\n")
    model = demo_folder() / "digits_demo.onnx"
    ran = rknntui("dataset", "check", "d.txt", "--model", model)
    assert ran.code == 6, ran.err
    assert "dtype" in ran.out + ran.err
