"""Promotion as data: dtypes and ranges that a recipe asks for layers, and the form that asks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.wire.hybrid import Ranked
from engine.wire.layers import layers_of
from rknntui.screens.layers.edits import LayerChoice
from rknntui.session.promotion import (
    LayerEdits,
    by_layer,
    parse_range,
    toggled,
    with_dtype,
    with_integers,
)
from rknntui.session.state import Session
from tests.tui.flow import read_form
from tests.tui.test_layers import FLOAT, A, B, row


def test_a_layer_says_what_it_is_promoted_to() -> None:
    assert [row.lift for row in (A, B, FLOAT)] == ["float16", "int16", ""]
    assert replace(B, choices=("int8", "float32")).lift == "float32"
    assert replace(B, choices=("int16",)).lift == ""


def test_a_toggle_lifts_what_can_be_lifted_and_takes_it_back() -> None:
    lifted = toggled({}, [A, B, FLOAT])
    assert lifted == {"a": "float16", "b": "int16"}, "what is float already is left alone"
    assert toggled({"a": "int16"}, [A, B]) == {"a": "int16", "b": "int16"}
    assert toggled({**lifted, "other": "float16"}, [A, B]) == {"other": "float16"}


def test_a_dtype_is_asked_for_only_where_the_layer_has_it_and_it_is_not_its_own() -> None:
    assert with_dtype({}, [A, B], "float16") == {"a": "float16"}
    assert with_dtype({"a": "float16", "b": "int16"}, [A, B], "int8") == {}


@pytest.mark.parametrize(
    ("text", "pair"), [("-1 2.5", [-1, 2.5]), ("0, 6", [0, 6]), ("  ", None), ("-3;1e2", [-3, 100])]
)
def test_a_range_is_read_as_it_is_typed(text: str, pair: list[float] | None) -> None:
    assert parse_range(text) == pair


@pytest.mark.parametrize("text", ["1", "2 1", "1 1", "a b", "1 2 3", "nan 1", "-inf 1"])
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="range"):
        parse_range(text)


def test_what_becomes_float_loses_its_range() -> None:
    asked = {"a": [0.0, 1.0], "b": [0.0, 2.0], "c": [0.0, 3.0]}
    assert with_integers({"a": "float16", "b": "int16"}, asked) == {
        "b": [0.0, 2.0],
        "c": [0.0, 3.0],
    }


def test_a_recipe_may_name_a_layer_by_any_of_its_names() -> None:
    rows = [A, replace(B, aliases=(*B.aliases, "a_out"))]  # a tensor counts before other names
    for name in A.aliases:
        assert by_layer({name: "int16"}, rows) == {"a": "int16"}, name
    assert by_layer({"nobody": "int16", "b_relu": "int8"}, rows) == {"nobody": "int16", "b": "int8"}


def test_a_form_of_a_layer_has_its_dtype_and_its_range() -> None:
    asked = read_form(LayerChoice("int8"), {"dtype": "int16", "reach": "-1, 6"})
    assert asked == LayerChoice("int16", [-1.0, 6.0])
    assert read_form(asked, {"reach": ""}) == LayerChoice("int16")


def test_edits_change_the_recipe_and_forget_their_marks() -> None:
    session = Session(lambda _: None)
    edits = LayerEdits(session)
    rows = [
        replace(row(name, "int8", "int16", "float16"), aliases=(f"Conv_{name}",)) for name in "abc"
    ]
    assert edits.lift("a"), "nothing is known of it"
    session.built = {"quantized_layers": {"Conv_b": "int16"}}
    session.layers.fill("choice", layers_of("choice", rows))
    assert edits.built == {"b": "int16"}
    session.layers.mark({"a", "b"})
    assert [row.id for row in edits.chosen("c")] == ["a", "b"]
    session.layers.mark({"a"})
    assert edits.lift("c") == ""
    assert edits.layers == {"a": "float16"}
    assert session.layers.marked == set()
    names = {
        "id": "b",
        "tensor": "b_out",
        "op": "Conv",
        "sources": (),
        "gain_db": 2.0,
        "share": 0.5,
    }
    session.layers.fill("proposed", layers_of("proposed", [Ranked(**names, together=("c",))]))
    assert edits.lift("b") == ""
    assert set(edits.layers) == {"a", "b", "c"}, "alone it would gain less"
    assert session.undo()
    edits.ask_for(edits.layers, {"b": [-1.0, 2.0]})
    assert edits.ranges == {"b": [-1.0, 2.0]}
    edits.ask_for({**edits.layers, "b": "float16"})
    assert edits.ranges == {}, "what becomes float has no range"
    assert session.undo()
