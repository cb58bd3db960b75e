"""The actions of the workbench itself: what they are called, and what they do."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from textual import events

from rknntui.actions import REGISTRY, Action
from rknntui.colours import DEFAULT, ThemeError, read_theme, theme_files
from rknntui.compat import QuietCrashApp
from rknntui.workspaces import WORKSPACES

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.notifications import SeverityLevel

    from rknntui.bridge import Bridge
    from rknntui.jobview import JobView
    from rknntui.screens.workspace import Workspace
    from rknntui.state import Session

__all__ = ["ACTIONS", "Shell"]

CLIPBOARD_LIMIT = 74_000
"""Bytes that terminals and tmux still take in one OSC 52 sequence (100,000 of base64)."""

ACTIONS: tuple[Action, ...] = (
    Action(
        "app.help", "Help", "Keys and hints for what has the focus.", ("question_mark", "f1"), True
    ),
    Action(
        "app.command-palette",
        "Palette",
        "Find any action by typing a part of its name.",
        ("ctrl+p",),
        footer=True,
        palette=False,
        priority=True,
    ),
    Action("app.open", "Open…", "Open a model, a recipe or a .rknn file.", ("o",)),
    Action(
        "app.jump",
        "Jump",
        "Show a letter on every pane; press it to go there.",
        ("ctrl+o",),
        priority=True,
    ),
    Action("app.reload", "Reload", "Read what changed on disk again, and rebuild.", ("f5",)),
    Action(
        "app.undo",
        "Undo",
        "Take back the last change of the recipe.",
        ("u",),
    ),
    Action("app.redo", "Redo", "Make the change again that was taken back.", ("ctrl+r",)),
    Action("app.theme", "Theme…", "Choose the colours."),
    Action("app.quit", "Quit", "Leave; a running job is asked about.", ("ctrl+q", "q")),
    Action(
        "app.suspend",
        "Suspend",
        "Give the shell back; its fg returns here.",
        ("ctrl+z",),
        priority=True,
    ),
    Action("view.zoom", "Zoom", "Let the focused pane fill the screen, or give it back.", ("z",)),
    Action("job.cancel", "Stop job…", "Stop the running job; it asks first.", ("ctrl+x",)),
    *(
        Action(
            f"go.{name}",
            title,
            f"Show the workspace {title}.",
            (str(number), f"alt+{number}"),
            call=f"show('{name}')",
        )
        for number, (name, title) in enumerate(WORKSPACES.items(), 1)
    ),
)
REGISTRY.add(ACTIONS)


class Shell(QuietCrashApp):
    """The half of the workbench with the methods of :data:`ACTIONS`."""

    theme_problem = ""
    leaving = False

    if TYPE_CHECKING:  # what the other half has
        session: Session
        bridge: Bridge
        visited: dict[str, Workspace]
        user_keys: dict[str, str]

        @property
        def workspace(self) -> Workspace | None: ...
        async def show(self, name: str) -> None: ...
        def open_path(self, path: str) -> None: ...
        def reload_changed(self) -> None: ...
        def show_error(self, error: Exception) -> None: ...
        def leave(self, code: int = 0) -> None: ...

    async def on_event(self, event: events.Event) -> None:
        """Take what is typed and clicked, until the workbench leaves."""
        if not (self.leaving and isinstance(event, events.InputEvent)):
            await super().on_event(event)

    # -- notices -----------------------------------------------------------------------------------

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
        if not title and severity != "error" and self.is_running and len(self.screen_stack) == 1:
            from rknntui.widgets.bars import TopBar

            seconds = self.NOTIFICATION_TIMEOUT if timeout is None else timeout
            sign, style = ("! ", "warn") if severity == "warning" else ("", "good")
            bar = next(iter(self.screen.query(TopBar)), None)
            if bar is not None and bar.tell(f"{sign}{message}", style, seconds):
                return
        super().notify(message, title=title, severity=severity, timeout=timeout, markup=markup)

    # -- the registry ------------------------------------------------------------------------------

    def why_not(self, action: Action) -> str:
        """Why an action cannot run now; empty when it can."""
        if action.noun in WORKSPACES:
            workspace = self.visited.get(action.noun)
            return workspace.why_not(action.method) if workspace is not None else ""
        undone = self.session.can_undo or self.session.left is not None
        if action.id == "app.undo" and not undone:
            return "nothing was changed."
        if action.id == "app.redo" and not self.session.can_redo:
            return "nothing was taken back."
        if action.id == "job.cancel" and self.session.running is None:
            return "no job runs."
        return ""

    def keys_of(self, action: Action) -> list[str]:
        """The keys of an action as the user sees them, remapped ones included."""
        keys = self.user_keys.get(action.id, ",".join(action.keys))
        from textual.binding import Binding

        return [
            self.get_key_display(Binding(key.strip(), action.method))
            for key in keys.split(",")
            if key.strip()
        ]

    async def run_registered(self, action: Action) -> None:
        """Run an action of any workspace: its workspace is shown first."""
        if action.noun in WORKSPACES:
            await self.show(action.noun)
        reason = self.why_not(action)
        if reason:
            self.notify(f"Not now: {reason}", severity="warning", markup=False)
            return
        target = self.workspace if action.noun in WORKSPACES else self
        await self.run_action(action.call or action.method, target)

    # -- actions -----------------------------------------------------------------------------------

    async def action_show(self, name: str) -> None:
        """Show a workspace."""
        await self.show(name)

    def action_help(self) -> None:
        """Show the keys of the focused widget, the workspace and the workbench."""
        from rknntui.screens.help import HelpDialog

        self.push_screen(HelpDialog(self))

    def action_jump(self) -> None:
        """Put a letter on every pane."""
        from rknntui.screens.jump import JumpOverlay

        if len(self.screen_stack) > 1:
            return
        panes = [widget for widget in self.screen.focus_chain if widget.region.area]

        def go(name: str | None) -> None:
            if name:
                self.call_later(self.show, name)

        self.push_screen(JumpOverlay(panes, list(WORKSPACES)), go)

    def action_open(self) -> None:
        """Choose a file and open it."""
        from pathlib import Path

        from rknntui.screens.picker import PathPicker

        start = f"{Path(self.session.path).parent}/" if self.session.path else ""
        self.push_screen(PathPicker("Open a model, recipe or .rknn", start), self._open_chosen)

    def _open_chosen(self, path: str | None) -> None:
        if path:
            self.open_path(path)
            self.call_later(self.show, "model")

    def action_theme(self) -> None:
        """Choose one of the themes; the list shows each as the cursor reaches it."""
        from rknntui.screens.themes import ThemeDialog

        self.push_screen(ThemeDialog(list(theme_files()), self.theme))

    def use_theme(self, name: str) -> bool:
        """Show the colours of a theme.

        A bad one leaves the default with a notice. True when it was good.
        """
        try:
            theme = read_theme(name)
        except ThemeError as error:
            self.theme_problem = f"{error} The theme {DEFAULT} is used."
            if self.is_running:
                self.notify(self.theme_problem, title="Theme", severity="warning", markup=False)
            if name == DEFAULT:
                return False
            self.use_theme(DEFAULT)
            return False
        self.register_theme(theme)
        self.theme = theme.name
        return True

    def action_zoom(self) -> None:
        """Let the focused pane fill the screen, or give the space back."""
        if self.screen.maximized is not None:
            self.screen.minimize()
        elif self.focused is not None:
            self.screen.maximize(self.focused)

    def action_cancel(self) -> None:
        """Ask whether the running job shall stop."""
        job = self.session.running
        if job is None:
            self.notify("No job runs.")
        else:
            self.ask_cancel(job)

    def key_escape(self) -> None:
        """Esc that nothing else takes: stop looking at a file that takes too long."""
        if self.bridge.stop_queries():
            self.notify("Stopped waiting for an answer.")

    def ask_cancel(self, job: JobView) -> None:
        """Ask whether a job shall stop. Where it is stopping already, a yes ends its worker."""
        from rknntui.screens.dialogs import ConfirmDialog

        if job.cancelling:
            question = f"“{job.title}” is stopping. End its worker at once?"
        else:
            question = f"Stop “{job.title}”? Finished stages stay in the cache."
        answers = [("y", "stop", True), ("n", "keep running (also Esc)", False)]
        dialog = ConfirmDialog("Stop the job", question, answers)
        self.push_screen(dialog, partial(self._cancel_job, job.id))

    def _cancel_job(self, job_id: str, stop: bool | None) -> None:
        if stop:
            self.run_worker(self.bridge.cancel(job_id), name="cancel", exit_on_error=True)

    def action_reload(self) -> None:
        """Open what changed on disk again; after a build, build again."""
        self.reload_changed()

    def action_undo(self) -> None:
        """Take back the last change of the recipe, and say which.

        Where nothing was changed since another file was opened, go back to the unsaved one.
        """
        if not self.session.can_undo and self.session.left is not None:
            self.clear_notifications()
            self.open_path(self.session.left)
            return
        self._told("Taken back", self.session.undo())

    def action_redo(self) -> None:
        """Make it again."""
        self._told("Made again", self.session.redo())

    def _told(self, what: str, names: list[str]) -> None:
        text = f"{what}: {', '.join(names)}." if names else "There is no change to go back to."
        self.notify(text, timeout=3, markup=False)

    def action_suspend(self) -> None:
        """Stop like every program of a shell, until its ``fg``; jobs go on in their worker."""
        import os
        import signal

        from rknntui.terminal import shell_waits

        if self.is_headless or not shell_waits():
            said = "No shell waits here that could bring the workbench back; q leaves it."
            self.notify(said, severity="warning")
            return
        with self.suspend():  # gives the terminal back before the shell takes it
            os.kill(0, signal.SIGTSTP)  # as a terminal does: a script that started us stops too

    async def action_quit(self) -> None:
        """Leave; with a running job ask what becomes of it."""
        from rknntui.screens.dialogs import ConfirmDialog

        job = next((j for j in self.session.jobs.values() if j.running and not j.quiet), None)
        if job is None:
            self.leave()
            return
        question = f"“{job.title}” runs. Left running, it is shown again by the next start."
        answers = [
            ("l", "leave running", "leave"),
            ("c", "cancel it", "cancel"),
            ("s", "stay", ""),
        ]
        dialog = ConfirmDialog("A job runs", question, answers)
        self.push_screen(dialog, partial(self._quit_with_job, job.id))

    async def _quit_with_job(self, job_id: str, choice: str | None) -> None:
        if choice == "cancel":
            await self.bridge.cancel(job_id)
        if choice:
            self.leave()

    def copy_out(self, text: str) -> None:
        """Copy a text by the terminal (OSC 52), or into a file when it is too long for that."""
        if not text:
            self.notify("There is nothing to copy here.", severity="warning")
            return
        if len(text.encode()) > CLIPBOARD_LIMIT:
            from engine import atomic_write, private_folder, state_folder

            path = state_folder() / "clipboard.txt"
            private_folder(path.parent)
            atomic_write(path, text.encode(), overwrite=True, private=True)
            self.notify(f"Too long for the terminal's clipboard: written to {path}.", markup=False)
            return
        self.copy_to_clipboard(text)
        lines = text.count("\n") + 1
        self.notify(f"Copied {lines} lines." if lines > 1 else f"Copied: {text[:60]}", markup=False)

    def write_out(self, path: str, text: str) -> None:
        """Write a text that the user asked for; an existing file only after a yes."""
        from pathlib import Path

        from engine import EngineError, OutputExistsError, atomic_write

        def write(overwrite: bool | None) -> None:
            if overwrite is None:
                return
            try:
                atomic_write(Path(path), text.encode(), overwrite=overwrite)
            except OutputExistsError:
                self.ask_overwrite(path, write)
            except EngineError as error:
                self.show_error(error)
            else:
                self.notify(f"Written: {path}", markup=False)

        write(False)

    def ask_overwrite(self, path: str, then: Callable[[bool | None], None]) -> None:
        """Ask whether an existing file may be replaced; ``then`` gets True, or None for no."""
        from engine import printable
        from rknntui.screens.dialogs import ConfirmDialog

        question = f"{printable(path, 300)} exists already. Replace it?"
        answers = [("y", "replace", True), ("n", "keep", None)]
        self.push_screen(ConfirmDialog("Replace a file", question, answers), then)
