"""The text format: what is read, and that every fault names its line."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.base.errors import SourceModelError
from engine.frontends.caffe import prototxt
from engine.frontends.caffe.prototxt import Fields, Message, Scalar, parse

names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
texts = st.text(st.characters(blacklist_categories=("Cs",)), max_size=8)
values = st.recursive(
    st.one_of(st.integers(-(2**31), 2**31 - 1), st.booleans(), texts),
    lambda inner: st.lists(st.tuples(names, inner), max_size=4),
    max_leaves=6,
)
messages = st.lists(st.tuples(names, values), max_size=4)
gaps = st.sampled_from([" ", "\n", "  # a comment\n", " ,\n", ";", "\t"])


def _quoted(text: str) -> str:
    plain = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{plain}"'


def _written(fields: list, gap: str, brackets: str, colon: str) -> str:
    parts = []
    for name, value in fields:
        if isinstance(value, list):
            inner = _written(value, gap, brackets, colon)
            parts.append(f"{name}{colon} {brackets[0]} {inner} {brackets[1]}")
        elif isinstance(value, bool):
            parts.append(f"{name}: {str(value).lower()}")
        else:
            parts.append(f"{name}: {_quoted(value) if isinstance(value, str) else value}")
    return gap.join(parts) + "\n"


def _plain(message: Message) -> list:
    return [
        (name, _plain(value) if isinstance(value, Message) else (value.text, value.quoted))
        for name, value in message.fields
    ]


def _expected(fields: list) -> list:
    return [
        (name, _expected(value))
        if isinstance(value, list)
        else (name, (value, True))
        if isinstance(value, str)
        else (name, (str(value).lower(), False))
        for name, value in fields
    ]


@given(messages, gaps, st.sampled_from(["{}", "<>"]), st.sampled_from(["", ":"]))
@settings(max_examples=30)
def test_whatever_is_written_is_read(fields: list, gap: str, brackets: str, colon: str) -> None:
    text = _written(fields, gap, brackets, colon)
    assert _plain(parse(text, "x")) == _expected(fields)


@given(st.text(max_size=60) | st.text(alphabet='a1:{}<>[],;"\\-.# \n', max_size=60))
@settings(max_examples=100)
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(SourceModelError):
        assert isinstance(parse(text, "net.prototxt"), Message)


def test_forms_of_values() -> None:
    message = parse(
        """
        a: 'x' "y"   # texts that follow each other are one
        b: [1, 2, 0x10]  c < d: -1.5e-3 >  e { f: "tab\\t \\x41\\101 \\q" };
        [my.extension]: 1, g: - 3 h: [ { i: 1 }, { i: 2 } ] j: 1.f
        """,
        "x",
    )
    fields = Fields(message, "x")
    assert fields.text("a") == "xy"
    assert fields.integers("b") == [1, 2, 16]
    assert fields.message("c").number("d", 0) == -0.0015
    assert fields.message("e").text("f") == "tab\t AA q"
    assert fields.integer("[my.extension]", 0) == 1
    assert fields.integer("g", 0) == -3
    assert [part.integer("i", 0) for part in fields.messages("h")] == [1, 2]
    assert fields.number("j", 0) == 1


FAULTS = {
    "a: 1\nb 2": "line 2: '2' stands where",
    "a {\n b: 1": "line 1: '{' is never closed",
    "\n\na: }": "line 3: '}' stands where a value belongs",
    "a: 'x\n'": "line 1",
    "a: [1 2]": "line 1: '2' stands where ',' or ']' belongs",
    "a: \x00": "line 1",
    "a {" * 60: "nested more than 40 deep",
    "1a: 2": "where a field's name belongs",
    "[a": "has no end",
}


@pytest.mark.parametrize("text", FAULTS)
def test_faults_name_the_line(text: str) -> None:
    with pytest.raises(SourceModelError) as caught:
        parse(text, "x")
    assert FAULTS[text] in caught.value.what


def test_the_number_of_fields_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prototxt, "_MAX_FIELDS", 100)
    parse("a: 1 " * 100, "x")
    with pytest.raises(SourceModelError, match="more than 100 fields"):
        parse("a: [" + "1," * 101 + "1]", "x")


TYPES = {
    "integer": ["1.5", "'1'", "a", "1e3", "4294967296", "{}"],
    "number": ["'1.5'", "a", "nan", "inf", "1e39", "{}"],
    "flag": ["2", "'true'", "yes", "{}"],
    "text": ["{}"],
    "message": ["1", "'x'"],
}


@pytest.mark.parametrize(("kind", "text"), [(k, t) for k, ts in TYPES.items() for t in ts])
def test_values_of_another_type_are_refused(kind: str, text: str) -> None:
    fields = Fields(parse(f"\nv: {text}", "x"), "net, layer 'it'")
    read = getattr(fields, kind)
    with pytest.raises(SourceModelError, match="net, layer 'it', line 2: v "):
        read("v") if kind in ("text", "message") else read("v", 0)


def test_what_nobody_asked_for_is_known() -> None:
    fields = Fields(parse("a: 1 b { c: 1 d: 2 } e: 3", "x"), "x")
    fields.integer("a", 0)
    fields.message("b").integer("c", 0)
    fields.ignore("e")
    assert fields.unread() == ["b.d"]
    assert fields.choice("a", {1: "ONE"}, "TWO") == "ONE"
    assert isinstance(parse("a: 1", "x").all("a")[0], Scalar)
