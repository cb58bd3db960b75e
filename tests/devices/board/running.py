"""What tests of models on a board share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from engine.devices.board.runtime import BoardRuntime
from tests.devices.fake_agent import OPEN, fake_agent
from tests.devices.fake_board import FakeBoard

IMAGE = np.arange(24, dtype=np.uint8).reshape(1, 2, 3, 4)
TOTAL = float(IMAGE.sum())


def opened(board: FakeBoard, model: Path, **plan: Any) -> BoardRuntime:
    """A board with a model that is open."""
    runtime = BoardRuntime(board, fake_agent(**plan))
    runtime.open(model)
    return runtime


def changed(side: str, original: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """What ``open`` answers, with one attribute changed."""
    return {**OPEN, side: [{**original, **changes}]}
