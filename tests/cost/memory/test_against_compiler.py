"""Memory of whole networks against what the vendor's compiler printed, through our own lowering."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from engine.wire.cost import MemoryCost
from tests.cost.against_compiler.facts import graph_file
from tests.cost.support import kilobytes, planned, read_file

LARGEST_WEIGHT_ERROR = 256 << 10


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
        internal, weight = (
            f"{what}_bytes" if name == "graph" else what for what in ("internal", "weight")
        )
        with (facts / file).open(encoding="utf-8", newline="") as stream:
            for row in csv.DictReader(stream):
                whole = name == "name" or row[name].startswith("net_")
                if whole and row["quant"] == "i8" and row[internal]:
                    found.append(
                        Printed(row["platform"], row[name], int(row[internal]), int(row[weight]))
                    )
    return found


graph_of = cache(read_file)


def plan(file: Path, chip: str) -> MemoryCost:
    return planned(graph_of(file), chip, "int8")


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
        exact += kilobytes(found.internal) == kilobytes(build.internal)
        if abs(found.internal - build.internal) > 0.05 * build.internal:
            far.append((build.graph, build.chip))
        allowed = max(0.03 * build.weight, LARGEST_WEIGHT_ERROR)
        assert abs(found.weight - build.weight) <= allowed, build
    assert count >= 130
    assert exact >= 0.95 * count
    assert not far
