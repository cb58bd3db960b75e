"""Links between workspaces: messages that any widget posts and the workbench follows.

It shows the workspace, and gives it the link (:meth:`Workspace.arrive`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from textual.message import Message

if TYPE_CHECKING:
    from engine.wire.model import Which


class Link(Message):
    """Leads to ``workspace``."""

    workspace: str


@dataclass(eq=False)
class GoTo(Link):
    """Show a workspace."""

    workspace: str


@dataclass(eq=False)
class GoToLayer(Link):
    """Show a layer in Layers under a set of columns; ``layer`` is any name of it."""

    layer: str
    columns: Literal["quality", "cost", "compiled", "board", "all"] = "quality"
    workspace = "layers"


@dataclass(eq=False)
class GoToNode(Link):
    """Show a node in Model; ``graph`` is source, optimised or quantized."""

    node: str
    graph: Which = "optimised"
    workspace = "model"


@dataclass(eq=False)
class GoToCompile(Link):
    """Compile in Chips for ``chip``, else for the marked chips or the target; or show ``view``."""

    chip: str = ""
    view: str = ""
    workspace = "chips"


@dataclass(eq=False)
class GoToCompiled(Link):
    """Measure a compiled model, by the path of its file, in Bench."""

    path: str
    workspace = "bench"


@dataclass(eq=False)
class GoToOption(Link):
    """Show an option in Recipe."""

    option: str
    workspace = "recipe"


@dataclass(eq=False)
class RunAction(Message):
    """Run an action of the registry, by id; one of a workspace is run there."""

    action: str
