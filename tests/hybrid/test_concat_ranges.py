"""Joins of unlike ranges: found by structure and by ranges, and repaired by their change."""

from __future__ import annotations

import numpy as np
import pytest

from engine.graph.execute import Session
from engine.graph.metrics import sqnr
from engine.hybrid import find_range_mismatches
from engine.quantize import QuantizeSettings, calibrate, quantize
from tests.hybrid.nets import head_feeds, head_graph
from tests.quantize.models import Net


def test_boxes_and_scores_in_one_concat_are_found_before_calibration() -> None:
    graph = head_graph()
    (found,) = find_range_mismatches(graph, source=graph)
    assert (found.code, found.severity) == ("mixed-range-concat", "warning")
    assert "Sigmoid" in found.what
    assert found.changes == {"quantized_layers": {"Concat_10": "float16"}}


def test_the_figures_are_those_of_the_ranges() -> None:
    graph = head_graph()
    seen = calibrate(graph, head_feeds())
    (found,) = find_range_mismatches(graph, seen)
    boxes, scores = graph.node("Concat_10").inputs
    widest = seen[boxes.name].maximum  # both start at 0 or above it
    ratio = widest / seen[scores.name].maximum
    assert f"{ratio:.3g} times" in found.cause
    assert f"{255 / ratio:.3g} of 255 steps" in found.cause


def test_its_change_repairs_the_scores() -> None:
    graph, feeds = head_graph(), head_feeds()
    seen = calibrate(graph, feeds)
    (found,) = find_range_mismatches(graph, seen)
    (name,) = (spec.name for spec in graph.outputs)
    golden = np.concatenate([Session(graph).run(feed)[name] for feed in feeds])
    figures = []
    for layers in ({}, found.changes["quantized_layers"]):
        done = quantize(graph, seen, QuantizeSettings(layers=layers))
        session = Session(done.graph)
        simulated = np.concatenate([session.run(feed)[name] for feed in feeds])
        figures.append(sqnr(golden[:, 4:], simulated[:, 4:]))
    assert figures[0] < 5  # a step of the boxes is wider than all scores
    assert figures[1] > 30
    assert find_range_mismatches(graph, seen, layers=found.changes["quantized_layers"]) == ()


def test_the_outputs_that_split_it_are_named() -> None:
    graph = head_graph()
    (found,) = find_range_mismatches(graph, source=graph)
    boxes, scores = graph.node("Concat_10").inputs
    assert f"outputs {boxes.name}, {scores.name}" in found.remedy


def test_outputs_that_split_it_hold_no_constant_and_no_input() -> None:
    """As of a graph that was not folded: anchors computed of constants, and the input itself."""
    net = Net()
    x = net.input(1, 4, 8, 8)
    scores = net.op("Sigmoid", net.conv(x, 4, 4))
    anchors = net.op("Exp", net.constant(np.full((1, 4, 8, 8), 5, np.float32)))
    boxes = net.op("Mul", net.conv(x, 4, 4), net.constant(np.float32(1000)))
    graph = net.graph(net.op("Concat", scores, anchors, x, boxes, scores, axis=1))
    (found,) = find_range_mismatches(graph, source=graph, dtype="")
    assert found.changes == {"outputs": [scores, boxes]}


def test_split_outputs_and_like_ranges_are_no_finding() -> None:
    assert find_range_mismatches(head_graph(split=True)) == ()
    net = Net()
    x = net.input(1, 3, 8, 8)
    graph = net.graph(net.op("Concat", net.conv(x, 3, 4), net.conv(x, 3, 4), axis=1))
    assert find_range_mismatches(graph) == ()
    assert find_range_mismatches(graph, calibrate(graph, net.feeds(1))) == ()


def test_features_of_unlike_ranges_are_found_by_calibration_alone() -> None:
    net = Net()
    x = net.input(1, 3, 8, 8)
    small = net.op("Mul", net.conv(x, 3, 4), net.constant(np.float32(0.001)))
    graph = net.graph(net.op("Relu", net.op("Concat", net.conv(x, 3, 4), small, axis=1)))
    assert find_range_mismatches(graph) == ()
    (found,) = find_range_mismatches(graph, calibrate(graph, net.feeds(1)))
    assert found.code == "mixed-range-concat"


def test_the_tail_of_a_join_is_lifted_in_the_order_of_the_graph() -> None:
    net = Net()
    x = net.input(1, 3, 8, 8)
    small = net.op("Mul", net.conv(x, 3, 4), net.constant(np.float32(0.001)))
    join = net.op("Concat", net.conv(x, 3, 4), small, axis=1)
    perms = ([0, 2, 3, 1], [0, 3, 2, 1], [0, 3, 1, 2])
    graph = net.graph(*(net.op("Relu", net.op("Transpose", join, perm=perm)) for perm in perms))
    (found,) = find_range_mismatches(graph, calibrate(graph, net.feeds(1)))
    tail = [node.name for node in graph.nodes if node.op_type in ("Concat", "Transpose")]
    assert list(found.changes["quantized_layers"]) == tail


def test_an_add_of_unlike_scales_is_told() -> None:
    net = Net()
    x = net.input(1, 3, 8, 8)
    small = net.op("Mul", net.conv(x, 3, 4), net.constant(np.float32(0.001)))
    graph = net.graph(net.op("Add", net.conv(x, 3, 4), small))
    (found,) = find_range_mismatches(graph, calibrate(graph, net.feeds(1)))
    assert (found.code, found.severity) == ("mixed-range-join", "info")


def test_a_score_sum_that_blocks_fusion_is_told_with_the_outputs_that_are_left() -> None:
    graph = head_graph(score_sum=True)
    found = {f.code: f for f in find_range_mismatches(graph, source=graph)}
    assert found["sigmoid-read-twice"].changes == {"outputs": [graph.outputs[0].name]}


def test_without_half_precision_its_change_splits_the_output() -> None:
    graph = head_graph()
    (found,) = find_range_mismatches(graph, source=graph, dtype="")
    boxes, scores = graph.node("Concat_10").inputs
    assert found.changes == {"outputs": [boxes.name, scores.name]}
    (found,) = find_range_mismatches(graph, dtype="")
    assert found.changes == {}


@pytest.mark.parametrize(("steps", "found"), [(15.5, 1), (16.5, 0)])
@pytest.mark.parametrize("operator", ["Concat", "Add"])
def test_a_side_needs_sixteen_steps(operator: str, steps: float, found: int) -> None:
    net = Net()
    x = net.input(1, 3, 8, 8)
    wide = net.conv(x, 3, 4)
    small = net.op("Mul", wide, net.constant(np.float32(steps / 255)))
    axis = {"axis": 1} if operator == "Concat" else {}
    graph = net.graph(net.op("Relu", net.op(operator, wide, small, **axis)))
    assert len(find_range_mismatches(graph, calibrate(graph, net.feeds(1)))) == found
