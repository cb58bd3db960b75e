"""The table of what changed in ONNX's operators, against ONNX's schemas, converter and runtime."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from engine.graph.execute import ort
from engine.graph.ir import OPSET
from engine.graph.ir.opsets import CHANGES, NEWEST_OPSET, NoFormError, lower, no_form, unchanged
from tests.graph.models import finish, tensor

_OPERATORS = sorted({s.name for s in onnx.defs.get_all_schemas_with_history() if s.domain == ""})

# what a node of its operator cannot do without
_REQUIRED: dict[str, dict[str, Any]] = {
    **{f"{kind}Pool": {"kernel_shape": [2, 2]} for kind in ("Average", "Lp", "Max")},
    "Cast": {"to": TensorProto.FLOAT},
    "Constant": {"value_floats": [1.0]},
}


def _model(node: onnx.NodeProto, opset: int, shapes: dict[str, list[int]]) -> onnx.ModelProto:
    ends = [onnx.ValueInfoProto(name=name) for name in node.output]
    starts = [tensor(name, *shape) for name, shape in shapes.items()]
    return finish([node], starts, ends, opset=opset, ir_version=8)


@pytest.mark.parametrize(
    ("op", "version"), [(op, version) for op, rows in CHANGES.items() for version in rows]
)
def test_a_row_is_what_the_schemas_say(op: str, version: int) -> None:
    newer, older = (onnx.defs.get_schema(op, v, "") for v in (version, version - 1))
    change = CHANGES[op][version]
    assert newer.since_version == version
    inputs = [[end.name for end in schema.inputs] for schema in (older, newer)]
    if change.inputs:
        assert inputs[1] == [*inputs[0], *_called(op, change.inputs)]
        assert set(older.attributes) - set(newer.attributes) == set(change.inputs)
    if change.attributes or change.inputs:
        assert set(newer.attributes) - set(older.attributes) == set(change.attributes)
    for name, before in change.attributes.items():
        default = newer.attributes[name].default_value
        if default.name:
            value = helper.get_attribute_value(default)
            assert (value.decode() if isinstance(value, bytes) else value) == before
    if change.means_same:
        assert inputs[1][: len(inputs[0])] == inputs[0]
        assert set(older.attributes) <= set(newer.attributes)


def _called(op: str, names: tuple[str, ...]) -> list[str]:
    """Names of inputs as the schemas have them, where the attribute had another one."""
    return ["constant_value" if (op, name) == ("Pad", "value") else name for name in names]


def test_every_change_has_a_way_back_or_is_refused() -> None:
    known = Counter(
        not no_form(op, NEWEST_OPSET, target)
        for op in _OPERATORS
        for target in (9, 11, 19, OPSET)
        if onnx.defs.has(op, target, "")
    )
    assert known[True] > 600
    assert no_form("Slice", 13, 9) == (
        "opset 10 changed it, and its form in opset 9 is not known here"
    )
    assert no_form("Gelu", OPSET, 19) == "opset 19 does not have it: it came with 20"
    assert no_form("Mystery", OPSET, 19) == "ONNX has no such operator in opset 21"


@pytest.mark.parametrize("opset", range(13, OPSET))
def test_what_means_the_same_is_left_alone_by_the_converter(opset: int) -> None:
    """ONNX's converter writes defaults of new attributes out, and changes nothing else."""
    compared = 0
    for op in _OPERATORS:
        if not unchanged(op, opset):
            continue
        schema = onnx.defs.get_schema(op, OPSET, "")
        if schema.since_version <= opset:
            continue
        names = [f"x{i}" for i in range(len(onnx.defs.get_schema(op, opset, "").inputs))]
        node = helper.make_node(op, names, ["y"], name="n", **_REQUIRED.get(op, {}))
        model = _model(node, opset, {name: [1, 2, 4, 4] for name in names})
        (converted,) = onnx.version_converter.convert_version(model, OPSET).graph.node
        said = {a.name for a in node.attribute}
        kept = [
            a
            for a in converted.attribute
            if a.name in said or a != schema.attributes[a.name].default_value
        ]
        del converted.attribute[:]
        converted.attribute.extend(kept)
        assert converted == node, op
        compared += 1
    assert compared >= 15


@pytest.mark.parametrize(
    ("op", "opset"),
    [("Softmax", 12), ("ReduceMean", 17), ("Relu", 12), ("Split", 13), ("Split", 17)],
)
def test_what_changed_or_is_older_than_the_table_does_not_mean_the_same(
    op: str, opset: int
) -> None:
    assert not unchanged(op, opset)


def _lowered(
    op: str,
    opset: int,
    target: int,
    shape: list[int],
    constants: dict[str, Any],
    attributes: dict[str, Any],
    outputs: int,
) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    arrays = {name: np.asarray(value) for name, value in constants.items()}
    names = [f"y{index}" for index in range(outputs)]
    node = helper.make_node(op, ["x", *arrays], names, name="n", **attributes)
    model = _model(node, opset, {"x": shape})
    model.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in arrays.items())
    model = onnx.shape_inference.infer_shapes(model)
    older = onnx.ModelProto()
    older.CopyFrom(model)
    lower(older.graph, opset, target)
    older.opset_import[0].version = target
    read = {name for node in older.graph.node for name in node.input}
    kept = [tensor for tensor in older.graph.initializer if tensor.name in read]
    del older.graph.initializer[:]
    older.graph.initializer.extend(kept)
    return model, older


@pytest.mark.parametrize(
    ("op", "opset", "target", "constants", "attributes", "outputs"),
    [
        ("ReduceMean", 19, 9, {"axes": [2, -1]}, {"keepdims": 0}, 1),
        ("ReduceSum", 19, 11, {"axes": [-1]}, {}, 1),
        ("ReduceMax", 20, 19, {"axes": [1]}, {"noop_with_empty_axes": 0}, 1),
        ("Softmax", 19, 9, {}, {"axis": -1}, 1),
        ("LogSoftmax", 19, 11, {}, {"axis": 3}, 1),
        ("Clip", 19, 9, {"low": np.float32(-0.5), "high": np.float32(0.5)}, {}, 1),
        ("Pad", 19, 9, {"pads": [0, 0, 1, 1, 0, 0, 2, 2], "value": np.float32(3)}, {}, 1),
        ("Pad", 19, 11, {"pads": [0, 0, 1, 1, 0, 0, 2, 2]}, {"mode": "reflect"}, 1),
        ("Unsqueeze", 19, 9, {"axes": [-1, 0]}, {}, 1),
        ("Squeeze", 19, 9, {"axes": [0]}, {}, 1),
        ("Split", 19, 9, {}, {"axis": -1, "num_outputs": 2}, 2),
        ("Split", 19, 11, {"sizes": [1, 2]}, {"axis": 1}, 2),
        ("Flatten", 19, 9, {}, {"axis": -2}, 1),
        ("TopK", 19, 10, {"k": [2]}, {"axis": -1, "largest": 1, "sorted": 1}, 2),
        ("MaxPool", 19, 9, {}, {"kernel_shape": [2, 2], "ceil_mode": 0, "dilations": [1, 1]}, 1),
        ("Reshape", 19, 9, {"shape": [0, -1]}, {"allowzero": 0}, 1),
        ("Erf", 19, 9, {}, {}, 1),
        ("DepthToSpace", 19, 9, {}, {"blocksize": 1, "mode": "DCR"}, 1),
        *(
            ("GridSample", 21, 19, {"g": np.full((1, 2, 2, 2), 0.3, np.float32)}, {"mode": mode}, 1)
            for mode in ("cubic", "linear", "nearest")
        ),
    ],
)
def test_an_older_form_computes_the_same(
    op: str, opset: int, target: int, constants: Any, attributes: Any, outputs: int
) -> None:
    model, older = _lowered(op, opset, target, [1, 3, 4, 4], constants, attributes, outputs)
    onnx.checker.check_model(older, full_check=True)
    x = np.random.default_rng(0).normal(size=(1, 3, 4, 4)).astype(np.float32)
    results = [
        ort.InferenceSession(proto.SerializeToString()).run(None, {"x": x})
        for proto in (model, older)
    ]
    for before, after in zip(*results, strict=True):
        np.testing.assert_allclose(after, before, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("op", "constants", "attributes", "why"),
    [
        ("Softmax", {}, {"axis": 1}, "its axis is not the last one"),
        ("Split", {}, {"axis": -1, "num_outputs": 3}, "its parts are not of one size"),
        ("Pad", {"p": [1, 1], "v": np.float32(0), "axes": [0]}, {}, "its axes are given"),
        (
            "MaxPool",
            {},
            {"kernel_shape": [2, 2], "dilations": [1, 2]},
            r"its dilations is \[1, 2\]",
        ),
        ("MaxPool", {}, {"kernel_shape": [2, 2], "ceil_mode": 1}, "its ceil_mode is 1"),
        ("DepthToSpace", {}, {"blocksize": 1, "mode": "CRD"}, "its mode is CRD"),
        ("Shape", {}, {"end": 2}, "its end is 2"),
        ("Resize", {}, {}, "opset 9 does not have it: it came with 10"),
        ("Mish", {}, {}, "opset 9 does not have it: it came with 18"),
    ],
)
def test_what_an_older_opset_cannot_say_is_refused(
    op: str, constants: Any, attributes: Any, why: str
) -> None:
    outputs = 3 if op == "Split" else 1
    with pytest.raises(NoFormError, match=why) as error:
        _lowered(op, 19, 9, [1, 3, 4, 4], constants, attributes, outputs)
    assert error.value.node.name == "n"


def test_inputs_that_are_computed_are_no_attributes() -> None:
    node = helper.make_node("ReduceSum", ["x", "axes"], ["y"], name="n")
    model = _model(node, 19, {"x": [1, 3], "axes": [1]})
    with pytest.raises(NoFormError, match="its axes is computed"):
        lower(model.graph, 19, 11)
