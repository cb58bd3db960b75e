"""What the program takes of a small board's memory, and the bound of docs/devices.md."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.safety import ran

HALF = 1024
"""MB: half of a board with 2 GB; the rest is the system's, and the model's on the NPU."""


@pytest.mark.long
def test_it_fits_into_a_board_of_two_gigabytes(repository: Path) -> None:
    done = ran(sys.executable, repository / "benchmarks" / "on_board.py", "--json")
    assert done.returncode == 0, done.stderr
    taken = {each["name"]: each["peak_mb"] for each in json.loads(done.stdout)["taken"]}
    assert len(taken) == 6
    # the interface process alone has 20 MB: less was not seen at all
    assert all(10 < peak < HALF for peak in taken.values()), taken
