"""What can be done in the workspace Accuracy."""

from __future__ import annotations

from rknntui.keys.actions import Action
from rknntui.widgets.record_view import table_actions

__all__ = ["ACTIONS"]

ACTIONS: tuple[Action, ...] = (
    Action("accuracy.analyse", "Run", "Compare every layer, or run the next step.", ("r",), True),
    Action("accuracy.next-view", "View", "Show the guide, or the layers.", ("v",), True),
    Action("accuracy.drill", "Histograms", "Show the layer's values.", ("d",), True),
    Action("accuracy.node", "Node", "Show the layer in the graph.", ("m",), True),
    Action("accuracy.worst", "Rank by", "Rank by another error, worst first.", ("t",), True),
    Action("accuracy.damage", "Damage", "Also measure what bad layers do alone.", ("D",)),
    Action("accuracy.inputs", "Input…", "Analyse a sample of your own.", ("i",)),
    Action("accuracy.export", "Export…", "Write snapshots and error_analysis.txt.", ("x",), True),
    Action("accuracy.labels", "Labels…", "Score labelled samples of yours.", ("e",), True),
    Action("accuracy.restart", "Begin anew", "Begin the guide anew.", ("R",)),
    Action("accuracy.back", "Back", "From the histograms to the ranking.", ("escape",)),
    *table_actions("accuracy"),
)
