"""What can be done in the workspace Run."""

from __future__ import annotations

from rknntui.keys.actions import Action
from rknntui.widgets.record_view import table_actions

ACTIONS: tuple[Action, ...] = (
    Action(
        "run.run", "Run", "Run the inputs, or what the view shows, on the target.", ("r",), True
    ),
    Action("run.target", "Target…", "Choose the simulator or a board.", ("t",), True),
    Action(
        "run.next-view", "View", "Switch between Outputs, Layers, Memory, Compare.", ("v",), True
    ),
    Action("run.pick", "Input…", "Choose the file of an input.", ("e",), True),
    Action("run.sample", "Next sample", "Use the next calibration sample.", ("n",), True),
    Action("run.live", "Live", "Time the layers again and again, or stop that.", ("L",), True),
    Action("run.node", "Node", "Go to the layer in the graph (Model).", ("m",), True),
    Action("run.drill", "Histograms", "Show histograms of the layer's values.", ("d",), True),
    Action("run.save", "Save npy…", "Run, and write each output to an npy file.", ("w",), True),
    Action("run.export", "Export…", "Export or compile the build (Deploy).", ("x",), True),
    Action("run.layers", "Time layers", "Have the board time each layer.", ("R",)),
    Action("run.compiled", "Compiled model…", "Choose the compiled model for the board.", ("c",)),
    Action("run.cores", "Cores…", "Choose the NPU cores that run the model.", ("C",)),
    Action("run.more", "More values", "Show more top values.", ("plus",)),
    Action("run.fewer", "Fewer values", "Show fewer top values.", ("minus",)),
    *table_actions("run"),
)

OF_VIEWS = {
    "live": ("Layers",),
    "node": ("Layers", "Compare"),
    "drill": ("Layers", "Compare"),
    "save": ("Outputs",),
    "export": ("Outputs",),
    "more": ("Outputs",),
    "fewer": ("Outputs",),
}
"""Actions whose keys act in some views alone."""
