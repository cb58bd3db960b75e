"""Columns of convolutions: weight times the mean column is the mean output of ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine.graph.execute import Session
from engine.graph.ir import Graph
from engine.quantize.planning.plan import plan
from engine.quantize.techniques.moments import make_moments
from tests.quantize.models import Net

FORMS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((1, 4, 9, 11), (6, 4, 3, 3), {"pads": [1, 0, 2, 1], "strides": [2, 1]}),
    ((1, 6, 8, 8), (6, 1, 3, 3), {"group": 6, "pads": [1] * 4, "dilations": [2, 1]}),
    ((2, 4, 7, 7), (6, 2, 2, 3), {"group": 2, "auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    ((1, 3, 20), (5, 3, 4), {"strides": [3], "auto_pad": "SAME_LOWER"}),
    ((1, 2, 4, 5, 6), (3, 2, 2, 2, 2), {}),
]


def mean_output(graph: Graph, feeds: list[dict[str, np.ndarray]], axis: int) -> np.ndarray:
    session = Session(graph)
    (name,) = (spec.name for spec in graph.outputs)
    results = np.concatenate([session.run(feed)[name] for feed in feeds])
    mean: np.ndarray = np.moveaxis(results, axis, 0).reshape(results.shape[axis], -1).mean(axis=1)
    return mean


@pytest.mark.parametrize(("shape", "weight", "attributes"), FORMS)
def test_columns_of_convolutions(
    shape: tuple[int, ...], weight: tuple[int, ...], attributes: dict[str, Any]
) -> None:
    net = Net()
    x = net.input(*shape)
    kernel = net.normal(*weight)
    graph = net.graph(net.op("Conv", x, net.constant(kernel), **attributes))
    feeds = net.feeds(2)
    (moments,) = make_moments(graph, plan(graph), 10_000, 2).values()
    for index, feed in enumerate(feeds):
        moments.add(feed[x], index)
    matrix = kernel.reshape(moments.groups, -1, moments.length)
    found = np.einsum("gmk,gk->gm", matrix, moments.mean).reshape(-1)
    assert np.allclose(found, mean_output(graph, feeds, 1), atol=1e-5)
    second = moments.second
    assert second is not None
    assert np.allclose(second, second.transpose(0, 2, 1))


def test_rows_of_matrices_and_positions_by_the_number_of_the_sample() -> None:
    net = Net()
    x = net.input(2, 50, 8)
    weight = net.normal(8, 5)
    graph = net.graph(net.op("MatMul", x, net.constant(weight)))
    feeds = net.feeds(2)
    (whole,) = make_moments(graph, plan(graph), 10_000, 2).values()
    some = [next(iter(make_moments(graph, plan(graph), 20, 2).values())) for _ in range(2)]
    for index, feed in enumerate(feeds):
        for moments in (whole, *some):
            moments.add(feed[x], index)
    assert np.allclose(whole.mean[0] @ weight, mean_output(graph, feeds, 2), atol=1e-5)
    assert np.array_equal(some[0].mean, some[1].mean)
    assert not np.array_equal(some[0].mean, whole.mean)
