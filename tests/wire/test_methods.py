"""The registry, the handlers and the types agree."""

from __future__ import annotations

from engine.jobs.worker import _resolve
from engine.services.registry import QUERIES, TASKS
from engine.wire.method import Query, Task
from tests.safety import printed


def test_every_handler_answers_the_method_that_it_is_registered_for() -> None:
    for homes, kind in ((QUERIES, Query), (TASKS, Task)):
        for name, home in homes.items():
            method = _resolve(home).method
            assert method.name == name
            assert type(method) is kind, name


def test_the_types_need_the_standard_library_alone() -> None:
    code = (
        "import sys, pkgutil, importlib, engine.wire\n"
        "for m in pkgutil.iter_modules(engine.wire.__path__, 'engine.wire.'):\n"
        "    importlib.import_module(m.name)\n"
        "heavy = {'numpy', 'onnx', 'pydantic', 'yaml', 'PIL'} & set(sys.modules)\n"
        "print(*heavy)"
    )
    assert printed(code) == []


def test_a_method_without_a_row_is_found_by_its_name() -> None:
    assert QUERIES["doctor"] == "engine.services.doctor:doctor"
    assert TASKS["hybrid.search"] == "engine.services.hybrid:search"
    assert "doctor" not in TASKS
    for name in ("hybrid.nothing", "nothing", "codec", "a b", "..", ""):
        assert name not in QUERIES
        assert name not in TASKS
    assert set(QUERIES) >= {"open", "hybrid.table"}
    assert len(TASKS) == len(set(TASKS))
