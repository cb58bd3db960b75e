"""Options are declared once; their text, their values and their help hold together."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import RecipeError
from engine.facts import chips
from engine.options import (
    ALGORITHMS,
    DTYPES,
    GRANULARITIES,
    OPTIONS,
    SECTIONS,
    Option,
    check_values,
    option,
)
from engine.pipeline.pipeline import reported_stages
from engine.pipeline.stages import STAGES

NAMES = [o.name for o in OPTIONS]


def test_declarations_are_complete() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert len({o.flag for o in OPTIONS}) == len(NAMES)
    for o in OPTIONS:
        assert o.section in SECTIONS
        assert o.stage in reported_stages(STAGES)
        assert o.help.endswith(".")
        assert o.check(None) == o.default
        if o.default is not None:
            assert o.check(o.default) == o.default
        assert bool(o.choices) == (o.kind in ("choice", "mapping"))
        assert not set(o.unsupported) & {*o.choices, *o.aliases}
        assert bool(o.reason) == (o.role == "refused")
        assert set(o.aliases.values()) <= set(o.choices)
        assert all(alias == alias.lower() for alias in o.aliases)


def test_vendor_defaults_of_generation_2() -> None:
    """Generation 2's as in [RKNN-T2 2.3.0, 2.2]."""
    wanted = {
        "mean_values": None,
        "std_values": None,
        "quant_img_RGB2BGR": False,
        "quantized_dtype": "w8a8",
        "quantized_algorithm": "normal",
        "quantized_method": "channel",
        "optimization_level": 3,
        "target_platform": None,
        "custom_string": None,
        "do_quantization": True,
    }
    assert {name: option(name).default for name in wanted} == wanted
    assert DTYPES[0] == "w8a8"
    assert ALGORITHMS[0] == "normal"
    assert set(GRANULARITIES) == {"layer", "channel"}


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("mean_values", "127,127,127", [[127, 127, 127]]),
        ("mean_values", "127 127 127", [[127, 127, 127]]),
        ("mean_values", "127;0,1,2", [[127], [0, 1, 2]]),
        ("mean_values", "[127, 127.5, 0]", [[127, 127.5, 0]]),
        ("mean_values", "[[1],[2]]", [[1], [2]]),
        ("input_size_list", "1x3x224x224;1,10", [[1, 3, 224, 224], [1, 10]]),
        ("input_size_list", "[1,3,224,224]", [[1, 3, 224, 224]]),
        ("input_size_list", "1x512;scalar", [[1, 512], []]),
        ("input_size_list", "[[]]", [[]]),
        ("inputs", "a, b", ["a", "b"]),
        ("inputs", '["a,b"]', ["a,b"]),
        ("input_initial_val", "-;x.npy", [None, "x.npy"]),
        ("quant_img_RGB2BGR", "yes,no", [True, False]),
        ("quant_img_RGB2BGR", "on", True),
        ("do_quantization", "0", False),
        ("optimization_level", " 2 ", 2),
        ("target_platform", "RK3588", "rk3588"),
        ("quantized_dtype", "ASYMMETRIC_quantized-8", "asymmetric_quantized-8"),
        ("custom_string", "a: b", "a: b"),
        ("custom_string", "", None),
        ("channel_mean_value", "128 128 128 128#0 0 0 255", [[128] * 4, [0, 0, 0, 255]]),
        ("channel_mean_value", "128,2", [[128, 2]]),
        ("reorder_channel", "2 1 0#0 1 2", [[2, 1, 0], [0, 1, 2]]),
        (
            "dynamic_input",
            "1x3x8x8;1x2|1x3x4x4;1x1",
            [[[1, 3, 8, 8], [1, 2]], [[1, 3, 4, 4], [1, 1]]],
        ),
        ("dynamic_input", "[[[1,3,8,8]],[[1,3,4,4]]]", [[[1, 3, 8, 8]], [[1, 3, 4, 4]]]),
        ("quantized_layers", "conv1=FLOAT16; b = int8", {"conv1": "float16", "b": "int8"}),
        ("quantized_layers", "a/conv;a/bn=float16", {"a/conv;a/bn": "float16"}),
        ("quantized_layers", '{"a=b": "fp16"}', {"a=b": "float16"}),
        ("quantized_layers", "{}", None),
        ("quantized_ranges", "x=-1,6; 128=0 1e-3", {"x": [-1, 6], "128": [0, 0.001]}),
        ("op_target", "p=CPU", {"p": "cpu"}),
        ("quantized_dtype", "asymmetric_affine-u8", "asymmetric_quantized-u8"),
        ("quantized_dtype", "dynamic_fixed_point-i16", "dynamic_fixed_point-16"),
        ("auto_hybrid_euc_thresh", "0.5", 0.5),
    ],
)
def test_text_becomes_a_value(name: str, text: str, value: object) -> None:
    assert option(name).parse(text) == value


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("mean_values", "a,b", "numbers"),
        ("mean_values", "[[NaN]]", "list of numbers"),
        ("mean_values", "[[1e39]]", "list of numbers"),
        ("mean_values", "[[1], 2]", "list of numbers"),
        ("mean_values", "[" * 100_000, "a list"),
        ("std_values", "1,0,1", "without 0"),
        ("std_values", "1e-40", "without 0"),
        ("input_size_list", "1x0x2", "above 0"),
        ("input_size_list", "[[1.5]]", "above 0"),
        ("input_size_list", f"[[{10**40}]]", "above 0"),
        ("optimization_level", "4", "at most 3"),
        ("optimization_level", "2.0", "whole number"),
        ("dataset_count", "0", "at least 1"),
        ("do_quantization", "maybe", "yes or no"),
        ("quantized_algorithm", "norml", "normal"),
        ("model", "a\0b", "text"),
        ("inputs", "[1]", "tensor names"),
        ("inputs", "[]", "tensor names"),
        ("input_initial_val", "[]", "list of paths"),
        ("input_initial_val", "null,null,x.npy", "with ; between"),
        ("input_initial_val", "[null, x.npy]", "list of JSON"),
        ("channel_mean_value", "128", "the scale"),
        ("channel_mean_value", "1 2 3 0", "without 0"),
        ("reorder_channel", "2 2 0", "once"),
        ("reorder_channel", "1 2 3", "once"),
        ("dynamic_input", "1x0", "sets of shapes"),
        ("quantized_layers", "conv1", "tensor names"),
        ("quantized_layers", "conv1=int4", "quantized_layers of conv1"),
        ("quantized_layers", '{"": "int8"}', "tensor"),
        ("quantized_layers", "a=int8; a=int16", "tensor names"),
        ("quantized_ranges", "a=1", "minimum"),
        ("quantized_ranges", "a=1,1", "larger maximum"),
        ("quantized_ranges", '{"a": [0, NaN]}', "larger maximum"),
        ("epochs", "0", "at least 1"),
        ("rknn_batch_size", "0", "at least 1"),
        ("inputs_yuv_fmt", "nv12", "not supported"),
        ("quantized_hybrid_level", "2", "quantized_hybrid_level"),
    ],
)
def test_text_that_does_not_fit_is_refused_with_reason(name: str, text: str, says: str) -> None:
    with pytest.raises(RecipeError) as caught:
        option(name).parse(text)
    assert name in caught.value.what
    assert says in caught.value.what
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("quantized_algorithm", "gdq", "accurate"),
        ("quantized_algorithm", "moving_average", "normal"),
        ("quantized_method", "group32", "w4a16"),
        ("pre_compile", "yes", "simulated"),
    ],
)
def test_what_only_the_vendors_code_names_is_refused_with_its_reason(
    name: str, text: str, why: str
) -> None:
    with pytest.raises(RecipeError, match="not supported") as caught:
        option(name).parse(text)
    assert why in caught.value.cause
    assert why in check_values({name: option(name).kind == "bool" or text})[1][name]


def test_values_of_python_callers() -> None:
    """Callers pass tuples, numpy arrays and flat lists [RKNN-T2 1.1.0, 3.4]."""
    assert option("mean_values").check(np.array([127, 127, 127])) == [[127, 127, 127]]
    assert option("mean_values").check((1, 2, 3)) == [[1, 2, 3]]
    assert option("mean_values").check([[np.float32(1), np.int64(2)]]) == [[1, 2]]
    assert option("optimization_level").check(np.int64(2)) == 2
    assert option("input_initial_val").check("a.npy") == ["a.npy"]
    for wrong in (True, [[True]], "127", {"a": 1}, [["1"]], [10**400], [[]], []):
        with pytest.raises(RecipeError):
            option("mean_values").check(wrong)
    with pytest.raises(RecipeError, match="very large"):
        option("optimization_level").check([10**5000])


names = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=12)
finite = st.floats(-1e30, 1e30, allow_nan=False)
VALUES = {
    "bool": st.booleans(),
    "int": st.integers(1, 3),
    "float": st.floats(0, 1),
    "code": st.lists(names.map(lambda name: f"{name}.py:Class"), min_size=1, max_size=2),
    "path": names.filter(lambda s: s == s.strip()),
    "text": names.filter(lambda s: s == s.strip()),
    "names": st.lists(names, min_size=1, max_size=4),
    "shapes": st.lists(st.lists(st.integers(1, 4096), max_size=5), min_size=1),
    "channels": st.lists(
        st.lists(finite.filter(lambda x: abs(x) > 1e-20), min_size=1, max_size=4),
        min_size=1,
        max_size=3,
    ),
    "flags": st.one_of(st.booleans(), st.lists(st.booleans(), min_size=1, max_size=3)),
    "paths": st.lists(st.one_of(st.none(), names), min_size=1, max_size=3),
    "shape_sets": st.lists(
        st.lists(st.lists(st.integers(1, 4096), max_size=5), min_size=1, max_size=2),
        min_size=1,
        max_size=3,
    ),
    "ranges": st.dictionaries(
        names,
        st.lists(finite, min_size=2, max_size=2, unique=True).map(sorted),
        min_size=1,
        max_size=3,
    ),
}


def _values(declared: Option) -> st.SearchStrategy[Any]:
    if declared.role == "refused":
        return st.just(declared.default)
    if declared.kind == "mapping":
        return st.dictionaries(names, st.sampled_from(declared.choices), min_size=1, max_size=3)
    if declared.name == "channel_mean_value":
        return VALUES["channels"].map(lambda rows: [[0.0, *row] for row in rows])
    if declared.name == "reorder_channel":
        return st.lists(st.permutations([0, 1, 2]), min_size=1, max_size=3)
    return st.sampled_from(declared.choices) if declared.choices else VALUES[declared.kind]


@given(st.data())
def test_rendered_text_parses_back(data: st.DataObject) -> None:
    declared = data.draw(st.sampled_from(OPTIONS))
    value = declared.check(data.draw(_values(declared)))
    text = declared.render(value)
    assert declared.check(declared.parse(text)) == value
    assert declared.check(json.loads(json.dumps(value))) == value


def test_check_values_names_every_problem() -> None:
    checked, problems = check_values({"mean_valeus": 1, "optimization_level": 9, "model": "x.onnx"})
    assert checked == {"model": "x.onnx"}
    assert set(problems) == {"mean_valeus", "optimization_level"}
    assert "'mean_values'" in problems["mean_valeus"]


def test_every_value_of_a_list_has_a_line_and_a_dtype_names_its_chips() -> None:
    for o in OPTIONS:
        if o.kind == "choice":
            assert set(o.about) == set(o.choices), o.name
            assert all(text.endswith(".") for text in o.about.values()), o.name
    for dtype, text in option("quantized_dtype").about.items():
        told = set(text.rstrip(".").split())
        for chip in chips():
            assert (chip.name in told) == (dtype in chip.dtypes), (dtype, chip.name)


def test_an_option_tells_whom_it_concerns_and_is_found_by_words() -> None:
    first, second = option("channel_mean_value"), option("compress_weight")
    assert [first.concerns("onnx", generation) for generation in (0, 1, 2)] == [True, True, False]
    assert [second.concerns("onnx", generation) for generation in (0, 1, 2)] == [True, False, True]
    of_caffe = next(one for one in OPTIONS if one.frameworks == ("caffe",))
    assert of_caffe.concerns("caffe", of_caffe.generations[0])
    assert not of_caffe.concerns("onnx", 2)
    assert option("mean_values").mentions("PIXEL subtracted")
    assert option("target_platform").mentions("rk3588s"), "an alias of a choice"
    assert not option("mean_values").mentions("pixel dataset")


def test_arrows_turn_a_value_and_a_dtype_says_whether_the_target_has_it() -> None:
    for name, value, step, turned in (
        ("do_quantization", True, 1, False),
        ("quant_img_RGB2BGR", False, -1, True),
        ("quant_img_RGB2BGR", [True, False], 1, [True, False]),
        ("resize_fit", "stretch", -1, "pad"),
        ("target_platform", None, 1, option("target_platform").choices[0]),
        ("optimization_level", 3, 1, 3),
        ("optimization_level", 3, -1, 2),
        ("rknn_batch_size", None, 1, 1),
        ("mean_values", [[1.0]], 1, [[1.0]]),
    ):
        assert option(name).turned(value, step) == turned, name
    lines = option("quantized_dtype").described("rk3576")
    fitting = {dtype for dtype, line in lines.items() if "✗ not on rk3576" not in line}
    assert fitting == {"w8a8", "w4a16"}
    assert all("✗" not in line for line in option("quantized_dtype").described("").values())
