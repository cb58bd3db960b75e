"""What an inspection says of the JSON beside a compiled model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.base.files import sha256_of
from engine.toolkit.compile.side_file import compiled_from, names_of, side_path

SHA = "ab" * 32


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return tmp_path / "net.rknn"


def _side(model: Path, **changed: object) -> None:
    facts = {
        "side_file_version": 1,
        "sha256": SHA,
        "tool": "rknntui 1",
        "toolkit": "rknn-toolkit2 2.3.2",
        "chip": "rk3588",
        "quantized_by": "rknntui",
        "source": [{"file": "net.onnx", "sha256": "12" * 32}],
        "dataset": None,
        **changed,
    }
    side_path(model).write_text(json.dumps(facts), encoding="ascii")


def test_facts_of_the_same_model(model: Path) -> None:
    _side(model, toolkit="rknn\x1b[2J 2")
    facts, doubts = compiled_from(model, SHA)
    assert not doubts
    assert facts["chip"] == "rk3588"
    assert facts["source"] == ["net.onnx (SHA-256 1212121212121212)"]
    assert "\x1b" not in str(facts["toolkit"])
    assert facts["dataset"] == ""


def test_none_there_or_not_ours(model: Path) -> None:
    assert compiled_from(model, SHA) == ({}, ())
    side_path(model).write_text('{"version": 3}', encoding="ascii")
    assert compiled_from(model, SHA) == ({}, ())


def test_one_of_another_model(model: Path) -> None:
    _side(model, sha256="00")
    facts, (doubt,) = compiled_from(model, SHA)
    assert not facts
    assert doubt.code == "side-file-of-another"


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe", b"[" * 100_000, b" " * (4 * 2**20 + 1)])
def test_damaged(model: Path, content: bytes) -> None:
    side_path(model).write_bytes(content)
    facts, (doubt,) = compiled_from(model, SHA)
    assert not facts
    assert doubt.code == "side-file-unreadable"


def test_members_of_other_kinds(model: Path) -> None:
    _side(model, chip=3, source=[1, {"file": 2}], dataset=["x"])
    facts, doubts = compiled_from(model, SHA)
    assert not doubts
    assert facts["chip"] == ""


def test_names_of_the_compiled_model(model: Path) -> None:
    model.write_bytes(b"n00001")
    sha = sha256_of(model)
    _side(model, sha256=sha, names={"n00001": "/stem/conv", "n2": "x", "t00003": 4, "long~": "y"})
    names = names_of(model)
    assert names.users == {"n00001": "/stem/conv"}
    assert not names.cut
    assert names.told("ConvRelu:n00001") == "ConvRelu:/stem/conv"
    _side(model, sha256="00" * 32, names={"n00001": "/stem/conv"})
    assert names_of(model).users == {}
    _side(model, sha256=sha, names=["n00001"])
    assert names_of(model).users == {}
    side_path(model).unlink()
    assert names_of(model).users == {}
