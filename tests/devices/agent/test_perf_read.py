"""What a stand-in prints of its layers is read back figure by figure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from engine.devices.measure.perf_report import PerfRow
from engine.devices.measure.perf_text import parse_perf_text
from rknntui_emulator.runtime.answers import LayerRow
from rknntui_emulator.runtime.build import Kind
from tests.devices.agent.conftest import ROWS, Agent, answers

pytestmark = pytest.mark.cc


def _facts(row: PerfRow) -> tuple[object, ...]:
    cycles = (row.ddr_cycles, row.npu_cycles, row.total_cycles)
    whole = (row.dtype, row.target, row.inputs, row.outputs, row.traffic)
    return (row.id, row.op, row.name, row.microseconds, *whole, *cycles)


def _printed(row: LayerRow) -> tuple[object, ...]:
    cycles = (row.ddr_cycles, row.npu_cycles, row.total_cycles)
    whole = (row.dtype, row.target, row.inputs, (row.output,), row.kilobytes * 1024)
    return (row.number, row.op, row.name, row.us, *whole, *cycles)


@pytest.mark.parametrize(
    ("version", "dialect", "cores"),
    [
        ("1.5.2", "generation 2, to 1.5", 3),
        ("", "generation 2, from 1.6", 3),
        ("", "generation 2, from 1.6", 2),
        ("", "generation 2, from 1.6", 1),
    ],
)
def test_generation_2(agents: Callable[..., Agent], version: str, dialect: str, cores: int) -> None:
    parts = ["2.41", "0.00", "0.00"][:cores], ["100.0%", "0.0%", "0.0%"][:cores]
    busy = replace(ROWS[1], mac="/".join(parts[0]), workload="/".join(parts[1]))
    rows = (ROWS[0], busy, replace(ROWS[2], name="größe " + "x" * 90))
    agent = agents(version=version, known=answers(layers=rows, run_us=(1500, 900, 700)[:cores]))
    agent.open(perf=True)
    report = parse_perf_text(agent.run()["perf"])
    assert report.dialect == dialect
    assert [_facts(row) for row in report.rows] == [_printed(row) for row in rows]
    assert report.rows[1].mac_usage == (2.41, 0.0, 0.0)[:cores]
    assert report.rows[1].workload == (100.0, 0.0, 0.0)[:cores]
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
        replace(ROWS[1], op="CONVOLUTION+ADD+RELU"),
        replace(ROWS[2], name="größe"),
        replace(ROWS[1], number=3, name="n" * 70),
    )
    known = answers(layers=rows, generation=1)
    agent = agents(kind=kind, known=known)
    agent.open(perf=True, generation=1)
    text = agent.run()["perf"]
    report = parse_perf_text(text)
    assert report.dialect == "generation 1"
    assert [(row.id, row.name, row.microseconds) for row in report.rows] == [
        (row.number, row.name, row.us) for row in rows
    ]
    assert report.rows[1].ops == ("CONVOLUTION", "ADD", "RELU")
    assert [row.uid for row in report.rows] == [None, 1, None, 3]
    assert (report.microseconds, report.total_kind) == (250, "run")
    assert report.unread == ()
