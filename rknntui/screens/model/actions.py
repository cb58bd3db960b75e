"""What can be done in the workspace Model, and what it says while nothing is open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rknntui.keys.actions import Action
from rknntui.keys.text import key_text

if TYPE_CHECKING:
    from rknntui.widgets.strips import Line

ACTIONS: tuple[Action, ...] = (
    Action(
        "model.search",
        "Search…",
        "Find nodes by name, operator, tensor or shape.",
        ("slash",),
        True,
    ),
    Action("model.next", "Next", "Go to the next match.", ("n",), True),
    Action("model.previous", "Previous", "Go to the previous match.", ("N",)),
    Action(
        "model.graph",
        "Graph",
        "Switch between the source, optimised and quantized graph.",
        ("v",),
        True,
    ),
    Action(
        "model.table",
        "Table",
        "Switch between tree and table.",
        ("t",),
        True,
    ),
    Action(
        "model.load",
        "Convert",
        "Load the model; TensorFlow and PyTorch models are converted by their framework.",
        ("L",),
        True,
    ),
    Action(
        "model.option", "Option", "Go to the option that is required for loading.", ("c",), True
    ),
    Action("model.cost", "Cost", "Show what the node costs on a chip (Chips).", ("C",)),
    Action("model.findings", "Findings", "Show the findings for this model.", ("f",)),
    Action("model.export", "Save table…", "Write the nodes to a CSV file.", ("e",)),
    Action("model.copy-detail", "Copy detail", "Copy the text of the detail pane.", ("d",)),
)


def empty_lines() -> list[Line]:
    """What the detail pane says while nothing is open."""
    return [
        [("No model is open.", "head")],
        [],
        [(f" {key_text('app.open')} ", "key"), (" open a model, a recipe or an .rknn", "")],
        [(f" {key_text('app.command-palette')} ", "key"), (" all actions", "")],
        [(f" {key_text('app.help')} ", "key"), (" keys of this screen", "")],
    ]
