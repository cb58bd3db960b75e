"""Starting a build: the recipe is checked first, and a problem is shown where it is mended."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from engine import sanitize
from engine.wire.build import BUILD, BuildParams
from engine.wire.recipes import VALIDATE, Checked
from engine.wire.requests import OfRecipe
from engine.wire.sweep import SWEEP, SweepParams
from rknntui.links import GoToOption

if TYPE_CHECKING:
    from collections.abc import Callable

    from rknntui.screens.base.workspace import Workspace


class BuildStarter:
    """Starts builds and comparisons.

    Args:
        workspace: asks the worker and starts the job.
        started: called with the name of the view that shows what was started.
    """

    def __init__(self, workspace: Workspace, started: Callable[[str], None]) -> None:
        self._workspace = workspace
        self._started = started
        self._waiting = False

    def build(self, *, refresh: bool = False) -> None:
        """Check the recipe, then build; with ``refresh`` every stage anew."""
        workspace, session = self._workspace, self._workspace.session
        if reason := workspace.disabled_reason("build"):
            workspace.notify(f"Not now: {reason}", severity="warning")
            return
        if self._waiting:
            return
        typed = set(session.all_problems) - set(session.problems)
        if typed:
            workspace.post_message(GoToOption(min(typed)))
            return
        self._waiting = True
        recipe = dict(session.recipe)
        checked = partial(self._checked, BuildParams(recipe=recipe, refresh=refresh))
        workspace.ask(VALIDATE, OfRecipe(recipe), checked, failed=self._not_checked)

    def _not_checked(self, error: Exception) -> None:
        self._waiting = False
        self._workspace.workbench.show_error(error)

    def _checked(self, build: BuildParams, answer: Checked) -> None:
        self._waiting = False
        workspace = self._workspace
        problems = {p.option: p.message for p in answer.problems}
        workspace.session.set_problems(problems, answer.findings, answer.yaml)
        if problems:
            name, message = next(iter(problems.items()))
            workspace.notify(
                f"{name}: {sanitize(message)}",
                title="Cannot be built yet",
                severity="warning",
                markup=False,
            )
            workspace.post_message(GoToOption(name))
            return
        name = str((build.recipe or {})["model"]).rsplit("/", 1)[-1]
        workspace.start_job(BUILD, build, f"build {sanitize(name, 80)}")
        self._started("Log")

    def compare(self) -> None:
        """Ask for options and values, then build every combination."""
        from rknntui.screens.dialogs.dialogs import PromptDialog
        from rknntui.screens.quantize.sweep import axes_of, default_axes, problem_of

        workspace = self._workspace
        recipe = dict(workspace.session.recipe)

        def start(text: str | None) -> None:
            if text is None:
                return
            workspace.start_job(SWEEP, SweepParams(recipe, axes_of(text)), "compare builds")
            self._started("Compare")

        question = "Options and values: option=value,value option=value,value"
        asks = PromptDialog("Compare builds", question, default_axes(), problem_of)
        workspace.app.push_screen(asks, start)
