"""The workbench: a line of state, a line of workspaces, the workspace itself and a line of keys."""

from __future__ import annotations

import asyncio
import copy
from typing import TYPE_CHECKING, Any, TypeVar

from textual import events, on
from textual.containers import Container

from engine import StageTimes, state_folder
from engine.wire.formats import clock_text
from rknntui.announcer import Announcer
from rknntui.bridge import Bridge
from rknntui.colours import DEFAULT, Theming, theme_files
from rknntui.compat import QuietCrashApp
from rknntui.keys.actions import EVERYWHERE, REGISTRY, Action, bindings, key_text
from rknntui.links import GoToCompile, Link, RunAction
from rknntui.opener import Opener
from rknntui.output import Output
from rknntui.session import kept
from rknntui.session.background import Background
from rknntui.session.kept import Drafts, State
from rknntui.session.messages import (
    JobChanged,
    KeysChanged,
    ProblemsChanged,
    StepsChanged,
    TargetChanged,
    WorkerChanged,
)
from rknntui.session.promotion import read_table
from rknntui.session.state import Session
from rknntui.starting import Starting, unused_key
from rknntui.stopping import Stopping
from rknntui.terminal import Guard
from rknntui.widgets.divider import move_shown
from rknntui.widgets.header_footer import KeyBar, TooSmall, TopBar
from rknntui.workspaces import FIRST, WORKSPACES, load

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from textual.app import ComposeResult
    from textual.message import Message
    from textual.notifications import SeverityLevel
    from textual.worker import WorkType

    from engine.wire.method import Task
    from rknntui.screens.base.workspace import Workspace
    from rknntui.session.job_view_model import JobView
    from rknntui.session.messages import JobEnded, SourceChanged

P = TypeVar("P")
R = TypeVar("R")


def _palette() -> Any:
    from rknntui.keys.provider import ActionProvider

    return ActionProvider


class Workbench(QuietCrashApp):
    """The application.

    Args:
        path: what to open; without it, what the last run had open.
        recipe: a recipe to open instead, as option name -> value.
        options: of the source model at ``path``, such as its file of weights.
        state_kept: whether the last run's state is restored and this one's is saved.
    """

    TITLE = "RKNN TUI"
    CSS_PATH = "styles/workbench.tcss"
    COMMANDS = {_palette}
    AUTO_FOCUS = None
    ALLOW_SELECT = False
    ALLOW_IN_MAXIMIZED_VIEW = "TopBar, KeyBar"
    BINDINGS = bindings(action for action in REGISTRY if action.noun in EVERYWHERE)
    HORIZONTAL_BREAKPOINTS = [
        (0, "-tiny"),
        (60, "-narrow"),
        (100, "-normal"),
        (150, "-wide"),
    ]
    VERTICAL_BREAKPOINTS = [(0, "-short"), (18, "-low"), (32, "-high")]

    def __init__(
        self,
        path: str | None = None,
        *,
        recipe: dict[str, object] | None = None,
        options: dict[str, object] | None = None,
        state_kept: bool = True,
    ) -> None:
        super().__init__()
        self._first = path, recipe, options
        self._state_kept = state_kept
        self.told_files: list[str] = []
        state = self._state = kept.load_state(self._tell_file) if state_kept else State()
        self.announcer = Announcer(self.send)
        self._times = StageTimes(state_folder() / "stage_times.json" if state_kept else None)
        self.stopping = Stopping(self)
        self._guard = Guard(self.leave, self.stopping.last_words, lambda: self.announcer.restore)
        self._switching = asyncio.Lock()
        self.leaving = False
        self.session = Session(
            self.publish, Drafts(state_folder() / "drafts" if state_kept else None, self._tell_file)
        )
        self.session.restore(state)
        named = path or (recipe or {}).get("model") or state.path
        self.session.opening = str(named or "").rpartition("/")[2]
        self.bridge = Bridge(self.session, self.publish, self.show_error)
        self.current = FIRST
        self.visited: dict[str, Workspace] = {}
        self.memory: dict[str, Sequence[str]] = dict(state.views)
        self.dividers = dict(state.dividers)
        self.opener = Opener(self)
        self.background = Background(self.session, self.bridge)
        self.background.enabled = state.background
        self.output = Output(self, self.show_error)
        self.starting = Starting(self)
        self.animation_level = "none"
        REGISTRY.user_keys = {}
        self.theming = Theming(self, state.theme or DEFAULT, self._tell_file)

    # -- screen ------------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        yield TopBar()
        yield Container(id="body")
        yield TooSmall(id="too-small")
        yield KeyBar()

    async def on_mount(self) -> None:
        # the time that is left goes down, also where nothing else is told of the job
        self._clock = self.set_interval(1, self._update_top, pause=True)
        self.app_resume_signal.subscribe(self, self.sent.forget)
        if not self.is_headless:
            self._guard.watch(asyncio.get_running_loop())
        path, recipe, _ = self._first
        name = FIRST if path or recipe else self._state.workspace
        await self.show(name if name in WORKSPACES else FIRST)
        self.call_after_refresh(self._painted)

    def _update_top(self) -> None:
        if self.is_running and self.screen_stack:
            self.screen_stack[0].query_one(TopBar).update()

    def _painted(self) -> None:
        """After the first paint: the engine, what is to be opened, and the user's keys."""
        from rknntui.keys.keymap import use_own_keys

        self.bridge.start()
        self.do(self.opener.open_first(*self._first, self._state))
        if use_own_keys(self):
            self.publish(KeysChanged())
        for line in self.told_files:
            self.notify(line, severity="warning", timeout=15, markup=False)

    @property
    def workspace(self) -> Workspace | None:
        """The workspace on the screen."""
        return self.visited.get(self.current)

    def time_left(self, job: JobView) -> str:
        """How long a job still takes, as ``0:04``; empty while that is not known."""
        left = self._times.left(job)
        return "" if left is None else clock_text(max(1, round(left)))

    async def show(self, name: str) -> None:
        """Show a workspace, composing it on the first visit."""
        async with self._switching:
            before, workspace = self.workspace, self.visited.get(name)
            if workspace is None:
                workspace = load(name)()
                await self.screen_stack[0].query_one("#body").mount(workspace)
                self.visited[name] = workspace
            if before is not None and before is not workspace:
                before.hide()
            self.current = name
            self.screen_stack[0].minimize()
            workspace.show()
            self._update_top()

    # -- links and actions of the registry ---------------------------------------------------------

    @on(Link)
    async def _follow(self, link: Link) -> None:
        await self.show(link.workspace)
        if self.workspace is not None:
            self.workspace.arrive(link)

    @on(RunAction)
    async def _run(self, message: RunAction) -> None:
        await self.run_registered(REGISTRY[message.action])

    async def run_registered(self, action: Action) -> None:
        """Run an action of any workspace: its workspace is shown first."""
        if action.noun in WORKSPACES:
            await self.show(action.noun)
        if self.starting.not_now(action):
            return
        target = self.workspace if action.noun in WORKSPACES else self
        await self.run_action(action.call or action.method, target)

    def disabled_reason(self, action: Action) -> str:
        """Why an action cannot run now; empty when it can."""
        if action.noun in WORKSPACES:
            workspace = self.visited.get(action.noun)
            return workspace.disabled_reason(action.method) if workspace is not None else ""
        return self.starting.disabled_reason(action.id)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Grey out what cannot run now."""
        own = REGISTRY.called("app", action) or REGISTRY.called("job", action)
        return None if own is not None and self.disabled_reason(own) else True

    def on_key(self, event: events.Key) -> None:
        """A key that cannot act says why in one line, and which key would make it possible."""
        if self.typed_ahead(event):
            event.prevent_default()
        elif len(self.screen_stack) == 1 and not self.leaving:
            active = self.screen.active_bindings.get(event.key)
            if why := unused_key(self, event.key, active):
                self.notify(why, severity="warning", markup=False)

    def keys_of(self, action: Action) -> list[str]:
        """The keys of an action as the user sees them, remapped ones included."""
        from textual.binding import Binding

        keys = REGISTRY.keys_of(action.id)
        return [self.get_key_display(Binding(key, action.method)) for key in keys]

    # -- session and engine ------------------------------------------------------------------------

    def do(self, work: Coroutine[Any, Any, object]) -> None:
        """Run something that asks the engine beside the interface; its errors become a dialog."""
        self.run_worker(self.opener.guarded(work), exit_on_error=True)

    def publish(self, message: Message) -> None:
        """Post a message of the session to the workbench and every workspace that was visited."""
        if self.is_running:
            for target in (self, *self.visited.values()):
                target.post_message(copy.copy(message))

    @on(WorkerChanged)
    @on(ProblemsChanged)
    @on(StepsChanged)
    @on(TargetChanged)
    @on(JobChanged)
    @on(KeysChanged)
    def show_state(self) -> None:
        """Draw again what the line on top says and which actions there are."""
        if self.is_running and self.screen_stack:
            self._update_top()
            self.screen_stack[0].refresh_bindings()
            self.announcer.show(self.session)
            (self._clock.pause if self.session.running is None else self._clock.resume)()

    def on_job_ended(self, message: JobEnded) -> None:
        """Tell the end of a job; a failure has its dialog."""
        self.show_state()
        job = self.session.jobs.get(message.job)
        if job is not None and job.background:
            self.background.ended(job)
        if job is None or not job.background or job.state == "done":
            self.ask_in_background()
        if job is not None:
            self._times.learn(job)
            self.announcer.ended(job, watched=self.app_focus)
            if message.state != "failed" and not job.quiet:
                level: SeverityLevel = "information" if message.state == "done" else "warning"
                self.notify(f"{job.title}: {message.state}{job.took}", severity=level, markup=False)

    def on_build_finished(self) -> None:
        """What its layers are and may become is known in every view."""
        self.do(read_table(self.bridge, self.session))

    def on_model_opened(self) -> None:
        self.opener.opened()
        self.background.forget()
        self.show_state()
        self.save_state()
        self.ask_in_background()

    def on_recipe_changed(self) -> None:
        """The files to watch may be others now."""
        self.show_state()
        self.opener.follow()
        self.ask_in_background()

    def ask_in_background(self) -> None:
        """Ask what the steps still lack."""
        # not a coroutine: one that is replaced before it starts would never be awaited
        work: WorkType[None] = self.background.work
        self.run_worker(work, group="background", exclusive=True)

    def on_source_changed(self, message: SourceChanged) -> None:
        """Offer to read it again."""
        self.opener.changed_on_disk(message)

    def open_path(self, path: str) -> None:
        """Open a model, recipe or container."""
        self.do(self.opener.open(path))

    def open_demo(self) -> None:
        """Open the demo model with its samples; the demo is built where it was not yet."""
        self.do(self.opener.open_demo())

    def start_job(self, method: Task[P, R], params: P, title: str) -> None:
        """Start a long action; it waits in the worker while another one runs. Where the target
        does not fit it, the first start is a question, the second a yes.
        """
        if not self.asks_first(method.name, params):
            self.do(self.bridge.submit(method, params, title))

    def asks_first(self, method: str, params: object) -> bool:
        """Whether the start of a job that the target does not fit waits for a yes."""
        return self.starting.asks(method, params)

    async def on_event(self, event: events.Event) -> None:
        """Take what is typed and clicked, until the workbench leaves."""
        if not (self.leaving and isinstance(event, events.InputEvent)):
            await super().on_event(event)

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = True,
    ) -> None:
        """Tell something in the first line, which covers nothing; a long text gets a box."""
        alone = self.is_running and len(self.screen_stack) == 1
        seconds = self.NOTIFICATION_TIMEOUT if timeout is None else timeout
        bars = self.screen.query(TopBar) if alone else ()
        if any(bar.tell(message, title, severity, seconds) for bar in bars):
            return
        super().notify(message, title=title, severity=severity, timeout=timeout, markup=markup)

    def show_error(self, error: Exception) -> None:
        """Tell an error in a dialog; a mistake of this program is logged too."""
        if self.is_running:
            self.opener.tell_error(error)

    # -- actions ---------------------------------------------------------------------------------

    async def action_show(self, name: str) -> None:
        """Show a workspace."""
        await self.show(name)

    def action_help(self) -> None:
        """Show the keys of the focused widget, the workspace and the workbench."""
        from rknntui.screens.dialogs.help import HelpDialog

        about, view = (
            ("", "") if self.workspace is None else (self.workspace.HELP, self.workspace.view)
        )
        self.push_screen(HelpDialog(self, self.session, self.current, about, view))

    def action_jump(self) -> None:
        """Put a letter on every pane."""
        from rknntui.screens.dialogs.help import jump

        jump(self)

    def action_open(self) -> None:
        """Choose a file and open it."""
        self.opener.choose()

    def action_build(self) -> None:
        """Check the recipe and build it, from wherever the user is."""
        self.build()

    def build(self, *, refresh: bool = False) -> None:
        """Check the recipe and build it; with ``refresh`` every stage anew."""
        if not self.starting.not_now(REGISTRY["app.build"]):
            self.do(self.starting.build(refresh=refresh))

    def action_compile(self) -> None:
        """Go to where the build is compiled for the target's chip."""
        self.post_message(GoToCompile())

    def action_target(self) -> None:
        """Change what everything is for: chip, toolkit, board, compiled file."""
        from rknntui.screens.dialogs.dialogs import ask_user
        from rknntui.screens.dialogs.target import TargetDialog

        ask_user(self, TargetDialog(self.session), lambda part: self.take_target(*part))

    def take_target(self, kind: str, value: str) -> None:
        """Make ``value`` the chip, board, toolkit or compiled file."""
        from rknntui.screens.dialogs.target import take_target

        self.do(take_target(self, kind, value))

    def action_jump_to(self) -> None:
        """Jump to a layer, option, file, board or action by its name."""
        from textual.command import CommandPalette

        from rknntui.keys.provider import PlaceProvider

        self.push_screen(CommandPalette([PlaceProvider], placeholder="Jump to…"))

    def action_theme(self) -> None:
        """Choose one of the themes; the list shows each as the cursor reaches it."""
        from rknntui.screens.dialogs.lists import ThemeDialog

        self.push_screen(ThemeDialog(list(theme_files()), self.theme))

    def action_background(self) -> None:
        """Ask for figures without being asked, or no longer; the next start does the same."""
        self.background.enabled = not self.background.enabled
        self.notify(f"Background work is {'on' if self.background.enabled else 'off'}.")
        self.ask_in_background()

    def action_zoom(self) -> None:
        """Let the focused pane fill the screen, or give the space back."""
        if self.screen.maximized is not None:
            self.screen.minimize()
        elif self.focused is not None:
            self.screen.maximize(self.focused)
            self.notify(f"{key_text('view.zoom')} or Esc shows the other panes again.")

    def action_move_line(self, by: int) -> None:
        """Move the line between the panes to the left or up (less than 0), or right or down."""
        move_shown(self, by)

    def action_cancel(self) -> None:
        """Ask whether the running job shall stop, or which one of several."""
        self.stopping.ask(None)

    def key_escape(self) -> None:
        """Esc that nothing else takes: stop looking at a file that takes too long."""
        if self.bridge.stop_queries():
            self.notify("The request was cancelled.")

    def action_reload(self) -> None:
        """Open what changed on disk again; after a build, build again."""
        self.do(self.opener.reload())

    def action_undo(self) -> None:
        """Take back the last change of the recipe, or go back to the unsaved one before it."""
        self.opener.undo()

    def action_redo(self) -> None:
        """Make it again."""
        self.opener.redo()

    def action_suspend(self) -> None:
        """Stop like every program of a shell, until its ``fg``; jobs go on in their worker."""
        from rknntui.terminal import stop_until_fg

        self.send(self.announcer.restore)
        stop_until_fg(self)
        self.announcer.begin()
        self.announcer.show(self.session)

    async def action_quit(self) -> None:
        """Leave; with a running job ask what becomes of it."""
        self.stopping.ask_and_leave()

    # -- end ---------------------------------------------------------------------------------------

    def save_state(self) -> bool:
        """Remember what the next start shows; False where that could not be written."""
        state = self.session.to_state(
            workspace=self.current,
            theme=self.theming.remembered,
            views={path: tuple(groups) for path, groups in self.memory.items()},
            dividers=self.dividers,
            background=self.background.enabled,
        )
        return not self._state_kept or kept.save_state(state, self._tell_file)

    def _tell_file(self, line: str) -> None:
        """A file of the state or a theme cannot be read or written: say so, once."""
        if line not in self.told_files:
            self.told_files.append(line)
            if self.is_running and not self.leaving:
                self.notify(line, severity="warning", timeout=15, markup=False)

    def leave(self, code: int = 0) -> None:
        """End in an orderly way; a running job goes on in its worker. What is typed after this
        goes nowhere.
        """
        self.leaving = True
        self.session.leave()
        self.save_state()
        self.exit(return_code=code)

    async def on_unmount(self) -> None:
        self.opener.stop()
        await self.bridge.close()
