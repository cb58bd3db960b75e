"""What can be done in the workspace Chips."""

from __future__ import annotations

from rknntui.keys.actions import Action
from rknntui.widgets.record_view import table_actions

ACTIONS: tuple[Action, ...] = (
    Action(
        "chips.next-view",
        "View",
        "Switch between Chips, Layers, Compare, Memory, Roofline, Check and Advice.",
        ("v",),
        True,
    ),
    Action("chips.mark", "Compare", "Compare the chip, or no longer.", ("space",), True),
    Action(
        "chips.what-if",
        "What if…",
        "Estimate another dtype, input size, batch, number of cores or clock.",
        ("w",),
        True,
    ),
    Action("chips.choose", "Chip…", "Choose the chip whose layers are shown.", ("c",), True),
    Action("chips.node", "Node", "Go to the layer in the graph (Model).", ("m",), True),
    Action("chips.drill", "Histograms", "Go to the layer's histograms (Accuracy).", ("d",)),
    Action("chips.dtypes", "Dtype", "Go to the layer's dtype (Hybrid).", ("H",)),
    Action("chips.next-chip", "Next chip", "Show the next chip.", ("right_square_bracket",)),
    Action("chips.chip-before", "Chip before", "Show the chip before.", ("left_square_bracket",)),
    Action("chips.report", "Report…", "Write a report as HTML, CSV or SVG.", ("x",), True),
    Action("chips.compile", "Compile…", "Compile the model for the chip (Deploy).", ("D",)),
    Action("chips.reset", "Reset what-if", "Go back to the recipe's own figures.", ("W",)),
    Action("chips.estimate", "Estimate", "Estimate again.", ("r",)),
    Action("chips.facts", "Facts", "Show what is known of the chip, with the sources.", ("i",)),
    Action(
        "chips.calibrate",
        "Calibrate",
        "Correct the estimates by the newest measured run of this model (rknntui perf).",
        ("K",),
    ),
    *table_actions("chips"),
)

OF_VIEWS = {
    "mark": ("Chips",),
    "choose": ("Layers", "Compare", "Memory", "Roofline", "Check", "Advice"),
    "next_chip": ("Layers", "Compare", "Memory", "Roofline", "Check", "Advice"),
    "chip_before": ("Layers", "Compare", "Memory", "Roofline", "Check", "Advice"),
    "node": ("Layers", "Compare", "Roofline", "Check", "Advice"),
    "drill": ("Layers", "Compare", "Roofline", "Check", "Advice"),
    "dtypes": ("Layers", "Compare", "Roofline", "Check", "Advice"),
}
"""Actions whose keys act in some views alone."""
