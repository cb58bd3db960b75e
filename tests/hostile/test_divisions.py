"""Whole numbers that have no quotient: told when the model is loaded, not by a dead process."""

from __future__ import annotations

import pytest
from onnx import TensorProto, helper
from onnx.helper import make_node as node

from tests.hostile.conftest import Bounded
from tests.hostile.models import divided, model

KINDS = {"32": (TensorProto.INT32, -(2**31)), "64": (TensorProto.INT64, -(2**63))}


@pytest.mark.parametrize("op", ["Div", pytest.param("Mod", marks=pytest.mark.long)])
def test_the_smallest_number_by_minus_one(bounded: Bounded, op: str) -> None:
    models = {bits: divided(op, kind, low, -1) for bits, (kind, low) in KINDS.items()}
    models["computed"] = model(
        [
            node("Shape", ["x"], ["s"]),  # 2: half of the smallest number, twice
            node("Mul", ["s", "half"], ["a"]),
            node(op, ["a", "minus"], ["q"], name="division"),
            node("Cast", ["q"], ["f"], to=TensorProto.FLOAT),
            node("Add", ["x", "f"], ["y"]),
        ],
        [
            helper.make_tensor("half", TensorProto.INT64, [1], [-(2**62)]),
            helper.make_tensor("minus", TensorProto.INT64, [1], [-1]),
        ],
        shape=(2,),
    )
    for kind, said in bounded("build", models).values():
        assert kind == "SourceModelError"
        assert "'division'" in said
        assert "-1" in said


@pytest.mark.parametrize("op", ["Div", "Mod"])
def test_others_are_computed(bounded: Bounded, op: str) -> None:
    models = {bits: divided(op, kind, low + 1, -1) for bits, (kind, low) in KINDS.items()}
    models["two"] = divided(op, TensorProto.INT64, -(2**63), 2)
    assert bounded("run", models) == dict.fromkeys(models, ("", ""))
