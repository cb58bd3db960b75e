"""Inputs and outputs: names, cuts, sizes, layouts, constants in place of inputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.base.errors import SourceModelError, UnsupportedOperatorError
from engine.frontends.load import find_source, inspect_source
from tests.frontends.tflite.tflite_models import (
    In,
    Writer,
    const,
    difference,
    interpret,
    ints,
    load_bytes,
    run,
)

_RNG = np.random.default_rng(41)


def _net(*, signature: bool = False, batch: int = 1) -> bytes:
    """Of x: conv gives features, tanh active, mean mean; that and side together out."""
    writer = Writer()
    open_batch = (-1, 6, 6, 3) if batch < 0 else None
    x = writer.tensor(In((1, 6, 6, 3), name="x", signature=open_batch))
    side = writer.tensor(In((1, 4), name="side", signature=(-1, 4) if batch < 0 else None))
    weights = const(np.random.default_rng(1).normal(size=(4, 3, 3, 3)))
    features, active = (In((1, 6, 6, 4), name=name) for name in ("features", "active"))
    options = {"padding": 0, "strideH": 1, "strideW": 1}
    made = writer.op("CONV_2D", [x, weights, const(np.zeros(4))], [features], **options)
    made = writer.op("TANH", [made], [active])
    made = writer.op("MEAN", [made, ints(1, 2)], [In((1, 4), name="mean")])
    out = writer.op("ADD", [made, side], [In((1, 4), name="out")])
    writer.ends([x, side], [out])
    if signature:
        writer.signature("serving_default", {"image": x, "extra": side}, {"scores": out})
    return writer.data()


def _feeds(batch: int = 1) -> dict[str, np.ndarray]:
    return {
        "x": _RNG.normal(size=(batch, 6, 6, 3)).astype(np.float32),
        "side": _RNG.normal(size=(batch, 4)).astype(np.float32),
    }


def test_ends_keep_name_shape_and_layout(tmp_path: Path) -> None:
    loaded = load_bytes(_net(), tmp_path)
    assert [(s.name, s.shape) for s in loaded.graph.inputs] == [
        ("x", (1, 6, 6, 3)),
        ("side", (1, 4)),
    ]
    assert [(s.name, s.shape) for s in loaded.graph.outputs] == [("out", (1, 4))]
    assert difference(loaded, _net(), _feeds()) <= 1e-5


def test_an_inner_output_has_the_files_layout(tmp_path: Path) -> None:
    loaded = load_bytes(_net(), tmp_path, outputs=("active", "out"))
    feeds = _feeds()
    active, out = run(loaded, feeds)
    assert active.shape == (1, 6, 6, 4)
    assert np.allclose(out, interpret(_net(), feeds)[0], atol=1e-5)
    assert np.allclose(active.mean(axis=(1, 2)) + feeds["side"], out, atol=1e-5)


def test_an_inner_input_cuts_what_is_before_it(tmp_path: Path) -> None:
    loaded = load_bytes(_net(), tmp_path, inputs=("active",), outputs=("mean",))
    assert "Conv" not in {node.op_type for node in loaded.graph.nodes}
    x = _RNG.normal(size=(1, 6, 6, 4)).astype(np.float32)
    assert np.allclose(run(loaded, {"active": x})[0], x.mean(axis=(1, 2)), atol=1e-5)


def test_a_left_out_input_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceModelError, match="'side' is read before any layer"):
        load_bytes(_net(), tmp_path, inputs=("x",))


def test_an_input_that_nothing_needs_is_told(tmp_path: Path) -> None:
    loaded = load_bytes(_net(), tmp_path, outputs=("mean",))
    assert [f.where for f in loaded.findings if f.code == "unused-input"] == ["side"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"outputs": ("actve",)}, "Did you mean 'active'"),
        ({"inputs": ("X", "side")}, "Did you mean 'x'|Look tensor names up"),
        ({"outputs": ("out", "out")}, "listed twice"),
        ({"input_size_list": ((1, 6, 6, 3),)}, "has 1 entries; there are 2 inputs"),
        ({"input_size_list": ((6, 6), (4,))}, "has 2 dimensions"),
    ],
)
def test_wrong_options_are_explained(
    options: dict[str, object], words: str, tmp_path: Path
) -> None:
    with pytest.raises(SourceModelError, match=words):
        load_bytes(_net(), tmp_path, **options)


def test_names_of_a_signature_stand_for_tensors(tmp_path: Path) -> None:
    loaded = load_bytes(
        _net(signature=True), tmp_path, inputs=("extra", "image"), outputs=("scores",)
    )
    assert [spec.name for spec in loaded.graph.inputs] == ["side", "x"]
    summary = inspect_source(find_source(tmp_path / "model.tflite"))
    assert "signature serving_default: image, extra -> scores" in summary.notes


def test_other_sizes_are_followed_through_the_graph(tmp_path: Path) -> None:
    loaded = load_bytes(_net(), tmp_path, input_size_list=((2, 6, 6, 3), (2, 4)))
    assert difference(loaded, _net(), _feeds(2)) <= 1e-5
    wider = load_bytes(_net(), tmp_path, input_size_list=((9, 8, 3), (4,)))
    assert wider.graph.inputs[0].shape == (1, 9, 8, 3)


def test_a_dynamic_batch_becomes_one(tmp_path: Path) -> None:
    loaded = load_bytes(_net(batch=-1), tmp_path)
    assert loaded.graph.inputs[0].shape == (1, 6, 6, 3)
    assert [f.severity for f in loaded.findings if "batch" in f.code] == ["info", "info"]


def test_another_dynamic_axis_needs_a_size(tmp_path: Path) -> None:
    writer = Writer()
    x = writer.tensor(In((1, 1, 3), name="x", signature=(1, -1, 3)))
    writer.ends([x], [writer.op("EXP", [x], [In((1, 1, 3), name="y")])])
    with pytest.raises(SourceModelError, match=r"dynamic") as caught:
        load_bytes(writer.data(), tmp_path)
    assert "input_size_list" in caught.value.remedy
    loaded = load_bytes(writer.data(), tmp_path, input_size_list=((1, 7, 3),))
    assert loaded.graph.outputs[0].shape == (1, 7, 3)


def test_nchw_inputs(tmp_path: Path) -> None:
    loaded = load_bytes(_net(), tmp_path, input_is_nchw=True)
    assert [spec.shape for spec in loaded.graph.inputs] == [(1, 3, 6, 6), (1, 4)]
    feeds = _feeds()
    (expected,) = interpret(_net(), feeds)
    (got,) = run(loaded, {**feeds, "x": feeds["x"].transpose(0, 3, 1, 2)})
    assert np.allclose(got, expected, atol=1e-5)


def test_a_constant_in_place_of_an_input(tmp_path: Path) -> None:
    feeds = _feeds()
    loaded = load_bytes(_net(), tmp_path, input_initial_val=(None, feeds["side"]))
    assert [spec.name for spec in loaded.graph.inputs] == ["x"]
    (got,) = run(loaded, {"x": feeds["x"]})
    assert np.allclose(got, interpret(_net(), feeds)[0], atol=1e-5)


def test_odd_ends(tmp_path: Path) -> None:
    """An input and a constant as outputs, names used twice, and names that are empty."""
    writer = Writer()
    x = writer.tensor(In((2, 3), name="x"))
    fixed = writer.tensor(const([[1.0, 2.0]], name="fixed"))
    same = writer.op("EXP", [x], [In((2, 3), name="x")])
    blank = writer.op("NEG", [same], [In((2, 3))])
    writer.graph.tensors[blank].name = b""
    writer.ends([x], [blank, fixed, x, same])
    loaded = load_bytes(writer.data(), tmp_path)
    x_in = _RNG.normal(size=(2, 3)).astype(np.float32)
    got = run(loaded, {"x": x_in})
    expected = [-np.exp(x_in), np.array([[1.0, 2.0]]), x_in, np.exp(x_in)]
    assert len(got) == 4
    for ours, theirs in zip(got, expected, strict=True):
        assert np.allclose(ours, theirs, atol=1e-5)


def test_inputs_of_one_name_are_told_apart(tmp_path: Path) -> None:
    writer = Writer()
    inputs = [writer.tensor(In((2, 3), name="x")) for _ in range(2)]
    writer.ends(inputs, [writer.op("SUB", inputs, [In((2, 3), name="y")])])
    loaded = load_bytes(writer.data(), tmp_path)
    assert [spec.name for spec in loaded.graph.inputs] == ["x", "x_1"]
    (got,) = run(loaded, {"x": np.full((2, 3), 5, np.float32), "x_1": np.ones((2, 3), np.float32)})
    assert np.array_equal(got, np.full((2, 3), 4))


def test_inputs_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    writer = Writer()
    x = writer.tensor(In((1,), "string", name="words"))
    writer.ends([x], [writer.op("HASHTABLE_LOOKUP", [x], [In((1,), name="y")])])
    with pytest.raises(UnsupportedOperatorError, match="'words' holds string"):
        load_bytes(writer.data(), tmp_path)


def test_a_look_tells_layers_and_what_will_be_refused(tmp_path: Path) -> None:
    writer = Writer()
    x = writer.tensor(In((1, 4), name="x"))
    y = writer.op("SOFTMAX", [x], [In((1, 4), name="y")], beta=1.0)
    boxes = In((1, 4), name="boxes")
    writer.ends([x], [writer.op("TFLite_Detection_PostProcess", [y], [boxes])])
    (tmp_path / "m.tflite").write_bytes(writer.data())
    summary = inspect_source(find_source(tmp_path / "m.tflite"))
    assert summary.operators == {"SOFTMAX": 1, "TFLite_Detection_PostProcess": 1}
    first, second = summary.layers
    assert (first.name, first.inputs, first.outputs, first.refused) == ("y", ("x",), ("y",), "")
    assert first.attributes == (("beta", "1.0"),)
    assert "custom operator" in second.refused
    assert [(f.severity, f.where) for f in summary.findings] == [("error", "boxes")]
    assert summary.inputs[0].shape == (1, 4)
