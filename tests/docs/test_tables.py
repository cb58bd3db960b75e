"""The tables of the docs that scripts make are what the code says."""

from __future__ import annotations

from importlib import import_module

import pytest


@pytest.mark.parametrize("script", ["api", "option", "key", "layer", "wire", "column", "module"])
def test_pages_have_the_tables_of_the_code(script: str) -> None:
    for part in import_module(f"scripts.make_{script}_tables").PARTS:
        page = part.path.read_text(encoding="utf-8")
        assert page == part.now(), f"run: python scripts/{part.script}.py"
