"""The vendor's toolkit for one piece of work on a file: its log stays where that fails."""

from __future__ import annotations

import contextlib
import secrets
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from engine.base.events import Reporter
from engine.base.files import atomic_write
from engine.base.paths import private_folder, state_folder
from engine.toolkit.toolkit import RemoteRKNN, Toolkit
from engine.wire.vendor import ToolkitEnvironment

_KEPT = 10
"""Logs of failed runs that stay; the oldest go first."""


class OneRun:
    """A process of a toolkit with one object of its class.

    Attributes:
        toolkit: the process; ``toolkit.work`` is its current folder.
        rknn: the object.
    """

    def __init__(self, toolkit: Toolkit, rknn: RemoteRKNN) -> None:
        self.toolkit, self.rknn = toolkit, rknn

    @property
    def name(self) -> str:
        """``rknn-toolkit 1.7.5``."""
        environment = self.toolkit.environment
        package = "rknn-toolkit" if environment.generation == 1 else "rknn-toolkit2"
        return f"{package} {environment.version}".strip()

    def do(self, method: str, /, *args: Any, seconds: float | None = None, **keywords: Any) -> None:
        """Call a method that returns 0, or nothing.

        Raises:
            CompilerError: it returned something else, with what it printed; or its process ended.
        """
        mark = self.toolkit.mark
        status = self.rknn.call(method, *args, seconds=seconds, **keywords)
        if status not in (0, None):
            raise self.toolkit.refused(method, mark, status)

    def keep(self, made: Path, target: Path, *, overwrite: bool) -> int:
        """Name a file of the work folder ``target``, whole or not at all; its size in bytes.

        Raises:
            OutputError: it cannot be written.
        """

        def write(stream: BinaryIO) -> None:
            with made.open("rb") as source:
                shutil.copyfileobj(source, stream)

        return atomic_write(target, write, overwrite=overwrite)


@contextlib.contextmanager
def one_run(
    environment: ToolkitEnvironment,
    reporter: Reporter | None = None,
    *,
    reads: Iterable[Path] = (),
    board: bool = False,
) -> Iterator[OneRun]:
    """A process of the toolkit for the time of the block; arguments as of its class.

    Raises:
        ToolkitError: the environment is not there, or does not start.
    """
    logs = private_folder(state_folder() / "toolkit")
    folder = private_folder(logs / f"run-{secrets.token_hex(6)}")
    try:
        with Toolkit(environment, folder, reporter, reads=reads, board=board) as toolkit:
            yield OneRun(toolkit, toolkit.rknn())
    except BaseException:
        _forget_old(logs)
        raise
    shutil.rmtree(folder, ignore_errors=True)


def _forget_old(logs: Path) -> None:
    with contextlib.suppress(OSError):
        kept = sorted(logs.glob("run-*"), key=lambda path: path.stat().st_mtime)
        for old in kept[:-_KEPT]:
            shutil.rmtree(old, ignore_errors=True)
