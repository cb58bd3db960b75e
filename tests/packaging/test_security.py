"""SECURITY.md: every promise names tests, and those are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

_NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def promises(repository: Path) -> list[str]:
    text = (repository / "SECURITY.md").read_text(encoding="utf-8")
    table = text.split("## Promises")[1].split("##")[0]
    return [line for line in table.splitlines() if line.startswith("| **")]


def test_every_promise_has_a_test(repository: Path) -> None:
    rows = promises(repository)
    assert len(rows) > 10
    assert [row for row in rows if not _NAMED.search(row)] == []


def test_the_tests_are_there(repository: Path) -> None:
    for row in promises(repository):
        for file, name in _NAMED.findall(row):
            path = repository / file
            assert path.is_file(), file
            functions = {
                node.name
                for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            }
            assert not name or name in functions, f"{file}::{name}"
            assert any(one.startswith("test_") for one in functions), file


@pytest.mark.parametrize("room", ["engine", "rknntui"])
def test_no_shell_is_started(repository: Path, room: str) -> None:
    """``shell=True``, ``os.system`` and their like are nowhere in the program."""
    wrong = []
    for path in sorted((repository / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            function = node.func
            called = function.id if isinstance(function, ast.Name) else ""
            if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
                called = f"{function.value.id}.{function.attr}"
            shell = any(word.arg == "shell" for word in node.keywords)
            if shell or called in ("os.system", "os.popen", "subprocess.getoutput", "eval", "exec"):
                wrong.append(f"{path.relative_to(repository)}:{node.lineno} {called}")
    assert wrong == []
