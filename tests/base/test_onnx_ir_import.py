"""That sympy is imported where sizes are reckoned with alone, whatever the threads do."""

from __future__ import annotations

import pytest

from tests.safety import printed

BESIDE = "import sys, threading\nimport engine.graph, onnx_ir\n"


def test_a_graph_needs_no_sympy_and_symbolic_sizes_do() -> None:
    code = BESIDE + (
        "print('sympy' in sys.modules)\n"
        "fixed = onnx_ir.Shape([1, 'n'])\n"
        "print(fixed[1] == 'n', 'sympy' in sys.modules)\n"
        "size = (onnx_ir.SymbolicDim('n') + 1) * 2\n"
        "print(size.evaluate({'n': 3}), 'sympy' in sys.modules)\n"
    )
    assert printed(code) == ["False", "True", "False", "8", "True"]


@pytest.mark.parametrize("room", ["accuracy", "cost", "export", "hybrid", "pipeline", "quantize"])
def test_no_room_needs_it_whatever_is_imported_first(room: str) -> None:
    code = (
        "import importlib, pkgutil, sys\n"
        f"room = importlib.import_module('engine.{room}')\n"
        f"for each in pkgutil.iter_modules(room.__path__, 'engine.{room}.'):\n"
        "    importlib.import_module(each.name)\n"
        "print('onnx_ir' in sys.modules, 'sympy' in sys.modules)\n"
    )
    assert printed(code) == ["True", "False"]


def test_threads_that_use_it_first_at_once_all_get_it() -> None:
    """LazyLoader of Python before 3.11.9 gives one of them a module without attributes."""
    code = BESIDE + (
        "gate, found = threading.Barrier(8), []\n"
        "def reckon(at):\n"
        "    gate.wait()\n"
        "    if at % 2:\n"
        "        from sympy.core import Symbol\n"
        "        found.append(Symbol('n') is not None)\n"
        "    else:\n"
        "        found.append((onnx_ir.SymbolicDim('n') + at).evaluate({'n': 3}) == 3 + at)\n"
        "threads = [threading.Thread(target=reckon, args=(at,)) for at in range(8)]\n"
        "for each in threads: each.start()\n"
        "for each in threads: each.join()\n"
        "print(len(found), all(found))\n"
    )
    assert printed(code) == ["8", "True"]


@pytest.mark.parametrize("first", ["sympy", "onnx_ir"])
def test_what_was_imported_before_stays(first: str) -> None:
    code = (
        f"import sys, {first}\n"
        "import engine.graph, onnx_ir, sympy\n"
        "size = onnx_ir.SymbolicDim(sympy.Symbol('n') + 2)\n"
        "print(size.evaluate({'n': 3}), sys.modules['onnx_ir._core'].sympy is sympy)\n"
    )
    assert printed(code) == ["5", "True"]


def test_other_modules_import_the_real_one() -> None:
    code = BESIDE + (
        "import sympy\n"
        "print(sympy.Max(1, 2), onnx_ir.SymbolicDim(sympy.Symbol('n')).value)\n"
        "print(any('WhereUsed' in type(each).__name__ for each in sys.modules.values()))\n"
        "print(any('CoreFinder' in type(each).__name__ for each in sys.meta_path))\n"
    )
    assert printed(code) == ["2", "n", "False", "False"]
