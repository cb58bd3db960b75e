"""The agent in C: how strictly it reads, and that the sources are as they are documented."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from engine.base.peers.child import Child
from engine.base.peers.far import Message
from tests.devices.agent.conftest import NATIVE
from tests.safety import ends

pytestmark = pytest.mark.cc


class Listener:
    """An agent that is sent lines that are no requests, and tells what it thinks of them."""

    def __init__(self, program: Path) -> None:
        self.said: list[Message] = []
        self.child = Child([str(program)], dict(os.environ), "The agent", notice=self.said.append)

    def thinks(self, line: bytes) -> str:
        """Why a line is refused."""
        self.said.clear()
        data = memoryview(line + b"\n")
        assert self.child.process.stdin is not None
        with ends():
            while data:
                data = data[self.child.process.stdin.write(data) or 0 :]
                self.child.peer.pump(0)
            while not self.said:
                self.child.peer.pump(0.1)
                assert self.child.peer.open
        (message,) = self.said
        what: str = message["error"]["what"]
        return what.partition("read: ")[2]


@pytest.fixture(scope="module")
def listener(native: Path) -> Iterator[Listener]:
    found = Listener(native)
    yield found
    found.child.end(kill=True)


def good(value: Any, depth: int = 0) -> bool:
    """Whether the agent's bounds hold a value."""
    if isinstance(value, dict):
        return all(good(key) for key in value) and good(list(value.values()), depth)
    if isinstance(value, list):
        return depth < 16 and all(good(item, depth + 1) for item in value)
    if isinstance(value, str):
        return "\0" not in value and not any(0xD800 <= ord(sign) < 0xE000 for sign in value)
    return not isinstance(value, float) or math.isfinite(value)


def refuse(_constant: str) -> Any:
    raise ValueError


def is_json(text: str) -> bool:
    try:
        return good(json.loads(text, parse_constant=refuse))
    except ValueError:
        return False


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=12,
)
SIGNS = st.sampled_from(list('{}[]",:\\u0123456789eE+-.truefalsn \t\x01ü'))


@st.composite
def lines(draw: st.DrawFn) -> str:
    """JSON, or nearly."""
    signs = list(json.dumps(draw(values), ensure_ascii=draw(st.booleans())))
    for _ in range(draw(st.integers(0, 2))):
        place = draw(st.integers(0, len(signs)))
        signs[place : place + draw(st.integers(0, 2))] = draw(st.lists(SIGNS, max_size=2))
    return "".join(signs)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines())
@example('"\\ud83d\\ude00"')
@example('"\\ud83d"')
@example('"\\u0000"')
@example("1e999")
@example("01")
@example("-")
@example("[1,]")
@example("[" * 16 + "]" * 16)
@example("[" * 18 + "]" * 18)
@example('{"a":1,"a":2}')
@example("")
def test_it_reads_json_and_nothing_else(listener: Listener, text: str) -> None:
    if "\n" in text or "\r" in text:
        return
    line = text.encode("utf-8", "surrogatepass")
    wanted = "it is no request." if is_json(text) else "a line is not JSON."
    assert listener.thinks(line) == wanted


def test_lines_have_a_bound(listener: Listener) -> None:
    assert listener.thinks(b"x" * (1 << 20) + b"x") == "a line is too long."
    assert listener.thinks(b"[" + b"1," * 9000 + b"1]") == "a line is not JSON."
    assert listener.thinks(b"[" + b"1," * 8000 + b"1]") == "it is no request."
    assert listener.thinks(b"[" * 100_000) == "a line is not JSON."
    # whatever it has read, it still serves
    with ends():
        answer = listener.child.peer.wait(listener.child.peer.request("close", {}))
    assert answer["result"] == {}


def test_how_it_is_built_is_written_in_it() -> None:
    text = (NATIVE / "agent.c").read_text("utf-8")
    assert "cc -O2 -o agent *.c -ldl -lpthread -lm" in text
    assert "python -m ziglang cc -target aarch64-linux-gnu.2.17" in text
