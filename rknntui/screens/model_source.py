"""The half of workspace Model about loading: what a model needs first, and its conversion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rknntui.opening import source_names, source_options
from rknntui.screens.workspace import Workspace

if TYPE_CHECKING:
    from rknntui.messages import JobEnded, RecipeChanged

__all__ = ["SourceWorkspace", "needed_option"]


def needed_option(model: dict[str, Any]) -> str:
    """The option without which a model cannot be loaded, by its findings; empty where none is."""
    from engine import OPTIONS

    names = {option.name for option in OPTIONS}
    errors = (f["where"] for f in model.get("findings") or () if f["severity"] == "error")
    return next((where for where in errors if where in names), "")


class SourceWorkspace(Workspace):
    """Looks at the model again when options of its loading change; converts it in a job."""

    which = "source"
    _outdated = False

    @property
    def unconverted(self) -> bool:
        """Whether only the layers are shown, as the files tell them."""
        model = self.session.model or {}
        return self.which == "source" and model.get("loaded") is False

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """The keys of a load are there only where there is something to load."""
        if action in ("load", "option"):
            return not self.unavailable(action)
        return super().check_action(action, parameters)

    def on_recipe_changed(self, message: RecipeChanged) -> None:
        """Options of the load make another graph, or let a model be loaded at last."""
        open_source = self.session.model is not None and self.session.container is None
        if open_source and not message.whole and message.names & source_names():
            self._outdated = True
            if self.shown:
                self.look_again()

    def look_again(self) -> None:
        """Ask for the model view of the recipe as it is now, if it may be another one."""
        path = str(self.session.recipe.get("model") or "")
        if self._outdated and path:
            self._outdated = False
            said = source_options(self.session.recipe)
            self.ask("open", {"path": path, **said}, self._looked, group="open")

    def _looked(self, view: dict[str, Any]) -> None:
        if view["path"] == self.session.recipe.get("model"):
            self.session.model_seen(view)

    def why_not_load(self) -> str:
        """Why the model cannot be loaded now, for the user; empty when it can."""
        if self.session.container is not None or not self.session.recipe.get("model"):
            return "a source model is not open (o opens one)."
        model = self.session.model or {}
        if model.get("loaded", True):
            return "the model is loaded already."
        needed = needed_option(model)
        return f"{needed} is missing or does not fit (c leads there)." if needed else ""

    def action_load(self) -> None:
        """Load the model in a job, so that a conversion of seconds blocks nothing."""
        title = f"convert {str(self.session.recipe.get('model', '')).rpartition('/')[2]}"
        self.start_job("load", {"recipe": dict(self.session.recipe)}, title)

    def on_job_ended(self, message: JobEnded) -> None:
        """Show the graph that a conversion gave."""
        if message.method in ("load", "build") and message.state == "done" and self.unconverted:
            self._outdated = True
            self.look_again()

    def why_no_option(self) -> str:
        """Why no option can be gone to; empty when one can."""
        needed = needed_option(self.session.model or {})
        return "" if needed else "nothing is missing to load the model."

    async def action_option(self) -> None:
        """Go to the option that the load needs, in Configure."""
        name = needed_option(self.session.model or {})
        if name:
            await self.go_to_option(name)
