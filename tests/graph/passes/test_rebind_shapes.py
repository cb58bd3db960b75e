"""What was built for one set of shapes runs for another with the same parameters."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from engine.base.errors import GraphError
from engine.graph.ir import Graph
from engine.graph.passes import optimise, rebind_input_shapes
from engine.quantize import calibrate, quantize
from tests.graph.models import model, nodes_of
from tests.graph.passes.support import run


def net(size: int) -> Graph:
    """Convolution, a reshape by the sizes of its input, an upsampling and a product."""
    rng = np.random.default_rng(1)
    constants = {
        "w": rng.normal(size=(4, 3, 3, 3)).astype(np.float32),
        "m": rng.normal(size=(4, 5)).astype(np.float32),
        "rows": np.array([1, 4, size * size], np.int64),
        "sizes": np.array([1, 4, 2 * size, 2 * size], np.int64),
    }
    nodes = nodes_of(
        "[conv] c = Conv <pads=[1, 1, 1, 1]> (x, w); [relu] r = Relu (c); "
        "[up] u = Resize (r, , , sizes); [rows1] f = Reshape (r, rows); "
        "[turn] t = Transpose <perm=[0, 2, 1]> (f); [product] y = MatMul (t, m)"
    )
    return optimise(model(nodes, {"x": (1, 3, size, size)}, ["y", "u"], constants)).graph


def test_a_quantized_graph_for_another_size() -> None:
    rng = np.random.default_rng(0)
    base, other = net(8), net(12)
    feeds = [{"x": rng.normal(size=(1, 3, 8, 8)).astype(np.float32)} for _ in range(4)]
    built = quantize(base, calibrate(base, feeds)).graph
    turned = rebind_input_shapes(built, base, other)
    assert [(s.name, s.shape) for s in turned.inputs] == [("x", (1, 3, 12, 12))]
    assert [s.shape for s in turned.outputs] == [(1, 144, 5), (1, 4, 24, 24)]
    # scales are the same bytes; so is what both compute of a picture that is the same in a corner
    mine = {n: v.const_value for n, v in turned.model.graph.initializers.items()}
    theirs = {n: v.const_value for n, v in built.model.graph.initializers.items()}
    same = [n for n in theirs if np.array_equal(mine[n].numpy(), theirs[n].numpy())]
    assert len(theirs) - len(same) == 2  # rows and sizes
    large = np.zeros((1, 3, 12, 12), np.float32)
    large[..., :8, :8] = feeds[0]["x"]
    ours, small = run(turned, {"x": large})["u"], run(built, feeds[0])["u"]
    np.testing.assert_array_equal(ours[..., :13, :13], small[..., :13, :13])
    float_ = run(other, {"x": large})
    assert np.abs(run(turned, {"x": large})["y"] - float_["y"]).max() < 0.05 * np.ptp(float_["y"])


def test_graphs_that_differ_in_more_are_refused() -> None:
    base = net(8)
    other = net(12).copy()
    nodes = list(other.nodes)
    nodes[0].name = "another"
    with pytest.raises(GraphError, match="differ at conv"):
        rebind_input_shapes(base, base, other)
    changed = net(12).copy()
    weight = changed.model.graph.initializers["w"]
    weight.const_value = ir.Tensor(weight.const_value.numpy() * 2, name="w")
    with pytest.raises(GraphError, match="other values"):
        rebind_input_shapes(base, base, changed)
