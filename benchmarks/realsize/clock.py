"""CPU and wall seconds and memory of a process.

The standard library only: the vendor's Python runs it too.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

Figures = dict[str, float]


def cpu_seconds() -> float:
    """User and system seconds of this process and its finished children."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in usages)


def status_mb(key: str) -> float:
    """A kB line of /proc/self/status (VmRSS: now, VmHWM: peak) in MB of 2^20 bytes."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key + ":")) / 1024


def own_peak_mb() -> float:
    """The peak of this process, or that of its largest finished child."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return max(status_mb("VmHWM"), children)


@contextmanager
def taken(figures: Figures, name: str) -> Iterator[None]:
    """Add ``name_cpu_s`` and ``name_wall_s`` of the body to the figures."""
    wall, cpu = time.perf_counter(), cpu_seconds()
    try:
        yield
    finally:
        figures[f"{name}_wall_s"] = figures.get(f"{name}_wall_s", 0.0) + time.perf_counter() - wall
        figures[f"{name}_cpu_s"] = figures.get(f"{name}_cpu_s", 0.0) + cpu_seconds() - cpu
