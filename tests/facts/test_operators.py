"""What was seen of operators: the tables hold together, and say what they said."""

from __future__ import annotations

from collections import Counter

import pytest

from engine.facts import rows
from engine.facts.limits import operator, support_of, without
from engine.facts.npu import npu_profiles

TABLE = rows("engine.facts", "operators.csv")
FAMILIES = {each.family for each in npu_profiles()}


def test_an_operator_stands_once_and_somewhere() -> None:
    assert [each["op"] for each in TABLE] == sorted({each["op"] for each in TABLE})
    assert Counter(each["compiler"] for each in TABLE) == {"NPU": 62, "": 15, "CPU": 43}
    assert Counter(each["toolkit1"] for each in TABLE) == {"unknown": 81, "NPU": 16, "": 23}
    assert operator("NoSuchOperator").compiler == operator("NoSuchOperator").remedy == ""


def test_rows_of_toolkit_1_are_in_its_list() -> None:
    for each in TABLE:
        if each["row1"]:
            rows_of = [each["row1"].format(size) for size in (1, 2, 3)]
            assert any(support_of("onnx", f"torch:{row}", 1) for row in rows_of), each["op"]


def test_families_without_an_operator_are_families() -> None:
    for each in rows("engine.facts", "without.csv"):
        assert set(each["families"].split()) <= FAMILIES
        assert each["reason"].endswith(".")


@pytest.mark.parametrize(
    ("op", "families"),
    [
        ("GRU", FAMILIES - {"rk3566", "rk3562", "rk3588"}),
        ("LSTM", {"rv1106b"}),
        ("Equal", FAMILIES - {"rk3576", "rv1126b"}),
        ("exNorm", {"rv1106", "rv1106b", "rk2118"}),
        ("Softmax", {"rk3566"}),
        ("Pow", {"rv1106b"}),
        ("exConvTransposePad", FAMILIES),
        ("Conv", set()),
    ],
)
def test_what_the_npu_of_a_family_has_not(op: str, families: set[str]) -> None:
    assert {each for each in FAMILIES if without(op, each) is not None} == families
