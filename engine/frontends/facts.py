"""Facts of frameworks that stand as data, in TOML beside the module that reads them."""

from __future__ import annotations

import tomllib
from importlib import resources

__all__ = ["facts", "words"]


def facts(module: str, file: str) -> dict[str, str]:
    """The texts of a file of facts, by name.

    Args:
        module: who reads it (``__name__``): the file stands in the same folder.
        file: its name.
    """
    folder = resources.files(module.rpartition(".")[0])
    table = tomllib.loads(folder.joinpath(file).read_text(encoding="utf-8"))
    return {name: str(text) for name, text in table.items()}


def words(text: str) -> frozenset[str]:
    """The words of a list that is written as one text."""
    return frozenset(text.split())
