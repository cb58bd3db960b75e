"""The fingerprint of the engine's code, by which no result of other code is taken for ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.pipeline import fingerprints


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An engine of three files, whose fingerprint is taken."""
    for name in ("pipeline/fingerprints.py", "facts/chips.csv", "base/cache.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"# {name}\n", encoding="utf-8")
    monkeypatch.setattr(fingerprints, "__file__", str(tmp_path / "pipeline" / "fingerprints.py"))
    return tmp_path


def fingerprint() -> str:
    fingerprints.code_fingerprint.cache_clear()
    return fingerprints.code_fingerprint()


@pytest.fixture(autouse=True)
def real_again() -> Iterator[None]:
    """Later tests have the fingerprint of the real code."""
    yield
    fingerprints.code_fingerprint.cache_clear()


def test_it_is_that_of_the_code_alone(code: Path) -> None:
    first = fingerprint()
    cached = code / "base" / "__pycache__" / "cache.cpython-311.py"
    cached.parent.mkdir()
    cached.write_text("byte code\n", encoding="utf-8")
    (code / "base" / "notes.txt").write_text("of somebody\n", encoding="utf-8")
    assert fingerprint() == first


CHANGES: dict[str, Callable[[Path], object]] = {
    "content": lambda code: (code / "base/cache.py").write_text("# another\n"),
    "name": lambda code: (code / "base/cache.py").rename(code / "base/kept.py"),
    "new": lambda code: (code / "base/more.py").write_text(""),
    "gone": lambda code: (code / "base/cache.py").unlink(),
    "data": lambda code: (code / "facts/chips.csv").write_text("rk1\n"),
}


@pytest.mark.parametrize("how", CHANGES)
def test_it_changes_with_the_code(code: Path, how: str) -> None:
    first = fingerprint()
    CHANGES[how](code)
    assert fingerprint() != first
