"""Methods of the protocol: a name, the type of its parameters, the type of its result."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from engine.base.events import Event, Partial
from engine.base.plain import JsonObject
from engine.wire.codec import encode, read_answer
from engine.wire.record import record

if TYPE_CHECKING:
    from engine.wire.table import Table

P = TypeVar("P")
R = TypeVar("R")


@record
class Method(Generic[P, R]):
    """What a front end may ask of the worker.

    Attributes:
        name: on the wire.
        params, result: dataclasses of its request and its answer.
        verb: the words of the command line that ask it, flags that are always there among them;
            empty: it has none.
        options: whether the verb takes the options of a recipe as flags, or those of one section
            (``source``); else only a file.
        about: what the verb does, in one line of ``--help``; a literal, as it is read as text.
        example: command lines and what else stands below its ``--help``.
        after: the verb behind which it stands in ``rknntui --help``, or the heading that it is the
            first of; a literal, too. A verb of a group has none.
        tables: what the command line prints of the answer: its fields that hold rows -> table; the
            empty name is the answer itself, a line for each column.
        empty: what it prints where the tables say nothing.
    """

    name: str
    params: type[P]
    result: type[R]
    verb: str = ""
    options: bool | Literal["source"] = True
    about: str = ""
    example: str = ""
    after: str = ""
    tables: Mapping[str, Table] = field(default_factory=dict)
    empty: str = ""

    def read(self, answer: JsonObject) -> R:
        """The result of plain data; WorkerError where it is none."""
        return read_answer(self.result, answer)


class Query(Method[P, R]):
    """Answered at once, beside a running job."""


class Task(Method[P, R]):
    """Run as a job, with events and a record."""


Ask = Callable[[Any, Any], Awaitable[Any]]
"""Answers a query or job and its request; None where it is not known and is not to be asked."""


@cache
def methods() -> dict[str, Method[Any, Any]]:
    """What verbs and jobs ask of the worker, by its name."""
    names = (f"engine.wire.{module.name}" for module in iter_modules([str(Path(__file__).parent)]))
    values = (value for name in names for value in vars(import_module(name)).values())
    return {value.name: value for value in values if isinstance(value, Method)}


@record
class Part(Generic[R]):
    """A piece of a job's result that is told while it runs.

    Attributes:
        kind: on the wire.
        data: dataclass of the piece.
        kept: whether the job's record keeps them; those without an end it cannot.
    """

    kind: str
    data: type[R]
    kept: bool = True

    def event(self, data: R) -> Partial:
        """The event that tells it."""
        return Partial(self.kind, encode(data), self.kept)

    def of(self, event: Event) -> R | None:
        """The piece that an event tells; None where it tells something else."""
        if isinstance(event, Partial) and event.kind == self.kind:
            return read_answer(self.data, event.data)
        return None


@record
class Nothing:
    """No parameters."""
