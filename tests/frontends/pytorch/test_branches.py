"""Branches that nothing takes: what is not understood may be taken, and the work stays linear."""

from __future__ import annotations

import ast
import sys
from types import FrameType
from typing import Any

import pytest

from engine.frontends.pytorch.branches import never_taken
from engine.frontends.pytorch.members import Unit, gather

DEAD = "  if torch.__isnot__(out, None):\n    bad = x\n"


def untaken(text: str) -> list[str]:
    """The names that are stored where nothing goes."""
    unit = Unit("code/__torch__.py", "__torch__", ast.parse(text))
    dead = never_taken(gather([unit]), [unit])
    stored = [node for node in ast.walk(unit.tree) if isinstance(node, ast.Name)]
    return [n.id for n in stored if id(n) in dead and isinstance(n.ctx, ast.Store)]


FUNCTION = f"def F(x: Tensor, out: Optional[Tensor]=None) -> Tensor:\n{DEAD}  return x\n"


@pytest.mark.parametrize(
    ("calls", "found"),
    [
        ("  a = __torch__.F(x)\n", ["bad"]),
        ("  a = __torch__.F\n  b = a(x, None)\n", ["bad"]),
        ("  a = __torch__.F(x)\n  b = __torch__.F(x, x)\n", []),
        ("  a = __torch__.F(x, out=x)\n", []),
        ("  a = __torch__.F(x, out=None, out=x)\n", []),
        ("  a = __torch__.F(x)\n  b = [__torch__.F]\n", []),
        # a name of two functions is not followed
        ("  a = __torch__.F\n  a = __torch__.G\n  b = a(x)\n", []),
        ("  a = __torch__.G\n  a = __torch__.F\n  b = a(x)\n", []),
    ],
)
def test_what_every_call_gives_decides(calls: str, found: list[str]) -> None:
    other = "def G(x: Tensor) -> Tensor:\n  return x\n"
    assert untaken(f"{FUNCTION}{other}def H(x: Tensor) -> Tensor:\n{calls}  return x\n") == found


@pytest.mark.parametrize("form", ["ifs", "functions", "names"])
def test_twice_the_text_is_twice_the_work(form: str) -> None:
    ran = [lines_run(hostile(form, count)) for count in (100, 200)]
    assert ran[0] > 0
    assert ran[1] < 2.3 * ran[0]


def hostile(form: str, count: int) -> str:
    if form == "functions":
        return "".join(
            f"def f{at}(x: Tensor) -> Tensor:\n  y = __torch__.f{at + 1}(x)\n  return x\n"
            for at in range(count)
        )
    head = "def H(x: Tensor) -> Tensor:\n"
    if form == "ifs":
        line = "  a{0} = x\n  if torch.eq(a{0}, 1):\n    b = x\n"
        return head + "".join(line.format(at) for at in range(count)) + "  return x\n"
    names = "".join(f"  a = __torch__.f{at}\n" for at in range(count))
    return hostile("functions", count) + head + names + "  b = a(x)\n" * count + "  return x\n"


def lines_run(text: str) -> int:
    """How many lines ran, those of the search and of what it walks through."""
    unit = Unit("code/__torch__.py", "__torch__", ast.parse(text))
    module = gather([unit])
    lines = 0

    def local(_frame: FrameType, event: str, _more: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return local

    sys.settrace(lambda *_: local)
    try:
        never_taken(module, [unit])
    finally:
        sys.settrace(None)
    return lines
