"""Wider batches compute each sample as it is computed alone; what mixes samples is refused."""

from __future__ import annotations

import numpy as np
import pytest

from engine.base.errors import GraphError
from engine.graph.ir import Graph
from engine.graph.passes import optimise, set_batch_size
from tests.graph.models import model, nodes_of
from tests.graph.passes.generate import random_graph
from tests.graph.passes.support import distance, random_feeds, run


def check(graph: Graph, size: int = 3) -> None:
    """Random samples through the wide graph and one by one through the narrow one."""
    wide = set_batch_size(graph, size)
    feeds = random_feeds(wide, 7)
    together = run(wide, feeds)
    for index in range(size):
        alone = run(graph, {name: a[index : index + 1] for name, a in feeds.items()})
        for name, value in alone.items():
            assert distance(value, together[name][index : index + 1]) < 1e-4
    assert [spec.name for spec in wide.outputs] == [spec.name for spec in graph.outputs]
    assert all(spec.shape[0] == size for spec in (*wide.inputs, *wide.outputs))


@pytest.mark.parametrize("seed", range(10))
def test_random_graphs_for_several_samples(seed: int) -> None:
    graph = optimise(random_graph(seed)).graph
    if graph.inputs[0].shape[0] == 1:
        check(graph)
    else:
        with pytest.raises(GraphError, match="no batch of 1"):
            set_batch_size(graph, 3)


def test_sizes_that_are_written_into_operators() -> None:
    graph = model(
        nodes_of(
            "[flat1] f = Reshape (x, flat); [soft] s = Softmax <axis=1> (f); "
            "[back1] b = Reshape (s, back); [up] y = Resize (b, , , sizes)"
        ),
        {"x": (1, 3, 4, 4)},
        ["y"],
        {"flat": [1, 48], "back": [1, 3, 4, 4], "sizes": [1, 3, 8, 8]},
    )
    check(graph, 4)
    assert set_batch_size(graph, 1) is graph


def test_a_recurrent_layer_gets_a_state_for_each_sample() -> None:
    rng = np.random.default_rng(2)
    graph = model(
        nodes_of(
            "[turn] t = Transpose <perm=[1, 0, 2]> (x); "
            "[gru] , y = GRU <hidden_size=3> (t, w, r, b, , h); [out] z = Squeeze (y, axes)"
        ),
        {"x": (1, 5, 2)},
        ["z"],
        {
            "w": rng.normal(size=(1, 9, 2)).astype(np.float32),
            "r": rng.normal(size=(1, 9, 3)).astype(np.float32),
            "b": rng.normal(size=(1, 18)).astype(np.float32),
            "h": rng.normal(size=(1, 1, 3)).astype(np.float32),
            "axes": [0],
        },
    )
    check(graph)


@pytest.mark.parametrize(
    "node",
    nodes_of(
        "[mix] y = Softmax <axis=0> (x); [mix] y = ReduceMax <keepdims=0> (x); "
        "[mix] y = Transpose <perm=[1, 0]> (x); [mix] y = Flatten <axis=0> (x)"
    ),
    ids=lambda node: node.op_type,
)
def test_what_mixes_samples_is_refused(node: object) -> None:
    graph = model([node], {"x": (1, 6)}, ["y"])  # type: ignore[list-item]
    with pytest.raises(GraphError, match="cannot take 3 samples at once"):
        set_batch_size(graph, 3)


def test_a_sample_that_is_measured_by_the_others_is_refused() -> None:
    nodes = "m = ReduceMean <keepdims=1> (x, axes); y = Sub (x, m)"
    graph = model(nodes, {"x": (1, 6)}, ["y"], {"axes": [0]})
    with pytest.raises(GraphError, match="of one depends on the others"):
        set_batch_size(graph, 3)
