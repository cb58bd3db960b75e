"""The table of layers in the docs is what the readers have."""

from __future__ import annotations

from pathlib import Path

from scripts.make_layer_tables import page_with_tables


def test_the_page_has_the_layers_of_the_readers(repository: Path) -> None:
    page = (repository / "docs" / "frontends.md").read_text(encoding="utf-8")
    assert page_with_tables(page) == page, "run: python scripts/make_layer_tables.py"
