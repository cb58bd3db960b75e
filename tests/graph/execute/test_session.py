"""Sessions: float and QDQ, inner tensors, feeds, errors."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from engine.base.errors import GraphError, SimulationError, UsageError
from engine.graph.execute import Session, lower_for_runtime
from engine.graph.ir import Graph, infer_shapes, verify
from tests.graph.models import (
    QdqBuilder,
    as_it_stands,
    finish,
    float_net,
    nodes_of,
    qdq_net,
    tensor,
)
from tests.graph.passes.support import random_feeds

INNER = (
    "x_q",
    "x_dq",
    "c1_pre",
    "c1",
    "c1_q",
    "c1_dq",
    "c2",
    "c2_q",
    "s",
    "s_q",
    "s_dq",
    "t",
    "c3",
)


def _kernels(path: Path) -> Counter[str]:
    counts = Counter(node.op_type for node in onnx.load(path).graph.node)
    return Counter({op: n for op, n in counts.items() if op.startswith("QLinear") or "Conv" in op})


def test_a_float_graph_gives_outputs_and_any_inner_tensor() -> None:
    proto = float_net()
    graph = Graph.from_proto(proto)
    session = Session(graph, outputs=["h"])
    feeds = random_feeds(graph)
    got = session.run(feeds)
    assert list(got) == ["y", "h"]
    assert [spec.name for spec in session.outputs] == ["y", "h"]
    later = session.run(feeds, ["s", "c1", "x", "w3"])
    names = ["y", "h", "s", "c1"]
    for name, want in zip(names, as_it_stands(proto, feeds, *names), strict=True):
        np.testing.assert_allclose({**got, **later}[name], want, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(later["x"], feeds["x"])
    np.testing.assert_array_equal(later["w3"], graph.constant("w3"))


def test_bytes_run_like_the_graph_they_came_from() -> None:
    graph = Graph.from_proto(qdq_net())
    feeds = random_feeds(graph)
    a, b = Session(graph), Session(graph.to_bytes(), outputs=["c1"])
    np.testing.assert_array_equal(a.run(feeds)["y"], b.run(feeds)["y"])


@pytest.mark.parametrize("seed", range(5))
def test_int8_activations_run_as_integer_kernels_and_give_the_same_numbers(
    tmp_path: Path, seed: int
) -> None:
    proto = qdq_net("int8", seed)
    graph = Graph.from_proto(proto)
    plain, lowered = tmp_path / "int8.onnx", tmp_path / "uint8.onnx"
    Session(graph, optimised_model=plain, level="extended", lower=False)
    session = Session(graph, optimised_model=lowered, level="extended")
    assert _kernels(plain)["QLinearConv"] < 3
    assert _kernels(lowered) == {"QLinearConv": 3, "QLinearAdd": 2}
    feeds = random_feeds(graph, seed)
    # the float reference rounds once more; values on the edge of a step may fall to the next one
    want = as_it_stands(proto, feeds, "y")[0]
    got = session.run(feeds)["y"]
    steps = np.abs(np.rint((got - want) / 0.2))
    assert steps.max() <= 1
    assert (steps == 0).mean() > 0.99


def test_lowering_keeps_weights_names_and_rules() -> None:
    graph = infer_shapes(Graph.from_proto(qdq_net("int8")))
    lowered = lower_for_runtime(graph)
    verify(lowered)
    assert graph.spec("c1_q").dtype == "int8"
    assert lowered.spec("c1_q").dtype == "uint8"
    assert lowered.constant("c1_w").dtype == np.int8  # type: ignore[union-attr]
    assert lowered.spec(lowered.node("k_DQ").inputs[0].name).dtype == "uint8"  # type: ignore[union-attr, arg-type]
    assert [s.name for s in lowered.outputs] == ["y"]
    assert set(graph.values) <= set(lowered.values)
    again = Graph.from_proto(qdq_net("uint8"))
    assert lower_for_runtime(again) is again


def test_lowering_is_exact_without_any_fusion() -> None:
    proto = qdq_net("int8")
    graph = Graph.from_proto(proto)
    feeds = random_feeds(graph)
    lowered = lower_for_runtime(graph)
    a = Session(graph, level="disabled", lower=False).run(feeds, ["y", "c1_q", "t"])
    b = Session(lowered, level="disabled", lower=False).run(feeds, ["y", "c1_q", "t"])
    np.testing.assert_array_equal(a["y"], b["y"])
    np.testing.assert_array_equal(a["t"], b["t"])
    np.testing.assert_array_equal(a["c1_q"].astype(int) + 128, b["c1_q"])


def test_lowering_leaves_what_something_else_reads() -> None:
    b = QdqBuilder("int8")
    b.quantize("x", 0.02, 3, output="y")
    b.nodes.append(helper.make_node("Cast", ["x_q"], ["i"], to=TensorProto.INT32, name="cast"))
    outputs = [tensor("y", 1, 4), tensor("i", 1, 4, dtype=TensorProto.INT32)]
    graph = Graph.from_proto(finish(b.nodes, [tensor("x", 1, 4)], outputs, b.constants))
    lowered = lower_for_runtime(graph)
    verify(lowered)
    feeds = {"x": np.array([[-9, -0.5, 0, 1]], np.float32)}
    np.testing.assert_array_equal(Session(graph).run(feeds)["i"], [[-128, -22, 3, 53]])


def test_lowering_passes_through_operators_that_move_data() -> None:
    b = QdqBuilder("int8")
    b.quantize("x", 0.02, 3)
    b.constants["shape"] = np.array([4, 1])
    b.nodes.pop()
    b.nodes.append(helper.make_node("Reshape", ["x_q", "shape"], ["r"], name="reshape"))
    b.nodes.append(helper.make_node("DequantizeLinear", ["r", "x_s", "x_z"], ["y"], name="dq"))
    graph = Graph.from_proto(finish(b.nodes, [tensor("x", 1, 4)], [tensor("y", 4, 1)], b.constants))
    lowered = lower_for_runtime(graph)
    verify(lowered)
    assert lowered.spec("x_q").dtype == "uint8"
    feeds = random_feeds(graph)
    for level in ("disabled", "all"):
        got = Session(graph, level=level).run(feeds)["y"]
        np.testing.assert_array_equal(got, Session(graph, lower=False).run(feeds)["y"])


def test_lowering_without_a_zero_point() -> None:
    nodes = nodes_of("q = QuantizeLinear <output_dtype=3> (x, s); y = DequantizeLinear (q, s)")
    constants = {"s": np.array(0.5, np.float32)}
    graph = Graph.from_proto(finish(nodes, [tensor("x", 1, 4)], [tensor("y", 1, 4)], constants))
    lowered = lower_for_runtime(graph)
    verify(lowered)
    assert lowered.spec("q").dtype == "uint8"
    feeds = {"x": np.array([[-100, -0.5, 0, 100]], np.float32)}
    np.testing.assert_array_equal(Session(graph).run(feeds)["y"], [[-64, -0.5, 0, 63.5]])
    np.testing.assert_array_equal(Session(graph).run(feeds, ["q"])["q"], [[-128, -1, 0, 127]])


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("level", ["extended", "all"])
def test_inner_tensors_change_neither_results_nor_kernels(
    tmp_path: Path, dtype: str, level: str
) -> None:
    graph = Graph.from_proto(qdq_net(dtype))
    feeds = random_feeds(graph)
    plain_file = tmp_path / "plain.onnx"
    plain = Session(graph, optimised_model=plain_file, level=level)
    want = plain.run(feeds)["y"]
    for index, names in enumerate([(name,) for name in INNER] + [INNER]):
        file = tmp_path / f"{index}.onnx"
        session = Session(graph, outputs=names, optimised_model=file, level=level)
        got = session.run(feeds)
        np.testing.assert_array_equal(got["y"], want)
        integers = {op: n for op, n in _kernels(file).items() if op.startswith("QLinear")}
        assert integers == {"QLinearConv": 3, "QLinearAdd": 2}, names
        assert list(got) == ["y", *names]


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_inner_tensors_are_what_they_say(dtype: str) -> None:
    proto = qdq_net(dtype)
    graph = Graph.from_proto(proto)
    feeds = random_feeds(graph)
    got = Session(graph).run(feeds, INNER)
    assert got["c1_q"].dtype == np.dtype(dtype)
    np.testing.assert_array_equal(got["c1"], got["c1_dq"])
    np.testing.assert_array_equal(got["s"], got["s_dq"])
    scale, zero = graph.constant("c1_s"), graph.constant("c1_z")
    assert scale is not None
    assert zero is not None
    steps = got["c1_q"].astype(np.int32) - zero.astype(np.int32)
    np.testing.assert_array_equal(got["c1_dq"], steps.astype(np.float32) * scale)
    want = dict(zip(INNER, as_it_stands(proto, feeds, *INNER), strict=True))
    np.testing.assert_array_equal(got["x_q"], want["x_q"])
    np.testing.assert_allclose(got["c1_pre"], want["c1_pre"], rtol=1e-5, atol=1e-5)
    assert np.abs(got["c1_dq"] - want["c1_dq"]).max() <= 0.05 + 1e-6


def test_sessions_for_inner_tensors_are_kept() -> None:
    graph = Graph.from_proto(qdq_net())
    session = Session(graph)
    feeds = random_feeds(graph)
    for name in ("c1", "c2", "s", "c1"):
        session.run(feeds, [name])
    assert len(session._plans) == 2
    first = session.run(feeds, ["c1"])["c1"]
    np.testing.assert_array_equal(first, session.run(feeds, ["c1"])["c1"])


def test_threads_do_not_change_integer_results() -> None:
    graph = Graph.from_proto(qdq_net())
    feeds = random_feeds(graph)
    one = Session(graph, threads=1).run(feeds)["y"]
    np.testing.assert_array_equal(one, Session(graph, threads=2).run(feeds)["y"])


@pytest.mark.parametrize(
    ("feeds", "what"),
    [
        ({}, "was not fed"),
        ({"x": np.zeros((1, 3, 8, 8), np.float32), "z": np.zeros(1)}, "no input 'z'"),
        ({"X": np.zeros((1, 3, 8, 8), np.float32)}, "no input 'X'"),
        ({"x": np.zeros((1, 3, 8, 8))}, "takes float32; it was fed float64"),
        ({"x": np.zeros((1, 8, 8, 3), np.float32)}, "shape 1x3x8x8; it was fed 1x8x8x3"),
        ({"x": np.zeros((3, 8, 8), np.float32)}, "it was fed 3x8x8"),
    ],
)
def test_feeds_that_do_not_fit(feeds: dict[str, np.ndarray], what: str) -> None:
    session = Session(Graph.from_proto(float_net()))
    with pytest.raises(UsageError, match=what) as caught:
        session.run(feeds)
    assert caught.value.remedy


def test_a_mistyped_input_gets_a_suggestion() -> None:
    nodes = [helper.make_node("Relu", ["images"], ["y"], name="r")]
    graph = Graph.from_proto(finish(nodes, [tensor("images", 1, 3)], [tensor("y", 1, 3)]))
    with pytest.raises(UsageError) as caught:
        Session(graph).run({"image": np.zeros((1, 3), np.float32)})
    assert "Did you mean 'images'?" in caught.value.remedy


def test_feeds_in_any_memory_order() -> None:
    graph = Graph.from_proto(float_net())
    session = Session(graph)
    feeds = random_feeds(graph)
    turned = {"x": np.asfortranarray(feeds["x"])}
    np.testing.assert_array_equal(session.run(feeds)["y"], session.run(turned)["y"])


def test_unknown_inner_tensors_and_options() -> None:
    graph = Graph.from_proto(float_net())
    with pytest.raises(GraphError, match="no tensor 'nope'"):
        Session(graph, outputs=["nope"])
    with pytest.raises(GraphError, match="no tensor 'nope'"):
        Session(graph).run(random_feeds(graph), ["nope"])
    with pytest.raises(UsageError, match="level"):
        Session(graph, level="al")
    with pytest.raises(UsageError, match="thread"):
        Session(graph, threads=0)


def test_what_the_runtime_cannot_run_names_the_node() -> None:
    nodes = [helper.make_node("Gather", ["x", "i"], ["y"], name="bad_gather")]
    values = [tensor("x", 4), tensor("i", 2, dtype=TensorProto.INT64)]
    graph = Graph.from_proto(finish(nodes, values, [tensor("y", 2)]))
    session = Session(graph)
    with pytest.raises(SimulationError, match="bad_gather") as caught:
        session.run({"x": np.zeros(4, np.float32), "i": np.array([0, 9])})
    assert "within that range" in caught.value.remedy
    nodes = [helper.make_node("Det", ["x"], ["y"], name="bad_type")]
    half = TensorProto.DOUBLE
    bad = finish(nodes, [tensor("x", 2, 2, dtype=half)], [tensor("y", dtype=half)])
    with pytest.raises(SimulationError, match="bad_type"):
        Session(Graph.from_proto(bad))


def test_importing_the_runtime_leaves_nothing_in_the_home_folder(tmp_path: Path) -> None:
    import os
    import subprocess
    import sys

    environment = {k: v for k, v in os.environ.items() if k != "ORT_DISABLE_TELEMETRY"}
    environment["HOME"] = str(tmp_path)
    for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        environment.pop(name, None)
    code = "from engine.graph.execute import ort, Session"
    root = Path(__file__).parents[3]
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, cwd=root)
    assert list(tmp_path.iterdir()) == []


def test_zeros_around_a_max_pool_stay_zeros() -> None:
    nodes = nodes_of(
        "padded = Pad (x, pads); y = MaxPool <kernel_shape=[3, 3], strides=[2, 2]> (padded)"
    )
    pads = {"pads": np.array([0, 0, 1, 1, 0, 0, 1, 1])}
    proto = finish(nodes, [tensor("x", 1, 2, 6, 6)], [tensor("y", 1, 2, 3, 3)], pads)
    found = Session(proto.SerializeToString()).run({"x": -np.ones((1, 2, 6, 6), np.float32)})
    assert found["y"].max() == 0
    assert found["y"].min() == -1


def test_an_int8_input_behind_a_reshape_runs() -> None:
    """ONNX Runtime makes a graph of it that it refuses itself."""
    nodes = nodes_of("real = DequantizeLinear (x, scale, zero); y = Reshape (real, sizes)")
    weights = {"scale": np.float32(0.5), "zero": np.int8(3), "sizes": np.array([2, 2])}
    data = tensor("x", 1, 4, dtype=TensorProto.INT8)
    proto = finish(nodes, [data], [tensor("y", 2, 2)], weights)
    session = Session(infer_shapes(Graph.from_proto(proto)))
    found = session.run({"x": np.array([[-128, 3, 4, 127]], np.int8)})
    np.testing.assert_array_equal(found["y"], [[-65.5, 0], [0.5, 62]])
