"""What a long action tells while it works: frozen events, and the Reporter that takes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from dataclasses import fields as dataclass_fields
from typing import Any, Literal, Protocol

from engine.base.errors import job_cancelled
from engine.base.plain import JsonObject, JsonValue, Values


@dataclass(frozen=True)
class StageStarted:
    """A stage begins; ``index`` counts from 0 of ``count`` stages of this job.

    ``count`` 0: it has no number, as how many there are is not known.
    """

    stage: str
    title: str
    index: int
    count: int


@dataclass(frozen=True)
class StageFinished:
    """A stage ended; ``cached`` when its result was taken from the cache."""

    stage: str
    seconds: float
    cached: bool = False


@dataclass(frozen=True)
class Progress:
    """``done`` of ``total`` units of a stage; ``total`` 0 means unknown."""

    stage: str
    done: int
    total: int
    note: str = ""


@dataclass(frozen=True)
class Partial:
    """A piece of a result that is worth showing before the job is done, as plain data.

    ``kind`` says what it is, as ``hybrid.curve``: a point of the curve of a search. One that is not
    ``kept`` is told to who listens while it is new; a record has the newest of them at most.
    """

    kind: str
    data: dict[str, JsonValue]
    kept: bool = True


@dataclass(frozen=True)
class LogLine:
    """One line for the log pane."""

    text: str
    level: Literal["debug", "info", "warning", "error"] = "info"


@dataclass(frozen=True)
class ArtifactWritten:
    """A file that the user asked for now exists."""

    path: str
    kind: str
    size: int


@dataclass(frozen=True)
class Finished:
    """The last event of a job: done, failed or cancelled."""

    state: Literal["done", "failed", "cancelled"]
    seconds: float
    error: dict[str, str | int] | None = None


Event = StageStarted | StageFinished | Progress | Partial | LogLine | ArtifactWritten | Finished

_TYPES: dict[str, type[Any]] = {
    cls.__name__: cls
    for cls in (StageStarted, StageFinished, Progress, Partial, LogLine, ArtifactWritten, Finished)
}


def event_to_dict(event: Event) -> dict[str, JsonValue]:
    """The event as plain data, with its class name under ``type``."""
    return {"type": type(event).__name__, **asdict(event)}


def event_from_dict(data: Values) -> Event:
    """Rebuild an event; one of a newer version, or with other types, becomes a log line."""
    fields = dict(data)
    cls = _TYPES.get(str(fields.pop("type", "")))
    if cls is None:
        return LogLine(text=str(data), level="debug")
    try:
        event: Event = cls(**fields)
    except TypeError:
        return LogLine(text=str(data), level="debug")
    if not all(_fits(field.type, getattr(event, field.name)) for field in dataclass_fields(cls)):
        return LogLine(text=str(data), level="debug")
    return event


_MOST = 1e15
"""Counts, bytes and seconds stay far below it; larger integers do not even divide."""
_PLAIN: dict[str, tuple[type, ...]] = {"str": (str,), "bool": (bool,), "dict": (dict,)}


def _fits(declared: Any, value: Any) -> bool:
    """Whether a value is of a field's declared type, which stands there as text."""
    words = str(declared)
    if words in ("int", "float"):
        kinds = (int,) if words == "int" else (int, float)
        return type(value) in kinds and -_MOST < value < _MOST
    if words.startswith("Literal["):
        return isinstance(value, str) and f'"{value}"' in words.replace("'", '"')
    if words.startswith("dict"):
        allowed = not isinstance(value, dict) or "| None" not in words or is_error(value)
        return allowed and (isinstance(value, dict) or (value is None and "None" in words))
    return isinstance(value, _PLAIN[words])


def is_error(value: JsonObject) -> bool:
    """Whether it is an error as a record or an event has it."""
    return all(isinstance(value.get(name), str) for name in ("kind", "what"))


class Reporter(Protocol):
    """Where a stage reports; stages call it between units of work."""

    def emit(self, event: Event) -> None:
        """Take one event."""

    def check_cancelled(self) -> None:
        """Raise ``JobCancelledError`` when the user cancelled; wait while the user pauses."""

    def finish_requested(self) -> bool:
        """Whether the user wants the best found so far: a search ends and returns it."""


class NullReporter:
    """Takes everything, tells nobody."""

    def emit(self, event: Event) -> None:
        """Drop the event."""

    def check_cancelled(self) -> None:
        """Never cancelled."""

    def finish_requested(self) -> bool:
        """Never asked."""
        return False


class CallbackReporter:
    """Hands events to a function; ``cancelled`` and ``finish`` are asked at every check."""

    def __init__(
        self,
        on_event: Callable[[Event], None],
        cancelled: Callable[[], bool] | None = None,
        finish: Callable[[], bool] | None = None,
    ) -> None:
        self._on_event = on_event
        self._cancelled = cancelled
        self._finish = finish

    def emit(self, event: Event) -> None:
        """Hand the event over."""
        self._on_event(event)

    def check_cancelled(self) -> None:
        """Raise ``JobCancelledError`` when ``cancelled`` says so."""
        if self._cancelled is not None and self._cancelled():
            raise job_cancelled()

    def finish_requested(self) -> bool:
        """What ``finish`` says."""
        return self._finish is not None and self._finish()
