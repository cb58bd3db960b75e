"""Methods of the protocol: a name, the type of its parameters, the type of its result."""

from __future__ import annotations

from typing import Generic, TypeVar

from engine.base.events import Event, Partial
from engine.base.plain import JsonObject
from engine.wire.codec import encode, read_answer
from engine.wire.record import record

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
        options: whether the verb takes the options of a recipe as flags; else only a file.
    """

    name: str
    params: type[P]
    result: type[R]
    verb: str = ""
    options: bool = True

    def read(self, answer: JsonObject) -> R:
        """The result of plain data; WorkerError where it is none."""
        return read_answer(self.result, answer)


class Query(Method[P, R]):
    """Answered at once, beside a running job."""


class Task(Method[P, R]):
    """Run as a job, with events and a record."""


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
