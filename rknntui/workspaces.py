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
        letter: its key from the eleventh place on, where digits end; no other action has it.
        shares: which actions it has beside its own: those of every ``table``, of listed
            ``findings``, of ``every`` workspace.
    """

    title: str
    short: str = ""
    letter: str = ""
    shares: tuple[str, ...] = ("table", "every")

    @property
    def brief(self) -> str:
        """Its short title."""
        return self.short or self.title


WORKSPACES: dict[str, Place] = {
    "model": Place("Model", shares=("findings", "every")),
    "configure": Place("Configure", "Conf", shares=("findings", "every")),
    "dataset": Place("Dataset", "Data", shares=("table", "findings", "every")),
    "quantize": Place("Quantize", "Quant", shares=("table", "findings", "every")),
    "accuracy": Place("Accuracy", "Accur"),
    "hybrid": Place("Hybrid"),
    "chips": Place("Chips"),
    "deploy": Place("Deploy"),
    "devices": Place("Devices", "Device"),
    "run": Place("Run"),
    "jobs": Place("Jobs", letter="J", shares=("every",)),
}
"""Name, which is also the folder in ``rknntui.screens`` and the noun of its actions -> its row."""

CLASSES: dict[str, type[Any]] = {}
"""Name -> :class:`rknntui.screens.base.workspace.Workspace` of those that are imported."""

_DIGITS = "1234567890"


def keys_of(name: str) -> tuple[str, str]:
    """The keys that show a workspace: of the first ten their digits; with Alt also in a text."""
    at = list(WORKSPACES).index(name)
    key = _DIGITS[at] if at < len(_DIGITS) else WORKSPACES[name].letter
    return key, f"alt+{key}"


def load(name: str) -> type[Any]:
    """The class of a workspace."""
    import_module(f"rknntui.screens.{name}.workspace")
    return CLASSES[name]


def load_all() -> None:
    """Import all of them."""
    for name in WORKSPACES:
        load(name)
