"""``engine.answer_text`` and ``engine.gates_of``: answers in words, and limits that they keep."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine import Limits, answer_text, gate_lines, gates_of, ranked
from engine.reports.texts import answer_lines
from engine.wire.measured import KEPT_RUNS, MEASURED_LIST, KeptRun, KeptRuns
from tests.reports.test_estimates import estimates


def test_estimates_are_told_by_layers_side_by_side_or_by_memory() -> None:
    two = estimates("net.onnx")
    one = replace(two, chips=two.chips[:1])
    assert "rk2118" in answer_text(two)
    assert answer_text(two).startswith("net.onnx (estimated;")
    assert answer_text(one).startswith("net.onnx on rk3588: int8, 1 core, 1000 MHz (estimated)")
    assert "total 1.07 KiB (estimated)" in "\n".join(answer_lines(two, kind="tensors"))


def test_what_has_no_words_has_its_tables() -> None:
    """Columns of the answer itself are lines; without rows there is a sentence."""
    run = KeptRun(
        id="a1", title="net", device="adb:1", chip="rk3588", median=1500.0, label="measured"
    )
    lines = answer_text(KeptRuns((run,))).split("\n")
    assert lines[0].split()[0] == "id"
    assert "1.5" in lines[1]
    assert answer_text(KeptRuns(())) == "No run is kept."
    alone = replace(MEASURED_LIST, tables={"": KEPT_RUNS.pick("id", "chip")})
    assert answer_lines(run, alone) == ["id: a1", "chip: rk3588"]
    with pytest.raises(TypeError, match="str is no answer"):
        answer_text("net")


def test_a_gate_lets_nothing_pass_that_is_unknown() -> None:
    known, refused = gates_of(Limits(over=1.6), estimates("net"))
    assert (known.ok, refused.ok) == (True, False)
    assert gate_lines([known]) == [
        "kept: time of rk3588 is 1.500 ms (estimated), the limit is 1.600 ms"
    ]
    assert not any(gate.ok for gate in gates_of(Limits(over=1.4, memory=1000), estimates("net")))
    assert gates_of(Limits(), estimates("net")) == []
    with pytest.raises(TypeError, match="no limit is of KeptRuns"):
        gates_of(Limits(cpu=1), KeptRuns(()))


def test_the_best_chip_is_first_and_one_without_an_estimate_last() -> None:
    found = estimates("net")
    turned = replace(found, chips=found.chips[::-1])
    for by in ("fps", "memory", "cpu"):
        assert [chip.chip for chip in ranked(turned, by).chips] == ["rk3588", "rk2118"]
