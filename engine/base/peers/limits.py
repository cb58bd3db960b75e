"""What a process may take and have, as the kernel counts it, and memory that it gives back.

Standard library only.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import resource
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1  # include/uapi/linux/prctl.h
_SLACK = 512 << 20


def resident_bytes(pid: int) -> int:
    """Memory of a process that is in use now, 0 where there is none."""
    return _statm(pid, 1)


def private_bytes() -> int:
    """Private memory of this process, used or not: what :func:`limit_data` bounds."""
    return _statm("self", 5)


def _statm(pid: int | str, field: int) -> int:
    """A field of proc(5), ``/proc/PID/statm``, in bytes."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[field])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def machine_bytes() -> int:
    """Memory that this process can get at all: the machine's with its swap, or its container's."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text("ascii").splitlines():
            if line.startswith("SwapTotal:"):
                total += int(line.split()[1]) << 10
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):
            total = min(total, int(Path("/sys/fs/cgroup", name).read_text("ascii")))
    return total


def limit_data(size: int) -> None:
    """Let private memory grow to ``size`` bytes; an allocation beyond them fails."""
    limit_soft(resource.RLIMIT_DATA, size)


def limit_growth(growth: int) -> None:
    """Let this process allocate ``growth`` bytes and a little more than it has, and write no file
    above ``growth`` bytes; what goes beyond fails instead of filling the machine.
    """
    if now := private_bytes():
        limit_data(now + growth + _SLACK)
    limit_soft(resource.RLIMIT_FSIZE, growth + _SLACK)


def limit_soft(which: int, size: int) -> None:
    """Set a limit of :mod:`resource`, never beyond what the user allowed."""
    with contextlib.suppress(OSError, ValueError):
        hard = resource.getrlimit(which)[1]
        soft = size if hard == resource.RLIM_INFINITY else min(size, hard)
        resource.setrlimit(which, (soft, hard))


def die_with_parent(number: int) -> None:
    """Have the kernel send this process a signal when its parent dies; 0 for none.

    It belongs to the thread that asks for it, and counts for as long as that thread lives.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)


def trim_heap() -> None:
    """Return what nothing uses any more to the system, as far as it has a way for that.

    Graphs refer to themselves in circles, and with them their sessions' memory waits for Python's
    collector, which counts objects and not bytes; glibc keeps what was freed below something that
    still lives. A warm worker would start its next build from there.
    """
    gc.collect()
    pool = sys.modules.get(
        "engine.graph.execute.session_setup"
    )  # not loaded: no session took of it
    if pool is not None:
        pool.release_pool()
    trim()


def trim() -> None:
    """Return what was freed; takes a few milliseconds.

    Sessions of ONNX Runtime hold weights in pieces that glibc keeps when they are freed: the next
    stage would take its memory on top of them.
    """
    if sys.platform != "linux":
        return
    try:
        malloc_trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):  # another C library
        return
    malloc_trim.argtypes = [ctypes.c_size_t]
    malloc_trim(0)
