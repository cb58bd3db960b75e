"""The vendor's toolkit takes our QDQ graphs, and its simulator computes what ours does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from benchmarks.compiled.agreement import compare_layers, compare_whole, simulated
from engine.graph.execute import FUSING_LEVEL, as_compiled
from tests.vendor.nets import MODELS, Net
from tests.vendor.toolkit import Toolkit

pytestmark = [pytest.mark.long, pytest.mark.vendor]

# Samples of the evaluation set; all 540 digits would take the toolkit half a minute more.
_SAMPLES = 17

# rfb320 is 50 layers deep, and single last bits add up.
_END_TO_END = {"digits": 0.9999, "resnet8": 0.9999, "vww96": 0.9999, "rfb320": 0.999}


@pytest.mark.parametrize("algorithm", ["normal", "accurate"])
@pytest.mark.parametrize("model", MODELS)
def test_whole_nets(
    model: str, algorithm: str, net: Callable[[str], Net], toolkit: Toolkit, tmp_path: Path
) -> None:
    """Up to level 2 it computes what the file says, at its default what it fuses."""
    chosen = net(model)
    graph = chosen.quantized(algorithm).graph
    values = chosen.values(chosen.evaluation[:_SAMPLES])
    feeds = [{chosen.input: value[None]} for value in values]
    for level, ours in ((2, graph), (FUSING_LEVEL, as_compiled(graph))):
        theirs = simulated(graph, values, toolkit, tmp_path, level)
        for output in compare_whole(ours, chosen.graph, feeds, theirs):
            print(f"{model} {algorithm}, level {level}: {output}")
            assert output.cosine >= _END_TO_END[model]


@pytest.mark.parametrize("algorithm", ["normal", "accurate"])
@pytest.mark.parametrize("model", MODELS)
def test_layer_by_layer_on_the_same_integers(
    model: str, algorithm: str, net: Callable[[str], Net], toolkit: Toolkit, tmp_path: Path
) -> None:
    chosen = net(model)
    graph = chosen.quantized(algorithm).graph
    values = chosen.values(chosen.evaluation[:2])
    feeds = [{chosen.input: value[None]} for value in values]
    found = compare_layers(graph, feeds, toolkit, tmp_path)
    for difference in found:
        assert difference.largest <= 1, difference
        assert difference.unequal <= max(1e-3 * difference.values, 1), difference
    unequal = sum(difference.unequal for difference in found)
    values_seen = sum(difference.values for difference in found)
    print(f"{model} {algorithm}: {unequal} of {values_seen} integers differ, all by 1")
    assert unequal <= 1e-3 * values_seen
    layers = {difference.layer for difference in found}
    assert len(layers) >= sum(n.op_type in ("Conv", "Gemm") for n in chosen.graph.nodes) // 2


def test_a_wrong_step_would_be_seen(
    net: Callable[[str], Net], toolkit: Toolkit, tmp_path: Path
) -> None:
    """The unfused graph is not what the compiler makes of resnet8 at its default level."""
    chosen = net("resnet8")
    graph = chosen.quantized("normal").graph
    values = chosen.values(chosen.evaluation[:_SAMPLES])
    feeds = [{chosen.input: value[None]} for value in values]
    theirs = simulated(graph, np.asarray(values), toolkit, tmp_path)
    (output,) = compare_whole(graph, chosen.graph, feeds, theirs)
    assert output.cosine < _END_TO_END["resnet8"]
