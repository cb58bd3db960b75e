"""Handlers, and which function answers which method of the protocol.

A method ``X`` or ``X.y`` that is declared in :mod:`engine.wire.X` is answered by the function of
its last word in ``engine.services.X``, and needs no row here. They are named, not imported: a
worker loads what a request needs.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Generic, TypeVar

import engine.wire
from engine.base.events import Reporter
from engine.base.plain import JsonObject
from engine.wire.codec import encode, read_request
from engine.wire.method import Method, Query, Task

_QUERIES = {
    "model": ("ping", "warm", "sniff", "pairs", "open", "graph", "node", "tensor", "layer"),
    "hybrid": ("joins",),
    "build": ("ranges",),
    "recipes": ("validate", "code.files", "code.confirm", "recipe.load", "recipe.save"),
    "datasets": ("dataset.list", "dataset.check", "dataset.preview", "dataset.make"),
    "cost": ("cost.ways",),
}
_TASKS = {"build": ("load", "accuracy", "simulate", "export"), "scoring": ("evaluate",)}
"""Module of handlers -> the methods that it answers, where the module of the wire is another."""

_SHARED = dict.fromkeys(("devices", "monitor", "compare"), "board")
"""Module of the wire -> the module of handlers that it shares with another."""


def _home(module: str, method: str) -> str:
    return f"engine.services.{module}:{method.rpartition('.')[2]}"


class _Homes(Mapping[str, str]):
    """Method of one kind -> ``module:function``."""

    def __init__(
        self, kind: type[Method[object, object]], rows: Mapping[str, Sequence[str]]
    ) -> None:
        self._kind = kind
        self._rows = {name: _home(module, name) for module, names in rows.items() for name in names}

    def __getitem__(self, name: str) -> str:
        if name in self._rows:
            return self._rows[name]
        room = name.partition(".")[0]
        if name not in _ROWS and room.isidentifier() and name in self._declared(room):
            return _home(_SHARED.get(room, room), name)
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


_ROWS = {name for rows in (_QUERIES, _TASKS) for names in rows.values() for name in names}
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
