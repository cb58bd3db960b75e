"""Names inside the file that a toolkit is given: none of the user's, and all of them back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import helper

from engine.cost.printed import parse_printed
from engine.frontends.onnx import load_onnx
from engine.graph.execute.runtime import ort
from engine.graph.ir import TensorSpec
from engine.graph.passes import optimise
from engine.quantize import calibrate, quantize
from engine.toolkit.compile.model import toolkit_onnx
from engine.toolkit.compile.neutral_names import (
    LONGEST_PORT,
    NeutralNames,
    neutral_names,
    port_in_file,
)
from tests.vendor.models import onnx_model

HOSTILE = (
    "scalar",
    "scalar_1",
    "ints",
    "ints_1",
    "_1",
    "w_rs",
    "w-rs",
    "w_mm",
    "w__0",
    "n00001",
    "t00002",
    "t00002_rs",
    "größe/名前",
    "with space",
    "a" * 130,
    "functional_1/" * 50 + "bias",
)
INSIDE = ("w1", "w2", "low", "high", "shape", "c1", "k", "c2", "conv1", "clip", "conv2", "turn")


def model(names: dict[str, str]) -> onnx.ModelProto:
    """Conv, Clip, Conv, Reshape; its tensors and nodes called by ``names``."""
    rng = np.random.default_rng(0)
    constants = {
        "w1": rng.standard_normal((8, 4, 3, 3)).astype(np.float32),
        "w2": rng.standard_normal((8, 8, 1, 1)).astype(np.float32),
        "low": np.array(0, np.float32),
        "high": np.array(6, np.float32),
        "shape": np.array([1, -1], np.int64),
    }
    n = names
    nodes = [
        helper.make_node("Conv", ["x", n["w1"]], [n["c1"]], name=n["conv1"], pads=[1] * 4),
        helper.make_node("Clip", [n["c1"], n["low"], n["high"]], [n["k"]], name=n["clip"]),
        helper.make_node("Conv", [n["k"], n["w2"]], [n["c2"]], name=n["conv2"]),
        helper.make_node("Reshape", [n["c2"], n["shape"]], ["y"], name=n["turn"]),
    ]
    stored = {n[name]: array for name, array in constants.items()}
    return onnx_model(nodes, {"x": [1, 4, 6, 6]}, {"y": [1, 288]}, stored, name=n["conv1"])


def plain() -> dict[str, str]:
    return {name: name for name in INSIDE}


def handed(tmp_path: Path, names: dict[str, str]) -> tuple[bytes, NeutralNames]:
    """The file of a quantized build of the model."""
    path = tmp_path / "net.onnx"
    onnx.save(model(names), path)
    graph = optimise(load_onnx(path).graph).graph
    rng = np.random.default_rng(1)
    feeds = [{"x": rng.standard_normal((1, 4, 6, 6)).astype(np.float32)} for _ in range(2)]
    return neutral_names(toolkit_onnx(quantize(graph, calibrate(graph, feeds)).graph))


word = st.one_of(st.sampled_from(HOSTILE), st.text(st.characters(codec="utf-8"), min_size=1))
hostile = st.lists(
    word.filter(lambda name: name not in ("x", "y")),
    min_size=len(INSIDE),
    max_size=len(INSIDE),
    unique=True,
).map(lambda names: dict(zip(INSIDE, names, strict=True)))


@given(hostile)
@settings(max_examples=100, deadline=None)
def test_names_inside_change_no_byte(names: dict[str, str]) -> None:
    expected, _ = neutral_names(model(plain()).SerializeToString())
    found, known = neutral_names(model(names).SerializeToString())
    assert found == expected
    assert sorted(known.users.values()) == sorted(names.values())
    assert not known.cut


@given(hostile)
@settings(
    max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_nor_in_the_file_of_a_quantized_build(tmp_path: Path, names: dict[str, str]) -> None:
    assert handed(tmp_path, names)[0] == handed(tmp_path, plain())[0]


def test_it_computes_the_same_and_all_names_are_short() -> None:
    before = model({**plain(), **dict(zip(INSIDE, HOSTILE, strict=False))})
    data, _ = neutral_names(before.SerializeToString())
    after = onnx.load_from_string(data)
    onnx.checker.check_model(after, full_check=True)
    x = np.random.default_rng(2).standard_normal((1, 4, 6, 6)).astype(np.float32)
    (wanted,), (found,) = (
        ort.InferenceSession(each.SerializeToString()).run(None, {"x": x})
        for each in (before, after)
    )
    np.testing.assert_array_equal(found, wanted)
    graph = after.graph
    used = {name for node in graph.node for name in (node.name, *node.input, *node.output)}
    used |= {each.name for each in graph.initializer}
    assert {name for name in used if len(name) != len("t00000")} == {"x", "y"}


INNER = """
<ir_version: 8, opset_import: ["": 17]>
g (float[2] x, bool flag) => (float[2] y) {
  [scalar] outer = Relu (x)
  [ints] y = If (flag) <
    then_branch = yes () => (float[2] yes_rs) { [yes] yes_rs = Add (outer, outer) },
    else_branch = no () => (float[2] no_rs) { [no] no_rs = Mul (outer, outer) }>
}
"""


def test_tensors_of_inner_graphs_follow_those_around_them() -> None:
    made = onnx.parser.parse_model(INNER)
    data, names = neutral_names(made.SerializeToString())
    assert set(names.users.values()) == {"scalar", "ints", "outer", "yes", "no", "yes_rs", "no_rs"}
    session = ort.InferenceSession(data)
    x = np.array([3, -1], np.float32)
    for flag, wanted in ((True, [6, 0]), (False, [9, 0])):
        (found,) = session.run(None, {"x": x, "flag": np.array(flag)})
        assert found.tolist() == wanted


@pytest.mark.parametrize("name", ["b" * 659, "名" * 121, "größe/" * 40])
def test_a_port_that_is_too_long_is_cut_and_told(name: str) -> None:
    before = model(plain())
    before.graph.output[0].name = before.graph.node[-1].output[0] = name
    data, names = neutral_names(before.SerializeToString())
    (short,) = (each.name for each in onnx.load_from_string(data).graph.output)
    assert len(short) <= LONGEST_PORT
    assert short.isascii()
    assert names.cut == {short: name}
    assert names.told(f"output '{short}'") == f"output '{name}'"
    (finding,) = names.findings()
    assert short in finding.what
    spec = TensorSpec(name, (1, 288), "float32")
    assert [each.name for each in names.ports([spec])] == [short]
    assert names.in_file({name: 1, "w1": 2}) == {short: 1, "t00000": 2}


@pytest.mark.parametrize(
    ("name", "whole"),
    [
        ("x" * LONGEST_PORT, True),
        ("x" * (LONGEST_PORT + 1), False),
        ("é" * 117 + "€" * 2, True),  # 240 bytes
        ("é" * 116 + "€" * 3, False),  # 241
    ],
)
def test_how_long_a_port_may_be(name: str, whole: bool) -> None:
    assert (port_in_file(name) == name) == whole


def test_what_the_toolkit_says_has_the_users_names() -> None:
    names = NeutralNames({"n00012": "/stem/conv", "t00034": "scalar"})
    assert (
        names.told("at n00012#2, t00034_rs, 'n00012'") == "at /stem/conv#2, scalar_rs, '/stem/conv'"
    )
    # addresses, numbers and names that only look alike
    for text in ("0x00n00012", "n000121", "count00034", "n00013"):
        assert names.told(text) == text
    row = "1 ConvRelu INT8 NPU (1,8,16,16) (1,8,16,16) 10/20/20 5.5% 3 Conv:n00012"
    head = "Network Layer Information Table"
    (layer,) = names.table(parse_printed(f"{head}\n{row}")).layers
    assert layer.name == "Conv:/stem/conv"
    assert names.of_model(b"\0n00012_rs\0t00035\0an00012") == {"n00012": "/stem/conv"}
