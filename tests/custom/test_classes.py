"""Which classes are taken, and what is said of the others."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from engine.api import RKNN
from engine.api.custom_op import get_node_attr
from engine.base.errors import UsageError
from engine.graph.ir import CustomOperators, from_class
from tests.custom.nets import DualResidual, cstSoftmax


def test_a_class_and_an_object_of_it_are_taken() -> None:
    # the manual gives the class [RKNN-T2 2.3.0, 2.16], the vendor's examples give an object
    for given in (cstSoftmax, cstSoftmax()):
        operator = from_class(given)
        assert (operator.op_type, operator.origin) == ("cstSoftmax", "class cstSoftmax")
        node = helper.make_node("cstSoftmax", ["x"], ["y"], axis=1)
        assert operator.compute is not None
        assert operator.shape_infer is not None
        assert operator.shape_infer(node, [[1, 3]], ["f"]) == ([[1, 3]], ["f"])
        (found,) = operator.compute(node, [np.log(np.array([[1.0, 3.0]]))])
        assert found.tolist()[0] == pytest.approx([0.25, 0.75])


def test_a_class_may_have_static_methods_and_defaults() -> None:
    class Doubling:
        op_type = "cstDouble"

        def __init__(self, factor: int = 2) -> None:
            self.factor = factor

        @staticmethod
        def shape_infer(node: Any, in_shapes: Any, in_dtypes: Any) -> Any:
            return in_shapes, in_dtypes

        def compute(self, node: Any, inputs: Any, more: int = 0) -> Any:
            return [inputs[0] * self.factor + more]

    assert from_class(Doubling).op_type == "cstDouble"
    made = from_class(Doubling(3))
    assert made.compute is not None
    assert made.compute(None, [5])[0] == 15


def _class(**members: Any) -> type:
    def shape_infer(self: Any, node: Any, in_shapes: Any, in_dtypes: Any) -> Any:
        return in_shapes, in_dtypes

    def compute(self: Any, node: Any, inputs: Any) -> Any:
        return inputs

    whole = {"op_type": "cstOne", "shape_infer": shape_infer, "compute": compute, **members}
    return type("One", (), {name: value for name, value in whole.items() if value is not None})


def _needs_argument(self: Any, argument: int) -> None: ...


def _fails(self: Any) -> None:
    raise OSError("no such table")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (None, "A custom operator is a class; None was given"),
        ("cstSoftmax", "A custom operator is a class; 'cstSoftmax' was given"),
        (12, "is a class; 12"),
        (math, "is a class"),
        (len, "is a class"),
        (_class(op_type=None), "class One has no op_type"),
        (_class(op_type=3), "class One has no op_type"),
        (_class(op_type=""), "class One has no op_type"),
        (_class(op_type="Softmax"), "op_type Softmax, which is an operator of ONNX"),
        (_class(op_type="Upsample"), "which is an operator of ONNX"),
        (_class(shape_infer=None), "class One has no method shape_infer"),
        (_class(compute=None), "class One has no method compute"),
        (_class(compute=7), "class One has no method compute"),
        (_class(compute=lambda self, inputs: inputs), "compute does not take the arguments"),
        (_class(shape_infer=lambda self, node: node), "shape_infer does not take the arguments"),
        (_class(__init__=_needs_argument), "No object of class One could be made: TypeError"),
        (_class(__init__=_fails), "No object of class One could be made: OSError: no such table"),
    ],
)
def test_what_is_no_operator_is_refused_with_what_it_lacks(given: Any, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        from_class(given)
    assert words in caught.value.what
    assert caught.value.remedy


def test_two_operators_of_one_name_are_refused_unless_one_replaces_the_other() -> None:
    first, second = from_class(cstSoftmax), from_class(_class(op_type="cstSoftmax"))
    with pytest.raises(UsageError, match="Two custom operators are named cstSoftmax"):
        CustomOperators([first, second])
    operators = CustomOperators([first, from_class(DualResidual)]).replaced(second)
    assert dict(operators) == {
        "cstDualResidual": operators["cstDualResidual"],
        "cstSoftmax": second,
    }


def test_rknn_registers_with_0_and_refuses_with_minus_1(capsys: pytest.CaptureFixture[str]) -> None:
    rknn = RKNN()
    assert rknn.reg_custom_op(cstSoftmax) == 0
    assert rknn.reg_custom_op(custom_op=DualResidual()) == 0
    assert capsys.readouterr().err == ""
    assert rknn.reg_custom_op(cstSoftmax) == 0
    assert "class cstSoftmax replaces an earlier one" in capsys.readouterr().err
    assert rknn.reg_custom_op(_class(compute=None)) == -1
    assert "class One has no method compute" in capsys.readouterr().err
    assert rknn.reg_custom_op(None) == -1


def test_a_class_that_only_places_an_operator_of_onnx_changes_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The vendor's example for a GPU registers ``class ArgMax: op_type = 'ArgMax'``."""
    rknn = RKNN()
    placed = type("ArgMax", (), {"op_type": "ArgMax"})
    assert rknn.reg_custom_op(placed()) == 0
    assert "ArgMax is simulated as ONNX says it" in capsys.readouterr().err


def test_attributes_come_as_plain_values() -> None:
    table = np.arange(6, dtype=np.float32).reshape(2, 3)
    node = helper.make_node(
        "cstAll",
        ["x"],
        ["y"],
        name="all",
        alpha=0.5,
        axis=-1,
        mode="linear",
        pads=[1, 2],
        scales=[0.5, 2.0],
        names=["a", "b"],
        table=onnx.numpy_helper.from_array(table),
    )
    found = {name: get_node_attr(node, name) for name in ("alpha", "axis", "mode", "pads")}
    assert found == {"alpha": 0.5, "axis": -1, "mode": "linear", "pads": [1, 2]}
    assert get_node_attr(node, "scales") == [0.5, 2.0]
    assert get_node_attr(node, "names") == ["a", "b"]
    assert np.array_equal(get_node_attr(node, "table"), table)
    with pytest.raises(UsageError) as caught:
        get_node_attr(node, "alfa")
    assert "has no attribute 'alfa'" in caught.value.what
    assert "alpha" in caught.value.remedy
