"""Starting a build: the recipe is checked first, and a problem is shown where it is mended."""

from __future__ import annotations

from functools import partial
from typing import Any

from engine import printable
from rknntui.screens.tables import TableWorkspace

__all__ = ["BuildStarter"]


class BuildStarter(TableWorkspace):
    """The half of Quantize that starts builds."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting = False

    def show_view(self, name: str) -> None:
        """Show a view."""
        raise NotImplementedError

    def action_build(self) -> None:
        """Check the recipe, then build; a problem is shown where it is mended."""
        self._check_and_build(refresh=False)

    def action_refresh(self) -> None:
        """Build every stage again."""
        self._check_and_build(refresh=True)

    def _check_and_build(self, *, refresh: bool) -> None:
        if reason := self.unavailable("build"):
            self.notify(f"Not now: {reason}", severity="warning")
            return
        if self._waiting:
            return
        typed = set(self.session.all_problems) - set(self.session.problems)
        if typed:
            self.workbench.do(self.go_to_option(min(typed)))
            return
        self._waiting = True
        recipe = dict(self.session.recipe)
        self.ask(
            "validate",
            {"recipe": recipe},
            partial(self._checked, recipe, refresh),
            failed=self._not_checked,
        )

    def _not_checked(self, error: Exception) -> None:
        self._waiting = False
        self.workbench.show_error(error)

    def _checked(self, recipe: dict[str, Any], refresh: bool, answer: dict[str, Any]) -> None:
        self._waiting = False
        problems = {p["option"]: p["message"] for p in answer["problems"]}
        self.session.set_problems(problems, answer["findings"], answer["yaml"])
        if problems:
            name, message = next(iter(problems.items()))
            self.notify(
                f"{name}: {printable(message)}",
                title="Cannot be built yet",
                severity="warning",
                markup=False,
            )
            self.workbench.do(self.go_to_option(name))
            return
        params: dict[str, Any] = {"recipe": recipe}
        if refresh:
            params["refresh"] = True
        name = str(recipe["model"]).rsplit("/", 1)[-1]
        self.start_job("build", params, f"build {printable(name, 80)}")
        self.show_view("Log")

    def action_compare(self) -> None:
        """Ask for options and values, then build every combination."""
        from rknntui.screens.dialogs import PromptDialog
        from rknntui.screens.quantize_compare import axes_of, default_axes, problem_of

        recipe = dict(self.session.recipe)

        def start(text: str | None) -> None:
            if text is None:
                return
            self.start_job("sweep", {"recipe": recipe, "axes": axes_of(text)}, "compare builds")
            self.show_view("Compare")

        question = "Options and their values: option=value,value option=value,value"
        asks = PromptDialog("Compare builds", question, default_axes(recipe), problem_of)
        self.app.push_screen(asks, start)
