"""The record of a job on disk, as its worker writes it. Standard library only.

One folder per job below ``STATE/jobs``:
    ``lock``         held (flock) by the worker for as long as the job is queued or runs
    ``job.json``     id, method, title, params, process, started: written once
    ``events.jsonl`` one event a line, ``{"t": seconds since the epoch, "n": its number, "event":
                     {...}}``
    ``live.N.jsonl`` the newest events of those that are not kept, see :mod:`engine.jobs.live`
    ``log.txt``      what native code and libraries wrote to stdout and stderr, and tracebacks
    ``cancel``       exists once somebody asked to cancel
    ``keep``         exists where an attended job is to go on without its command
    ``pause``        exists while the job is to wait
    ``finish``       exists once somebody asked for the best found so far
    ``passing``      exists where the job is one of PASSING
    ``result.json``  the whole result
    ``note``         what the user wrote about it
    ``end.json``     state, finished, error, summary: written last
A job without ``end.json`` whose lock is free was lost with its worker.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from engine.base.errors import job_cancelled
from engine.base.events import Event, Finished, LogLine, Partial, Progress, event_to_dict
from engine.base.files import read_regular
from engine.base.leftovers import make_owned
from engine.base.paths import (
    log_crash,
    private_file,
    private_folder,
    private_handle,
    state_folder,
)
from engine.base.peers.far import LINE_LIMIT, Message, encode
from engine.base.process import ProcessId, try_lock
from engine.jobs.live import LiveWriter, remove_live

State = Literal["running", "done", "failed", "cancelled", "lost"]

_KEEP = 200
_KEEP_PASSING = 20
_KEEP_LIVE = 5
PASSING = frozenset({"hybrid.effect"})
"""Methods of jobs that answer a key on a screen: many, short, and of no use afterwards."""
_PASSING_MARK = "passing"
_PROGRESS_SECONDS = 0.05
_LOOK_SECONDS = 0.02
_LONG = 200


def jobs_folder() -> Path:
    """Where the records are."""
    return state_folder() / "jobs"


def is_locked(path: Path) -> bool:
    """Whether somebody holds the lock file exclusively; shared, so that two askers do not see each
    other.
    """
    try:
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False


def has_begun(folder: Path) -> bool:
    """Whether the turn of a job has come: its worker has opened the log."""
    return (folder / "log.txt").exists()


def _write_json(path: Path, data: Any) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with private_file(temporary) as stream:
            stream.write(encode(data))
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def short_summary(result: Message) -> Message:
    """The result without its long lists, for the list of jobs."""
    return {k: v for k, v in result.items() if not (isinstance(v, list | tuple) and len(v) > _LONG)}


def log_traceback(error: BaseException, log: Path | None = None) -> Path | None:
    """Append the traceback to ``log``, else to a new crash file; its path, None where neither
    works.
    """
    import traceback

    if log is not None:
        with contextlib.suppress(OSError), log.open("a", encoding="utf-8") as stream:
            stream.write("".join(traceback.format_exception(error)))
            return log
    return log_crash(error)


class JobRecorder:
    """Writes one job's record and is its Reporter. ``on_event`` is called after every line."""

    def __init__(self, folder: Path, lock: int, wake: Any = None) -> None:
        self.folder = folder
        self.id = folder.name
        self.wake = wake
        self._lock = lock
        self._events = private_handle(
            folder / "events.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT
        )
        self._live = LiveWriter(folder)
        self._told = 0
        self._asked = 0.0
        self._cancelled = False
        self._progress: tuple[str, float] = ("", 0.0)
        self._begun = time.time()
        self.ended = False

    @property
    def log(self) -> Path:
        """The job's log file."""
        return self.folder / "log.txt"

    def start(self, method: str, title: str, params: Message) -> None:
        """Write what the job is."""
        if method in PASSING:
            private_file(self.folder / _PASSING_MARK).close()
        _write_json(
            self.folder / "job.json",
            {
                "id": self.id,
                "method": method,
                "title": title,
                "params": params,
                "process": asdict(ProcessId.of(os.getpid())),
                "started": self._begun,
            },
        )

    def emit(self, event: Event) -> None:
        """Append the event; progress of one stage at most every 50 ms, and always its last."""
        now = time.time()
        if isinstance(event, Progress):
            stage, last = self._progress
            if (
                stage == event.stage
                and now - last < _PROGRESS_SECONDS
                and event.done != event.total
            ):
                return
            self._progress = (event.stage, now)
        line = encode({"t": round(now, 3), "n": self._told, "event": event_to_dict(event)})
        self._told += 1
        # A full disk loses the line and not the job; one write per line, so that lines never mix.
        with contextlib.suppress(OSError):
            if isinstance(event, Partial) and not event.kept:
                self._live.write(line)
            else:
                os.write(self._events, line)
        if self.wake is not None:
            self.wake(self.id)

    def check_cancelled(self) -> None:
        """Raise ``JobCancelledError`` once the file ``cancel`` exists; looks every 20 ms at
        most. While the file ``pause`` exists it waits.
        """
        now = time.monotonic()
        if not self._cancelled and now - self._asked > _LOOK_SECONDS:
            self._asked = now
            while (self.folder / "pause").exists() and not (
                self.cancel_requested or self.finish_requested()
            ):
                time.sleep(_LOOK_SECONDS)
            self._cancelled = self.cancel_requested
        if self._cancelled:
            raise job_cancelled()

    def abandon(self) -> bool:
        """Ask to cancel, as the command that attends the job has gone; False where it is to go on
        without it.
        """
        if (self.folder / "keep").exists():
            return False
        with contextlib.suppress(OSError):  # a full disk: the signal that follows is enough
            private_file(self.folder / "cancel").close()
        return True

    @property
    def cancel_requested(self) -> bool:
        """Whether somebody asked to cancel."""
        return (self.folder / "cancel").exists()

    def finish_requested(self) -> bool:
        """Whether the file ``finish`` exists."""
        return (self.folder / "finish").exists()

    def end(
        self,
        state: Literal["done", "failed", "cancelled"],
        result: Message | None = None,
        error: dict[str, str | int] | None = None,
    ) -> None:
        """Write the result and the end, then let the lock go. Only the first call counts."""
        if self.ended:
            return
        self.ended = True
        finished = time.time()
        seconds = round(finished - self._begun, 3)
        try:
            if result is not None:
                _write_json(self.folder / "result.json", result)
            summary = None if result is None else short_summary(result)
            end = {"state": state, "finished": finished, "error": error, "summary": summary}
            _write_json(self.folder / "end.json", end)
        except OSError as failure:
            self.emit(LogLine(f"The job's record could not be written: {failure}.", "warning"))
        self.emit(Finished(state, seconds, error))
        os.close(self._events)
        self._live.close()
        os.close(self._lock)


def new_record(wake: Any = None) -> JobRecorder:
    """Make the folder of a new job and take its lock.

    Falls back to the folder for temporary files where the state folder cannot be written.

    Raises:
        OSError: neither can.
    """
    try:
        parent = jobs_folder()
        private_folder(parent)
        prune(parent)
        return _record_in(parent, wake)
    except OSError:
        return _record_in(make_owned("jobs"), wake)


def _record_in(parent: Path, wake: Any) -> JobRecorder:
    now = time.time()
    stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(now)) + f"-{int(now % 1 * 1e6):06d}"
    folder = parent / f"{stamp}-{os.getpid()}"
    private_folder(folder)
    lock = private_handle(folder / "lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.write(
            lock, b"held by the worker of this job\n"
        )  # finds a full disk before the job starts
        return JobRecorder(folder, lock, wake)
    except OSError:
        os.close(lock)
        shutil.rmtree(folder, ignore_errors=True)
        raise


def prune(parent: Path, keep: int = _KEEP) -> int:
    """Remove the oldest records above ``keep`` whose jobs have ended; returns how many went.

    Of :data:`PASSING` jobs only the newest few stay, so that they push no other job out;
    events that are not kept stay of the newest few jobs.
    """
    with try_lock(parent / ".lock") as mine:
        if not mine:
            return 0
        folders = sorted(p for p in parent.iterdir() if p.is_dir() and not p.is_symlink())
        passing = [p for p in folders if (p / _PASSING_MARK).exists()]
        old = passing[: max(0, len(passing) - _KEEP_PASSING)]
        others = [p for p in folders if p not in old]
        gone = 0
        for folder in [*old, *others[: max(0, len(others) - keep)]]:
            if not is_locked(folder / "lock"):
                shutil.rmtree(folder, ignore_errors=True)
                gone += 1
        for folder in folders[:-_KEEP_LIVE]:
            if not is_locked(folder / "lock"):
                remove_live(folder)
    return gone


def read_json(path: Path) -> Message | None:
    """A JSON object from a file; None where it is missing or broken."""
    try:
        data = json.loads(read_regular(path, LINE_LIMIT))
    except (OSError, ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None
