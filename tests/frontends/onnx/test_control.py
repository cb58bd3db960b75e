"""Control flow, sequences and optionals: resolved, they compute what ONNX Runtime computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from tests.frontends.onnx.conftest import Save
from tests.graph.models import finish, nodes_of, tensor

Arrays = dict[str, np.ndarray]
BOOL, INT64, FLOAT = TensorProto.BOOL, TensorProto.INT64, TensorProto.FLOAT


def branch(
    nodes: str,
    outputs: Sequence[str],
    inputs: Sequence[onnx.ValueInfoProto] = (),
    constants: Arrays | None = None,
) -> onnx.GraphProto:
    """A graph inside a node."""
    ends = untyped(*outputs)
    return finish(nodes_of(nodes), list(inputs), ends, constants or {}).graph


def untyped(*names: str) -> list[onnx.ValueInfoProto]:
    return [onnx.ValueInfoProto(name=name) for name in names]


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    constants: Arrays | None = None,
    opset: int = 17,
) -> onnx.ModelProto:
    return finish(
        list(nodes), list(inputs), list(outputs), constants or {}, opset=opset, ir_version=8
    )


def scalar(value: Any, dtype: Any = np.int64) -> np.ndarray:
    return np.array(value, dtype)


def compare(save: Save, proto: onnx.ModelProto, feeds: Sequence[Arrays]) -> list[str]:
    """Load and run against ONNX Runtime on the original; gives the operators that came out."""
    loaded = load_onnx(save(proto))
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


def _if(condition: str, constants: Arrays | None = None) -> onnx.ModelProto:
    then = branch("t = Mul (x, two)", ["t"], constants={"two": np.float32([2])})
    other = branch("e0 = Neg (x); e = Exp (e0)", ["e"])
    choice = node("If", ["c"], ["y"], "choice", then_branch=then, else_branch=other)
    nodes = [*nodes_of(condition), choice]
    return model(nodes, [tensor("x", 2, 3)], [tensor("y", 2, 3)], constants)


def _by_rate() -> onnx.ModelProto:
    """Decided by an input of one element."""
    proto = _if("c = Equal (rate, wanted)", {"wanted": scalar(16000)})
    proto.graph.input.append(tensor("rate", dtype=INT64))
    return proto


def _by_data() -> onnx.ModelProto:
    condition = "sum = ReduceSum <keepdims=0> (x); c = Greater (sum, zero)"
    return _if(condition, {"zero": scalar(0, np.float32)})


_SIZE_IS = "shape = Shape (x); size = Gather (shape, one); c = Equal (size, wanted)"


@pytest.mark.parametrize(("wanted", "operators"), [(3, ["Mul"]), (4, ["Neg", "Exp"])])
def test_a_condition_on_sizes_leaves_one_branch(
    wanted: int, operators: list[str], save: Save
) -> None:
    proto = _if(_SIZE_IS, {"one": scalar(1), "wanted": scalar(wanted)})
    assert compare(save, proto, xs(2, 3)) == operators


def test_sizes_that_are_given_decide_a_condition(save: Save) -> None:
    proto = _if(_SIZE_IS, {"one": scalar(1), "wanted": scalar(3)})
    proto.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "width"
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    for width, operators in ((3, ["Mul"]), (5, ["Neg", "Exp"])):
        graph = load_onnx(save(proto), input_size_list=[[2, width]]).graph
        assert [n.op_type for n in graph.nodes] == operators


def test_an_input_with_a_value_decides_a_condition(save: Save) -> None:
    proto = _by_rate()
    for rate, operators in ((16000, ["Mul"]), (8000, ["Neg", "Exp"])):
        graph = load_onnx(save(proto), input_initial_val=[None, rate]).graph
        assert [n.op_type for n in graph.nodes] == operators
        assert [spec.name for spec in graph.inputs] == ["x"]


def test_the_input_that_decides_branches_that_both_stay_is_told(save: Save) -> None:
    path = save(_by_rate())
    told = load_onnx(path).findings[0]
    assert "'rate' decides are computed" in told.what
    assert "input_initial_val" in told.remedy
    decided = load_onnx(path, input_initial_val=[None, 16000])
    assert "decides" not in decided.findings[0].what
    # one that data decides has no such way
    assert load_onnx(save(_by_data())).findings[0].remedy == ""


def test_the_input_that_decides_branches_of_two_sizes_is_named(save: Save) -> None:
    proto = _by_rate()
    then = branch("t = Concat <axis=0> (x, x)", ["t"])
    next(a for a in proto.graph.node[-1].attribute if a.name == "then_branch").g.CopyFrom(then)
    del proto.graph.output[0].type.tensor_type.shape.dim[:]
    with pytest.raises(UnsupportedOperatorError, match="differ in size") as error:
        load_onnx(save(proto))
    assert "Give the input 'rate' a value with 'input_initial_val'" in error.value.remedy
    assert "-;-;rate.npy" in error.value.remedy


def test_a_condition_on_data_selects(save: Save) -> None:
    assert "Where" in compare(save, _by_data(), xs(2, 3))


@pytest.mark.parametrize(
    "dtype", [np.float32, np.int8, np.int16, np.uint16, np.int64, np.bool_, np.float64]
)
def test_results_of_any_type_are_selected(dtype: Any, save: Save) -> None:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    values = {"a": np.array([1, 0, 1], dtype), "b": np.array([0, 0, 1], dtype)}
    ends = [tensor(n, 3, dtype=kind) for n in ("a", "b")]
    branches = [branch(f"o_{n} = Identity ({n})", [f"o_{n}"]) for n in ("a", "b")]
    choice = node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1])
    proto = model([choice], [tensor("c", 1, dtype=BOOL), *ends], [tensor("y", 3, dtype=kind)])
    feeds = [{"c": np.array([c]), **values} for c in (True, False)]
    compare(save, proto, feeds)


@pytest.mark.parametrize(
    ("yes", "no", "expected"),
    [("true", "false", "Identity"), ("q", "false", "And"), ("true", "q", "Or")],
)
def test_branches_that_are_logic_become_it(yes: str, no: str, expected: str, save: Save) -> None:
    branches = [branch(f"o_{n} = Identity ({n})", [f"o_{n}"]) for n in (yes, no)]
    choice = node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1])
    ends = [tensor(n, dtype=BOOL) for n in ("c", "q", "y")]
    constants = {"true": scalar(True, bool), "false": scalar(False, bool)}
    proto = model([choice], ends[:2], ends[2:], constants)
    feeds = [{"c": np.array(c), "q": np.array(q)} for c in (True, False) for q in (True, False)]
    assert compare(save, proto, feeds) == [expected]


def _choice(then: onnx.GraphProto, other: onnx.GraphProto) -> onnx.ModelProto:
    choice = node("If", ["c"], ["y"], "choice", then_branch=then, else_branch=other)
    ends = [tensor("c", dtype=BOOL), tensor("x", 4), tensor("i", 1, dtype=INT64)]
    return model([choice], ends, untyped("y"))


_SAME = branch("s = Identity (x)", ["s"])

_REFUSED_IFS = {
    "other sizes": ("t = Concat <axis=0> (x, x)", "differ in size"),
    "other types": ("t = Cast <to=7> (x)", "differ in size or type"),
    "an index that may be wrong": (
        "p = Gather (x, i); t = Expand (p, four)",
        "may be out of range",
    ),
    "a division that may fail": (
        "q = Div (i, i); r = Cast <to=1> (q); t = Add (x, r)",
        "divide by zero",
    ),
    "a size that depends on data": (
        "z = NonZero (x); t = ReduceSum (x)",
        "size of its result depends on data",
    ),
}


@pytest.mark.parametrize("name", _REFUSED_IFS)
def test_branches_that_cannot_both_run_are_refused(name: str, save: Save) -> None:
    text, why = _REFUSED_IFS[name]
    proto = _choice(branch(text, ["t"], constants={"four": np.array([4])}), _SAME)
    proto.graph.output[0].type.tensor_type.elem_type = FLOAT
    path = save(proto)
    with pytest.raises(UnsupportedOperatorError, match="If at node 'choice'") as error:
        load_onnx(path)
    assert why in error.value.what
    assert not [f for f in inspect_file(path).model.findings if f.severity == "error"]


# -- Loop ----------------------------------------------------------------------------------------


def _loop(
    body: str,
    *,
    trips: str = "trips",
    condition: str = "",
    carried: Sequence[str] = ("x",),
    outputs: Sequence[str] = ("more", "v1"),
    constants: Arrays | None = None,
    ends: Sequence[onnx.ValueInfoProto] = (),
    before: str = "",
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
    nodes = [*(nodes_of(before) if before else ()), loop]
    return model(nodes, [tensor("x", 2, 3)], ends or [tensor("y", 2, 3)], kept)


_HALVE = (
    "number = Cast <to=1> (n); moved = Add (v0, number); v1 = Mul (moved, half); "
    "more = Identity (true)"
)
_HALF = {"half": np.array(0.5, np.float32)}


def test_a_constant_number_of_iterations_is_unrolled(save: Save) -> None:
    operators = compare(save, _loop(_HALVE, constants=_HALF), xs(2, 3))
    assert operators == ["Add", "Mul"] * 4


def test_what_iterations_collect_is_joined(save: Save) -> None:
    proto = _loop(
        f"{_HALVE}; sum = ReduceSum <keepdims=0> (v1)",
        outputs=("more", "v1", "sum"),
        constants=_HALF,
        names=("y", "sums"),
        ends=[tensor("y", 2, 3), tensor("sums", 4)],
    )
    compare(save, proto, xs(2, 3))


def test_a_counter_ends_a_loop_without_a_trip_count(save: Save) -> None:
    proto = _loop(
        "v0_next = Mul (v0, half); v1_next = Add (v1, one); more = Less (v1_next, limit)",
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
    operators = compare(save, proto, xs(2, 3))
    assert [op for op in operators if op != "Identity"] == ["Mul"] * 3


def _while_small(*, trips: str) -> onnx.ModelProto:
    """``while sum(x) < 4: x = x + 0.5``, at most as often as ``trips`` says."""
    return _loop(
        "v1 = Add (v0, half); sum = ReduceSum <keepdims=0> (v1); more = Less (sum, four)",
        trips=trips,
        condition="first",
        before="sum0 = ReduceSum <keepdims=0> (x); first = Less (sum0, four)",
        constants={**_HALF, "four": scalar(4, np.float32)},
    )


def test_a_condition_on_data_keeps_what_the_last_iteration_gave(save: Save) -> None:
    feeds = [{"x": np.full((2, 3), value, np.float32)} for value in (-2.0, -0.5, 0.1, 0.6, 3.0)]
    operators = compare(save, _while_small(trips="trips"), feeds)
    assert operators.count("Where") == 4


def _refusal(save: Save, proto: onnx.ModelProto) -> str:
    with pytest.raises(UnsupportedOperatorError) as error:
        load_onnx(save(proto))
    assert "at node 'repeat'" in error.value.what
    return error.value.what


def test_loops_that_data_bound_are_refused(save: Save) -> None:
    proto = _loop(_HALVE, trips="count", constants=_HALF)
    proto.graph.input.append(tensor("count", dtype=INT64))
    assert "trip count depends on data" in _refusal(save, proto)
    proto = _while_small(trips="trips")
    proto.graph.node[-1].output.append("sums")
    proto.graph.node[-1].attribute[0].g.output.append(onnx.ValueInfoProto(name="sum"))
    assert "how many results it collects depends on data" in _refusal(save, proto)


def test_unrolling_has_a_bound(save: Save, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_STEPS == 12_000
    monkeypatch.setattr("engine.frontends.onnx.control.expander.MAX_STEPS", 500)
    proto = _loop(_HALVE, constants={**_HALF, "trips": scalar(10**12)})
    assert "more than 500 nodes" in _refusal(save, proto)
    empty = _loop("more = Identity (true)", outputs=("more", "v0"))
    empty.graph.initializer[0].CopyFrom(numpy_helper.from_array(scalar(10**12), "trips"))
    assert "more than 500 nodes" in _refusal(save, empty)


def test_control_flow_inside_control_flow(save: Save) -> None:
    choice = (
        "v1 = If (is_even) <then_branch = even () => (float[2,3] t) {t = Mul (v0, half)}, "
        "else_branch = odd () => (float[2,3] e) {e = Neg (v0)}>"
    )
    proto = _loop(
        f"rest = Mod (n, two); is_even = Equal (rest, nil); {choice}; more = Identity (true)",
        constants={**_HALF, "two": scalar(2), "nil": scalar(0)},
    )
    assert compare(save, proto, xs(2, 3)) == ["Mul", "Neg", "Mul", "Neg"]


# -- Scan ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("backward", [0, 1])
@pytest.mark.parametrize("axis", [0, 1])
def test_scan_walks_along_its_axes(axis: int, backward: int, save: Save) -> None:
    size = (3, 2)[axis]
    body = branch(
        "next = Add (state, part); given = Mul (next, part)",
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
    compare(save, proto, xs(2, 3))


# -- sequences and optionals ---------------------------------------------------------------------


_SEQUENCES: dict[str, tuple[str, Callable[[np.ndarray], np.ndarray]]] = {
    "split, at": (
        """s = SplitToSequence <axis=1> (x); place = Constant <value_int = -1> ();
        y = SequenceAt (s, place)""",
        lambda x: x[:, -1:],
    ),
    "split without the axis, concat": (
        "s = SplitToSequence <axis=1, keepdims=0> (x); y = ConcatFromSequence <axis=0> (s)",
        lambda x: x.T.reshape(-1),
    ),
    "construct, insert, erase, stack": (
        """negative = Neg (x); s0 = SequenceConstruct (x, negative); e = Exp (x);
        place = Constant <value_int = 0> (); s1 = SequenceInsert (s0, e, place);
        s2 = SequenceErase (s1); y = ConcatFromSequence <axis = -1, new_axis = 1> (s2)""",
        lambda x: np.stack([np.exp(x), x], -1),
    ),
    "length": (
        """s0 = SequenceEmpty (); s1 = SequenceInsert (s0, x); n = SequenceLength (s1);
        f = Cast <to=1> (n); y = Mul (x, f)""",
        lambda x: x,
    ),
    "optional": (
        """o = Optional (x); has = OptionalHasElement (o); got = OptionalGetElement (o);
        y0 = Not (has); y1 = Cast <to=1> (y0); y = Add (got, y1)""",
        lambda x: x,
    ),
}


@pytest.mark.parametrize("name", _SEQUENCES)
def test_sequences_are_resolved(name: str, save: Save) -> None:
    nodes, want = _SEQUENCES[name]
    proto = model(nodes_of(nodes), [tensor("x", 2, 3)], [tensor("y", "a")], opset=18)
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    graph = load_onnx(save(proto)).graph
    verify(graph)
    (fed,) = xs(2, 3, count=1)
    np.testing.assert_allclose(Session(graph).run(fed)["y"], want(fed["x"]), rtol=1e-5, atol=1e-6)


def test_sequences_that_leave_the_graph_are_refused(save: Save) -> None:
    sequence = helper.make_tensor_sequence_value_info("s", FLOAT, None)
    proto = model([node("SplitToSequence", ["x"], ["s"])], [tensor("x", 2, 3)], [sequence])
    with pytest.raises(SourceModelError, match="'s' is a sequence"):
        load_onnx(save(proto))


def test_lists_of_tensorflow_are_stacked(save: Save) -> None:
    """As tf2onnx leaves them: without a domain, read as a tensor by the next operator."""
    inner = branch(
        "row = Gather (x, n); item = Exp (row); v1 = TensorListSetItem (v0, n, item); "
        "more = Identity (true)",
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
    graph = load_onnx(save(proto)).graph
    (fed,) = xs(2, 3, count=1)
    want = -np.concatenate([np.exp(fed["x"]), np.zeros((1, 3), np.float32)])
    np.testing.assert_allclose(Session(graph).run(fed)["y"], want, rtol=1e-5, atol=1e-6)


# -- the rest of a load --------------------------------------------------------------------------


def test_cutting_keeps_what_branches_take_from_around_them(save: Save) -> None:
    proto = _if(f"r = Relu (x); {_SIZE_IS}", {"one": scalar(1), "wanted": scalar(3)})
    (then,) = (a for a in proto.graph.node[-1].attribute if a.name == "then_branch")
    then.g.node[0].input[0] = "r"
    graph = load_onnx(save(proto), outputs=["y"]).graph
    assert [n.op_type for n in graph.nodes] == ["Relu", "Mul"]


def test_loading_control_flow_twice_gives_the_same_bytes(save: Save) -> None:
    path = save(_loop(_HALVE, constants=_HALF))
    assert load_onnx(path).graph.to_bytes() == load_onnx(path).graph.to_bytes()
