"""ONNX's backend node tests: operators of RKNN-Toolkit2's list come out as ONNX defines them."""

from __future__ import annotations

import csv
from pathlib import Path

import onnx
import pytest

from tests.frontends.onnx.backend_nodes import (
    BEGIN,
    END,
    EXPECTED,
    PAGE,
    all_cases,
    every_case,
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


OTHERS = Path(__file__).with_name("node_tests.csv")
"""Every node test that is not equal: name, outcome. DFT and STFT differ from ONNX's numbers by what
ONNX Runtime itself gives on the unchanged file: up to 7e-7 of the largest value, where 0 is right.
"""


@pytest.mark.long
@pytest.mark.skipif(not onnx.__version__.startswith("1.23."), reason="other tests than listed")
def test_every_node_test_ends_as_listed() -> None:
    """Refused is what no graph of ours can hold; nothing is refused by a mistake of our passes."""
    with OTHERS.open(encoding="ascii", newline="") as stream:
        listed = {row["name"]: row["outcome"] for row in csv.DictReader(stream)}
    outcomes = {outcome.name: outcome for outcome in map(run, every_case())}
    seen = {name: o.kind for name, o in outcomes.items() if o.kind != "equal"}
    assert len(outcomes) - len(seen) >= 1500
    assert not [o for o in outcomes.values() if "not valid after" in o.why]
    last_bits = {name for name, kind in listed.items() if kind == "differs"}
    assert {n for n in seen if n not in listed} == set()
    assert {n for n in listed if n not in seen} <= last_bits  # these may be equal elsewhere
    assert {n: k for n, k in seen.items() if listed[n] != k} == {}
