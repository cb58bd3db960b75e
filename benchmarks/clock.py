"""CPU and wall seconds and memory of a process, and one measurement as a process of its own.

The standard library only: the vendor's Python runs it too.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypedDict

Figures = dict[str, Any]
"""What was measured: name -> seconds, MB, or a list or table of such, for JSON."""


class Job(TypedDict):
    """What a measurement of a model is given; ``dataset``: a list of samples."""

    who: str
    what: str
    model: str
    dataset: str
    mean: list[float]
    std: list[float]


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


def measure(run: Callable[[Job], Figures], log: str, streams: Sequence[int] = (1, 2)) -> None:
    """Run the job of the file that ``sys.argv`` names, in a folder beside it; print its figures.

    Args:
        run: makes the figures; the peak of memory is added where it tells none.
        log: file in that folder for what is printed meanwhile on the descriptors ``streams``.
    """
    path = Path(sys.argv[1]).absolute()
    job = json.loads(path.read_text(encoding="utf-8"))
    folder = path.with_suffix(".work")
    folder.mkdir(exist_ok=True)
    os.chdir(folder)
    saved = os.dup(1)
    with (folder / log).open("wb") as stream:
        for number in streams:
            os.dup2(stream.fileno(), number)
        figures = run(job)
        sys.stdout.flush()
        os.dup2(saved, 1)
    figures.setdefault("peak_mb", own_peak_mb())
    print(json.dumps(figures))
