"""The workbench: a line of state, a line of workspaces, the workspace itself and a line of keys."""

from __future__ import annotations

import asyncio
import copy
from typing import TYPE_CHECKING, Any, Literal

from textual.containers import Container

from rknntui import uistate
from rknntui.actions import REGISTRY, bindings
from rknntui.bridge import Bridge
from rknntui.colours import DEFAULT, FEW_COLOURS
from rknntui.drafts import Drafts, drafts_folder, told
from rknntui.shell import ACTIONS, Shell
from rknntui.state import Session
from rknntui.terminal import Guard
from rknntui.widgets.bars import KeyBar, TooSmall, TopBar
from rknntui.workspaces import WORKSPACES, load

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from textual.app import ComposeResult
    from textual.message import Message

    from rknntui.messages import JobEnded, SourceChanged
    from rknntui.screens.workspace import Workspace
    from rknntui.watch import Watch

__all__ = ["Workbench"]


def _palette() -> Any:
    from rknntui.commands import ActionProvider

    return ActionProvider


class Workbench(Shell):
    """The application.

    Args:
        path: what to open; without it, what the last run had open.
        recipe: a recipe to open instead, as option name -> value.
        given: options of the source model at ``path``, such as its file of weights.
        state_kept: whether the last run's state is restored and this one's is saved.
    """

    TITLE = "RKNN TUI"
    CSS_PATH = "styles/workbench.tcss"
    COMMANDS = {_palette}
    AUTO_FOCUS = None
    ALLOW_SELECT = False
    BINDINGS = bindings(ACTIONS)
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
        recipe: dict[str, Any] | None = None,
        given: dict[str, Any] | None = None,
        state_kept: bool = True,
    ) -> None:
        super().__init__()
        self._argument = path
        self._recipe = recipe
        self._given = given
        self._state_kept = state_kept
        self._state: dict[str, Any] = uistate.load() if state_kept else {}
        self._guard = Guard(self.leave, self.save_state)
        self._switching = asyncio.Lock()
        self._changed: set[str] = set()
        self._watch: Watch | None = None
        self.session = Session(self.publish, Drafts(drafts_folder() if state_kept else None))
        self.bridge = Bridge(self.session, self.publish, self.show_error)
        self.current = "model"
        self.visited: dict[str, Workspace] = {}
        self.memory: dict[str, Any] = dict(self._state.get("views") or {})
        self.user_keys: dict[str, str] = {}
        self.animation_level = "none"
        self._wanted_theme = str(self._state.get("theme", DEFAULT))
        self.use_theme(FEW_COLOURS if self.colours == "standard" else self._wanted_theme)

    # -- screen ------------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        yield TopBar()
        yield Container(id="body")
        yield TooSmall(id="too-small")
        yield KeyBar()

    async def on_mount(self) -> None:
        self.app_resume_signal.subscribe(self, self.sent.forget)
        if not self.is_headless:
            self._guard.watch(asyncio.get_running_loop())
        wanted = "model" if self._argument or self._recipe else str(self._state.get("workspace"))
        await self.show(wanted if wanted in WORKSPACES else "model")
        self.call_after_refresh(self._painted)

    def _painted(self) -> None:
        """After the first paint: the engine, what is to be opened, and the user's keys."""
        self.bridge.start()
        self.do(self._open_first())
        self._apply_keymap()
        if self.theme_problem:
            self.notify(self.theme_problem, title="Theme", severity="warning", markup=False)

    def _apply_keymap(self) -> None:
        from rknntui.keymap import keymap_file, read_keymap
        from rknntui.workspaces import load_all

        if not keymap_file().is_file():
            return
        load_all()
        keymap = read_keymap(keymap_file(), REGISTRY)
        self.user_keys = keymap.keys
        self.set_keymap(keymap.keys)
        for problem in keymap.problems[:4]:
            self.notify(problem, title="Your keys", severity="warning", timeout=10, markup=False)

    @property
    def workspace(self) -> Workspace | None:
        """The workspace on the screen."""
        return self.visited.get(self.current)

    def tab_names(self) -> list[tuple[str, str, str]]:
        """(name, title, mark) of each workspace; the mark says without colour what waits there."""
        marks = {
            "configure": "!" if self.session.all_problems else "",
            "jobs": "*" if self.session.running else "",
        }
        return [(name, title, marks.get(name, "")) for name, title in WORKSPACES.items()]

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
            workspace.show()
            self.screen_stack[0].query_one(TopBar).update()

    # -- session and engine ------------------------------------------------------------------------

    def do(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something that asks the engine beside the interface; its errors become a dialog."""

        async def guarded() -> None:
            from engine import EngineError, JobCancelledError

            try:
                await work
            except JobCancelledError:
                pass  # the user's own doing, told where they did it
            except EngineError as error:
                self.show_error(error)

        self.run_worker(guarded(), exit_on_error=True)

    def publish(self, message: Message) -> None:
        """Post a message of the session to the workbench and every workspace that was visited."""
        if self.is_running:
            for target in (self, *self.visited.values()):
                target.post_message(copy.copy(message))

    def _state_line(self) -> None:
        if self.is_running and self.screen_stack:
            self.screen_stack[0].query_one(TopBar).update()
            self.screen_stack[0].refresh_bindings()

    on_worker_changed = on_problems_changed = on_job_changed = _state_line

    def on_job_ended(self, message: JobEnded) -> None:
        """Tell the end of a job; a failure has its dialog."""
        self._state_line()
        job = self.session.jobs.get(message.job)
        if job is not None and message.state != "failed" and not job.quiet:
            level: Literal["information", "warning"] = "warning"
            if message.state == "done":
                level = "information"
            self.notify(f"{job.title}: {message.state}{job.took}", severity=level, markup=False)

    def on_model_opened(self) -> None:
        self._changed.clear()
        self._state_line()
        self.save_state()

    def on_recipe_changed(self) -> None:
        """The files to watch may be others now."""
        from rknntui.watch import Watch

        self._state_line()
        if self._watch is None:
            self._watch = Watch(self.post_message)
        self._watch.follow(self.session)

    def on_source_changed(self, message: SourceChanged) -> None:
        """Offer to read it again; nothing happens to the user's work before they say so."""
        self._changed.add(message.role)
        rebuild = " and builds again" if self.session.summary else ""
        self.notify(
            f"The {message.role} changed on disk. F5 reads it again{rebuild}.",
            title=message.path,
            severity="warning",
            timeout=15,
            markup=False,
        )

    def open_path(self, path: str) -> None:
        """Open a model, recipe or container."""
        self.do(self._open(path))

    async def _open(self, path: str, given: dict[str, Any] | None = None) -> None:
        from pathlib import Path

        from engine import SeveralFilesError
        from rknntui.consent import ask_about_code, ask_for_partner, recipe_at
        from rknntui.opening import open_path

        absolute = str(Path(path).expanduser().absolute())
        kept = self.session.drafts.of(absolute)
        recipe = kept.recipe if kept else await recipe_at(self, absolute)
        await ask_about_code(self, recipe)
        before = self.session.recipe
        try:
            draft = await open_path(self.session, self.bridge, path, given)
        except SeveralFilesError:
            model = str(recipe.get("model") or absolute)
            pair = await ask_for_partner(self, model)
            if pair is not None:
                named = pair["model"] if model == absolute else path  # else a recipe's file
                await self._open(named, {**(given or {}), "weights": pair["weights"]})
            return
        if self.session.recipe is not before:
            for text in told(self.session.left, draft):
                self.notify(text, title="Unsaved changes", timeout=8, markup=False)

    async def _open_first(self) -> None:
        from rknntui import opening
        from rknntui.consent import ask_about_code

        if self._recipe is not None or self._argument:
            self.session.drafts.keep_last(self._state)
        if self._recipe is not None:
            await opening.open_recipe(self.session, self.bridge, self._recipe)
        elif self._argument:
            await self._open(self._argument, self._given)
        else:
            await ask_about_code(self, self._state.get("recipe") or {})
            await opening.restore(self.session, self.bridge, self._state)

    def reload_changed(self) -> None:
        """Read again what changed on disk; build again where there was a build."""
        self.do(self._reload())

    async def _reload(self) -> None:
        from rknntui.consent import ask_about_code, recipe_at
        from rknntui.opening import reload_changed

        changed, self._changed = self._changed or {"model"}, set()
        built = self.session.summary is not None
        again = self.session.recipe_path if "recipe" in changed else None
        await ask_about_code(
            self, await recipe_at(self, again) if again else dict(self.session.recipe)
        )
        await reload_changed(self.session, self.bridge, changed)
        if built and self.session.container is None and not self.session.all_problems:
            self.start_job("build", {"recipe": dict(self.session.recipe)}, "Build again")

    def start_job(
        self, method: str, params: dict[str, Any], title: str, *, quiet: bool = False
    ) -> None:
        """Start a long action; it waits in the worker while another one runs.

        With ``quiet`` the workspace that starts it tells its end, and an error.
        """

        async def submit() -> None:
            await self.bridge.submit(method, params, title, quiet=quiet)

        self.do(submit())

    def show_error(self, error: Exception) -> None:
        """Tell an error in a dialog; a mistake of this program is logged too."""
        from rknntui.report import told
        from rknntui.screens.dialogs import ErrorDialog

        if not self.is_running:
            return
        shown = self.screen
        if not (isinstance(shown, ErrorDialog) and str(shown.error) == str(error)):
            self.push_screen(told(error))

    # -- end ---------------------------------------------------------------------------------------

    def save_state(self) -> None:
        """Remember what the next start shows."""
        if self._state_kept:
            few = self.colours == "standard" and self.theme == FEW_COLOURS
            theme = self._wanted_theme if few else self.theme  # of terminals with more colours
            state = {"workspace": self.current, "theme": theme, "views": self.memory}
            uistate.save({**state, **self.session.to_json()})

    def leave(self, code: int = 0) -> None:
        """End in an orderly way; a running job goes on in its worker. What is typed after this
        goes nowhere.
        """
        self.leaving = True
        self.save_state()
        self.exit(return_code=code)

    async def on_unmount(self) -> None:
        if self._watch is not None:
            self._watch.stop()
        await self.bridge.close()
