"""What a stand-in prints of its layers is read back figure by figure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from engine.devices.measure.perf_text import parse_perf_text
from rknntui_emulator.runtime.build import Kind
from tests.devices.agent.conftest import ROWS, Agent, answers

pytestmark = pytest.mark.cc


@pytest.mark.parametrize("cores", [3, 2, 1])
def test_generation_2(agents: Callable[..., Agent], cores: int) -> None:
    idle = (0.0,) * cores
    ends = [
        replace(row, workload=idle, ddr_cycles=0, npu_cycles=0, total_cycles=0, traffic=0)
        for row in ROWS
    ]
    busy = replace(ROWS[1], mac_usage=ROWS[1].mac_usage[:cores], workload=ROWS[1].workload[:cores])
    rows = (ends[0], busy, replace(ends[2], name="größe " + "x" * 90))
    agent = agents(known=answers(layers=rows, run_us=(1500, 900, 700)[:cores]))
    agent.open(perf=True)
    report = parse_perf_text(agent.run()["perf"])
    assert report.dialect == "generation 2, from 1.6"
    assert [replace(row, ops=()) for row in report.rows] == [*rows]
    assert (report.microseconds, report.total_kind) == (130, "operators")
    assert [(each.op, each.calls, each.total) for each in report.ranking] == [
        ("ConvRelu", 1, 120),
        ("OutputOperator", 1, 6),
        ("InputOperator", 1, 4),
    ]
    assert report.unread == ()


def test_generation_1(agents: Callable[..., Agent]) -> None:
    kind: Kind = "librknn_runtime.so"
    rows = (
        ROWS[0],
        replace(ROWS[1], ops=("CONVOLUTION", "ADD", "RELU")),
        replace(ROWS[2], name="größe"),
        replace(ROWS[1], id=3, name="n" * 70),
    )
    known = answers(layers=rows, generation=1)
    agent = agents(kind=kind, known=known)
    agent.open(perf=True, generation=1)
    text = agent.run()["perf"]
    report = parse_perf_text(text)
    assert report.dialect == "generation 1"
    assert [(row.id, row.name, row.microseconds) for row in report.rows] == [
        (row.id, row.name, row.microseconds) for row in rows
    ]
    assert report.rows[1].ops == ("CONVOLUTION", "ADD", "RELU")
    assert [row.uid for row in report.rows] == [None, 1, None, 3]
    assert (report.microseconds, report.total_kind) == (250, "run")
    assert report.unread == ()
