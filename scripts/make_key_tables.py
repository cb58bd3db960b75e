"""Write the tables of keys in ``docs/workbench.md`` from the registry of actions.

Usage: ``python scripts/make_key_tables.py``. A test holds the file to the registry.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts.pages import Part, table, write

if TYPE_CHECKING:
    from rknntui.keys.actions import Action

NAMES = {
    "slash": "/",
    "question_mark": "?",
    "plus": "+",
    "minus": "-",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "escape": "Esc",
    "space": "Space",
    "f1": "F1",
    "f2": "F2",
    "f5": "F5",
}


def key_tables() -> str:
    """A table for everywhere and one for each workspace, as Markdown."""
    from rknntui.keys.actions import EVERYWHERE, REGISTRY
    from rknntui.workspaces import WORKSPACES

    everywhere = [a for a in REGISTRY if a.noun in EVERYWHERE and a.noun != "go"]
    parts = ["### Everywhere", "", *_table(everywhere)]
    keys = ", ".join(f"`{REGISTRY.keys_of(f'go.{name}')[0]}`" for name in WORKSPACES)
    parts += ["", f"These keys show the workspaces in their order: {keys}."]
    parts += ["With Alt they also work while you edit a text."]
    for name, place in WORKSPACES.items():
        parts += ["", f"### {place.title}", "", *_table(list(REGISTRY.of(name)))]
    return "\n".join(parts)


def _table(actions: Iterable[Action]) -> list[str]:
    rows = (
        (" ".join(f"`{_shown(key)}`" for key in a.keys) or "palette", a.help, f"`{a.id}`")
        for a in actions
    )
    return table(("keys", "what", "id"), rows)


def _shown(key: str) -> str:
    if key in NAMES:
        return NAMES[key]
    return "+".join(p.capitalize() for p in key.split("+")) if "+" in key else key


PARTS = (Part("workbench.md", "keys", "make_key_tables", key_tables),)

if __name__ == "__main__":
    write(PARTS)
