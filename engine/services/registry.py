"""Handlers, and which function answers which method of the protocol.

A method ``X`` or ``X.y`` that is declared in :mod:`engine.wire.X` is answered by the function of
its last word in ``engine.services.X``, and needs no row here. They are named, not imported: a
worker loads what a request needs.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Generic, TypeVar

import engine.wire
from engine.base.events import Reporter
from engine.base.plain import JsonObject
from engine.wire.codec import encode, read_request
from engine.wire.method import Method, Query, Task

_QUERIES = {
    "ping": "engine.services.model:ping",
    "warm": "engine.services.model:warm",
    "sniff": "engine.services.model:sniff_file",
    "pairs": "engine.services.model:source_pairs",
    "open": "engine.services.model:open_model",
    "graph": "engine.services.model:graph",
    "node": "engine.services.model:node",
    "tensor": "engine.services.model:tensor",
    "layer": "engine.services.model:layer",
    "joins": "engine.services.hybrid:joins",
    "ranges": "engine.services.build:ranges",
    "validate": "engine.services.recipes:validate",
    "code.files": "engine.services.recipes:files",
    "code.confirm": "engine.services.recipes:confirm_file",
    "recipe.load": "engine.services.recipes:load",
    "recipe.save": "engine.services.recipes:save",
    "dataset.list": "engine.services.datasets:samples",
    "dataset.check": "engine.services.datasets:check",
    "dataset.preview": "engine.services.datasets:preview",
    "dataset.make": "engine.services.datasets:make",
    "cost.ways": "engine.services.cost:ways",
}
_TASKS = {
    "load": "engine.services.build:load",
    "accuracy": "engine.services.build:accuracy",
    "simulate": "engine.services.build:simulate",
    "export": "engine.services.build:export",
    "evaluate": "engine.services.scoring:evaluate",
}


_SHARED = dict.fromkeys(("devices", "monitor", "compare"), "board")
"""Module of the wire -> the module of handlers that it shares with another."""


class _Homes(Mapping[str, str]):
    """Method of one kind -> ``module:function``."""

    def __init__(self, kind: type[Method[object, object]], rows: Mapping[str, str]) -> None:
        self._kind = kind
        self._rows = rows

    def __getitem__(self, name: str) -> str:
        if name in self._rows:
            return self._rows[name]
        room = name.partition(".")[0]
        if name not in _ROWS and room.isidentifier() and name in self._declared(room):
            return f"engine.services.{_SHARED.get(room, room)}:{name.rpartition('.')[2]}"
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        rooms = [module.name for module in pkgutil.iter_modules(engine.wire.__path__)]
        declared = {name: None for room in rooms for name in self._declared(room)}
        return iter({**dict.fromkeys(self._rows), **declared})

    def __len__(self) -> int:
        return len(list(iter(self)))

    def _declared(self, room: str) -> list[str]:
        if find_spec(f"engine.wire.{room}") is None:
            return []
        values = vars(import_module(f"engine.wire.{room}")).values()
        return [value.name for value in values if type(value) is self._kind]


_ROWS = {**_QUERIES, **_TASKS}
QUERIES: Mapping[str, str] = _Homes(Query, _QUERIES)
"""Answered at once."""
TASKS: Mapping[str, str] = _Homes(Task, _TASKS)
"""Run as jobs."""


# Handlers: what the worker calls with plain data, written over the types of a method.

P = TypeVar("P")
R = TypeVar("R")

BESIDE = ("allow_code",)
"""What any request may carry beside its parameters; the worker looks at it."""


class Handler(Generic[P, R]):
    """A method and the function that answers it.

    Called, it takes plain data and gives plain data, both checked against the method's types.
    """

    def __init__(self, method: Method[P, R], function: Callable[..., R]) -> None:
        self.method = method
        self.function = function
        self.__doc__ = function.__doc__

    def __call__(self, params: JsonObject, *reporter: Reporter) -> JsonObject:
        """Answer a request.

        Raises:
            UsageError: a parameter does not fit; it is named.
        """
        asked = {name: value for name, value in params.items() if name not in BESIDE}
        result: Any = self.function(read_request(self.method.params, asked), *reporter)
        return encode(result)


def answers(method: Query[P, R]) -> Callable[[Callable[[P], R]], Handler[P, R]]:
    """The function below answers that query."""
    return lambda function: Handler(method, function)


def runs(method: Task[P, R]) -> Callable[[Callable[[P, Reporter], R]], Handler[P, R]]:
    """The function below does that job; it tells the reporter how far it is."""
    return lambda function: Handler(method, function)
