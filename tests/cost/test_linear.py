"""The work of a load and an estimate grows with the model: lines that run are counted."""

from __future__ import annotations

import sys
from collections import Counter
from types import FrameType
from typing import Any

import numpy as np
import pytest
from onnx import NodeProto, helper

from engine.cost.estimate import CostSettings, estimate
from engine.graph.ir import Graph
from engine.graph.ir.amounts import check_amounts
from tests.graph.models import model

PARTS = 150


def branches(kind: str, count: int) -> Graph:
    """A tensor of ``count`` channels, cut into single ones and joined again."""
    parts, outs = [f"s{at}" for at in range(count)], [f"r{at}" for at in range(count)]
    nodes: list[NodeProto] = []
    weights = {f"n{at}": np.array([at], np.int64) for at in range(count + 1)}
    if kind == "Split":
        nodes.append(helper.make_node("Split", ["x"], parts, axis=1, num_outputs=count))
    else:
        for at, part in enumerate(parts):
            nodes.append(helper.make_node("Slice", ["x", f"n{at}", f"n{at + 1}", "n1"], [part]))
    nodes += [
        helper.make_node("Relu", [part], [out]) for part, out in zip(parts, outs, strict=True)
    ]
    nodes.append(helper.make_node("Concat", outs, ["y"], axis=1))
    return model(nodes, {"x": (1, count, 4, 4)}, ["y"], weights)


def lines_run(graph: Graph, chip: str) -> Counter[str]:
    """How many lines ran in each function of the engine."""
    ran: Counter[str] = Counter()

    def local(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            ran[f"{frame.f_globals.get('__name__')}.{frame.f_code.co_name}"] += 1
        return local

    def entered(frame: FrameType, event: str, _: Any) -> Any:
        return local if str(frame.f_globals.get("__name__")).startswith("engine.") else None

    before = sys.gettrace()
    sys.settrace(entered)
    try:
        check_amounts(graph)  # as every model that is loaded
        estimate(graph, CostSettings(chips=(chip,)))
    finally:
        sys.settrace(before)
    return ran


@pytest.mark.parametrize("chip", ["rk3588", "rk1808"])
@pytest.mark.parametrize("kind", ["Split", "Slice"])
def test_twice_the_branches_are_twice_the_work(kind: str, chip: str) -> None:
    lines_run(branches(kind, 4), chip)  # what is read once
    few, many = (lines_run(branches(kind, count), chip) for count in (PARTS, 2 * PARTS))
    grown = {name: (few[name], ran) for name, ran in many.items() if ran > PARTS * 4}
    assert grown
    assert not {name: both for name, both in grown.items() if both[1] > 2.3 * both[0] + 100}
