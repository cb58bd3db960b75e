"""The worker process of the program: ``python -P -m engine.services``."""

from __future__ import annotations

import os
import sys

from engine.jobs.worker import serve
from engine.services.registry import QUERIES, TASKS


def _close_children() -> None:
    """Let the processes of converters go, with their folders: ``os._exit`` runs no clean-up."""
    foreign = sys.modules.get("engine.frontends.converter_process")
    if foreign is not None:
        foreign.close()


if __name__ == "__main__":
    serve(QUERIES, TASKS)
    sys.stdout.flush()
    _close_children()
    # Threads of libraries are not waited for: everything that counts is on disk.
    os._exit(0)
