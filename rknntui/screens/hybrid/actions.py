"""What can be done in the workspace Hybrid."""

from __future__ import annotations

from rknntui.keys.actions import Action
from rknntui.widgets.record_view import table_actions

__all__ = ["ACTIONS"]

ACTIONS: tuple[Action, ...] = (
    Action("hybrid.lift", "Lift", "Lift the layer, or take it back.", ("space",), True),
    Action("hybrid.apply", "Take step", "Ask for the layers of a step.", ("a",), True),
    Action("hybrid.pause", "Pause", "Let the search wait, or go on.", ("P",), True),
    Action("hybrid.keep", "Keep best", "End the search with its best.", ("K",), True),
    Action("hybrid.range", "Range…", "Set the layer's minimum and maximum.", ("e",), True),
    Action("hybrid.propose", "Propose", "Let the engine choose layers.", ("p",), True),
    Action("hybrid.search", "Search…", "Find the layers that matter most.", ("f",), True),
    Action("hybrid.build", "Build", "Build with these layers.", ("b",), True),
    Action("hybrid.analyse", "Own errors", "Measure the error of each layer alone.", ("A",)),
    Action("hybrid.choose", "Dtype…", "Choose among the dtypes of the layer."),
    Action("hybrid.mark", "Mark", "Mark the layer for the next action.", ("m",)),
    Action("hybrid.mark-shown", "Mark shown", "Mark all rows that the filter shows.", ("M",)),
    Action("hybrid.reset", "Reset…", "Ask for no layer and no range any more.", ("R",)),
    Action("hybrid.next-view", "View", "Show the layers, or the search.", ("v",)),
    Action("hybrid.drill", "Histograms", "Show the layer's values.", ("d",)),
    Action("hybrid.node", "Node", "Show the layer in the graph.", ("n",)),
    Action("hybrid.stop", "Stop…", "Stop the search; asks first.", ("escape",)),
    *table_actions("hybrid"),
)
