"""The docs' tables of options are what the declarations say."""

from __future__ import annotations

import importlib.util
from pathlib import Path


def test_the_docs_have_a_row_for_each_option_of_both_manuals(repository: Path) -> None:
    path = repository / "scripts" / "make_option_tables.py"
    spec = importlib.util.spec_from_file_location("make_option_tables", path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    for page, wanted in made.pages().items():
        assert page.read_text(encoding="utf-8") == wanted, (
            f"run scripts/make_option_tables.py: {page.name} differs from the declarations"
        )
