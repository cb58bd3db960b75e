"""What can be done in the workspace Hybrid."""

from __future__ import annotations

from rknntui.keys.actions import Action
from rknntui.widgets.record_view import table_actions

ACTIONS: tuple[Action, ...] = (
    Action(
        "hybrid.lift",
        "Promote",
        "Promote the layer to float16 (else int16), or undo it.",
        ("space",),
        True,
    ),
    Action(
        "hybrid.apply",
        "Apply step",
        "Apply the layers of a search step to the recipe.",
        ("a",),
        True,
    ),
    Action("hybrid.pause", "Pause", "Pause or resume the search.", ("P",), True),
    Action("hybrid.keep", "Use best", "Stop the search and use the best result.", ("K",), True),
    Action("hybrid.range", "Range…", "Set the layer's minimum and maximum.", ("e",), True),
    Action(
        "hybrid.propose", "Propose…", "Promote the layers that the engine proposes.", ("p",), True
    ),
    Action("hybrid.search", "Search…", "Search for the layers that matter most.", ("f",), True),
    Action("hybrid.build", "Build", "Build with these layers.", ("b",), True),
    Action(
        "hybrid.analyse", "Isolated errors", "Measure the isolated error of each layer.", ("A",)
    ),
    Action("hybrid.choose", "Dtype…", "Choose the dtype of the layer."),
    Action("hybrid.mark", "Mark", "Mark the layer for the next action.", ("m",)),
    Action("hybrid.mark-shown", "Mark shown", "Mark all rows that match the filter.", ("M",)),
    Action("hybrid.reset", "Reset…", "Reset all overrides: dtypes and ranges.", ("R",)),
    Action("hybrid.next-view", "View", "Switch between Layers and Search.", ("v",)),
    Action("hybrid.drill", "Histograms", "Show histograms of the layer's values.", ("d",)),
    Action("hybrid.node", "Node", "Go to the layer in the graph (Model).", ("n",)),
    Action("hybrid.cost", "Cost", "Show what the layer costs on a chip (Chips).", ("C",)),
    Action("hybrid.compile", "Compile…", "Compile the build for an NPU (Deploy).", ("D",)),
    Action("hybrid.stop", "Stop…", "Stop the search, after a confirmation.", ("escape",)),
    *table_actions("hybrid"),
)
