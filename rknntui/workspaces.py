"""The workspaces in their order; each is imported on its first visit."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Place:
    """The row of a workspace.

    Attributes:
        title: on its tab.
        short: where the line has no room for all titles; else the title.
        key: shows it; with Alt also in a text. No other action has it.
        shares: which actions it has beside its own: those of every ``table``, of listed
            ``findings``, of ``every`` workspace.
    """

    title: str
    key: str
    short: str = ""
    shares: tuple[str, ...] = ("table", "every")

    @property
    def brief(self) -> str:
        """Its short title."""
        return self.short or self.title


FIRST = "overview"
"""The one that is shown when a file is opened."""

WORKSPACES: dict[str, Place] = {
    "overview": Place("Overview", "0", "Over", shares=("findings", "every")),
    "model": Place("Model", "1", shares=("findings", "every")),
    "recipe": Place("Recipe", "2", shares=("table", "findings", "every")),
    "layers": Place("Layers", "3"),
    "chips": Place("Chips", "4", shares=("table", "findings", "every")),
    "bench": Place("Bench", "5"),
    "result": Place("Result", "6"),
    "builds": Place("Builds", "7"),
}
"""Name, which is also the folder in ``rknntui.screens`` and the noun of its actions -> its row."""

CLASSES: dict[str, type[Any]] = {}
"""Name -> :class:`rknntui.screens.base.workspace.Workspace` of those that are imported."""


def keys_of(name: str) -> tuple[str, str]:
    """The keys that show a workspace."""
    key = WORKSPACES[name].key
    return key, f"alt+{key}"


def load(name: str) -> type[Any]:
    """The class of a workspace."""
    import_module(f"rknntui.screens.{name}.workspace")
    return CLASSES[name]


def load_all() -> None:
    """Import all of them."""
    for name in WORKSPACES:
        load(name)
