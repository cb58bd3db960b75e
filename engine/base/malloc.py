"""Giving memory back to the system after a job."""

from __future__ import annotations

import ctypes
import gc
import sys


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
