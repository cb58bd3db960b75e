"""What the session tells: small messages, posted to the workbench and every mounted workspace.

They are never changed after they were made and do not bubble. A message says *that* something
changed; the state itself is read from the session, so a message that waits may be replaced by a
newer one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from textual.message import Message


@dataclass(eq=False)
class ModelOpened(Message, bubble=False):
    """Another model is open: ``session.model`` is its view (None: closed)."""


@dataclass(eq=False)
class KeysChanged(Message, bubble=False):
    """The user's keymap was read: texts name other keys."""


@dataclass(eq=False)
class RecipeChanged(Message, bubble=False):
    """Values of the recipe changed.

    ``names`` are the options, ``whole`` when another recipe was loaded.
    """

    names: frozenset[str]
    whole: bool = False


@dataclass(eq=False)
class ProblemsChanged(Message, bubble=False):
    """``session.problems`` or ``session.findings`` changed."""

    def can_replace(self, message: Message) -> bool:
        """A newer one says as much."""
        return isinstance(message, ProblemsChanged)


@dataclass(eq=False)
class StepsChanged(Message, bubble=False):
    """Something is asked for or known that a step tells: ``session.opening``, ``session.asked``,
    ``session.dataset``, ``session.estimates``.
    """

    def can_replace(self, message: Message) -> bool:
        """A newer one says as much."""
        return isinstance(message, StepsChanged)


@dataclass(eq=False)
class ResultFound(Message, bubble=False):
    """``session.last`` has the result of a job of the history: of ``method``."""

    method: str


@dataclass(eq=False)
class TargetChanged(Message, bubble=False):
    """Another board or compiled file is used: ``session.boards.chosen``, ``session.compiled``."""


@dataclass(eq=False)
class LayersChanged(Message, bubble=False):
    """``session.layers`` knows more of its layers, or (``rows`` False) the cursor moved."""

    rows: bool = True

    def can_replace(self, message: Message) -> bool:
        """A newer one says as much."""
        return isinstance(message, LayersChanged) and (self.rows or not message.rows)


@dataclass(eq=False)
class BuildFinished(Message, bubble=False):
    """A build ended well: ``session.summary`` is its summary."""


@dataclass(eq=False)
class JobChanged(Message, bubble=False):
    """The running job moved on: ``session.running``. At most one of a job waits."""

    job: str

    def can_replace(self, message: Message) -> bool:
        """Only the latest state of a job is worth drawing."""
        return isinstance(message, JobChanged) and message.job == self.job


@dataclass(eq=False)
class JobEnded(Message, bubble=False):
    """A job ended: ``state`` is done, failed or cancelled; ``result`` only when done, the record of
    its task.
    """

    job: str
    method: str
    state: str
    result: object = None
    error: Mapping[str, str | int] | None = None


@dataclass(eq=False)
class SourceChanged(Message, bubble=False):
    """A file changed on disk, or is gone from it; ``role`` is model, dataset or recipe."""

    role: str
    path: str
    gone: bool = False

    def can_replace(self, message: Message) -> bool:
        """One notice per role is enough."""
        return isinstance(message, SourceChanged) and message.role == self.role


@dataclass(eq=False)
class WorkerChanged(Message, bubble=False):
    """The engine's worker started, stopped or crashed; ``state`` is starting, ready or lost."""

    state: str


@dataclass(frozen=True)
class Bench:
    """The newest figure of a board.

    Attributes:
        board: id of the board.
        fps: frames a second; None before there are any.
        label: of that figure: ``measured`` or ``emulated``.
        running: whether it is measured now, or waits for the board.
        lost: why it ended or waits; empty where it did not.
    """

    board: str
    fps: float | None
    label: str
    running: bool
    lost: str = ""
