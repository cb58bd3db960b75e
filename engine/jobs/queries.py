"""Answers of the worker about models: short, stateless, from warm caches."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import engine

__all__ = ["ping"]


def _rss_mb() -> float:
    """Resident memory of this process in MB (10**6 bytes)."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6, 1)


def ping(_params: dict[str, Any]) -> dict[str, Any]:
    """Version, process number and resident memory."""
    return {"version": engine.__version__, "pid": os.getpid(), "rss_mb": _rss_mb()}
