"""Where the model zoo is that benchmarks read."""

from __future__ import annotations

import os
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]


def zoo_folder() -> Path:
    """RKNNTUI_ZOO, or the zoo in the shared folder beside the checkout; it may not be there."""
    named = os.environ.get("RKNNTUI_ZOO")
    return Path(named) if named else REPOSITORY.parent / "shared" / "zoo"
