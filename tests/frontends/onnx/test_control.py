"""Control flow, sequences and optionals: resolved, they compute what ONNX Runtime computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.helper import make_node as node

from engine.base.errors import SourceModelError, UnsupportedOperatorError
from engine.frontends.onnx import inspect_file, load_onnx
from engine.frontends.onnx.control import MAX_STEPS
from engine.graph.execute import Session, ort
from engine.graph.ir import verify
from tests.frontends.onnx.backend_nodes import save
from tests.graph.models import tensor

Arrays = dict[str, np.ndarray]
BOOL, INT64, FLOAT = TensorProto.BOOL, TensorProto.INT64, TensorProto.FLOAT


def branch(
    nodes: Sequence[onnx.NodeProto],
    outputs: Sequence[str],
    inputs: Sequence[onnx.ValueInfoProto] = (),
    constants: Arrays | None = None,
) -> onnx.GraphProto:
    """A graph inside a node."""
    tensors = [numpy_helper.from_array(a, n) for n, a in (constants or {}).items()]
    ends = [onnx.ValueInfoProto(name=name) for name in outputs]
    return helper.make_graph(nodes, "inner", inputs, ends, tensors)


def untyped(*names: str) -> list[onnx.ValueInfoProto]:
    return [onnx.ValueInfoProto(name=name) for name in names]


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    constants: Arrays | None = None,
    opset: int = 17,
) -> onnx.ModelProto:
    tensors = [numpy_helper.from_array(a, n) for n, a in (constants or {}).items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, tensors)
    imports = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def scalar(value: Any, dtype: Any = np.int64) -> np.ndarray:
    return np.array(value, dtype)


def compare(proto: onnx.ModelProto, folder: Path, feeds: Sequence[Arrays]) -> list[str]:
    """Load and run against ONNX Runtime on the original; gives the operators that came out."""
    loaded = load_onnx(save(proto, folder))
    verify(loaded.graph)
    assert loaded.findings[0].code == "control-flow-resolved"
    reference = ort.InferenceSession(proto.SerializeToString())
    session = Session(loaded.graph)
    for fed in feeds:
        got = session.run(fed)
        assert list(got) == [value.name for value in proto.graph.output]
        for a, b in zip(got.values(), reference.run(None, fed), strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
    return [n.op_type for n in loaded.graph.nodes]


def xs(*shape: int, count: int = 3) -> list[Arrays]:
    rng = np.random.default_rng(0)
    return [
        {"x": rng.normal(size=shape).astype(np.float32) + offset} for offset in range(-1, count - 1)
    ]


# -- If ------------------------------------------------------------------------------------------


def _if(condition: Sequence[onnx.NodeProto], constants: Arrays | None = None) -> onnx.ModelProto:
    then = branch([node("Mul", ["x", "two"], ["t"])], ["t"], constants={"two": np.float32([2])})
    other = branch([node("Neg", ["x"], ["e0"]), node("Exp", ["e0"], ["e"])], ["e"])
    choice = node("If", ["c"], ["y"], "choice", then_branch=then, else_branch=other)
    return model([*condition, choice], [tensor("x", 2, 3)], [tensor("y", 2, 3)], constants)


def _by_rate() -> onnx.ModelProto:
    """Decided by an input of one element."""
    proto = _if([node("Equal", ["rate", "wanted"], ["c"])], {"wanted": scalar(16000)})
    proto.graph.input.append(tensor("rate", dtype=INT64))
    return proto


def _by_data() -> onnx.ModelProto:
    condition = [
        node("ReduceSum", ["x"], ["sum"], keepdims=0),
        node("Greater", ["sum", "zero"], ["c"]),
    ]
    return _if(condition, {"zero": scalar(0, np.float32)})


def _size_is(number: int) -> list[onnx.NodeProto]:
    return [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "one"], ["size"]),
        node("Equal", ["size", "wanted"], ["c"]),
    ]


@pytest.mark.parametrize(("wanted", "operators"), [(3, ["Mul"]), (4, ["Neg", "Exp"])])
def test_a_condition_on_sizes_leaves_one_branch(
    wanted: int, operators: list[str], tmp_path: Path
) -> None:
    proto = _if(_size_is(wanted), {"one": scalar(1), "wanted": scalar(wanted)})
    assert compare(proto, tmp_path, xs(2, 3)) == operators


def test_sizes_that_are_given_decide_a_condition(tmp_path: Path) -> None:
    proto = _if(_size_is(3), {"one": scalar(1), "wanted": scalar(3)})
    proto.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "width"
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    for width, operators in ((3, ["Mul"]), (5, ["Neg", "Exp"])):
        graph = load_onnx(save(proto, tmp_path), input_size_list=[[2, width]]).graph
        assert [n.op_type for n in graph.nodes] == operators


def test_an_input_with_a_value_decides_a_condition(tmp_path: Path) -> None:
    proto = _if([node("Equal", ["rate", "wanted"], ["c"])], {"wanted": scalar(16000)})
    proto.graph.input.append(tensor("rate", dtype=INT64))
    for rate, operators in ((16000, ["Mul"]), (8000, ["Neg", "Exp"])):
        graph = load_onnx(save(proto, tmp_path), input_initial_val=[None, rate]).graph
        assert [n.op_type for n in graph.nodes] == operators
        assert [spec.name for spec in graph.inputs] == ["x"]


def test_the_input_that_decides_branches_that_both_stay_is_told(tmp_path: Path) -> None:
    path = save(_by_rate(), tmp_path)
    told = load_onnx(path).findings[0]
    assert "'rate' decides are computed" in told.what
    assert "input_initial_val" in told.remedy
    decided = load_onnx(path, input_initial_val=[None, 16000])
    assert "decides" not in decided.findings[0].what
    # one that data decides has no such way
    assert load_onnx(save(_by_data(), tmp_path)).findings[0].remedy == ""


def test_the_input_that_decides_branches_of_two_sizes_is_named(tmp_path: Path) -> None:
    proto = _by_rate()
    then = branch([node("Concat", ["x", "x"], ["t"], axis=0)], ["t"])
    next(a for a in proto.graph.node[-1].attribute if a.name == "then_branch").g.CopyFrom(then)
    del proto.graph.output[0].type.tensor_type.shape.dim[:]
    with pytest.raises(UnsupportedOperatorError, match="differ in size") as error:
        load_onnx(save(proto, tmp_path))
    assert "Give the input 'rate' a value with 'input_initial_val'" in error.value.remedy
    assert "-;-;rate.npy" in error.value.remedy


def test_a_condition_on_data_selects(tmp_path: Path) -> None:
    assert "Where" in compare(_by_data(), tmp_path, xs(2, 3))


@pytest.mark.parametrize(
    "dtype", [np.float32, np.int8, np.int16, np.uint16, np.int64, np.bool_, np.float64]
)
def test_results_of_any_type_are_selected(dtype: Any, tmp_path: Path) -> None:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    values = {"a": np.array([1, 0, 1], dtype), "b": np.array([0, 0, 1], dtype)}
    ends = [tensor(n, 3, dtype=kind) for n in ("a", "b")]
    branches = [branch([node("Identity", [n], [f"o_{n}"])], [f"o_{n}"]) for n in ("a", "b")]
    choice = node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1])
    proto = model([choice], [tensor("c", 1, dtype=BOOL), *ends], [tensor("y", 3, dtype=kind)])
    feeds = [{"c": np.array([c]), **values} for c in (True, False)]
    compare(proto, tmp_path, feeds)


def _choice(then: onnx.GraphProto, other: onnx.GraphProto, *more: Any) -> onnx.ModelProto:
    choice = node("If", ["c"], ["y"], "choice", then_branch=then, else_branch=other)
    ends = [tensor("c", dtype=BOOL), tensor("x", 4), tensor("i", 1, dtype=INT64), *more]
    return model([choice], ends, untyped("y"))


_SAME = branch([node("Identity", ["x"], ["s"])], ["s"])

_REFUSED_IFS = {
    "other sizes": (branch([node("Concat", ["x", "x"], ["t"], axis=0)], ["t"]), "differ in size"),
    "other types": (branch([node("Cast", ["x"], ["t"], to=7)], ["t"]), "differ in size or type"),
    "an index that may be wrong": (
        branch(
            [node("Gather", ["x", "i"], ["p"]), node("Expand", ["p", "four"], ["t"])],
            ["t"],
            constants={"four": np.array([4])},
        ),
        "may be out of range",
    ),
    "a division that may fail": (
        branch(
            [
                node("Div", ["i", "i"], ["q"]),
                node("Cast", ["q"], ["r"], to=1),
                node("Add", ["x", "r"], ["t"]),
            ],
            ["t"],
        ),
        "divide by zero",
    ),
    "a size that depends on data": (
        branch([node("NonZero", ["x"], ["z"]), node("ReduceSum", ["x"], ["t"])], ["t"]),
        "size of its result depends on data",
    ),
}


@pytest.mark.parametrize("name", _REFUSED_IFS)
def test_branches_that_cannot_both_run_are_refused(name: str, tmp_path: Path) -> None:
    then, why = _REFUSED_IFS[name]
    proto = _choice(then, _SAME)
    proto.graph.output[0].type.tensor_type.elem_type = FLOAT
    path = save(proto, tmp_path)
    with pytest.raises(UnsupportedOperatorError, match="If at node 'choice'") as error:
        load_onnx(path)
    assert why in error.value.what
    assert not [f for f in inspect_file(path).model.findings if f.severity == "error"]


# -- Loop ----------------------------------------------------------------------------------------


def _loop(
    body: Sequence[onnx.NodeProto],
    *,
    trips: str = "trips",
    condition: str = "",
    carried: Sequence[str] = ("x",),
    outputs: Sequence[str] = ("more", "v1"),
    constants: Arrays | None = None,
    ends: Sequence[onnx.ValueInfoProto] = (),
    before: Sequence[onnx.NodeProto] = (),
    names: Sequence[str] = ("y",),
) -> onnx.ModelProto:
    inner = branch(
        body,
        outputs,
        [
            tensor("n", dtype=INT64),
            tensor("going", dtype=BOOL),
            *untyped(*(f"v{k}" for k in range(len(carried)))),
        ],
        {"true": scalar(True, bool)},
    )
    loop = node("Loop", [trips, condition, *carried], names, "repeat", body=inner)
    kept = {"trips": scalar(4), **(constants or {})}
    return model([*before, loop], [tensor("x", 2, 3)], ends or [tensor("y", 2, 3)], kept)


_HALVE = [
    node("Cast", ["n"], ["number"], to=1),
    node("Add", ["v0", "number"], ["moved"]),
    node("Mul", ["moved", "half"], ["v1"]),
    node("Identity", ["true"], ["more"]),
]
_HALF = {"half": np.array(0.5, np.float32)}


def test_a_constant_number_of_iterations_is_unrolled(tmp_path: Path) -> None:
    operators = compare(_loop(_HALVE, constants=_HALF), tmp_path, xs(2, 3))
    assert operators == ["Add", "Mul"] * 4


def test_what_iterations_collect_is_joined(tmp_path: Path) -> None:
    proto = _loop(
        [*_HALVE, node("ReduceSum", ["v1"], ["sum"], keepdims=0)],
        outputs=("more", "v1", "sum"),
        constants=_HALF,
        names=("y", "sums"),
        ends=[tensor("y", 2, 3), tensor("sums", 4)],
    )
    compare(proto, tmp_path, xs(2, 3))


def test_a_counter_ends_a_loop_without_a_trip_count(tmp_path: Path) -> None:
    proto = _loop(
        [
            node("Mul", ["v0", "half"], ["v0_next"]),
            node("Add", ["v1", "one"], ["v1_next"]),
            node("Less", ["v1_next", "limit"], ["more"]),
        ],
        trips="",
        condition="go",
        carried=("x", "zero"),
        outputs=("more", "v0_next", "v1_next"),
        constants={
            **_HALF,
            "zero": scalar(0),
            "one": scalar(1),
            "limit": scalar(3),
            "go": scalar(True, bool),
        },
        names=("y", "count"),
        ends=[tensor("y", 2, 3), tensor("count", dtype=INT64)],
    )
    operators = compare(proto, tmp_path, xs(2, 3))
    assert [op for op in operators if op != "Identity"] == ["Mul"] * 3


def _while_small(*, trips: str) -> onnx.ModelProto:
    """``while sum(x) < 4: x = x + 0.5``, at most as often as ``trips`` says."""
    return _loop(
        [
            node("Add", ["v0", "half"], ["v1"]),
            node("ReduceSum", ["v1"], ["sum"], keepdims=0),
            node("Less", ["sum", "four"], ["more"]),
        ],
        trips=trips,
        condition="first",
        before=[
            node("ReduceSum", ["x"], ["sum0"], keepdims=0),
            node("Less", ["sum0", "four"], ["first"]),
        ],
        constants={**_HALF, "four": scalar(4, np.float32)},
    )


def test_a_condition_on_data_keeps_what_the_last_iteration_gave(tmp_path: Path) -> None:
    feeds = [{"x": np.full((2, 3), value, np.float32)} for value in (-2.0, -0.5, 0.1, 0.6, 3.0)]
    operators = compare(_while_small(trips="trips"), tmp_path, feeds)
    assert operators.count("Where") == 4


def _refusal(proto: onnx.ModelProto, folder: Path) -> str:
    with pytest.raises(UnsupportedOperatorError) as error:
        load_onnx(save(proto, folder))
    assert "at node 'repeat'" in error.value.what
    return error.value.what


def test_loops_that_data_bound_are_refused(tmp_path: Path) -> None:
    proto = _loop(_HALVE, trips="count", constants=_HALF)
    proto.graph.input.append(tensor("count", dtype=INT64))
    assert "trip count depends on data" in _refusal(proto, tmp_path)
    proto = _while_small(trips="trips")
    proto.graph.node[-1].output.append("sums")
    proto.graph.node[-1].attribute[0].g.output.append(onnx.ValueInfoProto(name="sum"))
    assert "how many results it collects depends on data" in _refusal(proto, tmp_path)


def test_unrolling_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_STEPS == 12_000
    for module in ("emission", "expander"):
        monkeypatch.setattr(f"engine.frontends.onnx.control.{module}.MAX_STEPS", 500)
    proto = _loop(_HALVE, constants={**_HALF, "trips": scalar(10**12)})
    assert "more than 500 nodes" in _refusal(proto, tmp_path)
    empty = _loop([node("Identity", ["true"], ["more"])], outputs=("more", "v0"))
    empty.graph.initializer[0].CopyFrom(numpy_helper.from_array(scalar(10**12), "trips"))
    assert "more than 500 nodes" in _refusal(empty, tmp_path)


def test_control_flow_inside_control_flow(tmp_path: Path) -> None:
    even = branch([node("Mul", ["v0", "half"], ["t"])], ["t"])
    odd = branch([node("Neg", ["v0"], ["e"])], ["e"])
    proto = _loop(
        [
            node("Mod", ["n", "two"], ["rest"]),
            node("Equal", ["rest", "nil"], ["is_even"]),
            node("If", ["is_even"], ["v1"], then_branch=even, else_branch=odd),
            node("Identity", ["true"], ["more"]),
        ],
        constants={**_HALF, "two": scalar(2), "nil": scalar(0)},
    )
    assert compare(proto, tmp_path, xs(2, 3)) == ["Mul", "Neg", "Mul", "Neg"]


# -- Scan ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("backward", [0, 1])
@pytest.mark.parametrize("axis", [0, 1])
def test_scan_walks_along_its_axes(axis: int, backward: int, tmp_path: Path) -> None:
    size = (3, 2)[axis]
    body = branch(
        [node("Add", ["state", "part"], ["next"]), node("Mul", ["next", "part"], ["given"])],
        ["next", "given"],
        [tensor("state", size), tensor("part", size)],
    )
    scan = node(
        "Scan",
        ["start", "x"],
        ["end", "parts"],
        "scan",
        body=body,
        num_scan_inputs=1,
        scan_input_axes=[axis],
        scan_input_directions=[backward],
        scan_output_axes=[1],
        scan_output_directions=[1 - backward],
    )
    ends = [tensor("end", size), tensor("parts", size, (2, 3)[axis])]
    proto = model([scan], [tensor("x", 2, 3)], ends, {"start": np.ones(size, np.float32)})
    compare(proto, tmp_path, xs(2, 3))


# -- sequences and optionals ---------------------------------------------------------------------


def _at(place: int) -> list[onnx.NodeProto]:
    return [node("Constant", [], ["place"], value_int=place)]


_SEQUENCES: dict[str, tuple[list[onnx.NodeProto], Callable[[np.ndarray], np.ndarray]]] = {
    "split, at": (
        [
            node("SplitToSequence", ["x"], ["s"], axis=1),
            *_at(-1),
            node("SequenceAt", ["s", "place"], ["y"]),
        ],
        lambda x: x[:, -1:],
    ),
    "split without the axis, concat": (
        [
            node("SplitToSequence", ["x"], ["s"], axis=1, keepdims=0),
            node("ConcatFromSequence", ["s"], ["y"], axis=0),
        ],
        lambda x: x.T.reshape(-1),
    ),
    "construct, insert, erase, stack": (
        [
            node("Neg", ["x"], ["negative"]),
            node("SequenceConstruct", ["x", "negative"], ["s0"]),
            node("Exp", ["x"], ["e"]),
            *_at(0),
            node("SequenceInsert", ["s0", "e", "place"], ["s1"]),
            node("SequenceErase", ["s1"], ["s2"]),
            node("ConcatFromSequence", ["s2"], ["y"], axis=-1, new_axis=1),
        ],
        lambda x: np.stack([np.exp(x), x], -1),
    ),
    "length": (
        [
            node("SequenceEmpty", [], ["s0"]),
            node("SequenceInsert", ["s0", "x"], ["s1"]),
            node("SequenceLength", ["s1"], ["n"]),
            node("Cast", ["n"], ["f"], to=1),
            node("Mul", ["x", "f"], ["y"]),
        ],
        lambda x: x,
    ),
    "optional": (
        [
            node("Optional", ["x"], ["o"]),
            node("OptionalHasElement", ["o"], ["has"]),
            node("OptionalGetElement", ["o"], ["got"]),
            node("Not", ["has"], ["y0"]),
            node("Cast", ["y0"], ["y1"], to=1),
            node("Add", ["got", "y1"], ["y"]),
        ],
        lambda x: x,
    ),
}


@pytest.mark.parametrize("name", _SEQUENCES)
def test_sequences_are_resolved(name: str, tmp_path: Path) -> None:
    nodes, want = _SEQUENCES[name]
    proto = model(nodes, [tensor("x", 2, 3)], [tensor("y", "a")], opset=18)
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    graph = load_onnx(save(proto, tmp_path)).graph
    verify(graph)
    (fed,) = xs(2, 3, count=1)
    np.testing.assert_allclose(Session(graph).run(fed)["y"], want(fed["x"]), rtol=1e-5, atol=1e-6)


def test_sequences_that_leave_the_graph_are_refused(tmp_path: Path) -> None:
    sequence = helper.make_tensor_sequence_value_info("s", FLOAT, None)
    proto = model([node("SplitToSequence", ["x"], ["s"])], [tensor("x", 2, 3)], [sequence])
    with pytest.raises(SourceModelError, match="'s' is a sequence"):
        load_onnx(save(proto, tmp_path))


def test_lists_of_tensorflow_are_stacked(tmp_path: Path) -> None:
    """As tf2onnx leaves them: without a domain, read as a tensor by the next operator."""
    inner = branch(
        [
            node("Gather", ["x", "n"], ["row"]),
            node("Exp", ["row"], ["item"]),
            node("TensorListSetItem", ["v0", "n", "item"], ["v1"]),
            node("Identity", ["true"], ["more"]),
        ],
        ["more", "v1"],
        [tensor("n", dtype=INT64), tensor("going", dtype=BOOL), *untyped("v0")],
        {"true": scalar(True, bool)},
    )
    nodes = [
        node("TensorListReserve", ["dims", "length"], ["list"], element_dtype=1),
        node("Loop", ["trips", "", "list"], ["filled"], body=inner),
        node("Neg", ["filled"], ["y"]),
    ]
    constants = {"dims": np.array([3]), "length": scalar(3, np.int32), "trips": scalar(2)}
    proto = model(nodes, [tensor("x", 2, 3)], [tensor("y", 3, 3)], constants)
    graph = load_onnx(save(proto, tmp_path)).graph
    (fed,) = xs(2, 3, count=1)
    want = -np.concatenate([np.exp(fed["x"]), np.zeros((1, 3), np.float32)])
    np.testing.assert_allclose(Session(graph).run(fed)["y"], want, rtol=1e-5, atol=1e-6)


# -- the rest of a load --------------------------------------------------------------------------


def test_cutting_keeps_what_branches_take_from_around_them(tmp_path: Path) -> None:
    proto = _if([node("Relu", ["x"], ["r"]), *_size_is(3)], {"one": scalar(1), "wanted": scalar(3)})
    (then,) = (a for a in proto.graph.node[-1].attribute if a.name == "then_branch")
    then.g.node[0].input[0] = "r"
    graph = load_onnx(save(proto, tmp_path), outputs=["y"]).graph
    assert [n.op_type for n in graph.nodes] == ["Relu", "Mul"]


def test_loading_control_flow_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    path = save(_loop(_HALVE, constants=_HALF), tmp_path)
    assert load_onnx(path).graph.to_bytes() == load_onnx(path).graph.to_bytes()
