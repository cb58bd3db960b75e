"""The agent is one file, the same each time, in the language of Python 3.5."""

from __future__ import annotations

import ast
import hashlib
import io
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from engine.devices.agent import bundle as module
from engine.devices.agent.bundle import bundle

FAR_SIDE = sorted(Path(module.__file__).with_name("far_side").glob("*.py"))


@pytest.mark.parametrize("path", FAR_SIDE, ids=lambda path: path.name)
def test_the_far_side_is_in_the_language_of_python_3_5(path: Path) -> None:
    tree = ast.parse(path.read_text("utf-8"), feature_version=(3, 5))
    nodes = list(ast.walk(tree))
    # the parser of Python 3.12 and later takes f-strings whatever the version
    assert not [node for node in nodes if isinstance(node, ast.JoinedStr)]
    named = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    named |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    ours = {name for name in named if name.startswith("engine.")}
    assert all(
        name == "engine.base.peers.far" or name.startswith("engine.devices.agent.far_side")
        for name in ours
    )
    assert "__future__" not in named
    assert {name.partition(".")[0] for name in named - ours} <= sys.stdlib_module_names
    generic = {"dict", "list", "set", "tuple", "type"}
    names = [node.value for node in nodes if isinstance(node, ast.Subscript)]
    assert not [name for name in names if isinstance(name, ast.Name) and name.id in generic]


def test_the_bundle_is_the_same_each_time() -> None:
    first = bundle()
    bundle.cache_clear()
    assert bundle() == first
    assert first.sha256 == hashlib.sha256(first.content).hexdigest()
    assert re.fullmatch(r"agent-[0-9a-f]{12}\.pyz", first.name)
    with zipfile.ZipFile(io.BytesIO(first.content)) as archive:
        entries = archive.infolist()
    assert [entry.filename for entry in entries] == sorted(entry.filename for entry in entries)
    assert {entry.date_time for entry in entries} == {(1980, 1, 1, 0, 0, 0)}
    assert {entry.compress_type for entry in entries} == {zipfile.ZIP_STORED}
    held = {Path(entry.filename).name for entry in entries}
    assert {path.name for path in FAR_SIDE} | {"far.py", "__main__.py"} <= held


def test_wrong_words_end_it_with_its_usage(tmp_path: Path) -> None:
    path = tmp_path / bundle().name
    path.write_bytes(bundle().content)
    done = subprocess.run(
        [sys.executable, "-I", str(path), "--what"], capture_output=True, check=False
    )
    assert done.returncode == 2
    assert b"usage:" in done.stderr
