"""Published limits: which rule a layer breaks, with its number, and what it is told."""

from __future__ import annotations

import csv
import gzip
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.cost.limits import broken_limits, check_layer, with_reasons
from engine.cost.limits.rules import (
    base_operator,
    broken_condition,
    constants,
    perms_between,
)
from engine.cost.lowered import Lowered, LoweredLayer, Target, Window
from engine.facts import chips
from engine.facts.limits import cpu_operators, npu_limits, support_of
from engine.facts.npu import NpuDtype
from tests.cost.support import Layers

GENERATION2 = [each.name for each in chips() if each.generation == 2]
GENERATION1 = [each.name for each in chips() if each.generation == 1]


def one(
    op: str,
    before: tuple[int, ...] = (1, 32, 40, 40),
    after: tuple[int, ...] = (1, 32, 40, 40),
    *,
    dtype: NpuDtype = "int8",
    **fields: Any,
) -> tuple[LoweredLayer, Lowered]:
    """A layer from x to y, in a graph of its own."""
    made = Layers("rk3588", dtype)
    made.inputs.append(made.feature("x", *before))
    sources = ("x", "x") if op == "MatMul" and "consts" not in fields else ("x",)
    to = made.feature("y", *after)
    layer = made.layer(op, *sources, to=(to,), name="layer", sources=("layer",), **fields)
    return layer, replace(made.lowered(), outputs=(to,))


@pytest.mark.parametrize(
    ("op", "window", "depthwise", "number", "most"),
    [
        ("Conv", Window(kernel=(33, 3)), False, "33", "31"),
        ("ConvRelu", Window(kernel=(3, 33)), False, "33", "31"),
        ("ConvExSwish", Window(strides=(8, 8)), False, "8", "7"),
        ("Conv", Window(kernel=(3, 3), pads=(0, 16, 0, 0)), False, "16", "15"),
        ("Conv", Window(kernel=(3, 3), dilations=(32, 1)), False, "32", "31"),
        ("ConvClip", Window(kernel=(9, 9), group=32), True, "9", "8"),
        ("MaxPool", Window(kernel=(8, 8)), False, "8", "7"),
        ("AveragePool", Window(kernel=(3, 3), strides=(9, 1)), False, "9", "8"),
        ("ConvTranspose", Window(kernel=(32, 2), strides=(2, 2)), False, "32", "31"),
        ("ConvTransposeRelu", Window(kernel=(2, 2), group=4), False, "4", "1"),
    ],
)
def test_a_window_beyond_a_limit_is_told_its_number(
    op: str, window: Window, depthwise: bool, number: str, most: str
) -> None:
    layer, lowered = one(op, window=window, depthwise=depthwise)
    broken = broken_limits(layer, lowered, "rk3588")[0]
    assert number in broken.words
    assert most in broken.words
    assert "2.3.2, 3.2." in broken.source
    assert ("pad (left)" in broken.words) == (window.pads[1] > 0)
    placed = check_layer(layer, lowered, "rk3588", judged=False)
    assert placed.target == "CPU"
    assert number in placed.reason
    assert placed.remedy


@pytest.mark.parametrize("chip", GENERATION2)
def test_usual_layers_are_on_the_npu(chip: str) -> None:
    dtype: NpuDtype = "float16" if chip == "rk2118" else "int8"
    usual = [
        one("Conv", window=Window(kernel=(3, 3), pads=(1, 1, 1, 1)), dtype=dtype),
        one("ConvRelu", window=Window(kernel=(3, 3), pads=(1, 1, 1, 1), group=32), depthwise=True)
        if dtype == "int8"
        else one("Relu", dtype=dtype),
        one("Add", dtype=dtype),
        one("Concat", dtype=dtype),
    ]
    for layer, lowered in usual:
        assert check_layer(layer, lowered, chip, judged=False).target == "NPU", layer.op
        assert broken_limits(layer, lowered, chip) == ()


# what, on which chip, whether the compiler has judged it -> target, words of reason and remedy
PLACED = [
    (one("MaxPool", window=Window(kernel=(9, 9))), "rk3588", True, "NPU", (), ""),
    (
        one("AveragePool", window=Window(kernel=(3, 3)), target="CPU"),
        *("rk3588", True, "CPU", ("2x2",), "depthwise"),
    ),
    (
        one("Conv", target="CPU", reason="op_target says so."),
        *("rk3588", True, "CPU", ("op_target says so.",), ""),
    ),
    (
        one("exSoftmax13", target="CPU"),
        *("rk3566", True, "CPU", ("The NPU has no exSoftmax13", "3.1"), ""),
    ),
    (one("GRU"), "rv1103b", False, "none", ("no CPU version",), ""),
    (one("TopK", target="CPU"), "rk3588", True, "CPU", ("contradict",), ""),
    (one("Conv"), "rk9999", True, "none", ("rk9999",), ""),
    *(
        (one(op), chip, False, "none", (op,), remedy)
        for op, remedy in (
            ("MyOwnOperator", "custom operator"),
            ("NonMaxSuppression", "End the model before it"),
        )
        for chip in GENERATION2
    ),
]


@pytest.mark.parametrize(("case", "chip", "judged", "target", "reason", "remedy"), PLACED)
def test_what_the_compiler_does_goes_before_what_is_published(
    case: tuple[LoweredLayer, Lowered],
    chip: str,
    judged: bool,
    target: Target,
    reason: tuple[str, ...],
    remedy: str,
) -> None:
    placed = check_layer(*case, chip, judged=judged)
    assert placed.target == target
    assert bool(placed.reason) == bool(reason)
    assert all(words in placed.reason for words in reason)
    assert remedy in placed.remedy


def test_layers_of_a_graph_are_given_their_reasons() -> None:
    _, lowered = one("AveragePool", window=Window(kernel=(3, 3)), target="CPU")
    told = with_reasons(lowered, "rk3588").layers[0]
    assert (told.target, told.name) == ("CPU", "layer")
    assert told.reason
    assert told.remedy
    _, lowered = one("MyOwnOperator", target="none")
    assert with_reasons(lowered, "rk3588").layers[0].reason
    _, lowered = one("Conv", window=Window(kernel=(3, 3)))
    assert with_reasons(lowered, "rk3588") == lowered


def test_transposes_are_judged_by_their_shapes() -> None:
    small, large = (1, 4, 64, 64), (1, 64, 256, 16)
    layer, lowered = one("Transpose", small, (1, 64, 64, 4))
    assert broken_limits(layer, lowered, "rk3576") == ()
    (broken,) = broken_limits(layer, lowered, "rk3566")
    assert "no such permutation" in broken.words
    layer, lowered = one("Transpose", large, (256, 1, 64, 16))
    (broken,) = broken_limits(layer, lowered, "rk3588")
    assert "262144" in broken.words
    assert "8192" in broken.words
    assert broken_limits(layer, lowered, "rk3576") == ()  # there p is 2^28
    layer, lowered = one("Transpose", (1, 4, 8), (1, 8, 4))
    assert broken_limits(layer, lowered, "rk3588") == ()


def test_conditions_of_permutations() -> None:
    p = {"p": 8192, "q": 2048}
    assert constants("p=8192, q=2048 are the constants") == p
    assert broken_condition("c1<8192, h1*w1%8=0", (1, 3, 4, 4), p) is None
    assert broken_condition("c1<8192, h1*w1%8=0", (1, 3, 3, 3), p) == (
        "H x W = 9 is no multiple of 8"
    )
    assert broken_condition("h1*w1<2*q", (1, 3, 64, 64), p) == "H x W = 4096 is not below 4096"
    either = "n<8192, (h1=w1=1, n1%4=0) or (n1=h1=1, w1%4=0)"
    assert broken_condition(either, (4, 3, 1, 1), p) is None
    assert broken_condition(either, (1, 3, 1, 8), p) is None
    assert broken_condition(either, (3, 3, 1, 1), p) == "N = 3 is no multiple of 4"
    assert broken_condition("c1*h1*w1<p (source lacks the <), w1%8=0", (1, 2, 2, 8), p) is None
    assert perms_between((1, 2, 3, 4), (1, 3, 2, 4)) == ((0, 2, 1, 3),)
    assert len(perms_between((1, 1, 3, 4), (1, 1, 4, 3))) == 2


def test_every_condition_in_the_table_can_be_read() -> None:
    for chip in GENERATION2:
        rules = npu_limits(chip)["Transpose"]
        of_chip = next(constants(each.note) for each in rules if each.parameter == "perm_consts")
        assert set(of_chip) == {"p", "q"}
        huge = (2**14 + 1,) * 4  # too large and odd for every condition
        for rule in rules:
            if rule.parameter.startswith("perm=") and not rule.allowed:
                assert broken_condition(rule.note, huge, of_chip), rule.note


IMAGE = ((1, 3, 64, 5000), (1, 8, 64, 5000))


@pytest.mark.parametrize(
    ("case", "chip", "words"),
    [
        (one("Resize", (1, 8, 20, 20), (1, 8, 40, 40)), "rk3588", ""),
        (one("Resize", (1, 8, 20, 20), (1, 8, 30, 30)), "rk3588", "1.5"),
        (one("Resize", (1, 8, 1, 1), (1, 8, 33, 33)), "rk3588", ""),
        (one("Conv", *IMAGE, window=Window(kernel=(3, 3))), "rk3566", "5000 4096"),
        (one("Conv", *IMAGE, window=Window(kernel=(3, 3))), "rk3588", ""),  # 8192 there
        (one("Conv", *IMAGE[1:] * 2, window=Window(kernel=(3, 3))), "rk3566", ""),
        (one("Div", dtype="float16"), "rk3588", ""),
    ],
)
def test_a_limit_of_sizes(case: tuple[LoweredLayer, Lowered], chip: str, words: str) -> None:
    broken = broken_limits(*case, chip)
    assert len(broken) == bool(words)
    assert all(word in each.words for each in broken for word in words.split())


def test_a_dtype_that_the_operator_has_not() -> None:
    broken = broken_limits(*one("Div", dtype="int8"), "rk3588")
    assert any(each.parameter == "dtype" for each in broken)


def test_printed_types_are_taken_apart() -> None:
    for printed, op in (
        ("ConvExSwish", "Conv"),
        ("ConvPRelu", "Conv"),
        ("ConvLeakyReluAdd", "Conv"),
        ("ConvTransposeSigmoid", "ConvTranspose"),
        ("AddRelu", "Add"),
        ("exMatMul", "MatMul"),
        ("HardSigmoid", "HardSigmoid"),
        ("Foo", "Foo"),
    ):
        assert base_operator(one(printed)[0]) == op
    assert base_operator(one("ConvRelu", depthwise=True)[0]) == "DepthwiseConv"


# ------------------------------------------------------------------------------------ generation 1
FIRST = [
    # what, target, words of the reason; none where it is empty
    (one("ConvRelu", kind="Conv", window=Window(kernel=(3, 3))), "NPU", ""),
    (one("Conv", window=Window(kernel=(13, 1))), "NPU", "13 11 x stride"),
    (one("Conv", window=Window(kernel=(13, 1), strides=(2, 1))), "NPU", ""),
    (one("Conv", window=Window(kernel=(3, 3), dilations=(2, 3))), "none", "dilation"),
    (one("Conv", (1, 3, 8, 8, 8), window=Window()), "none", "3D"),
    (one("TopK"), "none", "TopK"),
    (one("MyOwnOperator"), "none", "1.7"),
    (one("GlobalAveragePool", (1, 64, 50), (1, 64, 1)), "NPU", ""),
    (one("GlobalAveragePool", (1, 8, 4, 4, 4), (1, 8, 1, 1, 1)), "none", "3d"),
    (one("MatMul"), "NPU", "two features"),
    (one("MatMul", consts=("w",)), "NPU", ""),
]


@pytest.mark.parametrize("chip", GENERATION1)
@pytest.mark.parametrize(("case", "target", "words"), FIRST)
def test_generation_1_has_its_own_lists(
    case: tuple[LoweredLayer, Lowered], target: Target, words: str, chip: str
) -> None:
    placed = check_layer(*case, chip)
    assert placed.target == target
    assert bool(placed.reason) == bool(words)
    assert all(word in placed.reason for word in words.split())


@pytest.mark.parametrize("op", ["Add", "Resize", "LeakyRelu", "Sigmoid", "Concat", "Exp", "Pad"])
def test_generation_1_says_where_it_is_not_public(op: str) -> None:
    layer, lowered = one(op)
    placed = check_layer(layer, lowered, "rk1808")
    assert placed.target == "unknown"
    assert "not public" in placed.reason
    assert "board" in placed.remedy
    for named in ("Softmax", "Transpose", "Reshape"):
        layer, lowered = one(named)
        assert check_layer(layer, lowered, "rk1808").target == "NPU"


# -------------------------------------------------------------------------------------------- data
def test_tables_are_complete() -> None:
    for chip in GENERATION2:
        assert {"Conv", "ConvTranspose", "MaxPool", "Transpose", "Resize"} <= set(npu_limits(chip))
        for rules in npu_limits(chip).values():
            assert all(rule.section.startswith(("3.", "4.", "5.")) for rule in rules)
    assert len(cpu_operators("rk3588")) > 80
    assert 10 <= len(cpu_operators("rv1106")) <= 12
    assert cpu_operators("rk2118") == {}
    for framework in ("caffe", "darknet", "keras", "mxnet", "tensorflow", "tflite", "onnx"):
        assert any(
            support_of(framework, op, 1) is not None
            for op in (
                *("convolution", "convolutional", "Conv2D", "Convolution", "CONV_2D"),
                *("tf.nn.conv2d", "torch:convolution 2D"),
            )
        ), framework
    einsum = support_of("onnx", "Einsum", 2)
    assert einsum.supported == "no"
    assert einsum.source.endswith(":57")


def test_no_layer_of_the_compilers_own_tables_is_refused(zoo: Path) -> None:
    table = zoo.parent / "facts" / "cost" / "layers_dev.csv.gz"
    if not table.is_file():
        pytest.skip(f"there is no {table}")
    with gzip.open(table, "rt", encoding="utf-8") as file:
        printed = {(row["op_type"], row["platform"], row["target"]) for row in csv.DictReader(file)}
    assert len(printed) > 200
    for op, chip, target in printed:
        layer, lowered = one(op, target="CPU" if target == "CPU" else "NPU", window=Window())
        placed = check_layer(layer, lowered, chip)
        assert placed.target == layer.target, (op, chip)
        if target == "CPU" and not op.endswith("Operator"):
            assert placed.reason, (op, chip)
            assert placed.remedy, (op, chip)
