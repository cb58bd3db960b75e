"""The workspaces in their order.

Name -> (title, module, keys of the tab). Imported on first visit.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rknntui.screens.workspace import Workspace

__all__ = ["WORKSPACES", "load", "load_all"]

WORKSPACES: dict[str, str] = {
    "model": "Model",
    "configure": "Configure",
    "dataset": "Dataset",
    "quantize": "Quantize",
    "accuracy": "Accuracy",
    "hybrid": "Hybrid",
    "run": "Run",
    "jobs": "Jobs",
}
"""Name, which is also the module in ``rknntui.screens`` and the noun of its actions -> title."""


def load(name: str) -> type[Workspace]:
    """The class of a workspace; its actions are registered by then."""
    from rknntui.screens.workspace import Workspace

    module = import_module(f"rknntui.screens.{name}")
    for value in vars(module).values():
        if isinstance(value, type) and issubclass(value, Workspace) and name == value.NAME:
            return value
    raise LookupError(f"rknntui.screens.{name} has no workspace of that name")


def load_all() -> None:
    """Import all of them."""
    for name in WORKSPACES:
        load(name)
