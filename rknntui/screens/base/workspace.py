"""Base of the workspaces: what the shell gives them and asks of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from textual import on
from textual.containers import Container
from textual.widget import Widget
from textual.widgets import Static

from engine import sanitize
from rknntui.compat import lay_out
from rknntui.keys.actions import REGISTRY, bindings, key_text, with_keys
from rknntui.links import GoToCompile, GoToLayer, GoToNode
from rknntui.session.messages import StepsChanged
from rknntui.shell import InShell
from rknntui.workspaces import CLASSES

if TYPE_CHECKING:
    from textual.events import DescendantFocus
    from textual.worker import WorkType

    from engine import EngineError, Finding
    from engine.wire.method import Query, Task
    from rknntui.bridge import Bridge
    from rknntui.links import Link
    from rknntui.session.state import Session

P = TypeVar("P")
R = TypeVar("R")


class Workspace(InShell, Container):
    """One screen along the flow; composed on its first visit, hidden while another one is shown.

    A subclass sets the class variables below, composes widgets and defines ``action_<method>`` for
    each of its actions in ``rknntui/keys/actions.csv``. It hears the session by handlers named
    after the messages (``on_recipe_changed``, ...), also while hidden: it should then only note
    that it is out of date and redraw in ``update_view``.
    """

    NAME: ClassVar[str] = ""
    """Identifier, noun of its actions: ``model``."""
    HELP: ClassVar[str] = ""
    """One or two sentences for its help; ``{model.search}`` stands for an action's key."""
    FIRST_FOCUS: ClassVar[str] = ""
    """Selector of the widget that has the focus on the first visit; else the first that can."""
    COVERED: ClassVar[bool] = True
    """Whether it has nothing to say while a first file is being opened."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        if cls.NAME:
            cls.BINDINGS = bindings(REGISTRY.of(cls.NAME))
            CLASSES[cls.NAME] = cls
        super().__init_subclass__(**kwargs)

    def __init__(self) -> None:
        super().__init__(id=f"workspace-{self.NAME}", classes="workspace")
        self._last_focus: Widget | None = None
        self._opening = Static("", classes="opening", markup=False)

    @property
    def session(self) -> Session:
        """Model, recipe, problems, job and last build."""
        return self.workbench.session

    @property
    def bridge(self) -> Bridge:
        """The way to the engine's worker."""
        return self.workbench.bridge

    @property
    def shown(self) -> bool:
        """Whether this is the workspace on the screen."""
        return self.workbench.current == self.NAME

    @property
    def view(self) -> str:
        """The name of the view that is shown; empty where it has none."""
        return ""

    # -- what a subclass may define ----------------------------------------------------------------

    def update_view(self) -> None:
        """It is shown: bring outdated views up to date. Called at every visit, after compose."""

    def arrive(self, link: Link) -> None:
        """Show what a link leads to, of the links of this workspace; it is on the screen."""

    def unavailable_reason(self, method: str) -> str:
        """Why the action cannot run now, for the user, keys as in ``HELP``.

        Empty when it can. Greys the footer's key.
        """
        return ""

    def listed_findings(self) -> Sequence[Finding]:
        """The findings that it shows; one that defines this has the key that applies a remedy."""
        return ()

    def copy_text(self) -> str:
        """What ``y`` copies: the data under the cursor or of the view; empty when there is none."""
        return ""

    def command_line(self) -> list[str]:
        """The command that does the same headless, as an argument list.

        Empty when there is none.
        """
        return []

    def on_keys_changed(self) -> None:
        """Name the keys as the user has them."""
        if self.shown:
            self.update_view()

    # -- what the shell does -----------------------------------------------------------------------

    def on_mount(self) -> None:
        """What covers it while a first file is being opened: nothing of it is known yet."""
        if self.COVERED:
            self.mount(self._opening)

    @on(StepsChanged)
    def _tell_opening(self) -> None:
        """Say that a file is being opened, where nothing else is open."""
        if not self.COVERED:
            return
        name = self.session.opening if self.session.model is None else ""
        self._opening.update(f"… opening {sanitize(name, 80)}")
        self.set_class(bool(name), "-opening")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Grey out what cannot run now; the footer has the keys of the view that is shown."""
        known = REGISTRY.called(self.NAME, action)
        if known is None:
            return True
        if self.is_attached and not known.works_in(self.view):
            return False
        return None if self.disabled_reason(action) else True

    def disabled_reason(self, method: str) -> str:
        """Why an action cannot run now, for the user; empty when it can."""
        if method == "apply_remedy":
            if self.session.container is not None:
                return "a container is already built; open its model to change the recipe."
            fixable = any(finding.changes for finding in self.listed_findings())
            return "" if fixable else "no finding here has a fix to apply."
        return with_keys(self.other_view(method) or self.unavailable_reason(method))

    def other_view(self, method: str) -> str:
        """Why an action of another view cannot run now; empty where it is of the one shown."""
        own = REGISTRY.called(self.NAME, method)
        if own is None or own.works_in(self.view):
            return ""
        return f"it is of the view {own.views[0]} ({{{self.NAME}.next-view}} switches)."

    def not_now(self, why: str) -> bool:
        """Tell why something cannot be done; whether there is a reason."""
        if why:
            self.notify(f"Not now: {why}", severity="warning", markup=False)
        return bool(why)

    def show(self) -> None:
        """Make it visible and give the focus back to where it was."""
        self.display = True
        lay_out(self.screen)  # a hidden widget has no width to draw in
        self._tell_opening()
        self.update_view()
        self.focus_inside()

    def hide(self) -> None:
        """Disappear."""
        self.display = False

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        """Keep the focus for the next visit."""
        self._last_focus = event.widget

    def on_show(self) -> None:
        """Give the focus back that a terminal too small for anything took."""
        if self.shown and self.screen.focused in (None, self):
            self.focus_inside()

    def focus_inside(self) -> None:
        """Focus the widget that had it, the first one or the workspace, so that its keys work."""
        first = self.query(self.FIRST_FOCUS) if self.FIRST_FOCUS else ()
        places = (*([self._last_focus] if self._last_focus else ()), *first, *self.query("*"))
        target = next((one for one in places if one.is_attached and one.focusable), None)
        self.can_focus = target is None
        self.screen.set_focus(target or self, scroll_visible=False)

    def ask(
        self,
        method: Query[P, R],
        params: P,
        then: Callable[[R], None],
        *,
        failed: Callable[[EngineError], None] | None = None,
    ) -> None:
        """Query the worker without waiting; a newer question of the method replaces this one.

        Args:
            method: what is asked.
            params: its parameters.
            then: called with the answer, if the workspace still exists.
            failed: called with the ``EngineError``; without it the error is shown in a dialog.
        """

        async def question() -> None:
            from engine import EngineError, JobCancelledError

            try:
                answer = await self.bridge.call(method, params)
            except EngineError as error:
                if not self._alive or (failed is None and isinstance(error, JobCancelledError)):
                    return
                (failed or self.workbench.show_error)(error)
            else:
                if not self._alive:
                    return
                then(answer)
            self.screen.refresh_bindings()  # an answer decides which keys work

        # not a coroutine: one that is replaced before it starts would never be awaited
        work: WorkType[None] = question
        self.run_worker(
            work, group=f"{self.NAME}:{method.name}", exclusive=True, exit_on_error=True
        )

    @property
    def _alive(self) -> bool:
        """Whether there are still widgets to show an answer in; the workbench may be ending."""
        return self.is_attached and self.is_running and self.app.is_running

    def start_job(self, method: Task[P, R], params: P, title: str) -> None:
        """Start a long action.

        Its events come as ``JobChanged`` and ``JobEnded``, its errors as a dialog.
        """
        self.workbench.start_job(method, params, title)

    def start_writing(
        self,
        method: Task[P, R],
        params: P,
        title: str,
        *paths: str | None,
        replaces: str = "force",
    ) -> None:
        """Start a long action that writes files, after a yes where some of them are there.

        Args:
            method: what is done.
            params: its parameters.
            title: of the job.
            paths: of the files.
            replaces: the parameter that allows it to replace what is there.
        """
        from rknntui.screens.dialogs.picker import ask_overwrite

        def start(yes: bool) -> None:
            allowed: Any = replace(cast("Any", params), **{replaces: yes})
            self.start_job(method, allowed, title)

        ask_overwrite(self.app, paths, start)

    def action_apply_remedy(self) -> None:
        """Do what a finding advises; where several have a remedy, ask which one."""
        from rknntui.screens.dialogs.lists import RemedyDialog

        fixes = [finding for finding in self.listed_findings() if finding.changes]
        if len(fixes) == 1:
            self._remedy(fixes[0])
        elif fixes:
            self.app.push_screen(RemedyDialog(fixes), self._remedy)

    def _remedy(self, finding: Finding | None) -> None:
        if finding is None:
            return
        from rknntui.screens.dialogs.lists import changed_names

        self.change_recipe(dict(finding.changes))
        text = f"{changed_names(finding.changes)}. {key_text('app.undo')} undoes it."
        self.notify(text, title="Fix applied", markup=False)

    def change_recipe(self, changes: dict[str, object]) -> None:
        """Change options of the recipe; undo takes it back."""
        self.session.set_values(changes)

    # -- leading to other workspaces ---------------------------------------------------------------

    def linked_layer(self, method: str) -> str:
        """The name of the layer that a link of that action leads to; empty for none."""
        return ""

    def _lead(self, method: str, link: Callable[[str], Link]) -> None:
        """Follow a link to the layer; where there is none, say why."""
        if layer := self.linked_layer(method):
            self.post_message(link(layer))
        else:
            self.not_now(self.disabled_reason(method))

    def action_node(self) -> None:
        """Show the layer in the optimised graph."""
        self._lead("node", GoToNode)

    def action_drill(self) -> None:
        """Show the layer in Layers."""
        self._lead("drill", GoToLayer)

    def action_export(self) -> None:
        """Show the forms of a build in Chips."""
        self.post_message(GoToCompile(view="Exports"))

    # -- copying -----------------------------------------------------------------------------------

    def action_copy(self) -> None:
        """Copy the data of the view."""
        self.workbench.output.copy(self.copy_text())

    def action_copy_command(self) -> None:
        """Copy the equal command line."""
        import shlex

        self.workbench.output.copy(shlex.join(self.command_line()))
