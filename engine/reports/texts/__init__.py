"""The answers of the engine in words and tables, the same in every front end.

A module has the texts of the answers of some modules of :mod:`engine.wire`; what its declared
tables say already needs none.
"""

from __future__ import annotations

from functools import singledispatch
from importlib import import_module
from typing import Any

from engine.reports.files import table_lines
from engine.wire.method import Method, methods

_HOMES = {
    **dict.fromkeys(("accuracy", "build", "compare", "hybrid", "sweep"), "builds"),
    **dict.fromkeys(("board", "devices", "doctor", "measured", "monitor"), "boards"),
    **dict.fromkeys(("compile", "cost", "goal"), "chips"),
    **dict.fromkeys(("codegen", "dataset", "encryption", "segments", "vendor"), "files"),
    "model": "model",
}
"""Module of the wire -> the module here with the texts of its answers."""


@singledispatch
def words(answer: Any, **_how: Any) -> list[str] | None:
    """The text of an answer in lines; None where its tables are all of it."""
    return None


def answer_lines(answer: Any, method: Method[Any, Any] | None = None, **how: Any) -> list[str]:
    """An answer of the worker or of a typed function in lines for people.

    Args:
        answer: such as an estimate, an analysis, a comparison with a board.
        method: that gave it, whose tables tell what has no words; None: any that gives such.
        how: of estimates ``kind``: ``chips``, ``layers`` or ``tensors``; of an analysis ``shown``:
            its layers in the order of the list; of a model ``loaded`` and ``graph``; of segments
            ``layers``: whether the layers are listed.

    Raises:
        TypeError: it is no answer of a method.
    """
    home = _HOMES.get(type(answer).__module__.rpartition(".")[2])
    if home is not None:
        import_module(f"engine.reports.texts.{home}")
    said = words(answer, **how)
    if said is not None:
        return said
    if method is None:
        of_type = (one for one in methods().values() if one.result is type(answer) and one.tables)
        method = next(of_type, None)
    if method is None:
        raise TypeError(f"{type(answer).__name__} is no answer that has a text")
    lines: list[str] = []
    for name, declared in method.tables.items():
        if name:
            lines += table_lines(declared, getattr(answer, name))
        else:
            lines += [f"{column.called}: {column.show(answer)}" for column in declared.columns]
    return lines or [method.empty]


def answer_text(answer: Any) -> str:
    """An answer as the command line prints it; names in it are of files and models.

    Raises:
        TypeError: it is no answer of a method.
    """
    return "\n".join(answer_lines(answer))
