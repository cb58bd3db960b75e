"""The far end is one file of standard library in the language of Python 3.5, and runs elsewhere."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.peers import far
from engine.base.peers.far import Lines, ProtocolError, decode, encode
from tests.base.peers.conftest import TOY, toy_child
from tests.safety import ran

OTHERS = sorted(Path.home().glob(".pyenv/versions/3.*/bin/python"))


@pytest.mark.parametrize("path", [Path(far.__file__), TOY], ids=lambda p: p.name)
def test_it_is_in_the_language_of_python_3_5(path: Path) -> None:
    for newer in ("x: int = 1", "1_000"):
        with pytest.raises(SyntaxError):
            ast.parse(newer, feature_version=(3, 5))
    tree = ast.parse(path.read_text("utf-8"), feature_version=(3, 5))
    nodes = list(ast.walk(tree))
    # the parser of Python 3.12 and later takes f-strings whatever the version
    assert not [n for n in nodes if isinstance(n, ast.JoinedStr)]
    named = {a.name for n in nodes if isinstance(n, ast.Import) for a in n.names}
    named |= {n.module or "" for n in nodes if isinstance(n, ast.ImportFrom)}
    assert "__future__" not in named
    assert {name.partition(".")[0] for name in named} <= sys.stdlib_module_names
    # generic builtins and unions in annotations are evaluated, and 3.5 has neither
    names = [n.value for n in nodes if isinstance(n, ast.Subscript)]
    builtin = {"dict", "list", "set", "tuple", "type"}
    assert not [n for n in names if isinstance(n, ast.Name) and n.id in builtin]


@pytest.mark.parametrize("python", OTHERS, ids=lambda p: p.parent.parent.name)
def test_it_runs_in_other_pythons(python: Path) -> None:
    version = [int(part) for part in python.parent.parent.name.split(".")[:2]]
    child = toy_child(str(python))
    peer = child.peer
    steps: list[far.Message] = []
    try:
        assert peer.wait(peer.request("python", {}))["result"] == {"version": version}
        assert peer.greeting["protocol"] == far.PROTOCOL
        assert peer.greeting["pid"] == child.process.pid
        call = peer.request("count", {"to": 3}, steps.append)
        assert peer.wait(call)["result"] == {"counted": 3}
        assert [message["step"] for message in steps] == [0, 1, 2]
        found = peer.wait(peer.request("odd", {}))["result"]
        assert found == {"nan": None, "text": "ü\x1b", "inf": [None, 1.5]}
        call = peer.request("spin", {})
        peer.cancel(call)
        assert peer.wait(call)["error"]["kind"] == "cancelled"
        assert "ZeroDivisionError" in peer.wait(peer.request("mistake", {}))["error"]["what"]
        child.end(kill=False)
        assert child.process.returncode == 0
    finally:
        child.end(kill=True)


def test_lines_of_the_protocol() -> None:
    assert decode(encode({"a": float("inf"), "b": ["ü"]})) == {"a": None, "b": ["ü"]}
    for bad in (b"", b"[1]", b"{", b"\xff\xfe", b"[" * 100_000):
        with pytest.raises(ProtocolError):
            decode(bad)


@given(st.lists(st.binary(max_size=12)), st.lists(st.integers(1, 9), min_size=1))
def test_lines_are_the_same_however_they_arrive(lines: list[bytes], cuts: list[int]) -> None:
    lines = [line.replace(b"\n", b"") for line in lines]
    data = b"".join(line + b"\n" for line in lines)
    reader, found, place = Lines(limit=8), [], 0
    for number in range(len(data)):
        size = cuts[number % len(cuts)]
        found += reader.feed(data[place : place + size])
        place += size
    assert found == [line if len(line) <= 8 else None for line in lines]


def test_a_line_without_end_takes_no_memory() -> None:
    reader = Lines(limit=100)
    for _ in range(1000):
        assert reader.feed(b"x" * 1000) == []
    assert reader.overlong
    assert not reader._parts
    assert reader.feed(b"\n{}\n") == [None, b"{}"]
    assert not reader.overlong


@pytest.mark.parametrize(
    ("how", "said"),
    [
        # what CPython does where a new thread has no memory for its first steps (cpython#140746)
        ("far._thread.start_new_thread = lambda function, arguments: None", ""),
        ("far.FarEnd._read = fail", "MemoryError"),
        ("far.FarEnd._write = fail", "MemoryError"),
    ],
)
def test_a_process_ends_where_a_thread_of_it_cannot_go_on(how: str, said: str) -> None:
    script = f"""
import os
from engine.base.peers import far
def fail(self):
    raise MemoryError
far._START_SECONDS = 0.2
{how}
far.FarEnd(*os.pipe()).serve({{}})
"""
    done = ran(sys.executable, "-c", script, stdin=subprocess.PIPE, timeout=60)
    assert done.returncode == far.BROKEN
    assert said in done.stderr
