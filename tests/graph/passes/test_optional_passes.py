"""Rewrites that options ask for: results stay equal, what goes is told, ends keep their names."""

from __future__ import annotations

import numpy as np
import pytest

from engine.graph.ir import Graph, verify
from engine.graph.passes import apply_requested, optimise
from engine.graph.passes.pruning import channelwise_op
from tests.graph.models import model, nodes_of
from tests.graph.passes.generate import random_graph
from tests.graph.passes.support import furthest, operators, random_feeds, run

TOLERANCE = 1e-5
"""Relative to the range of an output: sums lose terms of zero, kernels may add in another order."""


def with_zeros(graph: Graph, seed: int) -> Graph:
    """The graph with weights (and biases) of some output and input channels at zero."""
    rng = np.random.default_rng(seed)
    copy = graph.copy()
    from engine.graph.passes import Editor

    edit = Editor(copy.model)
    for node in edit.nodes():
        if node.op_type not in ("Conv", "ConvTranspose", "Gemm", "MatMul"):
            continue
        values = [v for v in node.inputs[1:] if v is not None and v.const_value is not None]
        for index, value in enumerate(values):
            array = value.const_value.numpy().copy()
            if array.ndim > 1 and rng.random() < 0.5:
                array[:, rng.random(array.shape[1]) < 0.5] = 0
            array[rng.random(array.shape[0]) < 0.5] = 0
            if rng.random() < 0.9:
                edit.set_constant(node, index + 1, array)
    return Graph(copy.model)


def pruned_alike(seed: int) -> int:
    """Prune a random graph with zeros; the number of channels that went."""
    graph = with_zeros(optimise(random_graph(seed)).graph, seed)
    done = apply_requested(graph, model_pruning=True)
    verify(done.graph)
    assert [(s.name, s.shape, s.dtype) for s in done.graph.outputs] == [
        (s.name, s.shape, s.dtype) for s in graph.outputs
    ]
    feeds = random_feeds(graph, seed)
    assert furthest(run(graph, feeds), run(done.graph, feeds)) < TOLERANCE, seed
    return sum(sum(r.counts.values()) for r in done.log)


def test_random_graphs_with_zeros_mean_the_same_after_pruning() -> None:
    assert sum(pruned_alike(seed) > 0 for seed in range(20)) >= 2


@pytest.mark.long
def test_300_random_graphs_with_zeros() -> None:
    assert sum(pruned_alike(seed) > 0 for seed in range(1000, 1300)) >= 40


def net(w1: np.ndarray, b1: np.ndarray, wd: np.ndarray, w2: np.ndarray) -> Graph:
    """Conv, Relu, depthwise Conv, residual, pooling, flat Gemm."""
    rng = np.random.default_rng(3)
    return model(
        nodes_of(
            "[conv1] c1 = Conv <pads=[1, 1, 1, 1]> (x, w1, b1); [relu1] r1 = Relu (c1); "
            "[deep] d1 = Conv <group=4, pads=[1, 1, 1, 1]> (r1, wd); [add] a1 = Add (d1, r1); "
            "[pool] p1 = MaxPool <kernel_shape=[2, 2], strides=[2, 2]> (a1); "
            "[flat] f1 = Flatten (p1); [gemm] y = Gemm (f1, w2, b2)"
        ),
        {"x": (1, 3, 4, 4)},
        ["y"],
        {"w1": w1, "b1": b1, "wd": wd, "w2": w2, "b2": rng.normal(size=5).astype(np.float32)},
    )


def weights() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(4)
    dims = {"w1": (4, 3, 3, 3), "b1": (4,), "wd": (4, 1, 3, 3), "w2": (16, 5)}
    return {name: rng.normal(size=size).astype(np.float32) for name, size in dims.items()}


def left(graph: Graph) -> int:
    """Channels of the first convolution that are left."""
    graph = optimise(graph).graph
    done = apply_requested(graph, model_pruning=True)
    feeds = random_feeds(graph, 1)
    assert furthest(run(graph, feeds), run(done.graph, feeds)) < TOLERANCE
    conv = next(node for node in done.graph.nodes if node.name == "conv1")
    weight = conv.inputs[1].const_value.numpy()
    (finding,) = done.findings
    assert (finding.code == "model-pruned") == (weight.shape[0] < 4)
    return int(weight.shape[0])


def test_a_channel_goes_where_it_is_zero_everywhere_or_read_by_zeros() -> None:
    given = weights()
    assert left(net(**given)) == 4
    given["w1"][1] = 0
    assert left(net(**given)) == 4  # its bias is not zero
    given["b1"][1] = 0
    assert left(net(**given)) == 3
    given["w2"].reshape(4, 4, 5)[2] = 0  # what the flat product reads of channel 2
    assert left(net(**given)) == 2
    given["w2"][:] = 0
    assert left(net(**given)) == 1  # a tensor keeps one channel


def test_what_pruning_tells() -> None:
    given = weights()
    given["w1"][1] = given["b1"][1] = 0
    (finding,) = apply_requested(optimise(net(**given)).graph, model_pruning=True).findings
    # conv1: 27 weights and a bias, deep: 9, gemm: 4 x 5
    assert f"1 channels were removed, and with them {4 * (28 + 9 + 20)} of" in finding.what
    (finding,) = apply_requested(optimise(net(**weights())).graph, model_pruning=True).findings
    assert finding.code == "pruning-none"


def shapes(graph: Graph) -> dict[str, tuple[int, ...]]:
    return {spec.name: spec.shape for spec in (*graph.inputs, *graph.outputs)}


def test_reshapes_at_the_ends_go_and_the_shapes_change() -> None:
    graph = model(
        nodes_of(
            "[in1] a = Reshape (x, s1); [in2] b = Unsqueeze (a, axes); [conv] c = Conv (b, w); "
            "[out] y = Flatten (c); [relu] z = Relu (c)"
        ),
        {"x": (1, 48)},
        ["y", "z"],
        {
            "s1": [3, 4, 4],
            "axes": [0],
            "w": np.random.default_rng(0).normal(size=(2, 3, 3, 3)).astype(np.float32),
        },
    )
    feeds = random_feeds(graph)
    before = run(graph, feeds)
    for level in (0, 3):
        done = apply_requested(optimise(graph, level).graph, remove_reshape=True)
        verify(done.graph)
        assert shapes(done.graph) == {"x": (1, 3, 4, 4), "y": (1, 2, 2, 2), "z": (1, 2, 2, 2)}
        assert operators(done.graph) == ["Conv", "Relu"]
        after = run(done.graph, {"x": feeds["x"].reshape(1, 3, 4, 4)})
        np.testing.assert_array_equal(after["y"].reshape(1, -1), before["y"])
        np.testing.assert_array_equal(after["z"], before["z"])
        (finding,) = done.findings
        assert finding.severity == "warning"
        assert "input x is 1x3x4x4 now, not 1x48" in finding.what
        assert "output y is 1x2x2x2 now, not 1x8" in finding.what


def test_a_reshape_that_is_all_there_is_stays() -> None:
    graph = model("[only] y = Reshape (x, s)", {"x": (1, 4)}, ["y"], {"s": [2, 2]})
    done = apply_requested(graph, remove_reshape=True)
    assert shapes(done.graph) == shapes(graph)
    assert [finding.code for finding in done.findings] == ["reshape-none"]


def test_nothing_is_rewritten_unless_it_is_wished() -> None:
    graph = random_graph(1)
    done = apply_requested(graph)
    assert done.graph is graph
    assert not done.findings


@pytest.mark.parametrize(
    ("low", "high", "kept"),
    [(0.0, 6.0, True), (0.1, 6.0, False), (-6.0, 0.0, True), (-2.0, -1.0, False)],
)
def test_a_clip_with_zero_in_its_range_keeps_channels_of_zeros(
    low: float, high: float, kept: bool
) -> None:
    bounds = {"low": low, "high": high}
    (node,) = model("y = Clip (x, low, high)", {"x": (1, 3, 4, 4)}, ["y"], bounds).nodes
    clip = channelwise_op(node)
    assert clip is not None
    assert clip.keeps_zero.tolist() == [kept] * 3
