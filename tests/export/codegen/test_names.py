"""Names and texts of a user in generated code."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import numpy as np
import pytest

from engine.export.codegen.project import identifier
from engine.export.codegen.write import c_value
from tests.export.codegen.projects import generate, project_of

NASTY = [
    'a"; system("rm -rf /"); //',
    "*/ int main() {} /*",
    "$(touch owned) `touch owned`",
    "line\nbreak\r\ttab",
    "back\\slash\\",
    "??/trigraph",
    "@NAME@ @API@",
    "名前 é",
    "x" * 300,
    "'''",
    "-rf",
    "..",
    "",
]


@pytest.mark.parametrize("name", NASTY)
def test_names_become_identifiers(name: str) -> None:
    assert re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,50}", identifier(name, "model"))


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("yolo v5-s", "yolo_v5_s"), ("3d", "model_3d"), ("été", "ete"), ("__", "model")],
)
def test_identifier(name: str, wanted: str) -> None:
    assert identifier(name, "model") == wanted


def compiled(literal: str) -> bytes:
    """What a C compiler makes of a literal of plain signs and three-digit octal escapes."""
    assert literal.startswith('"')
    assert literal.endswith('"')
    body = literal[1:-1]
    assert '"' not in body
    return re.sub(rb"\\(\d{3})", lambda m: bytes([int(m[1], 8)]), body.encode("ascii"))


@pytest.mark.parametrize("text", NASTY)
def test_c_strings(text: str) -> None:
    literal = c_value(text)
    assert compiled(literal) == text.encode()
    assert "?" not in literal  # no trigraphs
    assert "\n" not in literal


@pytest.mark.parametrize("text", NASTY)
def test_a_nasty_model(text: str, tmp_path: Path) -> None:
    golden = np.ones((1, 4), np.float32)
    project = project_of([golden], model=f"{text}.onnx", names=[text])
    made = generate(project, tmp_path / "cpp")
    header = (tmp_path / "cpp/src/model.h").read_text()
    assert c_value(text) in header
    first, _, rest = header.partition("*/")
    assert rest.startswith("\n#pragma once"), first
    assert "\n" not in first
    scripts = "".join((tmp_path / "cpp" / each).read_text() for each in ("run.sh", "build.sh"))
    assert "touch owned" not in scripts
    assert "rm -rf /" not in scripts
    assert all(re.fullmatch(r"[A-Za-z0-9_./]+", name) for name in made.files)
    generate(project, tmp_path / "python", language="python")
    module = ast.parse((tmp_path / "python/model.py").read_text("ascii"))
    values = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in module.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    assert values["OUTPUTS"][0]["name"] == text
    kinds = {type(node) for node in module.body}
    assert kinds == {ast.Assign, ast.Expr}  # literals alone
