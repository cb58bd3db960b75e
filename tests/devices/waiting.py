"""Waiting for what comes, instead of sleeping for luck; and what processes hold."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
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


def processes(variable: str, words: str = "") -> list[int]:
    """Those that run with ``NAME=VALUE`` in their environment, and words in their command line."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            ours = variable.encode() in (folder / "environ").read_bytes().split(b"\0")
            if ours and words.encode() in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return [pid for pid in found if alive(pid)]


@dataclass(frozen=True)
class Held:
    """What a process has: resident KiB, descriptors, threads and children."""

    memory: int
    files: int
    threads: int
    children: int


def held(pid: int) -> Held:
    """Of a process, now."""
    place = Path(f"/proc/{pid}")
    facts = dict(line.split(":", 1) for line in (place / "status").read_text().splitlines())
    memory, threads = (int(facts[name].split()[0]) for name in ("VmRSS", "Threads"))
    children: list[str] = []
    for task in (place / "task").iterdir():
        with contextlib.suppress(FileNotFoundError):  # a thread that has just ended
            children += (task / "children").read_text().split()
    # what serves SSH has ended, and is waited for at the end
    living = [child for child in children if alive(int(child))]
    return Held(memory, len(list((place / "fd").iterdir())), threads, len(living))
