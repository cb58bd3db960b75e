"""Write the columns of all tables in ``docs/reference/tables.md`` from their declarations.

Usage: ``python scripts/make_column_tables.py``. A test holds the file to the declarations.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from engine.wire import formats
from engine.wire.formats import Format
from engine.wire.table import Column, Table
from scripts.pages import Part, write

_ONLY = {"": "", "screen": "workbench", "file": "files"}


def declared() -> Iterator[Table]:
    """Every table of the wire, by its name."""
    import engine.wire

    modules = [
        import_module(module_info.name)
        for module_info in iter_modules(engine.wire.__path__, "engine.wire.")
    ]
    tables = {
        one.name: one
        for module in modules
        for one in vars(module).values()
        if isinstance(one, Table)
    }
    yield from (tables[name] for name in sorted(tables))


def _row(column: Column) -> str:
    unit = f", {column.format.unit}" if column.format.unit else ""
    keys = ", ".join(f"`{key}`" for key in column.heads) if column.only != "screen" else ""
    cells = (f"`{column.called}`", column.format.name, keys + unit * bool(keys), _ONLY[column.only])
    return f"| {' | '.join(cells)} | {column.help} |"


def column_tables() -> str:
    """A section for each table: heading, how it reads, key and unit in files, meaning."""
    lines: list[str] = []
    for table in declared():
        lines += [f"## {table.name}", "", f"A row: {table.title[0].lower()}{table.title[1:]}", ""]
        lines += ["| heading | reads as | in files | only in | meaning |", "|---|---|---|---|---|"]
        lines += [*map(_row, table.columns), ""]
    return "\n".join(lines).rstrip()


def format_table() -> str:
    """How each kind of figure reads."""
    kinds = {one.name: one for one in vars(formats).values() if isinstance(one, Format)}
    lines = ["| kind | unit in files | decimals in files |", "|---|---|---|"]
    for name, kind in kinds.items():
        digits = "" if kind.digits is None else str(kind.digits)
        lines.append(f"| {name} | {kind.unit} | {digits} |")
    return "\n".join(lines)


PAGE, SCRIPT = "reference/tables.md", "make_column_tables"
PARTS = (
    Part(PAGE, "formats", SCRIPT, format_table),
    Part(PAGE, "tables", SCRIPT, column_tables),
)

if __name__ == "__main__":
    write(PARTS)
