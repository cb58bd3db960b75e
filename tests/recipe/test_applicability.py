"""What a recipe's options do not do here is told."""

from __future__ import annotations

from typing import Any

import pytest

from engine.options import OPTIONS
from engine.recipe import Recipe, applicability_findings

COMPILER = [o.name for o in OPTIONS if o.role == "compiler"]


def codes(**values: Any) -> list[tuple[str, str]]:
    return [(note.code, note.where) for note in applicability_findings(Recipe.from_values(values))]


def test_defaults_need_no_word() -> None:
    assert codes() == []
    assert codes(**{name: False for name in COMPILER if name != "custom_string"}) == []


@pytest.mark.parametrize("name", COMPILER)
def test_what_only_the_compiler_needs(name: str) -> None:
    value = "text" if name == "custom_string" else True
    assert codes(**{name: value}) == [("option-for-compiler", name)]


def test_where_operators_run() -> None:
    assert codes(op_target={"a": "cpu", "b": "cpu"}) == [("op-target-cpu", "op_target")]
    assert codes(op_target={"a": "gpu"}) == [("op-target-unseen", "op_target")]


def test_options_that_wait_for_another() -> None:
    assert codes(quantize_weight=True) == [("option-without-effect", "quantize_weight")]
    assert codes(quantize_weight=True, do_quantization=False) == []
    assert codes(auto_hybrid_euc_thresh=1.0) == [
        ("option-without-effect", "auto_hybrid_euc_thresh")
    ]
