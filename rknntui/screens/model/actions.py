"""What can be done in the workspace Model, and what it says while nothing is open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rknntui.keys.actions import Action
from rknntui.keys.text import key_text

if TYPE_CHECKING:
    from rknntui.widgets.paint import Line

__all__ = ["ACTIONS", "empty_lines"]

ACTIONS: tuple[Action, ...] = (
    Action(
        "model.search",
        "Search…",
        "Find nodes by name, operator, tensor or shape.",
        ("slash",),
        True,
    ),
    Action("model.next", "Next", "Go to the next node found.", ("n",), True),
    Action("model.previous", "Previous", "Go to the node found before.", ("N",)),
    Action("model.graph", "Graph", "Show the source, optimised or quantized graph.", ("v",), True),
    Action(
        "model.table",
        "Table",
        "Show the nodes as a table that sorts, or as a tree.",
        ("t",),
        True,
    ),
    Action(
        "model.load",
        "Convert",
        "Load the model; TensorFlow's and PyTorch's are converted by their own framework.",
        ("L",),
        True,
    ),
    Action("model.option", "Option", "Go to the option that the load needs.", ("c",), True),
    Action("model.findings", "Findings", "Read what the checks noticed about this model.", ("f",)),
    Action("model.export", "Save table…", "Write the nodes as a CSV file.", ("e",)),
    Action(
        "model.copy-detail", "Copy detail", "Copy everything that the detail pane says.", ("d",)
    ),
)


def empty_lines() -> list[Line]:
    """What the detail pane says while nothing is open."""
    return [
        [("No model is open.", "head")],
        [],
        [(f" {key_text('app.open')} ", "key"), (" open a model, a recipe or an .rknn", "")],
        [(f" {key_text('app.command-palette')} ", "key"), (" all that can be done", "")],
        [(f" {key_text('app.help')} ", "key"), (" the keys that work here", "")],
    ]
