"""What can be done in the workspace Accuracy."""

from __future__ import annotations

from rknntui.keys.actions import Action
from rknntui.widgets.record_view import table_actions

ACTIONS: tuple[Action, ...] = (
    Action("accuracy.analyse", "Run", "Compare every layer, or run the next step.", ("r",), True),
    Action("accuracy.next-view", "View", "Switch between Layers, Guide and Score.", ("v",), True),
    Action("accuracy.drill", "Histograms", "Show histograms of the layer's values.", ("d",), True),
    Action("accuracy.node", "Node", "Go to the layer in the graph (Model).", ("m",), True),
    Action("accuracy.cost", "Cost", "Show what the layer costs on a chip (Chips).", ("C",)),
    Action(
        "accuracy.worst", "Rank by", "Rank by the next error measure, worst first.", ("t",), True
    ),
    Action(
        "accuracy.damage", "Output impact", "Also measure the output impact of bad layers.", ("D",)
    ),
    Action("accuracy.inputs", "Input…", "Analyse your own input files.", ("i",)),
    Action("accuracy.export", "Export…", "Write snapshots and error_analysis.txt.", ("x",), True),
    Action("accuracy.labels", "Labels…", "Choose labelled samples and score them.", ("e",), True),
    Action("accuracy.restart", "Restart", "Restart the guide.", ("R",)),
    Action("accuracy.back", "Back", "Back from the histograms to the ranking.", ("escape",)),
    *table_actions("accuracy"),
)
