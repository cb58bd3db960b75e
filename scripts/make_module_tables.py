"""Write the list of all modules in ``docs/reference/modules.md``: what each one is, in a line.

Usage: ``python scripts/make_module_tables.py``. A test holds the file to the code.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts.pages import REPOSITORY, Part, table, write

PACKAGES = ("engine", "rknntui", "emulator")


def _what(path: Path) -> str:
    """The first line of a module's text, as a cell."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    line = " ".join(text.partition("\n\n")[0].split())
    line = re.sub(r" \[[^\]]*\]", "", line)  # citations stand in the module
    return line.replace("``", "`").replace("|", r"\|")


def module_tables() -> str:
    """A table for each room: a row for each module that says something."""
    rooms: dict[str, list[tuple[str, str]]] = {}
    for package in PACKAGES:
        for path in sorted((REPOSITORY / package).rglob("*.py")):
            if what := _what(path):
                name = path.relative_to(REPOSITORY)
                room = "/".join(name.parts[:2]) if len(name.parts) > 2 else package
                rooms.setdefault(room, []).append((f"`{name}`", what))
    parts = ("\n".join((f"## {r}", "", *table(("module", "what"), m))) for r, m in rooms.items())
    return "\n\n".join(parts)


PARTS = [Part("reference/modules.md", "modules", "make_module_tables", module_tables)]

if __name__ == "__main__":
    write(PARTS)
