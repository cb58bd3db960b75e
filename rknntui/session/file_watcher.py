"""Watches the files of the model, the recipe and the dataset for changes."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from rknntui.session.messages import SourceChanged

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.message import Message
    from watchdog.events import FileSystemEvent
    from watchdog.observers.api import BaseObserver

    from rknntui.session.state import Session

SETTLE_SECONDS = 0.5
"""A file that is being written is told once, when it rests."""

Signature = tuple[int, int] | None


class FileWatcher:
    """Watches the folders of the open files; ``watchdog`` is imported by the first of them.

    Args:
        tell: takes the message.
    """

    def __init__(self, tell: Callable[[Message], object]) -> None:
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._observer: BaseObserver | None = None
        self._files: dict[Path, str] = {}
        self._known: dict[Path, Signature] = {}
        self._gone: set[Path] = set()
        self._folders: set[Path] = set()
        self._timer: asyncio.TimerHandle | None = None

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
        if not session.dirty and session.recipe_path:  # just read or written by us: no news
            own = Path(session.recipe_path).absolute()
            self._known[own] = _signature(own)
        if roles == self._files:
            return
        self._files = roles
        self._known = {path: _signature(path) for path in roles}
        folders = {path if path.is_dir() else path.parent for path in roles}
        if folders != self._folders:
            self._folders = folders
            self._watch_folders()

    def _watch_folders(self) -> None:
        from watchdog.events import FileSystemEventHandler
        from watchdog.observers import Observer

        watch = self

        class Handler(FileSystemEventHandler):
            def on_any_event(self, event: FileSystemEvent) -> None:
                if event.event_type not in ("opened", "closed_no_write"):
                    with contextlib.suppress(RuntimeError):  # the workbench has ended
                        watch._loop.call_soon_threadsafe(watch._stirred)

        if self._observer is None:
            self._observer = Observer()
            self._observer.daemon = True
            self._observer.start()
        self._observer.unschedule_all()
        for folder in self._folders:
            try:
                self._observer.schedule(Handler(), str(folder), recursive=False)
            except OSError:  # gone, unreadable, or no inotify watches left: F5 still works
                continue

    def _stirred(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(SETTLE_SECONDS, self.compare)

    def compare(self) -> None:
        """Tell what is other than it was when it was read."""
        for path, role in self._files.items():
            now = _signature(path)
            known = self._known.get(path)
            if now is None:
                if known is not None and path not in self._gone:
                    self._gone.add(path)
                    self._tell(SourceChanged(role, str(path), gone=True))
                continue
            self._gone.discard(path)
            if now != known:  # moved away and back again it is the same
                self._known[path] = now
                self._tell(SourceChanged(role, str(path)))

    def stop(self) -> None:
        """End the threads."""
        if self._timer is not None:
            self._timer.cancel()
        if self._observer is not None:
            self._observer.stop()


def _signature(path: Path) -> Signature:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
