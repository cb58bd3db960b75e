"""Graphs with custom operators run: in parts, with every feature of a session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from engine.base.errors import SimulationError
from engine.graph.execute import Session, ort
from engine.graph.ir import CustomOperator, CustomOperators, Graph, from_class
from engine.graph.passes import optimise
from tests.custom.nets import branching, graph, model

Compute = Callable[[Any, Any, Any], Any]


def operator(op_type: str, compute: Compute, shape_infer: Any = None) -> CustomOperator:
    def same(self: Any, node: Any, in_shapes: Any, in_dtypes: Any) -> Any:
        count = len(node.output)
        return in_shapes[:1] * count, in_dtypes[:1] * count

    members = {"op_type": op_type, "shape_infer": shape_infer or same, "compute": compute}
    return from_class(type(op_type, (), members))


NATIVE: dict[str, tuple[str, Compute]] = {
    "cstNeg": ("Neg", lambda self, node, inputs: [-inputs[0]]),
    "cstMax": ("Max", lambda self, node, inputs: [np.maximum(*inputs)]),
    "cstAbs": ("Abs", lambda self, node, inputs: [np.abs(inputs[0])]),
}
TWINS = CustomOperators(operator(name, compute) for name, (_, compute) in NATIVE.items())


def native(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The same model with ONNX's own operators."""
    copy = onnx.ModelProto.FromString(proto.SerializeToString())
    for node in copy.graph.node:
        if node.domain:
            node.op_type, node.domain = NATIVE[node.op_type][0], ""
    del copy.opset_import[1:]
    return copy


def feed(seed: int = 1) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(seed).normal(0, 2, (1, 3, 8, 8)).astype(np.float32)}


def same(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> bool:
    return list(a) == list(b) and all(np.array_equal(a[name], b[name]) for name in a)


def random_model(seed: int) -> onnx.ModelProto:
    """A random graph of exact operators, about a third of them custom."""
    rng = np.random.default_rng(seed)
    names, nodes = ["x"], []
    for index in range(12):
        first, second = (names[i] for i in rng.integers(0, len(names), 2))
        op = ["Relu", "Min", "Identity", "Add", "cstNeg", "cstMax", "cstAbs"][rng.integers(0, 7)]
        inputs = [first, second] if op in ("Min", "Add", "cstMax") else [first]
        where = {"domain": "cst"} if op.startswith("cst") else {}
        nodes.append(helper.make_node(op, inputs, [f"v{index}"], name=f"n{index}", **where))
        names.append(f"v{index}")
    return model(nodes, [names[-1], *{names[i] for i in rng.integers(4, 12, 2)} - {names[-1]}])


@pytest.mark.parametrize("seed", range(12))
def test_a_random_graph_gives_what_onnx_s_own_operators_give(seed: int) -> None:
    proto = random_model(seed)
    reference = Session(graph(native(proto), TWINS), level="disabled")
    session = Session(graph(proto, TWINS))
    assert same(session.run(feed(seed)), reference.run(feed(seed)))
    inner = [f"v{i}" for i in np.random.default_rng(seed).permutation(12)[:5]]
    assert same(session.run(feed(seed), inner), reference.run(feed(seed), inner))
    assert same(session.run(feed(seed + 1)), reference.run(feed(seed + 1)))


def qdq_model() -> onnx.ModelProto:
    """Two quantized convolutions, a custom node between, a residual sum and a custom node behind.

    Every tensor has the scale 1/16, so that negation and maximum are exact on integers.
    """
    rng = np.random.default_rng(3)
    constants: dict[str, np.ndarray] = {
        "s": np.array(1 / 16, np.float32),
        "z": np.array(3, np.int8),
    }
    for name, channels, before in (("w1", 4, 3), ("w2", 4, 4)):
        constants[name] = rng.integers(-20, 20, (channels, before, 3, 3)).astype(np.int8)
        constants[f"{name}s"] = np.full(channels, 1 / 32, np.float32)
        constants[f"{name}z"] = np.zeros(channels, np.int8)
    make = helper.make_node

    def pair(source: str, name: str) -> list[onnx.NodeProto]:
        return [
            make("QuantizeLinear", [source, "s", "z"], [f"{name}q"], name=f"{name}q"),
            make("DequantizeLinear", [f"{name}q", "s", "z"], [name], name=f"{name}dq"),
        ]

    def conv(source: str, weight: str, name: str) -> list[onnx.NodeProto]:
        parts = [weight, f"{weight}s", f"{weight}z"]
        return [
            make("DequantizeLinear", parts, [f"{weight}d"], name=f"{weight}d", axis=0),
            make("Conv", [source, f"{weight}d"], [f"{name}f"], name=name, pads=[1] * 4),
            *pair(f"{name}f", name),
        ]

    nodes = [
        *pair("x", "xd"),
        *conv("xd", "w1", "c1"),
        make("cstNeg", ["c1"], ["n1f"], name="n1", domain="cst"),
        *pair("n1f", "n1"),
        *conv("n1", "w2", "c2"),
        make("Add", ["c2", "c1"], ["sumf"], name="sum"),
        *pair("sumf", "sum"),
        make("cstMax", ["sum", "c1"], ["y"], name="y", domain="cst"),
    ]
    return model(nodes, ["y"], constants)


def test_a_quantized_graph_keeps_its_integer_kernels_and_bits() -> None:
    proto = qdq_model()
    session = Session(graph(proto, TWINS))
    reference = Session(graph(native(proto), TWINS))
    x = {"x": feed()["x"] * 2}
    assert same(session.run(x), reference.run(x))
    inner = ["c1", "n1", "c2f", "sum", "sumq", "n1f", "sumf"]
    assert same(session.run(x, inner), reference.run(x, inner))


def test_the_optimised_graph_is_written_with_the_custom_nodes(tmp_path: Any) -> None:
    path = tmp_path / "optimised.onnx"
    Session(graph(qdq_model(), TWINS), optimised_model=path)
    kernels = [node.op_type for node in onnx.load(path).graph.node]
    assert kernels.count("QLinearConv") == 2
    assert kernels.count("QLinearAdd") == 1
    assert kernels.count("cstNeg") == kernels.count("cstMax") == 1


def test_threads_levels_and_outputs_of_a_session_stay() -> None:
    found = graph(branching())
    plain = Session(found).run(feed())
    for options in ({"threads": 2}, {"level": "disabled"}, {"lower": False}):
        other = Session(found, **options).run(feed())  # type: ignore[arg-type]
        assert np.allclose(other["y"], plain["y"], atol=1e-5)
    named = Session(found, outputs=["s1", "x", "w2"])
    assert [spec.name for spec in named.outputs] == ["y", "s1", "x", "w2"]
    results = named.run(feed())
    assert np.array_equal(results["x"], feed()["x"])
    assert results["s1"].sum(axis=1) == pytest.approx(1, abs=1e-5)


def test_a_graph_of_onnx_s_operators_stays_one_session() -> None:
    session = Session(graph(branching(custom=False)))
    assert isinstance(session._plain.session, ort.InferenceSession)


def test_the_class_is_called_once_a_run_with_arrays_of_its_own() -> None:
    calls: list[Any] = []

    def compute(self: Any, node: Any, inputs: Any) -> Any:
        calls.append((node.name, [None if a is None else (a.dtype.name, a.shape) for a in inputs]))
        inputs[0] *= 0  # in place: nobody else may see it
        node.op_type = "changed"
        return [inputs[0] + inputs[2], np.array([3], np.int32), np.float64(2.5)]

    def shape_infer(self: Any, node: Any, in_shapes: Any, in_dtypes: Any) -> Any:
        assert in_shapes[1] == []
        assert in_dtypes[1] is None
        return [in_shapes[0], [1], []], [in_dtypes[0], "int64", np.float32]

    op = operator("cstThree", compute, shape_infer)
    proto = model(
        [
            helper.make_node("Relu", ["x"], ["r"], name="r"),
            helper.make_node("cstThree", ["r", "", "k"], ["a", "b", "c"], name="three", domain="d"),
            helper.make_node("Add", ["a", "r"], ["y"], name="y"),
        ],
        ["y"],
        {"k": np.array([1.5], np.float32)},
        domains=("d",),
    )
    session = Session(graph(proto, CustomOperators([op])), outputs=["a", "b", "c", "r"])
    x = feed()
    kept = x["x"].copy()
    for _ in range(2):
        found = session.run(x)
    expected = ("three", [("float32", (1, 3, 8, 8)), None, ("float32", (1,))])
    assert calls == [expected, expected]
    assert np.array_equal(x["x"], kept)
    assert np.array_equal(found["y"], np.maximum(kept, 0) + np.float32(1.5))
    assert np.array_equal(found["r"], np.maximum(kept, 0))
    assert (found["b"].dtype, found["b"].tolist()) == (np.int64, [3])
    assert (found["c"].dtype, found["c"].shape, float(found["c"])) == (np.float32, (), 2.5)


def _raises(self: Any, node: Any, inputs: Any) -> Any:
    return [inputs[0] @ inputs[1]]


def _raises_like_the_runtime(self: Any, node: Any, inputs: Any) -> Any:
    raise RuntimeError("Status Message: not the runtime's")


def _exits(self: Any, node: Any, inputs: Any) -> Any:
    raise SystemExit("enough")


def _gives(change: Callable[[np.ndarray], Any]) -> Compute:
    return lambda self, node, inputs: change(inputs[0])


@pytest.mark.parametrize(
    ("compute", "dtype", "words"),
    [
        (_raises, "float32", "compute failed at node 'mine' (cstAny): IndexError: list index"),
        (_raises_like_the_runtime, "float32", "RuntimeError: Status Message: not the runtime's"),
        (_exits, "float32", "SystemExit: enough"),
        (_gives(lambda x: None), "float32", "it gave NoneType None, not a list of arrays"),
        (_gives(lambda x: x), "float32", "it gave an array, not a list of arrays"),
        (_gives(lambda x: []), "float32", "it gave 0 arrays for 1 outputs"),
        (_gives(lambda x: [x, x]), "float32", "it gave 2 arrays for 1 outputs"),
        (_gives(lambda x: [x[0]]), "float32", "output 'c' has the shape 3x8x8; shape_infer said"),
        (_gives(lambda x: [x[:, :1]]), "float32", "has the shape 1x1x8x8"),
        (_gives(lambda x: [x]), "int64", "output 'c' is float32; shape_infer said int64"),
        (_gives(lambda x: [x + 1j]), "float32", "is complex64; shape_infer said float32"),
        (_gives(lambda x: [x.astype(str)]), "float32", "shape_infer said float32"),
        (_gives(lambda x: [x.astype(int) + 300]), "uint8", "has values that do not fit uint8"),
        (_gives(lambda x: [x.astype(int) + 300]), "int8", "has values that do not fit int8"),
        (
            _gives(lambda x: [[[1], [1, 2]]]),
            "float32",
            "compute failed at node 'mine' (cstAny): ValueError",
        ),
    ],
)
def test_what_compute_gives_is_checked(compute: Compute, dtype: str, words: str) -> None:
    def shape_infer(self: Any, node: Any, in_shapes: Any, in_dtypes: Any) -> Any:
        return in_shapes, [dtype]

    op = operator("cstAny", compute, shape_infer)
    proto = model(
        [
            helper.make_node("cstAny", ["x"], ["c"], name="mine", domain="cst"),
            helper.make_node("Cast", ["c"], ["y"], name="y", to=1),
        ],
        ["y"],
    )
    session = Session(graph(proto, CustomOperators([op])))
    with pytest.raises(SimulationError) as caught:
        session.run(feed())
    assert words in caught.value.what
    assert "cstAny" in caught.value.what
    assert "'mine'" in caught.value.what
    assert caught.value.remedy


def test_kinds_of_one_sort_are_converted() -> None:
    for given, dtype in ((np.float64, "float32"), (np.int64, "float32"), (np.int64, "int32")):
        op = operator(
            "cstAny",
            _gives(lambda x, given=given: [x.astype(given)]),  # type: ignore[misc]
            lambda self, node, shapes, dtypes, dtype=dtype: (shapes, [dtype]),
        )
        proto = model([helper.make_node("cstAny", ["x"], ["y"], domain="cst")], ["y"])
        proto.graph.output[0].type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(
            np.dtype(dtype)
        )
        found = Session(graph(proto, CustomOperators([op]))).run(feed())["y"]
        assert found.dtype == dtype
        assert np.array_equal(found, feed()["x"].astype(given).astype(dtype))


def test_what_cannot_run_says_so_before_anything_runs() -> None:
    bare = Graph.from_bytes(graph(branching()).to_bytes())
    with pytest.raises(SimulationError) as caught:
        Session(bare)
    assert "Node 's1' has the custom operator cstSoftmax" in caught.value.what
    assert "no class is registered" in caught.value.what
    assert "reg_custom_op" in caught.value.remedy
    opaque = CustomOperators([CustomOperator("cstSoftmax", None, None, "package soft.rknnop")])
    with pytest.raises(SimulationError, match="does not run here") as caught:
        Session(bare.with_operators(opaque))
    assert "package soft.rknnop" in caught.value.cause


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_passes_leave_custom_nodes_alone(level: int) -> None:
    make = helper.make_node
    k = np.linspace(-1, 1, 192, dtype=np.float32).reshape(1, 3, 8, 8)
    proto = model(
        [
            make("Transpose", ["x"], ["t"], name="t", perm=[0, 2, 3, 1]),
            make("cstNeg", ["t"], ["a"], name="a", domain="cst"),
            make("cstNeg", ["t"], ["b"], name="b", domain="cst"),
            make("Add", ["a", "b"], ["sum"], name="sum"),
            make("Transpose", ["sum"], ["back"], name="back", perm=[0, 3, 1, 2]),
            make("cstAbs", ["k"], ["folded"], name="constant", domain="cst"),
            make("cstAbs", ["x"], ["dead"], name="dead", domain="cst"),
            make("Add", ["back", "folded"], ["y"], name="y"),
        ],
        ["y"],
        {"k": k},
    )
    before = graph(proto, TWINS)
    after = optimise(before, level).graph
    assert after.operators is TWINS
    names = {node.name for node in after.nodes}
    assert {"a", "b", "constant"} <= names
    assert ("dead" in names) == (level == 0)
    assert same(Session(after).run(feed()), Session(before).run(feed()))
