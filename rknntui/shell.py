"""What the parts of the workbench may ask of it: :class:`rknntui.app.Workbench` has all of this.

Workspaces, dialogs and the line on top name this protocol and not the application, which knows all
of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from textual.message import Message
    from textual.notifications import SeverityLevel
    from textual.screen import Screen

    from engine.wire.method import Task
    from rknntui.bridge import Bridge
    from rknntui.colours import Theming
    from rknntui.keys.actions import Action
    from rknntui.session.job_view_model import JobView
    from rknntui.session.state import Session

P = TypeVar("P")
R = TypeVar("R")


class TakesText(Protocol):
    """What leaves the workbench as text."""

    def copy(self, text: str) -> None: ...

    def save(self, title: str, name: str, text: str) -> None: ...

    def write_file(self, path: str, text: str, note: str = "") -> None: ...


class Stops(Protocol):
    """What asks before it stops a job."""

    def ask(self, job: JobView | None) -> None: ...


class _HasApp(Protocol):
    @property
    def app(self) -> object: ...


class InShell:
    """A part of the workbench, which knows it."""

    @property
    def workbench(self: _HasApp) -> Shell:
        """The application, typed."""
        return cast("Shell", self.app)


class Shell(Protocol):
    """The workbench, as its parts see it.

    Attributes:
        session: model, recipe, problems, jobs and last build.
        bridge: the way to the engine's worker.
        theming: shows themes.
        current: the name of the workspace on the screen.
        dividers: percent of the pane before each divider that was moved.
        memory: path of a model -> groups of its graph that are open.
    """

    session: Session
    bridge: Bridge
    theming: Theming
    current: str
    dividers: dict[str, int]
    memory: dict[str, Sequence[str]]

    @property
    def output(self) -> TakesText: ...

    @property
    def stopping(self) -> Stops: ...

    @property
    def screen_stack(self) -> list[Screen[Any]]: ...

    @property
    def screen(self) -> Screen[Any]: ...

    def do(self, work: Coroutine[Any, Any, object]) -> None: ...

    def start_job(self, method: Task[P, R], params: P, title: str) -> None: ...

    def build(self, *, refresh: bool = False) -> None: ...

    def asks_first(self, method: str, params: object) -> bool: ...

    def take_target(self, kind: str, value: str) -> None: ...

    async def show(self, name: str) -> None: ...

    def show_state(self) -> None: ...

    def show_error(self, error: Exception) -> None: ...

    def open_path(self, path: str) -> None: ...

    def open_demo(self) -> None: ...

    def ask_in_background(self) -> None: ...

    def save_state(self) -> bool: ...

    def leave(self, code: int = 0) -> None: ...

    def time_left(self, job: JobView) -> str: ...

    def keys_of(self, action: Action) -> list[str]: ...

    def disabled_reason(self, action: Action) -> str: ...

    async def run_registered(self, action: Action) -> None: ...

    def clear_notifications(self) -> None: ...

    def post_message(self, message: Message) -> bool: ...

    def push_screen(
        self, screen: Screen[R], callback: Callable[[R | None], Any] | None = None
    ) -> object: ...

    async def push_screen_wait(self, screen: Screen[R]) -> R: ...

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = True,
    ) -> None: ...
