"""What Run says while there is nothing to show, and why something cannot be done now."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rknntui.screens.run.requests import Subject

EMPTY = {
    "Layers": (
        "No layer is timed yet.\n\nA board's runtime times each layer: {run.target} chooses the "
        "board, {run.run} has them timed, {run.live} does so again and again. Timing slows the run."
    ),
    "Memory": (
        "No memory was asked for yet.\n\n{run.target} chooses a board, {run.run} asks what the "
        "model takes there: weights, tensors, all of it, and what the board has."
    ),
    "Compare": (
        "Nothing is compared yet.\n\n{run.target} chooses a board, {run.run} runs the same bytes "
        "three ways: reference (float, golden), simulator, board. The first layer in which the "
        "board does something else than the simulator is marked. Without a file for each input the "
        "first calibration sample is taken."
    ),
}
"""View -> what its table says before there is something."""

_NO_MODEL = "no model is open ({app.open} opens one)."
_ONLY_BOARD = "the simulator has no NPU to look at ({run.target} chooses a board)."
_RUNS = ("run", "layers", "live", "save")


def reason(method: str, view: str, subject: Subject) -> str:
    """Why an action cannot run now, keys as in help texts; empty when it can.

    Args:
        method: of the action.
        view: that is shown.
        subject: what would run, and where.
    """
    session, board = subject.session, subject.board
    if method in (*_RUNS, "pick", "compiled") and session.model is None:
        return _NO_MODEL
    if method in ("layers", "live", "cores") and board is None:
        return _ONLY_BOARD
    if method == "run" and view != "Outputs":
        if board is None:
            return _ONLY_BOARD
        if view == "Compare" and session.container is not None:
            return "a comparison needs the model itself, not its container; open the model."
    elif method in ("run", "save") and board is None and session.vendor:
        return "a compiled vendor model runs only on its NPU ({run.target} chooses a board)."
    if method == "compiled" and session.vendor:
        return "the open file is a compiled model."
    samples = session.container is None and session.recipe.get("dataset")
    if method == "sample" and not samples:
        return "there is no calibration dataset ({go.dataset} chooses one)."
    if method == "export" and session.container is not None:
        return "this is the container; open its model to export again."
    if method == "export" and not session.recipe.get("model"):
        return _NO_MODEL
    if method == "drill" and session.container is not None:
        return "a container has no calibration samples; open its model."
    return ""
