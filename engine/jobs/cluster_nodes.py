"""Dask's scheduler and worker without their HTTP servers. Imports Dask: import it where it is used.

Dask starts an HTTP server on every node, also where no dashboard is wanted; the scheduler's tells
anybody its address and what it runs. It has no option for none.
"""

from __future__ import annotations

from typing import Any

from distributed import Scheduler, Worker

__all__ = ["QuietScheduler", "QuietWorker"]


class QuietScheduler(Scheduler):  # type: ignore[misc]
    """A scheduler that listens on its own port only."""

    def start_http_server(self, *_arguments: Any, **_options: Any) -> None:
        """Start none."""


class QuietWorker(Worker):  # type: ignore[misc]
    """A worker that listens on its own port only."""

    def start_http_server(self, *_arguments: Any, **_options: Any) -> None:
        """Start none."""
