"""Facts of frameworks that stand as data, in TOML beside the module that reads them."""

from __future__ import annotations

from importlib import resources


def facts(package: str, file: str) -> dict[str, str]:
    """The texts of a file of facts, by name.

    Args:
        package: who reads it (``__package__``): the file stands in its folder.
        file: its name.
    """
    import tomllib  # most of what is recognised needs no facts

    text = resources.files(package).joinpath(file).read_text(encoding="utf-8")
    return {name: str(fact) for name, fact in tomllib.loads(text).items()}


def reasons(package: str, file: str) -> dict[str, str]:
    """Word -> why, of a file of facts that says of every reason which words it is of."""
    listed = facts(package, file).items()
    return {word: why for why, text in listed for word in text.split()}


def words(text: str) -> frozenset[str]:
    """The words of a list that is written as one text."""
    return frozenset(text.split())
