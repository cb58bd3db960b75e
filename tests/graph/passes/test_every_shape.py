"""What was built for one set of shapes serves others: rebound to them, or as one graph for all."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from engine.base.errors import GraphError
from engine.graph.execute import Session
from engine.graph.ir import Graph
from engine.graph.passes import for_every_shape, optimise, rebind_input_shapes
from engine.quantize import calibrate, quantize
from tests.graph.models import model, nodes_of
from tests.graph.passes.support import run


def net(high: int, wide: int, rows: str = "channels") -> Graph:
    """A convolution, and what reads sizes that follow from the input: folded, as an optimiser
    leaves them.
    """
    rng = np.random.default_rng(1)
    shapes = {
        "channels": [1, 4, high * wide],
        "kept": [1, 4, high, wide],
        "apart": [1, 2 * high, 2 * wide, 1],
    }
    constants = {
        "w": rng.normal(size=(4, 3, 3, 3)).astype(np.float32),
        "rows": shapes[rows],
        "sizes": [1, 4, 2 * high, 2 * wide],
        "starts": [0, 1],
        "ends": [high, wide - 1],
        "axes": [2, 3],
    }
    nodes = nodes_of(
        "[conv] c = Conv <pads=[1, 1, 1, 1]> (x, w); [relu] r = Relu (c); "
        "[up] u = Resize (r, , , sizes); [cut] s = Slice (r, starts, ends, axes); "
        "[flat] y = Reshape (r, rows)"
    )
    shape = (1, 3, high, wide)
    return optimise(model(nodes, {"x": shape}, ["y", "u", "s"], constants), level=0).graph


def at(graph: Graph, shape: tuple[int, ...]) -> Graph:
    """The graph with another input, and nothing else changed."""
    proto = graph.to_proto()
    for dim, size in zip(proto.graph.input[0].type.tensor_type.shape.dim, shape, strict=True):
        dim.dim_value = size
    for output in proto.graph.output:
        output.type.tensor_type.ClearField("shape")
    del proto.graph.value_info[:]
    return Graph.from_bytes(proto.SerializeToString())


@pytest.mark.parametrize("rows", ["channels", "kept"])
@pytest.mark.parametrize("quantized", [False, True])
def test_one_graph_gives_every_shape_s_numbers(rows: str, quantized: bool) -> None:
    sizes = ((8, 8), (12, 8), (6, 10))
    floats = [net(*size, rows=rows) for size in sizes]
    rng = np.random.default_rng(0)
    built = floats[0]
    if quantized:
        feeds = [{"x": rng.normal(size=(1, 3, 8, 8)).astype(np.float32)} for _ in range(4)]
        built = quantize(built, calibrate(built, feeds)).graph
    others = [rebind_input_shapes(built, floats[0], each) for each in floats[1:]]
    one = for_every_shape(built, others)
    assert onnx.checker.check_model(one.to_proto()) is None
    assert one.inputs[0].shape == (1, 3, 8, 8)
    for size, wanted in zip(sizes, (built, *others), strict=True):
        feed = {"x": rng.normal(size=(1, 3, *size)).astype(np.float32)}
        expected = Session(wanted).run(feed)
        found = Session(at(one, (1, 3, *size))).run(feed)
        for name, array in expected.items():
            np.testing.assert_array_equal(found[name], array)
    with pytest.raises(Exception, match=r"[Rr]eshape|shape"):  # the graph of one shape cannot
        Session(at(built, (1, 3, 12, 8))).run({"x": np.zeros((1, 3, 12, 8), np.float32)})


def test_a_graph_without_such_constants_comes_back_as_it_is() -> None:
    plain = net(8, 8)
    assert for_every_shape(plain, [plain]) is plain


def test_sizes_that_no_form_covers_are_refused() -> None:
    base = net(8, 8, "apart")
    with pytest.raises(GraphError, match="flat") as caught:
        for_every_shape(base, [net(12, 10, "apart")])
    assert "dynamic_input" in caught.value.what
    assert "input_size_list" in caught.value.remedy


def test_a_pool_over_all_there_is_is_another_graph_for_another_shape() -> None:
    def pooled(size: int) -> Graph:
        nodes = f"[pool] y = AveragePool <kernel_shape=[{size}, {size}]> (x)"
        return model(nodes, {"x": (1, 3, size, size)}, ["y"])

    with pytest.raises(GraphError, match="pool"):
        rebind_input_shapes(pooled(8), pooled(8), pooled(6))


def test_a_quantized_graph_for_another_size() -> None:
    rng = np.random.default_rng(0)
    base, other = net(8, 8), net(12, 12)
    feeds = [{"x": rng.normal(size=(1, 3, 8, 8)).astype(np.float32)} for _ in range(4)]
    built = quantize(base, calibrate(base, feeds)).graph
    turned = rebind_input_shapes(built, base, other)
    assert [(s.name, s.shape) for s in turned.inputs] == [("x", (1, 3, 12, 12))]
    assert [s.shape for s in turned.outputs] == [(1, 4, 144), (1, 4, 24, 24), (1, 4, 12, 10)]
    # scales are the same bytes; so is what both compute of a picture that is the same in a corner
    mine = {n: v.const_value for n, v in turned.model.graph.initializers.items()}
    theirs = {n: v.const_value for n, v in built.model.graph.initializers.items()}
    same = [n for n in theirs if np.array_equal(mine[n].numpy(), theirs[n].numpy())]
    assert len(theirs) - len(same) == 3  # rows, sizes and ends
    large = np.zeros((1, 3, 12, 12), np.float32)
    large[..., :8, :8] = feeds[0]["x"]
    ours, small = run(turned, {"x": large})["u"], run(built, feeds[0])["u"]
    np.testing.assert_array_equal(ours[..., :13, :13], small[..., :13, :13])
    float_ = run(other, {"x": large})
    assert np.abs(run(turned, {"x": large})["y"] - float_["y"]).max() < 0.05 * np.ptp(float_["y"])


def test_graphs_that_differ_in_more_are_refused() -> None:
    base = net(8, 8)
    other = net(12, 12).copy()
    nodes = list(other.nodes)
    nodes[0].name = "another"
    with pytest.raises(GraphError, match="differ at conv"):
        rebind_input_shapes(base, base, other)
    changed = net(12, 12).copy()
    weight = changed.model.graph.initializers["w"]
    weight.const_value = ir.Tensor(weight.const_value.numpy() * 2, name="w")
    with pytest.raises(GraphError, match="other values"):
        rebind_input_shapes(base, base, changed)
