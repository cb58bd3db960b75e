"""Shapes around custom operators, and graphs that keep them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from engine.base.errors import GraphError
from engine.graph.ir import (
    CustomOperator,
    CustomOperators,
    Graph,
    assign_custom_domain,
    diff,
    from_class,
    graph_view,
    infer_shapes,
    verify,
)
from engine.graph.ir.custom import CUSTOM_DOMAIN
from tests.custom.nets import OPERATORS, branching, graph, model

Shaping = Callable[[Any, Any, Any, Any], Any]


def operators(shape_infer: Shaping, op_type: str = "cstAny") -> CustomOperators:
    def compute(self: Any, node: Any, inputs: Any) -> Any:
        return inputs

    members = {"op_type": op_type, "shape_infer": shape_infer, "compute": compute}
    return CustomOperators([from_class(type("Any", (), members))])


def one(outputs: int = 1, op: str = "cstAny", shown: int = 1) -> onnx.ModelProto:
    """Relu, a custom node, Relu behind its first output; the next ones leave the graph."""
    names = [f"c{i}" for i in range(outputs)]
    return model(
        [
            helper.make_node("Relu", ["x"], ["r"], name="before"),
            helper.make_node(op, ["r"], names, name="mine", domain="cst"),
            helper.make_node("Relu", ["c0"], ["y"], name="after"),
        ],
        ["y", *names[1:shown]],
    )


def shapes_of(found: Graph) -> dict[str, tuple[int, ...]]:
    return {name: found.spec(name).shape for name in found.values}


def test_shapes_go_on_behind_every_custom_node() -> None:
    found = graph(branching())
    assert shapes_of(found) == shapes_of(graph(branching(custom=False)))
    verify(found)


def test_a_node_without_a_domain_gets_the_vendor_s() -> None:
    proto = branching(domain="")
    found = graph(proto)
    assert {n.domain for n in found.nodes if n.op_type == "cstSoftmax"} == {CUSTOM_DOMAIN}
    assert dict(found.model.opset_imports) == {"": 21, CUSTOM_DOMAIN: 1}
    verify(found)
    untouched = branching(domain="")
    assign_custom_domain(untouched, None)
    assert untouched == branching(domain="")


def test_the_class_gets_shapes_types_and_the_node_and_may_give_any_dtype_form() -> None:
    asked: list[Any] = []

    def shape_infer(self: Any, node: Any, in_shapes: Any, in_dtypes: Any) -> Any:
        asked.append((type(node), node.name, in_shapes, in_dtypes))
        batch, channels, height, width = in_shapes[0]
        assert in_dtypes[0] == np.float32
        assert in_dtypes[0] == "float32"
        forms = [in_dtypes[0], "int64", np.uint8, onnx.TensorProto.FLOAT16]
        half = [batch, channels, height // 2, np.int64(width // 2)]
        return [half, [batch], (), np.array([3, 4])], forms

    found = graph(one(outputs=4), operators(shape_infer))
    assert asked[0] == (onnx.NodeProto, "mine", [[1, 3, 8, 8]], [np.dtype("float32")])
    assert [str(found.spec(f"c{i}")) for i in range(4)] == [
        "c0: float32[1x3x4x4]",
        "c1: int64[1]",
        str(found.spec("c2")),
        "c3: float16[3x4]",
    ]
    assert found.spec("c2").shape == ()
    assert found.spec("y").shape == (1, 3, 4, 4)
    count = len(asked)
    verify(found)
    assert len(asked) == count, "what is known is not asked for again"
    again = infer_shapes(found, refresh=True)
    assert shapes_of(again) == shapes_of(found)
    assert len(asked) == count + 1


def _raises(self: Any, node: Any, in_shapes: Any, in_dtypes: Any) -> Any:
    return in_shapes[3], in_dtypes


def _exits(self: Any, node: Any, in_shapes: Any, in_dtypes: Any) -> Any:
    raise SystemExit(3)


def _gives(value: Any) -> Shaping:
    return lambda self, node, in_shapes, in_dtypes: value


SHAPE, DTYPE = [1, 3, 8, 8], np.float32


@pytest.mark.parametrize(
    ("shaping", "words"),
    [
        (_raises, "shape_infer failed at node 'mine' (cstAny): IndexError: list index"),
        (_exits, "SystemExit: 3"),
        (_gives(None), "it gave None, not (out_shapes, out_dtypes)"),
        (_gives([SHAPE]), "not (out_shapes, out_dtypes)"),
        (_gives(([], [])), "it gave 0 shapes for 1 outputs"),
        (_gives(([SHAPE, SHAPE], [DTYPE, DTYPE])), "it gave 2 shapes for 1 outputs"),
        (_gives(([SHAPE], [])), "it gave 0 dtypes for 1 outputs"),
        (_gives((SHAPE, [DTYPE])), "it gave 4 shapes for 1 outputs"),
        (_gives((7, [DTYPE])), "its shapes are 7, no list"),
        (_gives(([8], [DTYPE])), "shape 0 is 8, no list of sizes"),
        (_gives(([[1, -3]], [DTYPE])), "-3 is not a size"),
        (_gives(([[1, 2.5]], [DTYPE])), "2.5 is not a size"),
        (_gives(([[1, None]], [DTYPE])), "None is not a size"),
        (_gives(([[1, True]], [DTYPE])), "True is not a size"),
        (_gives(([[1 << 30, 1 << 30]], [DTYPE])), "too large for a tensor"),
        (_gives(([[1] * 40], [DTYPE])), "no list of sizes"),
        (_gives(([SHAPE], [None])), "dtype 0 is None, no type of a tensor"),
        (_gives(([SHAPE], ["float23"])), "dtype 0 is 'float23', no type of a tensor"),
        (_gives(([SHAPE], [99])), "dtype 0 is 99, no type of a tensor"),
        (_gives(([SHAPE], [str])), "no type of"),
    ],
)
def test_what_shape_infer_gives_is_checked(shaping: Shaping, words: str) -> None:
    with pytest.raises(GraphError) as caught:
        graph(one(), operators(shaping))
    told = caught.value
    assert words in told.what
    assert "class Any" in told.what
    assert "'mine'" in told.what
    assert told.remedy


def test_a_shape_that_does_not_fit_the_next_node_names_that_node() -> None:
    proto = branching()

    def shape_infer(self: Any, node: Any, in_shapes: Any, in_dtypes: Any) -> Any:
        return [[1, 8, 9, 9]], in_dtypes

    with pytest.raises(GraphError, match="'sum'"):
        graph(proto, operators(shape_infer, "cstSoftmax"))


def test_a_type_against_the_model_s_own_is_refused() -> None:
    def shape_infer(self: Any, node: Any, in_shapes: Any, in_dtypes: Any) -> Any:
        return [*in_shapes, *in_shapes], [*in_dtypes, "int8"]

    with pytest.raises(GraphError, match=r"int8; the model says float32 of its output 'c1'"):
        graph(one(outputs=2, shown=2), operators(shape_infer))


def test_copies_keep_the_operators_and_no_file_has_them() -> None:
    found = graph(branching())
    assert found.copy().operators is found.operators
    assert infer_shapes(found).operators is found.operators
    data = found.to_bytes()
    bare = Graph.from_bytes(data)
    assert len(bare.operators) == 0
    verify(bare)
    assert bare.to_bytes() == data
    assert Graph.from_bytes(data, operators=OPERATORS).operators is OPERATORS
    assert bare.with_operators(OPERATORS).operators is OPERATORS
    assert len(bare.operators) == 0
    assert diff(found, bare).equal
    assert [row[1] for row in graph_view(bare).nodes].count("cst:cstSoftmax") == 2


def test_an_opaque_operator_is_kept_with_what_the_model_says_of_it() -> None:
    opaque = CustomOperators([CustomOperator("cstAny", None, None, "package any.rknnop")])
    proto = one()
    proto.graph.value_info.append(helper.make_tensor_value_info("c0", 1, [1, 3, 4, 4]))
    found = graph(proto, opaque)
    assert found.spec("y").shape == (1, 3, 4, 4)
    assert infer_shapes(found, refresh=True).spec("y").shape == (1, 3, 4, 4)
    verify(found)


def test_a_foreign_node_must_be_imported_and_have_a_name_of_its_own() -> None:
    found = graph(branching())
    del found.model.opset_imports["cst"]
    with pytest.raises(GraphError, match="of a domain that the model does not import"):
        verify(found)
    named = one(op="Relu")
    with pytest.raises(GraphError, match="has the name of one of ONNX's"):
        verify(Graph.from_proto(named))
