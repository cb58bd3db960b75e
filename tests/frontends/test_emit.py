"""An emitter that knows shapes: what it tells, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.frontends import emit
from engine.frontends.emit import MisfitError, TypedEmitter


@pytest.mark.parametrize("keeps", [True, False])
def test_shapes_are_those_of_onnx_and_absurd_ones_are_refused(keeps: bool) -> None:
    e = TypedEmitter("graph", keeps=keeps)
    x = e.input("x", (1, 2, 3, 5))
    big = e.node("Expand", [e.scalar(1), e.ints(1 << 20, 1 << 11)])
    assert e.shape(big) == (1 << 20, 1 << 11)
    assert e.shape(e.enlarged(x, 2)) == (1, 2, 6, 10)
    assert e.dtype(e.node("Shape", [x])) == np.int64
    with pytest.raises(MisfitError, match="too large"):
        e.node("Expand", [e.scalar(1), e.ints(1 << 20, (1 << 11) + 1)])
    with pytest.raises(MisfitError, match="its inputs do not fit"):
        e.node("MatMul", [x, x])
    with pytest.raises(MisfitError, match="depends on data"):
        e.node("NonZero", [x])


SIDES = st.lists(st.integers(1, 9), min_size=1, max_size=5).map(tuple)
NEAR = st.sampled_from([1, 2, 3, 4])
WINDOW = st.fixed_dictionaries(
    {
        "kernel_shape": st.tuples(NEAR, NEAR).map(list),
        "pads": st.lists(st.integers(0, 2), min_size=4, max_size=4),
    },
    optional={
        "strides": st.tuples(NEAR, NEAR).map(list),
        "dilations": st.tuples(NEAR, NEAR).map(list),
        "auto_pad": st.sampled_from(["NOTSET", "SAME_UPPER", "VALID"]),
    },
)


@st.composite
def nodes(draw: st.DrawFn) -> tuple[str, list[tuple[int, ...]], dict[str, Any]]:
    """An operator that has a rule, shapes that often fit it, attributes."""
    shaping = [op for op, rule in emit._RULES.items() if rule is not emit._first]
    op = draw(st.sampled_from(shaping) | st.sampled_from(sorted(emit._RULES)))
    x = draw(SIDES)
    if op in ("Add", "Div", "Mul", "Sub"):
        other = draw(st.one_of(SIDES, st.just(x), st.just((1,) * len(x)), st.just(x[1:])))
        return op, [x, other], {}
    if op == "Concat":
        axis = draw(st.integers(-5, 4))
        others = draw(st.lists(st.one_of(st.just(x), SIDES), max_size=3))
        return op, [x, *others], {"axis": axis}
    if op == "BatchNormalization":
        channels = x[1] if len(x) > 1 else 1
        vectors = st.sampled_from([(channels,), (channels,), (2,)])
        return op, [x, *draw(st.lists(vectors, min_size=4, max_size=4))], {}
    if op in ("AveragePool", "Conv", "MaxPool"):
        x = draw(st.tuples(NEAR, NEAR, st.integers(1, 12), st.integers(1, 12)))
        attributes = draw(WINDOW)
        if op == "Conv":
            group = draw(st.sampled_from([1, x[1], 2]))
            kernel = draw(st.sampled_from([tuple(attributes["kernel_shape"]), (2, 3)]))
            weights = (4, draw(st.sampled_from([x[1] // group or 1, 2])), *kernel)
            bias = draw(st.sampled_from([[], [(4,)], [(3,)], [(1, 4)]]))
            return op, [x, weights, *bias], attributes | {"group": group}
        return op, [x], attributes | draw(st.fixed_dictionaries({}, optional={"ceil_mode": NEAR}))
    return op, [x], {}


@settings(max_examples=400)
@given(nodes())
@example(("Concat", [(1, 1, 1), (1, 1)], {"axis": -1}))
@example(("Conv", [(1, 3, 8, 8), (4, 3, 3, 3)], {"kernel_shape": [3, 2]}))
def test_rules_tell_what_onnx_infers(
    node: tuple[str, list[tuple[int, ...]], dict[str, Any]],
) -> None:
    def shape(e: TypedEmitter) -> tuple[int, ...] | str:
        names = [e.input(f"x{index}", side) for index, side in enumerate(node[1])]
        try:
            return e.shape(e.node(node[0], names, **node[2]))
        except MisfitError as error:
            return error.what

    class ByOnnx(TypedEmitter):
        def _ruled(self, *_: Any) -> None:
            return None

    assert shape(TypedEmitter("ruled")) == shape(ByOnnx("inferred"))


@pytest.mark.parametrize(
    ("op", "shapes", "attributes"),
    [
        ("Conv", [(1, 3, 8, 8), (4, 3, 3, 3)], {"pads": [1] * 4, "group": 1}),
        ("BatchNormalization", [(1, 3, 8, 8), *[(3,)] * 4], {}),
        ("MaxPool", [(1, 3, 8, 8)], {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ("Concat", [(1, 3, 8, 8), (1, 2, 8, 8)], {"axis": 1}),
        ("Add", [(1, 3, 8, 8), (3, 1, 1)], {}),
        ("Relu", [(1, 3, 8, 8)], {}),
    ],
)
def test_the_operators_of_most_networks_need_no_inference(
    op: str, shapes: list[tuple[int, ...]], attributes: dict[str, Any]
) -> None:
    e = TypedEmitter("graph")
    names = [e.input(f"x{index}", shape) for index, shape in enumerate(shapes)]
    assert e._ruled(op, names, attributes) is not None


def test_what_only_dropped_layers_read_goes_with_them() -> None:
    e = TypedEmitter("graph")
    x = e.input("x", (1, 1000))
    for number in range(2):
        e.origin = f"layer{number}"
        large = e.node("Add", [x, np.full(1000, number, np.float32)], f"large{number}")
        e.node("Add", [large, np.full(10, number, np.float32)[:1]], f"y{number}")
    e.keep_only({"layer1"})
    graph = e.proto().graph
    assert [node.output[0] for node in graph.node] == ["large1", "y1"]
    assert [onnx.numpy_helper.to_array(t).max() for t in graph.initializer] == [1, 1]
