"""Waiting for what comes, instead of sleeping for luck."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from tests.safety import PATIENCE


def until(true: Callable[[], object], what: str) -> None:
    """Wait until something holds."""
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    """Whether a process runs; what has ended and was not waited for does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in ("Z", "X")


def ended(pid: int) -> bool:
    """The contrary."""
    return not alive(pid)


def open_files() -> int:
    """How many descriptors this process has."""
    return len(list(Path("/proc/self/fd").iterdir()))
