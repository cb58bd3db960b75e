"""The records of jobs, read straight from the state folder. Standard library only."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.base.errors import UsageError, WorkerError, job_cancelled
from engine.base.events import (
    Event,
    LogLine,
    StageFinished,
    StageStarted,
    is_error,
)
from engine.base.files import atomic_write, open_regular, read_regular
from engine.base.peers.far import Message
from engine.base.process import ProcessId, exit_reason
from engine.base.text import sanitize
from engine.jobs.record import (
    PASSING,
    State,
    has_begun,
    is_locked,
    jobs_folder,
    read_json,
)
from engine.jobs.tail import EventTail, event_of, is_time

_NOTE = 4096
"""Bytes of a note."""


@dataclass(frozen=True)
class JobRecord:
    """One job of the history.

    Attributes:
        id: name of its folder; sorts by start.
        method: ``build``, ``accuracy``, ``simulate`` or ``export``.
        title: what it works on, for a list.
        state: ``running`` (or waiting for its turn), ``done``, ``failed``, ``cancelled``, or
            ``lost`` with its worker.
        started, finished: seconds since the epoch; ``finished`` is None while it runs and where it
            was lost.
        params: as given, to run it again.
        summary: its result without long lists; None unless done.
        error: of a failed, cancelled or lost job.
        folder: where its record is.
        note: what the user wrote about it.
    """

    id: str
    method: str
    title: str
    state: State
    started: float
    finished: float | None
    params: Message
    summary: Message | None
    error: Message | None
    folder: str
    note: str = ""


def _folder(job_id: str) -> Path:
    if not job_id or "/" in job_id or job_id.startswith("."):
        raise UsageError(f"{job_id!r} is not the id of a job.")
    return jobs_folder() / job_id


def record_of(folder: Path) -> JobRecord | None:
    """The record in a folder; None where it is not (or not yet) one."""
    job = read_json(folder / "job.json")
    if job is None:
        # not there yet, or no record at all; one that is there and cannot be read is told
        return _damaged(folder, {}) if (folder / "job.json").exists() else None
    end = read_json(folder / "end.json")
    if not _fits(job, _JOB) or not _fits(end or {}, _END):
        return _damaged(folder, job)
    error: Message | None
    if end is None and is_locked(folder / "lock"):
        over = (folder / "cancel").exists() and not has_begun(folder)
        state: State = "cancelled" if over else "running"
        error = job_cancelled().to_dict() if over else None
    else:
        # the worker may have ended between the two looks
        end = end or read_json(folder / "end.json")
        if end is None:
            state = "cancelled" if (folder / "cancel").exists() else "lost"
            error = dict(crashed_error(folder, job).to_dict())
        else:
            state, error = end["state"], end.get("error")
    return JobRecord(
        id=folder.name,
        method=sanitize(job["method"], 80),
        title=sanitize(job["title"], 300),
        state=state,
        started=float(job["started"]),
        finished=end.get("finished") if end else None,
        params=job["params"],
        summary=end.get("summary") if end else None,
        error=error,
        folder=str(folder),
        note=_note(folder),
    )


def _note(folder: Path) -> str:
    try:
        return sanitize(read_regular(folder / "note", _NOTE).decode("utf-8", "replace"), 300)
    except (OSError, ValueError):
        return ""


def write_note(job_id: str, text: str) -> None:
    """Write what the user says about a job into its record, in the place of an earlier note.

    Raises:
        OutputError: it cannot be written, as on a full disk.
    """
    atomic_write(
        _folder(job_id) / "note", text.encode("utf-8", "replace"), overwrite=True, private=True
    )


def _is(kind: type, *, needed: bool = True) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kind) or (value is None and not needed)


_JOB: dict[str, Callable[[Any], bool]] = {
    "method": _is(str),
    "title": _is(str),
    "params": _is(dict),
    "started": is_time,
    "process": _is(dict, needed=False),
}
_END: dict[str, Callable[[Any], bool]] = {
    "state": lambda value: value in ("done", "failed", "cancelled"),
    "finished": is_time,
    "error": lambda value: value is None or (isinstance(value, dict) and is_error(value)),
    "summary": _is(dict, needed=False),
}


def _fits(data: Message, rules: dict[str, Callable[[Any], bool]]) -> bool:
    return not data or all(rule(data.get(name)) for name, rule in rules.items())


def _damaged(folder: Path, job: Message) -> JobRecord:
    """A record that cannot be believed: one row that says so."""
    title = job.get("title")
    started = job.get("started")
    error = WorkerError(
        f"The record of the job {sanitize(folder.name, 80)} is damaged.",
        cause="Its files were edited or cut short.",
        remedy=f"Remove the folder {folder}.",
    )
    return JobRecord(
        id=folder.name,
        method="damaged",
        title=sanitize(title, 300) if isinstance(title, str) else "damaged record",
        state="lost",
        started=float(started) if isinstance(started, float) and is_time(started) else 0.0,
        finished=None,
        params={},
        summary=None,
        error=dict(error.to_dict()),
        folder=str(folder),
    )


def job_record(job_id: str) -> JobRecord:
    """The record of one job.

    Raises:
        UsageError: there is none.
    """
    record = record_of(_folder(job_id))
    if record is None:
        raise UsageError(
            f"There is no job {job_id}.",
            cause="Old jobs are removed from the history.",
            remedy="Choose one of the history.",
        )
    return record


def list_jobs(limit: int = 50) -> list[JobRecord]:
    """The newest jobs first, without those of :data:`PASSING`."""
    try:
        folders = sorted(
            (p for p in jobs_folder().iterdir() if not p.name.startswith(".")), reverse=True
        )
    except OSError:
        return []
    records: list[JobRecord] = []
    for folder in folders:
        record = record_of(folder)
        if record is not None and record.method not in PASSING:
            records.append(record)
        if len(records) >= limit:
            break
    return records


def read_events(job_id: str, logged: int | None = None) -> list[tuple[float, Event]]:
    """(seconds since the epoch, event) of a job; of its log all, or about so many newest lines."""
    tail = EventTail(_folder(job_id))
    events: list[tuple[float, Event]] = []
    while piece := tail.read(whole=True, logged=logged):
        events += piece
    return events


def read_result(job_id: str) -> Message | None:
    """The whole result of a job that is done."""
    return read_json(_folder(job_id) / "result.json")


def read_log(job_id: str, limit: int = 1 << 20) -> str:
    """The last ``limit`` bytes of what libraries wrote while the job ran, and tracebacks."""
    try:
        with open_regular(_folder(job_id) / "log.txt") as stream:
            size = stream.seek(0, 2)
            stream.seek(max(0, size - limit))
            return stream.read().decode("utf-8", "replace")
    except OSError:
        return ""


def find_log(job_id: str, text: str, limit: int = 5000) -> tuple[list[LogLine], int]:
    """The lines of a job's log with a text, whatever its case, and how many of them there are.

    The record is read piece by piece, and only lines with the text are parsed: a million lines take
    about a second.

    Args:
        job_id: of the job.
        text: what they have.
        limit: the newest so many are given.
    """
    wanted = json.dumps(text)[1:-1].lower().encode()
    found: deque[LogLine] = deque(maxlen=limit)
    total = 0
    try:
        with open_regular(_folder(job_id) / "events.jsonl") as stream:
            for line in stream:
                if wanted in line.lower():
                    event = event_of(line)
                    if isinstance(event, LogLine) and text.lower() in event.text.lower():
                        found.append(event)
                        total += 1
    except OSError:
        pass
    return list(found), total


def _last_stage(folder: Path) -> str:
    stage = ""
    for _, event in EventTail(folder).read(whole=True):
        if isinstance(event, StageStarted):
            stage = event.title or event.stage
        elif isinstance(event, StageFinished):
            stage = ""
    return stage


def crashed_error(
    folder: Path, job: Message | None = None, returncode: int | None = None
) -> WorkerError:
    """What to tell of a job whose worker is gone without an end."""
    stage = _last_stage(folder)
    at = f" in the stage {stage!r}" if stage else ""
    if (folder / "cancel").exists():
        return WorkerError(
            f"The job was cancelled; its worker was ended{at}.", remedy="Start it again when ready."
        )
    how, cause = exit_reason(returncode)
    process = ProcessId.from_dict((job or {}).get("process") or {})
    if returncode is None and process.pid and not process.same_boot:
        cause = "The machine was restarted while the job ran."
    return WorkerError(
        f"The worker {how}{at} before the job was done.",
        cause=cause,
        remedy="Start it again; finished stages are taken from the cache. "
        f"Log: {folder / 'log.txt'}",
    )
