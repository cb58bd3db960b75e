"""The worker process of the program: ``python -P -m engine.services``."""

from __future__ import annotations

import os
import sys

from engine.jobs.worker import serve
from engine.services.registry import QUERIES, TASKS


def _close_children() -> None:
    """Let processes of converters and emulated boards go, with their folders: ``os._exit`` runs no
    clean-up.
    """
    for name in ("engine.frontends.converter_process", "engine.devices.emulated"):
        if (held := sys.modules.get(name)) is not None:
            held.close()


if __name__ == "__main__":
    serve(QUERIES, TASKS)
    sys.stdout.flush()
    _close_children()
    # Threads of libraries are not waited for: everything that counts is on disk.
    os._exit(0)
