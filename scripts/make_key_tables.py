"""Write the tables of keys in ``docs/workbench.md`` from the registry of actions.

Usage: ``python scripts/make_key_tables.py``. A test holds the file to the registry.
"""

from __future__ import annotations

import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
PAGE = REPOSITORY / "docs" / "workbench.md"
START, END = "<!-- keys: made by scripts/make_key_tables.py -->", "<!-- end of keys -->"
NAMES = {
    "slash": "/",
    "question_mark": "?",
    "plus": "+",
    "minus": "-",
    "escape": "Esc",
    "space": "Space",
    "f1": "F1",
    "f2": "F2",
    "f5": "F5",
}


def key_tables() -> str:
    """A table for everywhere and one for each workspace, as Markdown."""
    from rknntui.keys.actions import REGISTRY
    from rknntui.keys.app import ACTIONS
    from rknntui.workspaces import WORKSPACES, load_all

    load_all()
    parts = ["### Everywhere", "", *_table([a for a in ACTIONS if a.noun != "go"])]
    keys = " ".join(f"`{REGISTRY.keys_of(f'go.{name}')[0]}`" for name in WORKSPACES)
    parts += ["", f"{keys} (also with Alt, which works while a text is edited) show the"]
    parts += ["workspaces in their order."]
    for name, place in WORKSPACES.items():
        parts += ["", f"### {place.title}", "", *_table(list(REGISTRY.of(name)))]
    return "\n".join(parts)


def _table(actions: list) -> list[str]:
    lines = ["| keys | what | id |", "|---|---|---|"]
    for action in actions:
        keys = " ".join(f"`{_shown(key)}`" for key in action.keys) or "palette"
        lines.append(f"| {keys} | {action.help} | `{action.id}` |")
    return lines


def _shown(key: str) -> str:
    if key in NAMES:
        return NAMES[key]
    return "+".join(p.capitalize() for p in key.split("+")) if "+" in key else key


def page_with_tables(page: str) -> str:
    """The page with its tables as the registry has them now."""
    before, _, rest = page.partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}\n\n{key_tables()}\n\n{END}{after}"


if __name__ == "__main__":
    sys.path.insert(0, str(REPOSITORY))
    PAGE.write_text(page_with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
