"""Giving memory back to the system after a job."""

from __future__ import annotations

import ctypes
import gc
import sys

__all__ = ["give_back"]


def give_back() -> None:
    """Return what nothing uses any more to the system, as far as it has a way for that.

    Graphs refer to themselves in circles, and with them their sessions' memory waits for Python's
    collector, which counts objects and not bytes; glibc keeps what was freed below something that
    still lives. A warm worker would start its next build from there.
    """
    gc.collect()
    if sys.platform != "linux":
        return
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):  # another C library
        return
    trim.argtypes = [ctypes.c_size_t]
    trim(0)
