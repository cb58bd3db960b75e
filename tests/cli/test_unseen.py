"""No control, format or separator character of a model's strings leaves, in any mode."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from engine import escaped, visible
from rknntui.cli.output import emit
from tests.cli.conftest import Run

HURT = "a\x9b31m\x9d0;t\x9c\u202eb\x7f\u2028\u2029\u200f\ufeff\x1b[2J\U000e0041c"
HIDDEN = ("Cc", "Cf", "Zl", "Zp")


def raw(text: str) -> list[str]:
    """The characters that must not be there; line feeds structure output."""
    return [hex(ord(c)) for c in text if c != "\n" and unicodedata.category(c) in HIDDEN]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    weights = numpy_helper.from_array(np.ones((2, 3), np.float32), f"w{HURT}")
    node = helper.make_node(
        "Gemm", [f"x{HURT}", f"w{HURT}"], [f"y{HURT}"], name=f"n{HURT}", transB=1
    )
    graph = helper.make_graph(
        [node],
        f"g{HURT}",
        [helper.make_tensor_value_info(f"x{HURT}", TensorProto.FLOAT, [1, 3])],
        [helper.make_tensor_value_info(f"y{HURT}", TensorProto.FLOAT, [1, 2])],
        [weights],
        doc_string=HURT,
    )
    made = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 19)], producer_name=f"p{HURT}", ir_version=9
    )
    made.metadata_props.add(key=f"k{HURT}", value=HURT)
    path = tmp_path / "m.onnx"
    onnx.save(made, path)
    return path


@pytest.mark.parametrize("json_flag", [True, False], ids=["json", "plain"])
def test_strings_of_a_model_in_every_verb_that_shows_them(
    model: Path, warm: Run, json_flag: bool
) -> None:
    np.save(model.parent / "x.npy", np.ones((1, 3), np.float32))
    (model.parent / "d.txt").write_text("x.npy\n")
    flags = ["--json"] if json_flag else []
    with_data = [str(model), "--dataset", "d.txt"]
    for words in (
        ["inspect", str(model)],
        ["build", *with_data, "-o", "m.rknn"],
        ["inspect", "m.rknn"],
        ["simulate", "m.rknn", "-i", "x.npy"],
        ["accuracy", *with_data],
        ["recipe", "show", str(model)],
    ):
        ran = warm(*words, *flags)
        assert raw(ran.out) == [], words
        assert raw(ran.err) == [], words
        if json_flag and words[0] == "inspect":
            assert any(f"x{HURT}" == text for text in texts(ran.json)), words


def texts(data: Any) -> Iterator[str]:
    """Every text in JSON data."""
    if isinstance(data, str):
        yield data
    for item in data.values() if isinstance(data, dict) else data if isinstance(data, list) else ():
        yield from texts(item)


def test_json_loses_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    data = {f"k{HURT}": [HURT, "\udcff", "ümläut 层", "line\nbreak"]}
    emit(data, "", as_json=True)
    out = capsys.readouterr().out
    assert raw(out) == []
    assert "ümläut 层" in out or "\\u5c42" in out
    assert json.loads(out) == data


def test_every_character_of_the_categories_is_an_escape() -> None:
    every = "".join(chr(n) for n in range(0x110000) if unicodedata.category(chr(n)) in HIDDEN)
    made = escaped(json.dumps(every, ensure_ascii=False))
    assert raw(made) == []
    assert json.loads(made) == every
    assert raw(visible(every).replace("\t", "").replace("\r", "")) == []
    assert visible("a\nb\tc é") == "a\nb\tc é"
