"""The codec of the wire: what goes in comes out, and what does not fit is named."""

from __future__ import annotations

import contextlib
import json
from dataclasses import FrozenInstanceError, dataclass, replace
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import UsageError, WorkerError
from engine.base.events import LogLine
from engine.base.plain import Values
from engine.wire.codec import Key, Omit, Text, Whole, encode, read_answer, read_request
from engine.wire.method import Part
from engine.wire.model import OPEN
from engine.wire.requests import AtPath, ModelTarget


@dataclass(frozen=True, slots=True)
class Leaf:
    name: str
    value: float | None


@dataclass(frozen=True, slots=True)
class Longer(Leaf):
    more: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    path: Text
    count: Annotated[int, Whole(1, 9)] = 5
    which: Literal["one", "two"] = "one"
    leaves: tuple[Leaf | Longer, ...] = ()
    pair: tuple[int, str] | None = None
    by_name: dict[str, Leaf] | None = None
    floor: float | dict[str, float] | None = None
    given: Annotated[float, Key("float")] = 0.0
    extra: Omit[int] = None
    values: Values | None = None
    on: bool = False


def full() -> Tree:
    return Tree(
        path="p",
        leaves=(Leaf("a", None), Longer("b", 1.5, 2)),
        pair=(1, "x"),
        by_name={"k": Leaf("c", 2)},
        floor={"o": 3.5},
        values={"any": [1, {"thing": None}]},
    )


def test_what_is_written_is_read_again_by_the_names_in_json() -> None:
    data = json.loads(json.dumps(encode(full())))
    assert data["float"] == 0.0
    assert "extra" not in data
    assert data["pair"] == [1, "x"]
    assert read_request(Tree, data) == full()
    assert encode(Tree(path="p", extra=3))["extra"] == 3


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ({}, "The request needs path, a text."),
        ({"path": ""}, "The request needs path, a text."),
        ({"path": 3}, "The request needs path, a text."),
        ({"path": "p", "count": 10}, "count is a whole number from 1 to 9."),
        ({"path": "p", "count": True}, "count is a whole number from 1 to 9."),
        ({"path": "p", "which": "{x}"}, "which is {x}; it is one of one, two."),
        ({"path": "p", "on": 1}, "on is true or false."),
        ({"path": "p", "leaves": {}}, "leaves is a list."),
        ({"path": "p", "leaves": [{"name": 1, "value": 1}]}, "leaves[0].name is a text."),
        ({"path": "p", "pair": [1]}, "pair is a list of 2 values."),
        ({"path": "p", "by_name": {"k": 1}}, "by_name.k is an object."),
        ({"path": "p", "cuont": 1}, "There is no cuont here. Did you mean 'count' or 'on'?"),
        ([], "it is an object."),
    ],
)
def test_what_does_not_fit_is_named(data: Any, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_request(Tree, data)
    assert caught.value.what == told


def test_an_answer_that_does_not_fit_is_the_workers_fault() -> None:
    with pytest.raises(WorkerError, match="versions"):
        read_answer(Tree, {"path": "p", "new": 1})


def test_options_of_a_source_stand_beside_the_path_and_others_are_refused() -> None:
    asked = read_request(ModelTarget, {"path": "m", "outputs": ["o"], "recipe": None})
    assert asked == ModelTarget("m", source={"outputs": ["o"]})
    assert encode(asked) == {"path": "m", "recipe": None, "outputs": ["o"]}
    with pytest.raises(UsageError, match="quantized_dtype"):
        read_request(OPEN.params, {"path": "m", "quantized_dtype": "w8a8"})


def test_a_piece_is_told_as_an_event_and_read_from_it() -> None:
    part = Part("toy.leaf", Leaf)
    assert part.of(part.event(Leaf("a", 1.0))) == Leaf("a", 1.0)
    assert part.of(LogLine("x")) is None


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=9,
)
NAMES = st.sampled_from(["path", "count", "which", "leaves", "pair", "by_name", "floor", "float"])


@given(st.dictionaries(NAMES | st.text(max_size=3), PLAIN, max_size=5) | PLAIN)
def test_any_plain_data_is_read_or_refused_in_words(data: Any) -> None:
    with contextlib.suppress(UsageError):
        assert isinstance(read_request(Tree, data), Tree)


def test_a_record_is_a_frozen_dataclass() -> None:
    asked = ModelTarget("m")
    assert replace(asked, path="n") == ModelTarget(path="n") != asked
    assert repr(asked) == "ModelTarget(path='m', recipe=None, source={})"
    assert hash(AtPath("m")) == hash(AtPath("m"))
    with pytest.raises(FrozenInstanceError):
        asked.path = "n"  # type: ignore[misc]
    for wrong in (lambda: AtPath("m", "n"), AtPath, lambda: AtPath("m", paht="n")):
        with pytest.raises(TypeError):
            wrong()
