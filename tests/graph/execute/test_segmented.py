"""Graphs in segments: the results of one session bit by bit, whatever is cut where."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.base.errors import UsageError
from engine.graph.execute import SegmentedSession, Session
from engine.graph.ir import Graph
from engine.graph.layers import LayerMap
from engine.graph.passes import optimise
from engine.graph.segments import cut_points, places_of, segment_crossings
from engine.quantize import layers_of, to_float16
from tests.graph.passes.generate import random_graph
from tests.graph.passes.support import random_feeds
from tests.quantize.models import quantize_net, small_cnn

DTYPES = ("float32", "float16", "w8a8", "w16a16i", "w8a16")


def drawn(data: st.DataObject) -> Graph:
    """Of about 18 layers, with branches, joins and several outputs."""
    return optimise(random_graph(data.draw(st.integers(0, 10**6)))).graph


def in_dtype(graph: Graph, dtype: str) -> tuple[Graph, LayerMap]:
    if dtype == "float32":
        return graph, layers_of(graph)
    if dtype == "float16":
        done = to_float16(graph)
        return done.graph, done.layers
    made = quantize_net(graph, [random_feeds(graph, seed) for seed in (0, 1)], dtype=dtype)
    return made.graph, made.layers


def same(graph: Graph, layers: LayerMap, after: list[int], feeds: dict[str, np.ndarray]) -> None:
    want = Session(graph).run(feeds)
    run = SegmentedSession(graph, places_of(graph, layers), after)
    assert len(run) == len(set(after)) + 1
    found = run.run(feeds)
    assert list(found) == list(want)
    for name, array in want.items():
        assert array.dtype == found[name].dtype
        assert array.tobytes() == found[name].tobytes(), name


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_any_cut_of_any_graph(data: st.DataObject) -> None:
    graph = drawn(data)
    cut, layers = in_dtype(graph, data.draw(st.sampled_from(DTYPES)))
    count = len(layers.layers)
    after = data.draw(st.lists(st.integers(0, max(0, count - 2)), max_size=6))
    same(cut, layers, after, random_feeds(graph, 2))


@pytest.mark.long
@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_many_cuts_of_many_graphs(data: st.DataObject) -> None:
    test_any_cut_of_any_graph.hypothesis.inner_test(data)  # type: ignore[attr-defined]


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_layer_a_segment_of_its_own(dtype: str) -> None:
    graph, layers = in_dtype(small_cnn()[1], dtype)
    count = len(layers.layers)
    assert count > 15
    same(graph, layers, list(range(count - 1)), random_feeds(graph, 2))
    run = SegmentedSession(graph, places_of(graph, layers), list(range(count - 1)))
    busy = sum(1 for part in run._segments if part.session is not None)
    # ONNX Runtime joins some layers; what is left is spread over the segments, not in one
    assert busy > count / 2


def test_integers_cross_between_the_segments_of_a_quantized_graph() -> None:
    graph, layers = in_dtype(small_cnn()[1], "w8a8")
    crossings = segment_crossings(graph, layers)
    assert all(name.endswith("/quantized") for one in crossings for name in one.tensors)
    stem = next(i for i, layer in enumerate(layers.layers) if layer.op == "Conv")
    assert crossings[stem].bytes == 8 * 12 * 12  # a byte a value: 1x8x12x12
    residual = layers.layers.index(next(one for one in layers.layers if one.op == "Add"))
    # while the branch computes, the shortcut waits with it
    assert [len(one.tensors) for one in crossings[stem:residual]] == [1, 2, 2]
    assert crossings[-1].tensors == ()
    assert segment_crossings(graph, layers, [stem, residual]) == (
        crossings[stem],
        crossings[residual],
    )


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_what_crosses_is_what_later_layers_read(data: st.DataObject) -> None:
    """Against the definition: float graphs, each node a layer."""
    graph = drawn(data)
    layers = layers_of(graph)
    nodes = list(graph.nodes)
    for uid, crossing in enumerate(segment_crossings(graph, layers)):
        before = {v.name for node in nodes[: uid + 1] for v in node.outputs}
        wanted = {
            value.name
            for node in nodes[uid + 1 :]
            for value in node.inputs
            if value is not None and value.name in before
        }
        assert set(crossing.tensors) == wanted
        assert crossing.bytes == sum(4 * (graph.spec(str(n)).size or 0) for n in wanted)


def test_uids_are_checked() -> None:
    _, graph = small_cnn()
    layers = layers_of(graph)
    count = len(layers.layers)
    first = layers.layers[0].id
    assert cut_points([3, "0", 3, first], layers) == ((0, first), (3, layers.layers[3].id))
    assert cut_points([count - 1], layers) == ()  # the last segment ends there anyway
    assert cut_points([np.int64(2)], layers) == ((2, layers.layers[2].id),)
    for wrong in (-1, count, 1.0, None, True, "-3", "99", [1], float("nan"), "9" * 5000):
        with pytest.raises(UsageError, match="no layer with the uid") as caught:
            cut_points([wrong], layers)
        assert f"0 to {count - 1}" in caught.value.cause
    with pytest.raises(UsageError, match="has no layer 'Conv_x'") as caught:
        cut_points(["Conv_x"], layers)
    assert "Conv_" in caught.value.remedy
