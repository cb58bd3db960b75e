"""Dask's nodes without HTTP servers and imports. Imports Dask: import it where it is used.

Dask starts an HTTP server on every node, also where no dashboard is wanted; the scheduler's tells
anybody its address and what it runs. It has no option for none.

Every node also puts the folder that it writes to first on ``sys.path``, for files that a client
uploads. This program uploads none. A process gives its path to those that it starts, so it is taken
off in each kind of node.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any

from distributed import Nanny, Scheduler, Worker


def _import_nothing_from(folder: str) -> None:
    with contextlib.suppress(ValueError):
        sys.path.remove(folder)


class QuietScheduler(Scheduler):  # type: ignore[misc]
    """A scheduler that listens on its own port only."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Make it as Dask does; nothing is imported from its folder."""
        super().__init__(*arguments, **options)
        _import_nothing_from(self.local_directory)

    def start_http_server(self, *_arguments: Any, **_options: Any) -> None:
        """Start none."""


class QuietWorker(Worker):  # type: ignore[misc]
    """A worker that listens on its own port only."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Make it as Dask does; nothing is imported from its folder."""
        super().__init__(*arguments, **options)
        _import_nothing_from(self.local_directory)

    def start_http_server(self, *_arguments: Any, **_options: Any) -> None:
        """Start none."""


class QuietNanny(Nanny):  # type: ignore[misc]
    """Starts a worker, and starts it again where it died."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Make it as Dask does; nothing is imported from its folder."""
        super().__init__(*arguments, **options)
        _import_nothing_from(self.local_directory)
