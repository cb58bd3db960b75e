"""Memory of whole networks against what the vendor's compiler printed, through our own lowering."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from engine.cost.lowering import lower, read_graph
from engine.cost.lowering.graph import LoweringGraph
from engine.cost.memory import plan_memory
from engine.frontends.load import find_source, load_source
from engine.wire.cost import MemoryCost
from tests.cost.against_compiler.facts import graph_file
from tests.cost.support import npu_of

KIB = 1024
LARGEST_WEIGHT_ERROR = 256 * KIB


@dataclass(frozen=True)
class Printed:
    """One build: what the compiler printed, which is rounded to six digits of KB."""

    chip: str
    graph: str
    internal: int
    weight: int


def printed_builds(facts: Path) -> list[Printed]:
    """Of whole networks in int8."""
    found = []
    for file, name in (("memory_dev.csv", "graph"), ("published_totals.csv", "name")):
        internal = "internal_bytes" if name == "graph" else "internal"
        weight = "weight_bytes" if name == "graph" else "weight"
        with (facts / file).open(encoding="utf-8", newline="") as stream:
            for row in csv.DictReader(stream):
                whole = name == "name" or row[name].startswith("net_")
                if whole and row["quant"] == "i8" and row[internal]:
                    found.append(
                        Printed(row["platform"], row[name], int(row[internal]), int(row[weight]))
                    )
    return found


@cache
def graph_of(file: Path) -> LoweringGraph:
    return read_graph(load_source(find_source(file)).graph)


def plan(file: Path, chip: str) -> MemoryCost:
    npu = npu_of(chip)
    return plan_memory(lower(graph_of(file), npu, "int8"), npu)


def same_as_printed(ours: int, theirs: int) -> bool:
    return f"{ours / KIB:.6g}" == f"{theirs / KIB:.6g}"


def test_mobilenet_v1_on_rk3566(zoo: Path) -> None:
    assert plan(zoo / "shapes" / "mbv1.onnx", "rk3566").internal == 1_756_160


@pytest.mark.long
def test_whole_networks(zoo: Path) -> None:
    facts = zoo.parent / "facts" / "cost"
    if not facts.is_dir():
        pytest.skip(f"there are no facts at {facts}")
    exact = count = 0
    far = []
    for build in printed_builds(facts):
        file = graph_file(zoo, build.graph)
        if file is None:
            continue
        found = plan(file, build.chip)
        count += 1
        exact += same_as_printed(found.internal, build.internal)
        if abs(found.internal - build.internal) > 0.05 * build.internal:
            far.append((build.graph, build.chip))
        allowed = max(0.03 * build.weight, LARGEST_WEIGHT_ERROR)
        assert abs(found.weight - build.weight) <= allowed, build
    assert count >= 130
    assert exact >= 0.95 * count
    assert not far
