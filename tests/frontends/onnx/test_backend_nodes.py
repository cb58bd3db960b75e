"""ONNX's backend node tests: operators of RKNN-Toolkit2's list come out as ONNX defines them."""

from __future__ import annotations

import pytest

from tests.frontends.onnx.backend_nodes import (
    BEGIN,
    END,
    EXPECTED,
    PAGE,
    all_cases,
    run,
    some_cases,
    table,
)

# changed after opset 21, or other in ONNX Runtime than in ONNX
_SUBSET = ("GlobalMaxPool", "LSTM", "MaxUnpool", "MeanVarianceNormalization", "Mod", "SpaceToDepth")


def test_a_few_operators_come_out_as_onnx_defines_them() -> None:
    cases = some_cases(_SUBSET)
    assert len(cases) >= 20
    assert [o for o in map(run, cases) if o.kind != "equal"] == []


@pytest.mark.long
def test_nearly_all_node_tests_are_equal_and_the_rest_is_known() -> None:
    outcomes = [run(case) for case in all_cases()]
    assert len(outcomes) >= 500
    unequal = {outcome.name for outcome in outcomes if outcome.kind != "equal"}
    assert unequal == EXPECTED
    assert len(unequal) <= 0.05 * len(outcomes)
    text = PAGE.read_text(encoding="utf-8")
    assert text.partition(BEGIN)[2].partition(END)[0].strip() == table(outcomes)
