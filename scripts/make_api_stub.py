"""Write ``engine/api/shown.pyi``: ``RKNN`` as mypy, pyright and jedi are to see it.

Usage: ``python scripts/make_api_stub.py``. Its methods take ``*args, **keywords``, because the
generations differ; signatures that static tools can read come from ``engine.api.signatures``, as
those of ``inspect.signature`` do. Generation 2 comes first; where generation 1 takes what
generation 2 does not, an overload says so. The file has a line a method. A test holds it to the
code.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterator
from inspect import Parameter, Signature
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from engine.api import rknn
from engine.api.later_toolkits import LATER_METHODS
from engine.api.signatures import POSITIONAL, signature_of

STUB = Path(__file__).resolve().parents[1] / "engine" / "api" / "shown.pyi"
_HEAD = '''"""Made by scripts/make_api_stub.py: :class:`engine.api.rknn.RKNN` for static tools."""

from typing import Any, ClassVar, overload

import numpy as np

__all__ = ["RKNN"]

class RKNN:
'''
_MANY = inspect.signature(lambda self, *args, **keywords: None)


def stub() -> str:
    """The content of the file."""
    lines = [_docstring(rknn.RKNN), ""]
    source = ast.parse(inspect.getsource(rknn)).body
    body = next(node for node in source if isinstance(node, ast.ClassDef)).body
    lines += [
        f"{node.target.id}: {ast.unparse(node.annotation)}"
        for node in body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    ]
    for node in body:
        if isinstance(node, ast.FunctionDef) and (node.name[0] != "_" or node.name == "__init__"):
            lines += _method(node)
    for name in LATER_METHODS:
        lines += _written(name, _MANY, "int", f'"""{LATER_METHODS[name]}"""')
    return _HEAD + textwrap.indent("\n".join(lines), "    ") + "\n"


def _method(node: ast.FunctionDef) -> Iterator[str]:
    """A method, once for each generation whose arguments the other does not take."""
    attribute = getattr(rknn.RKNN, node.name)
    returns = ast.unparse(node.returns) if node.returns else "Any"
    if isinstance(attribute, property):
        yield "@property"
        yield from _written(node.name, Signature([_SELF]), returns, _docstring(attribute))
        return
    if (node.name, 2) not in POSITIONAL:
        text = "" if node.name == "__init__" else _docstring(attribute)
        yield from _written(node.name, inspect.signature(attribute), returns, text)
        return
    forms = [signature_of(node.name, generation) for generation in (2, 1)]
    if _takes_all_of(*forms):
        forms.pop()
    for form in forms:
        if len(forms) > 1:
            yield "@overload"
        text = _docstring(attribute) if form is forms[0] else ""
        yield from _written(node.name, form, returns, text)


_SELF = Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)


def _takes_all_of(first: Signature, other: Signature) -> bool:
    """Whether every call of one form fits the first."""
    mine, theirs = first.parameters, other.parameters
    ordered = [n for n, p in theirs.items() if p.kind is Parameter.POSITIONAL_OR_KEYWORD]
    needed = {n for n, p in mine.items() if p.default is Parameter.empty}
    needs = {n for n, p in theirs.items() if p.default is Parameter.empty}
    return (
        list(mine)[: len(ordered)] == ordered and theirs.keys() <= mine.keys() and needed <= needs
    )


def _written(name: str, signature: Signature, returns: str, text: str) -> Iterator[str]:
    shown = [_shown(parameter) for parameter in signature.parameters.values()]
    kinds = [parameter.kind for parameter in signature.parameters.values()]
    if Parameter.KEYWORD_ONLY in kinds and Parameter.VAR_POSITIONAL not in kinds:
        shown.insert(kinds.index(Parameter.KEYWORD_ONLY), "*")
    line = f"def {name}({', '.join(shown)}) -> {returns}:"
    if not text:
        yield f"{line} ..."
        return
    yield line
    yield textwrap.indent(text, "    ")


def _shown(parameter: Parameter) -> str:
    if parameter.name == "self":
        return "self"
    stars = {Parameter.VAR_POSITIONAL: "*", Parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    declared = parameter.annotation
    kind = declared if isinstance(declared, str) else "Any"
    text = f"{stars}{parameter.name}: {kind}"
    return text if parameter.default is Parameter.empty else f"{text} = {parameter.default!r}"


def _docstring(documented: object) -> str:
    """The first paragraph of a docstring, as a docstring."""
    text = (inspect.getdoc(documented) or "").partition("\n\n")[0]
    return f'"""{text}' + ('\n"""' if "\n" in text else '"""')


if __name__ == "__main__":
    STUB.write_text(stub(), encoding="utf-8")
    print("wrote engine/api/shown.pyi")
