"""Edits of the configuration: honoured, or refused with line and nearest name."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from engine.base.errors import RecipeError
from engine.hybrid import (
    Edits,
    Layers,
    build_config,
    check_edits,
    edits_of,
    parse_config,
    render_config,
    verify_requests,
)
from engine.hybrid.cfg_reader import Problem
from engine.hybrid.cfg_writer import Entry, HybridConfig
from engine.quantize import QuantizeSettings, calibrate, quantize
from engine.quantize.checks import check_range
from tests.hybrid.nets import chain

GRAPH, FEEDS = chain()
SEEN = calibrate(GRAPH, FEEDS)
LAYERS = Layers(GRAPH)
FIRST = LAYERS.all[0].tensor


def text_of(generation: int = 2) -> str:
    dtype = "asymmetric_quantized-u8" if generation == 1 else "w8a8"
    built = quantize(GRAPH, SEEN, QuantizeSettings(dtype=dtype, granularity="layer"))
    return render_config(build_config(LAYERS, built.table, generation))


def read(text: str, generation: int = 2) -> tuple[Edits, list[Problem]]:
    written, none = parse_config(text_of(generation).encode())
    config, problems = parse_config(text.encode())
    assert none == problems == []
    return check_edits(config, written, LAYERS)


def replaced(text: str, key: str, name: str, value: str) -> str:
    """The text with another number below ``name`` of an entry."""
    head = f"    {key}:\n" if f"    {key}:\n" in text else f"    '{key}':\n"
    start = text.index(head) + len(head)
    after = re.sub(rf"(        {name}:\n        -   ).*", rf"\g<1>{value}", text[start:], count=1)
    return text[:start] + after


def test_an_unchanged_file_asks_for_nothing() -> None:
    for generation in (1, 2):
        edits, problems = read(text_of(generation), generation)
        assert (problems, edits.layers, edits.ranges, edits.findings) == ([], {}, {}, ())


def lifted(text: str, entry: str) -> str:
    return re.sub(r"(custom\w*_quantize_layers:) \{\}", rf"\1\n    {entry}", text)


@pytest.mark.parametrize(
    ("generation", "entry", "dtype"),
    [
        (2, f"{FIRST}: float16", "float16"),
        (2, f"{FIRST}: int16", "int16"),
        (1, f"{LAYERS.all[0].id}: float32", "float32"),
        (1, f"{LAYERS.all[0].id}: dynamic_fixed_point-i16", "dynamic_fixed_point-i16"),
    ],
)
def test_a_dtype_is_honoured_in_the_build(generation: int, entry: str, dtype: str) -> None:
    edits, problems = read(lifted(text_of(generation), entry), generation)
    assert problems == []
    assert edits.layers == {LAYERS.all[0].id: dtype}
    base = "asymmetric_quantized-u8" if generation == 1 else "w8a8"
    built = quantize(GRAPH, SEEN, QuantizeSettings(dtype=base, layers=edits.layers))
    (row,) = verify_requests(built, edits.layers, lines=edits.lines)
    assert (row.asked, row.got, row.ok) == (dtype, dtype, True)
    assert row.line > 0


def test_a_dtype_in_the_parameters_counts_too() -> None:
    text = text_of()
    start = text.index(f"    {FIRST}:")
    changed = text[:start] + text[start:].replace("dtype: int8", "dtype: float16", 1)
    edits, problems = read(changed)
    assert (problems, edits.layers) == ([], {LAYERS.all[0].id: "float16"})


def test_float32_is_told_to_be_float16() -> None:
    edits, _ = read(lifted(text_of(), f"{FIRST}: float32"))
    assert [found.code for found in edits.findings] == ["hybrid-float32-is-float16"]


@pytest.mark.parametrize("generation", [1, 2])
def test_a_range_is_honoured_in_the_build(generation: int) -> None:
    key = FIRST if generation == 2 else f"@{LAYERS.all[0].id}_1:out0"
    name = "max" if generation == 2 else "max_value"
    edits, problems = read(replaced(text_of(generation), key, name, "1.5"), generation)
    assert problems == []
    assert edits.ranges == {FIRST: (0.0, 1.5)}
    # scale and zero point still are those of the old range: that is told
    assert [found.code for found in edits.findings] == ["hybrid-parameters-disagree"]
    built = quantize(GRAPH, SEEN, QuantizeSettings(ranges=edits.ranges))
    (row,) = verify_requests(built, {}, edits.ranges, edits.lines)
    assert row.ok
    assert row.got == "0 to 1.5"
    assert built.table[FIRST].scale[0] == pytest.approx(1.5 / 255, rel=1e-6)


def test_a_changed_scale_means_its_range() -> None:
    edits, problems = read(replaced(text_of(), FIRST, "scale", "0.01"))
    assert problems == []
    low, high = edits.ranges[FIRST]
    assert (low, high) == pytest.approx((0.0, 2.55))


def test_a_range_that_the_build_shares_is_told() -> None:
    built = quantize(GRAPH, SEEN, QuantizeSettings())
    (row,) = verify_requests(built, {}, {FIRST: (0.0, 1e6)})
    assert not row.ok
    assert "0 to 1e+06" in row.asked


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (1.0, -1.0, "above"),
        (1.0, 2.0, "0 is not in"),
        (-2.0, -1.0, "0 is not in"),
        (0.0, 0.0, "nothing lies between"),
        (float("nan"), 1.0, "not finite"),
        (0.0, float("inf"), "not finite"),
        (0.0, 1e39, "float32 ends"),
        (0.0, 1e-40, "narrower"),
        (-1.0, 1.0, ""),
        (0.0, 1e-30, ""),
    ],
)
def test_ranges_that_cannot_be(low: float, high: float, said: str) -> None:
    fault = check_range(low, high)
    assert bool(fault) == bool(said)
    assert said in fault


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (lifted(text_of(), f"{FIRST[:-1]}: float16"), FIRST),
        (lifted(text_of(), f"{FIRST}: float61"), "float16"),
        (lifted(text_of(), "nowhere_at_all: float16"), "nowhere_at_all"),
        (replaced(text_of(), FIRST, "max", "-7.0"), "above max"),
        (replaced(text_of(), FIRST, "min", "0.5"), "0 is not"),
        (text_of().replace(f"    {FIRST}:", f"    {FIRST}x:"), FIRST),
    ],
)
def test_what_cannot_be_is_refused_with_its_line(text: str, said: str) -> None:
    _, problems = read(text)
    assert any(said in problem.message and problem.line > 0 for problem in problems), problems


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    text = lifted(text_of(), f"{FIRST}: floaty\n    nothing: int8")
    path = tmp_path / "m.quantization.cfg"
    path.write_text(text)
    written, _ = parse_config(text_of().encode())
    with pytest.raises(RecipeError, match=r"line 2: .*line 3: ") as raised:
        edits_of(parse_config(text.encode())[0], written, LAYERS, str(path))
    assert "no file was changed" in raised.value.remedy
    assert path.read_text() == text


def test_weights_of_generation_1_keep_their_parameters() -> None:
    key = f"@{LAYERS.all[0].id}_1:weight"
    _, problems = read(replaced(text_of(1), key, "max_value", "9.0"), 1)
    assert ["follow from its weights" in problem.message for problem in problems] == [True]


def test_a_file_of_nothing_but_wrong_names_is_given_up_soon() -> None:
    lines = "".join(f"    nowhere_{n}: float16\n" for n in range(3000))
    config, none = parse_config(f"custom_quantize_layers:\n{lines}".encode())
    _, problems = check_edits(config, config, LAYERS)
    assert none == []
    assert len(problems) == 1000


@pytest.mark.parametrize(("share", "told"), [(0.0009, False), (0.0011, True)])
def test_min_and_max_may_be_a_thousandth_off_their_scale(share: float, told: bool) -> None:
    """Of 16 bits, whose step is smaller than that."""
    entry = Entry(FIRST, "int16", minimum=(-1.0,), maximum=(1.0,), scale=(2 / 65535,),
                  zero_point=(0,), line=3)  # fmt: skip
    written = HybridConfig(2, entries={FIRST: entry})
    edited = replace(entry, maximum=(1.0 + 2 * share,))
    edits, problems = check_edits(HybridConfig(2, entries={FIRST: edited}), written, LAYERS)
    assert problems == []
    assert [found.code for found in edits.findings] == ["hybrid-parameters-disagree"] * told


@pytest.mark.parametrize(("share", "ok"), [(0.0075, True), (0.0085, False)])
def test_a_range_of_a_build_may_be_half_a_step_off(share: float, ok: bool) -> None:
    built = quantize(GRAPH, SEEN, QuantizeSettings(ranges={FIRST: (0.0, 1.5)}))
    (row,) = verify_requests(built, {}, {FIRST: (0.0, 1.5 * (1 + share))})
    assert row.ok == ok
