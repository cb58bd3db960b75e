"""Handlers: what the worker calls with plain data, written over the types of a method."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from engine.base.events import Reporter
from engine.base.plain import JsonObject
from engine.wire.codec import encode, read_request
from engine.wire.method import Method, Query, Task

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
