"""Every heading, column and sign of the front ends has an entry in the glossary."""

from __future__ import annotations

import ast
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from engine.accuracy.guide import Verdict
from engine.base.findings import Severity
from engine.jobs.history import State
from engine.wire.names import NOT_EXACT
from engine.wire.project_tables import verdict_word
from scripts.make_column_tables import declared


def entries(repository: Path) -> set[str]:
    """What stands as code in the first cell of a row, and all other code of the page."""
    page = (repository / "docs" / "glossary.md").read_text(encoding="utf-8")
    return set(re.findall(r"`([^`]+)`", page))


def sources(repository: Path) -> Iterator[ast.Module]:
    rooms = [*(repository / "rknntui").rglob("*.py"), *(repository / "engine/reports").glob("*.py")]
    for path in [*sorted(rooms), repository / "engine/report.py"]:
        yield ast.parse(path.read_text(encoding="utf-8"))


def called(node: ast.AST) -> str:
    if not isinstance(node, ast.Call):
        return ""
    return getattr(node.func, "id", getattr(node.func, "attr", ""))


def texts(node: ast.AST | None) -> list[str]:
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    return [p.value for p in parts if isinstance(p, ast.Constant) and isinstance(p.value, str)]


def columns(module: ast.Module) -> Iterator[str]:
    """Headings of columns that no declared table has: of the command line, and signs of a screen.

    ``docs/reference/tables.md`` is made from the declared ones.
    """
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and called(node) == "Column":
            yield from [t for k in node.keywords if k.arg == "name" for t in texts(k.value)]
        elif isinstance(node, ast.Call) and called(node) == "table" and node.args:
            yield from filter(None, texts(node.args[0]))
        elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "columns":
            yield from filter(None, texts(node.value))


def titles(module: ast.Module) -> Iterator[str]:
    """Names of views, heads of panes, of their parts and of a report's sections.

    Without what stands in parentheses or after a comma; a head that is a sentence is a message.
    """
    for node in ast.walk(module):
        found: list[str] = []
        if called(node) == "ViewBar":
            found = views(module, node)
        elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "VIEWS":
            found = [t for key in getattr(node.value, "keys", ()) for t in texts(key)]
        elif isinstance(node, ast.For) and "title" in {
            getattr(n, "id", "") for n in ast.walk(node.target)
        }:
            found = [t for row in getattr(node.iter, "elts", []) for t in texts(row)[1:2]]
        elif isinstance(node, ast.Call) and called(node) in {
            "RecordView",
            "LayerView",
            "Section",
            "_fidelity",
        }:
            found = texts(node.args[0]) or started(node.args[0])
        elif isinstance(node, ast.Tuple) and len(node.elts) == 2 and texts(node)[1:] == ["head"]:
            found = texts(node)[:1]
        for text in found:
            title = re.split(r" \(|, ", text)[0].strip()
            if title and not title.endswith(".") and title != "RKNN TUI":
                yield title


def views(module: ast.Module, bar: ast.AST) -> list[str]:
    """The texts of the tuple, or the keys of the dict, that a bar of views is made from."""
    names = {part.id for part in ast.walk(bar) if isinstance(part, ast.Name)}
    tables = [
        node.value
        for node in module.body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") in names
    ]
    parts = [p for t in tables for p in (t.keys if isinstance(t, ast.Dict) else [t])]
    return [text for part in parts for text in texts(part)]


def started(node: ast.AST) -> list[str]:
    """With what a formatted text begins."""
    return texts(node.values[0]) if isinstance(node, ast.JoinedStr) else []


def notes(module: ast.Module) -> Iterator[str]:
    """Words beside the value of an option: ``changed``."""
    for node in ast.walk(module):
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "note":
            inside = [node.value, *ast.walk(node.value)]
            yield from {t for part in inside if isinstance(part, ast.IfExp) for t in ends(part)}


def ends(choice: ast.IfExp) -> list[str]:
    """The texts that a choice may give."""
    return [t for t in (*texts(choice.body), *texts(choice.orelse)) if t]


def signs(module: ast.Module) -> Iterator[str]:
    """Symbols with which a text begins."""
    for node in ast.walk(module):
        for text in texts(node) if isinstance(node, ast.Constant) else ():
            if text and unicodedata.category(text[0]) == "So":
                yield text[0]


@pytest.mark.parametrize(("kind", "least"), [(columns, 1), (titles, 30), (signs, 12)])
def test_what_stands_on_the_screens_has_an_entry(repository: Path, kind, least: int) -> None:
    found = {text for module in sources(repository) for text in kind(module)}
    assert len(found) >= least, "the collector has lost its source"
    assert found - entries(repository) == set(), "add these to docs/glossary.md"


def test_badges_have_an_entry(repository: Path) -> None:
    """States, severities, verdicts, marks of a row and the notes of a form."""
    marks = {note for module in sources(repository) for note in notes(module)}
    assert len(marks) >= 3, "the collector has lost its source"
    badges = {
        *get_args(State),
        *get_args(Severity),
        *map(verdict_word, get_args(Verdict)),
        *marks,
        NOT_EXACT,
        "simulated",
    }
    assert badges | {"!", "*", "~", "ext"} <= entries(repository)


def test_no_column_is_explained_that_is_gone(repository: Path) -> None:
    page = (repository / "docs" / "glossary.md").read_text(encoding="utf-8")
    _, _, rest = page.partition("\n## Columns\n")
    rows = re.findall(r"^\| (`.*?) \|", rest, re.MULTILINE)
    told = {term for row in rows for term in row.split("`")[1::2]}
    found = {text for module in sources(repository) for text in columns(module)}
    found |= {column.called for table in declared() for column in table.columns}
    assert told - found == set()
