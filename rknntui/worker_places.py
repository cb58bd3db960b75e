"""Which of the engine's worker processes answers which method.

The main worker builds, simulates and runs. What looks at boards has workers of its own, so that a
build does not delay the list of boards, nor a board that does not answer a build. They import no
ONNX before a model is looked at: about 35 MB each, started when they are first asked. A model that
runs live on a board has one more, which does import it: it goes on beside a build. So does the
making of a toolkit's environment, which takes minutes.
"""

from __future__ import annotations

from typing import Literal

Place = Literal["main", "look", "boards", "live", "toolkits"]

MAIN: Place = "main"
_PLACES: dict[str, Place] = {
    "devices.list": "look",
    # its jobs wait for nothing: a watch goes on as long as the user wants
    "devices.examine": "look",
    # these wait for one board, up to its time-outs: the list of the others goes on
    "board.about": "boards",
    "board.live": "live",
    "monitor.watch": "boards",
    "monitor.replay": "boards",
    **dict.fromkeys(
        (f"vendor.{word}" for word in ("known", "default", "install", "check", "adopt", "remove")),
        "toolkits",
    ),
}
_BACKGROUND = ("board.live", "devices.examine", "monitor.watch", "monitor.replay")


def place_of(method: str) -> Place:
    """The worker of a method, by its name on the wire."""
    return _PLACES.get(method, MAIN)


def in_background(method: str) -> bool:
    """Whether a job runs beside what the user waits for: it ends when the workbench is left."""
    return method in _BACKGROUND
