"""A layer in words, of a real build and of figures that stand out."""

from __future__ import annotations

from dataclasses import replace

import pytest

import engine
from engine.wire.devices import LayerTime
from engine.wire.layers import layers_of
from engine.wire.model import LayerSpread, Saturation, TensorRange
from rknntui.demo import demo_recipe
from tests.api.test_layer_table import COSTS, error


def test_a_layer_of_the_demo_says_what_it_is_and_its_values_are() -> None:
    built = engine.build_model(engine.Recipe.from_values(demo_recipe()))
    recipe = engine.Recipe.from_values(demo_recipe("rk3588"))
    report = engine.analyse_model(built)
    rows = engine.layer_table(report, engine.estimate(recipe, ["rk3588"])).rows
    row = next(row for row in rows if row.first("op") == "Gemm")
    figures = list(engine.layer_figures(row))
    assert [text.split()[-1] for text in figures[:2]] == ["simulated", "estimated"]
    assert figures[2] in ("NPU", "CPU")
    assert any("of the error is introduced here" in text for text in engine.layer_facts(row))
    values = engine.layer_values(built, row.first("tensor"), bins=16)
    assert sum(values.golden) == sum(values.simulated) > 0
    assert len(values.golden) == 16
    facts = list(engine.value_facts(values))
    assert facts[0].startswith(f"over {values.samples} samples: SQNR ")
    assert facts[-1] == "no clipping"
    with pytest.raises(engine.UsageError):
        engine.layer_values(built, "no such tensor")


def test_what_makes_an_error_large_is_said() -> None:
    (row,) = layers_of("error", [error("a", 12.0, added_share=0.1, isolated=None)])
    quant = TensorRange("int8", (0.1,), (3,), None, (-1.0,), (1.0,))
    ends = (-2.0, 2.0, (1, 2), (1, 2), (-2.0, 2.0), quant, Saturation(0.1, 0.2))
    values = LayerSpread("a_out", "a", "Conv", 4, *ends, 12.0, None, (1.0, 0.01, 0.9))
    assert list(engine.error_causes(row, values)) == [
        "90.00 % of its error comes from the layers before",
        "30.00 % of its values are clipped",
        "1 of 3 channels use less than 10.00 % of the range",
    ]
    assert list(engine.value_facts(values))[2:] == [
        "int8, scale 0.1, zero point 3", "integer range -1 to 1", "30.00 % of them clipped",
    ]  # fmt: skip
    plain = replace(values, quant=replace(quant, dtype="float16", minimum=None), saturation=None)
    assert list(engine.value_facts(plain))[2:] == ["float16, no scale"]
    assert list(engine.error_causes(None, replace(plain, channels=()))) == []
    (fused, *_) = layers_of("error", [error("b", 30.0)])
    assert list(engine.layer_facts(fused)) == ["fused into the next layer"]
    (planned, *_) = layers_of("estimated", COSTS.layers)
    assert list(engine.layer_figures(planned)) == ["1.500 ms estimated", "NPU"]
    untimed = replace(planned, measured=LayerTime(target="NPU"), label="measured")
    assert next(engine.layer_figures(untimed)) == "1.500 ms estimated", "the board told no time"
    assert engine.marked_sqnr(12.0) == "!12.00 dB"
