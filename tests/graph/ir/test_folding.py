"""The folder of constants, held to ONNX Runtime operator by operator."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from engine.graph.ir.folding import FOLDED, TooLargeError, fold, is_safe_division
from tests.graph.models import as_it_stands, finish, tensor

F = np.array([[-1.5, 0.5, 2.5], [3.0, -0.25, 7.0]], np.float32)
POSITIVE = np.abs(F)
ROW = np.array([2.0, -1.0, 0.5], np.float32)
WHOLE = np.array([[7, -7, 5], [-9, 8, 0]], np.int64)
BY = np.array([2, -3, 4], np.int64)
TRUE = np.array([[True, False, True]])

CASES: dict[str, list[tuple[list[np.ndarray], dict[str, Any]]]] = {
    **{op: [([F], {})] for op in ("Abs", "Ceil", "Cos", "Exp", "Floor", "Identity", "Neg")},
    **{op: [([F], {})] for op in ("Reciprocal", "Round", "Sin")},
    **{op: [([POSITIVE], {})] for op in ("Log", "Sqrt")},
    **{op: [([F, ROW], {}), ([WHOLE, BY], {})] for op in ("Add", "Sub", "Mul", "Div")},
    **{op: [([F, ROW], {}), ([WHOLE, BY], {})] for op in ("Equal", "Greater", "Less")},
    **{op: [([WHOLE, BY], {})] for op in ("GreaterOrEqual", "LessOrEqual")},
    **{op: [([TRUE, ~TRUE.T], {})] for op in ("And", "Or")},
    **{op: [([F, ROW, F - 1], {}), ([WHOLE, BY], {})] for op in ("Max", "Min")},
    "Not": [([TRUE], {})],
    "Pow": [([POSITIVE, ROW], {})],
    "Mod": [([WHOLE, BY], {}), ([F, ROW], {"fmod": 1})],
    "Where": [([TRUE, F, ROW], {})],
    "Cast": [([F], {"to": onnx.TensorProto.INT32}), ([WHOLE], {"to": onnx.TensorProto.FLOAT16})],
    "Concat": [([F, F[:1]], {"axis": 0})],
    "ConstantOfShape": [([np.array([2, 3])], {}), ([np.array([2])], {"value": np.array([7])})],
    "CumSum": [([WHOLE, np.array([1])], {})],
    "Expand": [([ROW, np.array([2, 1])], {})],
    "Flatten": [([F[None]], {"axis": 2})],
    "Gather": [([F, np.array([[-1, 0]])], {"axis": 1})],
    "Range": [
        ([np.array(2), np.array(9), np.array(3)], {}),
        ([np.array(9), np.array(2), np.array(-2)], {}),
        ([np.array(3), np.array(1), np.array(1)], {}),
    ],
    **{
        op: [
            ([WHOLE, np.array([-1])], {}),
            ([WHOLE.astype(np.int32), np.array([0])], {"keepdims": 0}),
            ([WHOLE], {}),
            ([WHOLE, np.array([], np.int64)], {"noop_with_empty_axes": 1}),
        ]
        for op in ("ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum")
    },
    "Reshape": [([F, np.array([0, -1, 1])], {}), ([F[:0], np.array([0, 4])], {"allowzero": 1})],
    "Slice": [
        ([F, np.array([0]), np.array([2]), np.array([1])], {}),
        ([F, np.array([-1]), np.array([-(1 << 31)]), np.array([1]), np.array([-1])], {}),
        ([F, np.array([1, 1]), np.array([1 << 40, 2])], {}),
    ],
    "Squeeze": [([F[:, None], np.array([1])], {}), ([F[:1, None]], {})],
    "Tile": [([F, np.array([2, 1])], {})],
    "Transpose": [([F], {}), ([F[None]], {"perm": [2, 0, 1]})],
    "Unsqueeze": [([F, np.array([0, -1])], {})],
}


def _by_runtime(op: str, arrays: list[np.ndarray], attributes: dict[str, Any]) -> np.ndarray:
    helper = onnx.helper
    names = [f"i{number}" for number in range(len(arrays))]
    held = {
        name: onnx.numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
        for name, value in attributes.items()
    }
    inputs = [
        tensor(name, *a.shape, dtype=helper.np_dtype_to_tensor_dtype(a.dtype))
        for name, a in zip(names, arrays, strict=True)
    ]
    node = helper.make_node(op, names, ["y"], **held)
    model = finish([node], inputs, [helper.make_empty_tensor_value_info("y")])
    return as_it_stands(model, dict(zip(names, arrays, strict=True)))[0]


@pytest.mark.parametrize(
    ("op", "arrays", "attributes"),
    [(op, *case) for op, cases in CASES.items() for case in cases],
)
def test_an_operator_is_that_of_onnx_runtime(
    op: str, arrays: list[np.ndarray], attributes: dict[str, Any]
) -> None:
    expected, folded = _by_runtime(op, arrays, attributes), fold(op, arrays, attributes)
    assert (folded.shape, folded.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(folded, expected, rtol=1e-6)


def test_every_operator_is_held() -> None:
    assert set(CASES) | {"FloorDiv", "NotEqual"} == FOLDED


def test_operators_of_other_frameworks() -> None:
    np.testing.assert_array_equal(fold("FloorDiv", [WHOLE, BY]), WHOLE // BY)
    np.testing.assert_array_equal(fold("NotEqual", [WHOLE, BY]), WHOLE != BY)


@pytest.mark.parametrize(
    ("op", "arrays", "attributes"),
    [
        ("Add", [np.zeros((11, 1)), np.zeros((1, 10))], {}),
        ("Mod", [np.zeros((11, 1)), np.zeros((1, 10))], {"fmod": 1}),
        ("ConstantOfShape", [np.array([101])], {}),
        ("Expand", [np.array([0.0]), np.array([1 << 40])], {}),
        ("Gather", [np.zeros((2, 10)), np.zeros(11, np.int64)], {}),
        ("Range", [np.array(0), np.array(1 << 60), np.array(1)], {}),
        ("Tile", [np.zeros(2), np.array([51])], {}),
    ],
)
def test_a_result_has_a_bound(
    op: str, arrays: list[np.ndarray], attributes: dict[str, Any]
) -> None:
    with pytest.raises(TooLargeError):
        fold(op, arrays, attributes, largest=100)


def test_what_is_no_larger_than_its_inputs_is_within() -> None:
    assert fold("Neg", [np.zeros(1000)], largest=10).shape == (1000,)
    assert fold("Expand", [np.array([0.0]), np.array([100])], largest=100).shape == (100,)


@pytest.mark.parametrize(
    ("op", "arrays", "attributes"),
    [
        ("Div", [WHOLE, np.zeros(3, np.int64)], {}),
        ("Mod", [np.array([-(1 << 63)]), np.array([-1])], {}),
        ("Range", [np.array(0), np.array(1), np.array(0)], {}),
        ("CumSum", [WHOLE, np.array([1])], {"reverse": 1}),
        ("Abs", [], {}),
        ("Abs", [None], {}),
    ],
)
def test_what_has_no_result(op: str, arrays: list[Any], attributes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"division|zero|sum|without"):
        fold(op, arrays, attributes)


@pytest.mark.parametrize(
    ("dividend", "divisor", "safe"),
    [
        (np.array([1.0]), np.array([0.0]), True),
        (np.array([1]), np.array([0]), False),
        (np.array([-(1 << 31)], np.int32), np.array([-1], np.int32), False),
        (np.array([-5], np.int32), np.array([-1], np.int32), True),
        (None, np.array([-1]), False),
        (None, np.array([2]), True),
        (None, np.array([255], np.uint8), True),
    ],
)
def test_divisions_that_would_end_the_process(
    dividend: np.ndarray | None, divisor: np.ndarray, safe: bool
) -> None:
    assert is_safe_division(dividend, divisor) is safe
