"""How the open model is loaded, what can be done in Model, and its nodes as a table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from engine.wire.project_tables import GRAPH_NODES
from rknntui.arguments import source_names, source_options
from rknntui.keys.text import key_text
from rknntui.widgets.table import Table

if TYPE_CHECKING:
    from engine.wire.model import ModelView, NodeRow
    from rknntui.screens.base.workspace import Workspace
    from rknntui.session.messages import JobEnded, RecipeChanged
    from rknntui.widgets.strips import Line


def needed_option(model: ModelView) -> str:
    """The option without which a model cannot be loaded, by its findings; empty where none is."""
    from engine import OPTIONS

    names = {option.name for option in OPTIONS}
    errors = (f.where for f in model.findings if f.severity == "error")
    return next((where for where in errors if where in names), "")


class SourceLoad:
    """Looks at the model again when options of its loading change; converts it in a job.

    Args:
        workspace: asks the worker and starts the job.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._outdated = False

    @property
    def unconverted(self) -> bool:
        """Whether only the layers are known, as the files tell them."""
        model = self._workspace.session.model
        return model is not None and model.loaded is False

    def recipe_changed(self, message: RecipeChanged) -> None:
        """Options of the load make another graph, or let a model be loaded at last."""
        session = self._workspace.session
        open_source = session.model is not None and session.container is None
        if open_source and not message.whole and message.names & source_names():
            self._outdated = True
            if self._workspace.shown:
                self.look_again()

    def look_again(self) -> None:
        """Ask for the model view of the recipe as it is now, if it may be another one."""
        recipe = self._workspace.session.recipe
        path = str(recipe.get("model") or "")
        if self._outdated and path:
            self._outdated = False
            from engine.wire.model import OPEN
            from engine.wire.requests import ModelTarget

            params = ModelTarget(path, source=source_options(recipe))
            self._workspace.ask(OPEN, params, self._looked)

    def _looked(self, view: ModelView) -> None:
        session = self._workspace.session
        if view.path == session.recipe.get("model"):
            session.model_seen(view)

    def why_not_load(self) -> str:
        """Why the model cannot be loaded now, for the user; empty when it can."""
        session = self._workspace.session
        if session.container is not None or not session.recipe.get("model"):
            return "a source model is not open ({app.open} opens one)."
        if not self.unconverted:
            return "the model is loaded already."
        if not self.needed:
            return ""
        return f"{self.needed} is missing or does not fit ({{model.option}} opens it)."

    def load(self) -> None:
        """Load the model in a job, so that a conversion of seconds blocks nothing."""
        from engine.wire.model import LOAD, LoadParams

        recipe = dict(self._workspace.session.recipe)
        title = f"convert {str(recipe.get('model', '')).rpartition('/')[2]}"
        self._workspace.start_job(LOAD, LoadParams(recipe=recipe), title)

    def job_ended(self, message: JobEnded) -> None:
        """Look at the graph that a conversion gave."""
        if message.method in ("load", "build") and message.state == "done" and self.unconverted:
            self._outdated = True
            self.look_again()

    @property
    def needed(self) -> str:
        """The option without which the model cannot be loaded; empty where none is."""
        model = self._workspace.session.model
        return needed_option(model) if model is not None else ""


# What the workspace Model says while nothing is open.


def empty_lines() -> list[Line]:
    """What the detail pane says while nothing is open."""
    return [
        [("No model is open.", "head")],
        [],
        [(f" {key_text('app.open')} ", "key"), (" open a model, a recipe or an .rknn", "")],
        [(f" {key_text('app.command-palette')} ", "key"), (" all actions", "")],
        [(f" {key_text('app.help')} ", "key"), (" keys of this screen", "")],
    ]


# The nodes of a graph as a table.

_SHOWN = GRAPH_NODES.pick("number", "op", "name", "shape", "dtype")


class NodeTable(Table):
    """Rows are (position, operator, name, shape of the first output, its dtype)."""

    def __init__(self, nodes: Iterable[NodeRow]) -> None:
        super().__init__(_SHOWN.columns, id="nodes")
        self.set_nodes(nodes)

    def set_nodes(self, nodes: Iterable[NodeRow]) -> None:
        """Show the nodes of a graph."""
        self.set_rows(
            [(i, *(column.of(n) for column in _SHOWN.columns[1:])) for i, n in enumerate(nodes)]
        )
