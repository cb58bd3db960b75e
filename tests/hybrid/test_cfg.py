"""The .quantization.cfg of both generations: the documented layout, tolerant reading, faults."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.base.errors import RecipeError
from engine.hybrid import HybridConfig, parse_config, render_config
from engine.hybrid.cfg_reader import Problem, problems_error, read_config
from engine.hybrid.cfg_writer import Entry

# rknn_format.md section 8, observed of toolkit 2.3.2
SECOND = """\
custom_quantize_layers:
    model/dw:0: float16
quantize_parameters:
    c1:
        qtype: asym
        qmethod: layer
        dtype: int8
        min:
        -   0.0
        max:
        -   5.6529316902160645
        scale:
        -   0.02216835956947476
        zero_point:
        -   -128
        ori_min:
        -   -4.826945781707764
        ori_max:
        -   5.6529316902160645
"""
# [RKNN-T1 1.3.2, 3.3.2], with the underscores and dashes that the text lost
FIRST = """\
%YAML 1.2
---
# add layer name and corresponding quantized_dtype to customized_quantize_layers, e.g \
conv2_3: float32
customized_quantize_layers: {}
quantize_parameters:
    '@attach_concat_1/out0_0:out0':
        dtype: asymmetric_affine
        method: layer
        max_value:
        -   10.097497940063477
        min_value:
        -   -52.340476989746094
        zero_point:
        -   214
        scale:
        -   0.24485479295253754
        qtype: u8
    '@FeatureExtractor/MobilenetV2/Conv/Conv2D_230:bias':
        dtype: asymmetric_affine
        method: layer
        max_value: []
        min_value: []
        zero_point:
        -   0
        scale:
        -   0.00026041566161438823
        qtype: i32
    '@softmax_4:out0':
        dtype: None
"""
# [RKNN-T2 1.1.0, 3.3.2], as the extracted text has it: blanks, no dashes
MANUAL = """\
custom_quantize_layers: {}
quantize parameters:
    Preprocessor/sub:0:
         qtype: asymmetric_quantized
         qmethod: layer
         dtype: int8
         min:
              -1.0
         max:
              1.0
         scale:
              0.00784313725490196
         zero point:
              0
         ori_min:
              -1.0
         ori max:
             1.0
"""


def second() -> HybridConfig:
    entry = Entry(
        "c1",
        "int8",
        minimum=(0.0,),
        maximum=(5.6529316902160645,),
        scale=(0.02216835956947476,),
        zero_point=(-128.0,),
        observed_minimum=(-4.826945781707764,),
        observed_maximum=(5.6529316902160645,),
    )
    return HybridConfig(2, {"model/dw:0": "float16"}, {"c1": entry})


def first() -> HybridConfig:
    out = Entry(
        "@attach_concat_1/out0_0:out0",
        "u8",
        minimum=(-52.340476989746094,),
        maximum=(10.097497940063477,),
        scale=(0.24485479295253754,),
        zero_point=(214.0,),
    )
    key = "@FeatureExtractor/MobilenetV2/Conv/Conv2D_230:bias"
    bias = Entry(key, "i32", scale=(0.00026041566161438823,), zero_point=(0.0,))
    entries = {entry.key: entry for entry in (out, bias, Entry("@softmax_4:out0", ""))}
    return HybridConfig(1, {}, entries)


@pytest.mark.parametrize(("config", "text"), [(second(), SECOND), (first(), FIRST)])
def test_the_layout_is_that_of_the_vendor(config: HybridConfig, text: str) -> None:
    assert render_config(config) == text


@pytest.mark.parametrize(("config", "text"), [(second(), SECOND), (first(), FIRST)])
def test_what_is_written_is_read_back(config: HybridConfig, text: str) -> None:
    read, problems = parse_config(text.encode())
    assert problems == []
    assert (read.generation, dict(read.layers)) == (config.generation, dict(config.layers))
    for key, entry in config.entries.items():
        ours = vars(read.entries[key])
        assert {**ours, "line": 0} == vars(entry)
    lines = text.split("\n")
    for entry in read.entries.values():
        assert entry.key in lines[entry.line - 1]


def test_the_manuals_own_example_is_read() -> None:
    read, problems = parse_config(MANUAL.encode())
    assert problems == []
    entry = read.entries["Preprocessor/sub:0"]
    assert (entry.scheme, entry.dtype, entry.minimum, entry.maximum) == (
        "asym",
        "int8",
        (-1.0,),
        (1.0,),
    )
    assert (entry.zero_point, entry.observed_maximum) == ((0.0,), (1.0,))


def test_a_remark_of_the_proposal_stays_a_comment() -> None:
    text = render_config(second(), "y 30.1 -> 33.4 dB\nnot: a key")
    assert text.splitlines()[0] == "custom_quantize_layers:    # y 30.1 -> 33.4 dB not: a key"
    assert parse_config(text.encode())[1] == []


NAMES = st.text(st.characters(blacklist_categories=("Cs",)), min_size=1, max_size=30).filter(
    lambda name: name == name.strip() or name.isprintable()
)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False, width=32)


@settings(max_examples=60)
@given(name=NAMES, low=NUMBERS, scale=NUMBERS, generation=st.sampled_from([1, 2]))
def test_any_name_and_number_survives(name: str, low: float, scale: float, generation: int) -> None:
    dtype = "u8" if generation == 1 else "int8"
    entry = Entry(name, dtype, minimum=(low,), maximum=(0.0,), scale=(scale,), zero_point=(-3.0,))
    text = render_config(HybridConfig(generation, {name: "float16"}, {name: entry}))
    read, problems = parse_config(text.encode("utf-8"))
    assert problems == []
    assert list(read.layers) == [name]
    again = read.entries[name]
    assert (again.minimum, again.scale, again.zero_point) == ((low,), (scale,), (-3.0,))
    # other programs read the same
    plain = yaml.safe_load(text)["quantize_parameters"]
    assert next(iter(plain.values()))["scale"] == [scale]


@settings(max_examples=60)
@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    config, problems = parse_config(content)
    assert problems or set(config.layers) <= set(config.lines)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("a: &x 1\nb: *x", 1, "Anchors"),
        ("[" * 50, 1, "nested deeper"),
        ("custom_quantize_layers: {}\n---\na: 1", 2, "more than one"),
        ("custom_quantize_layers: {a: float16, a: int8}", 1, "twice"),
        ("custom_quantise_layers: {}", 1, "custom_quantize_layers"),
        ("- 1\n- 2", 1, "has the keys"),
        ("custom_quantize_layers: {a: }", 1, "needs a dtype"),
        (SECOND.replace("-   0.0\n", "-   .nan\n", 1), 9, "finite"),
        (SECOND.replace("-   0.0\n", "-   many\n", 1), 9, "not a number"),
        (SECOND.replace("qtype: asym", "qtype: asim"), 4, "asym"),
        (SECOND.replace("        min:", "        mim:"), 8, "min"),
        ("custom_quantize_layers: {\n", 2, "not YAML"),
        ("\xff".encode("latin-1").decode("latin-1"), 0, ""),
    ],
)
def test_problems_have_their_line_and_the_nearest_name(text: str, line: int, said: str) -> None:
    _, problems = parse_config(text.encode("utf-8"))
    assert problems
    assert any((not line or p.line == line) and said in p.message for p in problems), problems


def nested(levels: int) -> bytes:
    return b"custom_quantize_layers: " + b"[" * (levels - 1) + b"]" * (levels - 1)


def test_nesting_has_a_limit() -> None:
    for levels, refused in ((6, False), (7, True)):
        _, problems = parse_config(nested(levels))
        assert any("deeper than 6" in p.message for p in problems) == refused


@pytest.mark.long
def test_the_number_of_entries_has_a_limit() -> None:
    _, problems = parse_config(b"a: [" + b"1," * 2_000_001 + b"]")
    assert [p.message for p in problems] == ["It has more than 2000000 entries."]


def test_a_file_of_more_than_32_mib_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "m.quantization.cfg"
    with path.open("wb") as file:
        file.truncate((32 << 20) + 1)
    with pytest.raises(RecipeError) as raised:
        read_config(path)
    assert raised.value.what.endswith("is read up to 33554432.")


def test_eight_problems_are_written_out() -> None:
    problems = [Problem(line, "wrong") for line in range(1, 10)]
    text = problems_error("m.cfg", problems).what
    assert (text.count("wrong"), text.endswith("; and 1 more.")) == (8, True)
    assert "more" not in problems_error("m.cfg", problems[:8]).what
