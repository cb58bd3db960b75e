"""A board and what it measured in words, from Python."""

from __future__ import annotations

from dataclasses import replace

import engine
from engine.wire.board import AllocatedMemory, MemoryReport, Power, Temperature
from engine.wire.devices import BoardMemory
from engine.wire.measured import LayerChange, PointChange, RunsCompared
from tests.tui.bench_answers import ABOUT, HEAD
from tests.tui.board_answers import comparison, ran


def test_a_board_says_what_it_is_and_why_something_is_missing() -> None:
    zones = (Temperature("npu-thermal", 45.2, 95.0),)
    state = replace(ABOUT.state, temperatures=zones, powers=(Power("ina226\x1b[2J", 5.12),))
    facts = engine.board_facts(replace(ABOUT, state=state))
    assert list(facts) == ["Board", "Versions", "State now"]
    assert facts["Board"][0] == ("chip", "RK3588, 3 NPU cores")
    assert facts["Versions"] == [("driver", "0.9.8"), ("runtime", "there is none")]
    now = dict(facts["State now"])
    assert now["NPU load"] == "10 %, 0 %, 50 %"
    assert now["DDR clock"] == "this kernel has no node for it"
    assert now["temperature"] == "npu-thermal 45.2 °C"
    assert now["hot from"] == "95.0 °C (the board's own trip point, of npu-thermal)"
    assert now["memory"] == "8.00 GiB in all, 6.00 GiB free"
    assert now["power"] == "ina226[2J 5.12 W"
    bare = dict(engine.board_facts(ABOUT)["State now"])
    assert bare["hot from"] == "85.0 °C (documented)"
    assert bare["power"] == ""


def test_layers_and_memory_of_a_run() -> None:
    run = ran()
    layers, *notes = engine.measured_facts(run)
    assert layers.startswith("3 on NPU, 1 on CPU; 3 of 4 rows are layers of this build.")
    assert notes == list(run.notes)
    assert list(engine.measured_facts(replace(run, layers=()))) == []
    memory = BoardMemory(1, 2, 3, 6, note="It is padded.")
    (text,) = engine.memory_facts(MemoryReport(**HEAD, memory=memory))
    assert text == "On adb:127.0.0.1:40001, rk3588 (emulated). It is padded."
    own = AllocatedMemory(4096, 8192, 1024, 2048)
    why, *most = engine.memory_facts(MemoryReport(**HEAD, reason="No query.", allocated=own))
    assert why.endswith("No query.")
    assert most == [
        "Allocated at most, system: 4.00 KiB.",
        "Allocated at most, NPU: 1.00 KiB.",
    ]


def test_a_comparison_begins_with_its_verdict() -> None:
    found = replace(comparison(), missing=("a", "b", "c", "d", "e"), sha256="ab" * 32)
    verdict, *more = engine.comparison_facts(found)
    assert verdict == found.verdict
    assert f"({found.label})" in " ".join(more)
    assert "Not given by the board: a, b, c, d and 1 more." in more
    assert f"Input bytes of all three, SHA-256: {found.sha256}" in more


def test_two_runs_say_what_is_slower() -> None:
    points = (
        PointChange("auto", 1, 1, 5000.0, 5500.0, 0.1, True),
        PointChange("0", 1, 2, 5000.0, 4000.0, -0.2, True),
        PointChange("1", 1, 2, 5000.0, 4990.0, -0.002, False),
    )
    layers = (LayerChange("a", 1.0, 2.0), LayerChange("b", 1.0, 9.0), LayerChange("c", None, 1.0))
    found = RunsCompared(("measured", "measured"), ("driver: 1, 2",), points, layers)
    assert list(engine.difference_facts(found)) == [
        ("cores auto, threads 1: 5.000 → 5.500 ms  +10.0 %  clear", True),
        ("cores 0, threads 2: 5.000 → 4.000 ms  -20.0 %  clear", False),
        ("cores 1, threads 2: 5.000 → 4.990 ms  -0.2 %  within the spread", None),
        ("Not equal: driver: 1, 2", None),
        ("b  1.0 → 9.0 µs", None),
        ("a  1.0 → 2.0 µs", None),
    ]
