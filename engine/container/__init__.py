"""Our open ``.rknn`` container: named, checksummed sections behind a head that Netron can read.

It is for simulation and inspection and runs on no NPU. Layout: ``docs/container.md``.
"""

from __future__ import annotations

from engine.container.keys import Key
from engine.container.magic import MAGIC
from engine.container.other_formats import other_format
from engine.container.read import read_container
from engine.container.write import Container, ContainerContent, portable_summary, write_container

__all__ = [
    "MAGIC",
    "Container",
    "ContainerContent",
    "Key",
    "other_format",
    "portable_summary",
    "read_container",
    "write_container",
]
