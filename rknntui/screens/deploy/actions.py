"""What can be done in the workspace Deploy."""

from __future__ import annotations

from rknntui.keys.actions import Action
from rknntui.widgets.record_view import table_actions

ACTIONS: tuple[Action, ...] = (
    Action(
        "deploy.start",
        "Start",
        "Export, compile, check the toolkit or write the project, as the view is.",
        ("r",),
        True,
    ),
    Action(
        "deploy.next-view",
        "View",
        "Switch between Export, Compile, Layers, Agreement, Toolkits, Code and Log.",
        ("v",),
        True,
    ),
    Action("deploy.mark", "Mark", "Compile for the chip too, or no longer.", ("space",), True),
    Action("deploy.install", "Install…", "Install a toolkit of the vendor.", ("i",), True),
    Action(
        "deploy.settings",
        "Settings…",
        "Set quantizer, toolkit, time limit and the samples of the second opinion.",
        ("n", "Q"),
        True,
    ),
    Action(
        "deploy.accept",
        "Accept difference",
        "Write a model whose outputs are far from ours, or no longer.",
        ("D",),
    ),
    Action("deploy.adopt", "Adopt…", "Use an environment with a toolkit.", ("A",), True),
    Action("deploy.use", "Use", "Use the toolkit where none is named.", ("U",), True),
    Action("deploy.remove", "Remove…", "Remove the toolkit, after a confirmation.", ("delete",)),
    Action("deploy.run", "Run", "Run the compiled model on a board (Run).", ("R",), True),
    Action("deploy.node", "Node", "Go to the layer in the graph (Model).", ("m",), True),
    Action("deploy.cost", "Cost", "Show the estimate of the layer (Chips).", ("C",), True),
    Action("deploy.back", "Back", "Go back, or stop the running job.", ("escape",), True),
    Action("deploy.previous-view", "Previous view", "Show the previous view.", ("V",)),
    Action("deploy.mark-shown", "Mark shown", "Mark all chips that match the filter.", ("M",)),
    Action("deploy.findings", "Details", "Show all that is known of the result.", ("f",)),
    Action("deploy.drill", "Histograms", "Go to the layer's histograms (Accuracy).", ("d",)),
    Action("deploy.dtypes", "Dtype", "Go to the layer's dtype (Hybrid).", ("H",)),
    Action("deploy.next-chip", "Next chip", "Show the next chip.", ("right_square_bracket",)),
    Action("deploy.chip-before", "Chip before", "Show the chip before.", ("left_square_bracket",)),
    Action("deploy.refresh", "Compile anew", "Compile again what is in the cache.", ("B",)),
    *table_actions("deploy"),
)

_RESULT = ("Compile", "Layers", "Agreement")
OF_VIEWS = {
    "apply_remedy": (*_RESULT, "Code"),
    "mark": ("Compile",),
    "mark_shown": ("Compile",),
    "install": ("Compile", "Toolkits"),
    "settings": ("Compile",),
    "accept": ("Compile",),
    "refresh": ("Compile",),
    "adopt": ("Toolkits",),
    "use": ("Toolkits",),
    "remove": ("Toolkits",),
    "run": _RESULT,
    "findings": (*_RESULT, "Toolkits", "Code"),
    "node": ("Layers",),
    "cost": ("Layers",),
    "drill": ("Layers",),
    "dtypes": ("Layers",),
    "next_chip": ("Layers", "Agreement"),
    "chip_before": ("Layers", "Agreement"),
}
"""Actions whose keys act in some views alone."""
