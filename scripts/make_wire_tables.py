"""Write the tables of methods and types in ``docs/reference/wire.md`` from the types themselves,
and the list of verbs in ``docs/cli.md``.

Usage: ``python scripts/make_wire_tables.py``. A test holds the files to the types.
"""

from __future__ import annotations

import dataclasses
import sys
import types
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import click

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts.pages import Part, table, write

WORDS = {str: "text", int: "whole", float: "number", bool: "bool", Any: "any", type(None): "null"}


def wire_tables() -> str:
    """The methods, the pieces that jobs tell, and every type, as Markdown."""
    from engine.jobs.worker import _resolve
    from engine.services.registry import QUERIES, TASKS
    from engine.wire import hybrid, monitor, sweep

    seen: dict[str, type] = {}
    lines = ["| method | kind | parameters | answer |", "|---|---|---|---|"]
    for kind, homes in (("query", QUERIES), ("job", TASKS)):
        for home in homes.values():
            method = _resolve(home).method
            ends = (_told(part, seen) for part in (method.params, method.result))
            lines.append(f"| `{method.name}` | {kind} | {' | '.join(ends)} |")
    lines += ["", "| partial result | by | what |", "|---|---|---|"]
    parts = [(hybrid.CURVE, hybrid.SEARCH), (sweep.ROW, sweep.SWEEP)]
    watched = (monitor.BOARD, monitor.NOTE, monitor.SAMPLE)
    for part, by in (*parts, *((part, monitor.MONITOR_WATCH) for part in watched)):
        lines.append(f"| `{part.kind}` | `{by.name}` | {_told(part.data, seen)} |")
    lines += ["", "| type | fields, `?` where they may be left out | what |", "|---|---|---|"]
    waiting = list(seen)
    done: dict[str, str] = {}
    while waiting:
        name = waiting.pop()
        before = set(seen)
        what = " ".join((seen[name].__doc__ or "").strip().split("\n\n")[0].split())
        done[name] = f"| `{name}` | {_fields(seen[name], seen)} | {what} |"
        waiting += [other for other in seen if other not in before]
    return "\n".join([*lines, *(done[name] for name in sorted(done))])


def _fields(kind: type, seen: dict[str, type]) -> str:
    hints = get_type_hints(kind, include_extras=True)
    parts = []
    for field in dataclasses.fields(kind):
        marks = getattr(hints[field.name], "__metadata__", ())
        names = {type(mark).__name__: mark for mark in marks}
        if "Beside" in names:
            parts.append("options of the source model")
            continue
        key = names["Key"].name if "Key" in names else field.name
        needed = (
            field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        )
        parts.append(f"`{key}{'' if needed else '?'}`: {_told(hints[field.name], seen)}")
    return ", ".join(parts) or "none"


def _told(kind: Any, seen: dict[str, type]) -> str:
    origin, parts = get_origin(kind), get_args(kind)
    if dataclasses.is_dataclass(kind):
        assert seen.setdefault(kind.__name__, kind) is kind, f"two types are called {kind}"
        return f"`{kind.__name__}`"
    if origin is Annotated:
        words, mark = _told(parts[0], seen), parts[1]
        return f"{mark.low} to {mark.high}" if hasattr(mark, "low") else words
    if origin is Literal:
        return " \\| ".join(f"`{name}`" for name in parts)
    if origin in (Union, types.UnionType):
        return " or ".join(_told(part, seen) for part in parts)
    if origin is tuple:
        several = len(parts) == 2 and parts[1] is Ellipsis
        inner = ", ".join(_told(part, seen) for part in (parts[:1] if several else parts))
        return f"[{inner}, …]" if several else f"[{inner}]"
    if parts:
        return f"{{{_told(parts[0], seen)}: {_told(parts[1], seen)}}}"
    return WORDS[kind]


def verb_list() -> str:
    """The verbs in the order of ``rknntui --help``, each with those of its group."""
    from rknntui.cli.root import cli
    from rknntui.cli.verbs import VERBS

    rows = []
    for name, place in VERBS.items():
        command = cli.get_command(click.Context(cli), name)
        inner = command.commands if isinstance(command, click.Group) else {}
        texts = {f"{name} {word}": one.get_short_help_str(200) for word, one in inner.items()}
        rows += [(f"`{words}`", text) for words, text in {name: place.about, **texts}.items()]
    return "\n".join(table(("verb", "what it does"), rows))


PARTS = (
    Part("reference/wire.md", "wire", "make_wire_tables", wire_tables),
    Part("cli.md", "verbs", "make_wire_tables", verb_list),
)

if __name__ == "__main__":
    write(PARTS)
