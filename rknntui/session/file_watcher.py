"""Watches the files of the model, the recipe and the dataset for changes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from rknntui.session.messages import SourceChanged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from textual.message import Message

    from rknntui.session.state import Session

LOOK_SECONDS = 1.0
"""Between two looks; a file that is being written is told once, when it rests from one to the
next.
"""

Signature = tuple[int, int] | None


class FileWatcher:
    """Looks at the open files, three at most: folders of a network tell nobody of changes.

    Args:
        tell: takes the message.
    """

    def __init__(self, tell: Callable[[Message], object]) -> None:
        self._tell = tell
        self._files: dict[Path, str] = {}
        self._known: dict[Path, Signature] = {}
        self._task: asyncio.Task[None] | None = None

    def follow(self, session: Session) -> None:
        """Watch the files that the session has open now."""
        roles: dict[Path, str] = {}
        for role, name in (
            ("dataset", session.recipe.get("dataset")),
            ("recipe", session.recipe_path),
            ("model", session.recipe.get("model") or session.path),
        ):
            if isinstance(name, str) and name:
                roles[Path(name).absolute()] = role
        if roles != self._files:
            self._files, self._known = roles, _signatures(roles)
        elif not session.dirty and session.recipe_path:  # just read or written by us: no news
            own = Path(session.recipe_path).absolute()
            self._known = {**self._known, **_signatures([own])}
        if self._task is None:
            self._task = asyncio.create_task(self._look())

    async def _look(self) -> None:
        before: dict[Path, Signature] = {}
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            files, known = self._files, self._known
            now = await asyncio.to_thread(_signatures, files)  # a network may not answer
            if known is self._known:  # else others are open now, or one was saved by us
                for path, found in now.items():
                    if found not in (None, known[path]) and found == before.get(path):
                        known[path] = found
                        self._tell(SourceChanged(files[path], str(path)))
            before = now

    def stop(self) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()


def _signatures(paths: Iterable[Path]) -> dict[Path, Signature]:
    found: dict[Path, Signature] = {}
    for path in paths:
        try:
            status = path.stat()
        except OSError:
            found[path] = None
        else:
            found[path] = status.st_mtime_ns, status.st_size
    return found
