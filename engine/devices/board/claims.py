"""One user of a board at a time: a lock file of this machine, and a record on the board itself."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import socket
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine.base.errors import DeviceError
from engine.base.files import output_errors
from engine.base.paths import private_folder, state_folder
from engine.base.process import ProcessId, try_lock
from engine.base.text import sanitize
from engine.devices.board.layout import BoardFolder
from engine.devices.probe.reading import first_line, read_text
from engine.devices.transport import Transport

RECORD = "session.json"
"""In the run folder of each session: who it is."""

_RECORD_LIMIT = 4096
_QUIET_MINUTES = 15
_BOOT_ID = "/proc/sys/kernel/random/boot_id"


@contextlib.contextmanager
def claimed(transport: Transport) -> Iterator[None]:
    """Hold a board for the time of the block, among the programs of this machine.

    Raises:
        DeviceError: another one holds it.
    """
    path = _lock_file(transport)
    with contextlib.ExitStack() as held:
        try:
            private_folder(path.parent)
            free = held.enter_context(try_lock(path))
        except OSError as error:
            raise DeviceError(
                f"{transport.name} could not be reserved: {error.strerror or error}.",
                remedy=f"Make {state_folder()} writable.",
            ) from error
        if not free:
            raise _busy_error(transport, "another window or job of this machine")
        yield


def _lock_file(transport: Transport) -> Path:
    key = hashlib.sha256(f"{transport.kind}:{transport.name}".encode()).hexdigest()[:16]
    return state_folder() / "boards" / f"{key}.lock"


def _lock_id(transport: Transport) -> str:
    """The lock file of :func:`claimed`, told apart from those of other machines and users."""
    place = f"{ProcessId.of(os.getpid()).boot}:{_lock_file(transport)}"
    return hashlib.sha256(place.encode("utf-8", "surrogateescape")).hexdigest()


def _busy_error(transport: Transport, who: str) -> DeviceError:
    return DeviceError(
        f"{transport.name} is in use by {who}.",
        cause="A board runs one model at a time: two would take time from each other, and the "
        "figures of both would be wrong.",
        remedy="Wait until that run has ended, or end it.",
    )


def put_record(folder: BoardFolder, run: str, place: Path, pid: int | None, *, alone: bool) -> None:
    """Write on the board who uses it.

    Args:
        folder: ours there.
        run: name of this session's folder.
        place: folder of this machine for the file.
        pid: of the agent, where one runs all the time.
        alone: whether it runs models; one that only reads keeps nobody away.

    Raises:
        DeviceStorageError: it could not be written.
    """
    record = {
        "user": f"{os.environ.get('USER') or os.getuid()}@{socket.gethostname()}",
        "asked_by": asdict(ProcessId.of(os.getpid())),
        "agent": pid,
        "alone": alone,
        "lock": _lock_id(folder.transport) if alone else "",
        "boot": _boot(folder.transport),
        "at": int(time.time()),
    }
    source = place / RECORD
    with output_errors(source):
        source.write_text(json.dumps(record), "ascii")
    folder.transport.push(source, folder.at(run, RECORD))


def require_alone(folder: BoardFolder, own: str = "") -> None:
    """Refuse a board that a session of another machine uses; runs of dead ones are removed.

    Within :func:`claimed`.

    Args:
        folder: ours on the board.
        own: name of this session's folder, once it is there; of two that came together the one
            with the smaller name stays.

    Raises:
        DeviceError: another session uses it.
    """
    others = [run for run in folder.runs() if run != own]
    if not others:
        return
    recent = folder.changed_within(_QUIET_MINUTES)
    dead = []
    for run in others:
        record = _record(folder, run)
        young = recent is None or run in recent
        if record is None:
            # one that is just being made has no record yet; nobody waits for it
            dead += [] if young else [run]
        elif not _lives(folder.transport, record, young=young):
            dead.append(run)
        elif record.get("alone") is not False and (not own or run < own):
            raise _busy_error(folder.transport, sanitize(str(record.get("user", "")), 80))
    folder.remove(dead)


def _record(folder: BoardFolder, run: str) -> dict[str, Any] | None:
    content = read_text(folder.transport, folder.at(run, RECORD), _RECORD_LIMIT)
    try:
        record = json.loads(content or "")
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def _lives(transport: Transport, record: dict[str, Any], *, young: bool) -> bool:
    """Whether a session is still there."""
    if record.get("lock") == _lock_id(transport):
        return False  # who wrote it held the lock that is ours now
    if record.get("boot") != _boot(transport):
        return False  # the board was restarted since
    pid = record.get("agent")
    if type(pid) is int and 1 < pid < 1 << 22:
        return transport.run(["kill", "-0", str(pid)]).code == 0
    # in one-shot mode nothing runs on the board between two requests
    asked_by = record.get("asked_by")
    process = ProcessId.from_dict(asked_by if isinstance(asked_by, dict) else {})
    return process.alive if process.same_boot else young


def _boot(transport: Transport) -> str:
    return first_line(read_text(transport, _BOOT_ID, 64))
