"""A crash of the vendor's compiler is told before it is asked."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest

from engine.cost.estimate import CostSettings, estimate_chip
from engine.graph.ir import Graph
from tests.cost.asked.maker import Maker
from tests.cost.asked.parts import shape, turn
from tests.cost.support import inferred

SETTINGS = CostSettings()


def attention(form: str) -> onnx.ModelProto:
    """Four heads over 50 tokens; ``form``: what stands around the scores."""
    net = Maker((1, 50, 64))
    parts = []
    for name, perm in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        rows = shape(net, net.add("MatMul", "x", net.numbers(64, 64)), 1, 50, 4, 16)
        heads = turn(net, rows, *perm)
        if form == "scaled query" and name == "q":
            heads = net.add("Mul", heads, net.constant(np.float32(0.25)))
        parts.append(heads)
    scores = net.add("MatMul", parts[0], parts[1], name="scores")
    if form == "scale":
        scores = net.add("Div", scores, net.constant(np.float32(4)))
    elif form == "mask":
        scores = net.add("Add", scores, net.numbers(1, 1, 50, 50))
    mixed = net.add("MatMul", net.add("Softmax", scores, axis=-1, name="shares"), parts[2])
    joined = shape(net, turn(net, mixed, 0, 2, 1, 3), 1, 50, 64)
    return net.model(net.add("MatMul", joined, net.numbers(64, 64)))


def read(form: str) -> Graph:
    return inferred(attention(form))


# as rknn-toolkit2 2.3.2 ended with SIGSEGV, or did not, for files that this program handed over
@pytest.mark.parametrize(
    ("form", "chip", "crashes"),
    [
        ("plain", "rk3588", True),
        ("scaled query", "rk3588", True),
        ("plain", "rk3562", True),
        ("plain", "rk3576", True),
        ("plain", "rv1106", True),
        ("plain", "rv1126b", True),
        ("scale", "rk3588", False),
        ("mask", "rk3588", False),
        ("plain", "rk3566", False),
        ("plain", "rv1103b", False),
    ],
)
def test_attention_without_a_scale(form: str, chip: str, crashes: bool) -> None:
    found = estimate_chip(read(form), chip, SETTINGS)
    assert bool(found.warnings) == crashes
    for told in found.warnings:
        assert "shares" in told
        assert "optimization_level 2" in told


def test_float16_compiles() -> None:
    graph = read("plain")
    assert not estimate_chip(graph, "rk3588", replace(SETTINGS, dtype="float16")).warnings
    softmax = replace(SETTINGS, layer_dtypes={"shares": "float16"})
    assert not estimate_chip(graph, "rk3588", softmax).warnings


def test_a_softmax_at_the_end_is_no_attention() -> None:
    net = Maker((1, 4, 50, 16), (1, 4, 16, 50))
    scores = net.add("MatMul", "x", "x1")
    graph = inferred(net.model(net.add("Softmax", scores, axis=-1)))
    assert not estimate_chip(graph, "rk3588", SETTINGS).warnings


@pytest.mark.parametrize(("sizes", "target"), [((1, 8, 6, 4), "CPU"), ((1, 8, 24), "NPU")])
def test_op_target_has_an_effect_on_four_dimensions(sizes: tuple[int, ...], target: str) -> None:
    net = Maker(sizes)
    graph = inferred(net.model(net.add("Sigmoid", "x", name="it")))
    found = estimate_chip(graph, "rk3588", replace(SETTINGS, op_target={"it": "cpu"}))
    (layer,) = (each for each in found.layers if each.op == "Sigmoid")
    assert layer.target == target
    ignored = [told.startswith("op_target has no effect on it:") for told in found.warnings]
    assert ignored == ([] if target == "CPU" else [True])
