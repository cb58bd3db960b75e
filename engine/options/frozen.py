"""Anys of options in a form that cannot change and that has a hash."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from engine.base.plain import Value, Values


class FrozenMap(Mapping[str, Value]):
    """A mapping that cannot change: names of tensors to what is wished of them.

    Entries keep their order; maps with the same entries in any order are equal.
    """

    __slots__ = ("_entries", "_hash")

    def __init__(self, entries: Values) -> None:
        self._entries = {str(name): frozen(value) for name, value in entries.items()}
        self._hash = hash(frozenset(self._entries.items()))

    def __getitem__(self, name: str) -> Any:
        """The value of a tensor; KeyError where it has none."""
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        """The names in order."""
        return iter(self._entries)

    def __len__(self) -> int:
        """Number of entries."""
        return len(self._entries)

    def __hash__(self) -> int:
        """The same for the same entries."""
        return self._hash

    def __repr__(self) -> str:
        """As a dict."""
        return f"FrozenMap({self._entries!r})"


def frozen(value: Any) -> Any:
    """Lists, nested ones too, as tuples, and mappings as :class:`FrozenMap`: hashable."""
    if isinstance(value, Mapping):
        return FrozenMap(value)
    return tuple(frozen(v) for v in value) if isinstance(value, list | tuple) else value


def to_mutable(value: Any) -> Any:
    """Tuples, nested ones too, as lists, maps as dicts: what JSON and YAML have."""
    if isinstance(value, Mapping):
        return {name: to_mutable(one) for name, one in value.items()}
    return [to_mutable(v) for v in value] if isinstance(value, list | tuple) else value
