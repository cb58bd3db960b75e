"""The process in which TensorFlow or PyTorch converts models, one request after another.

``python -P -m engine.frontends.foreign_child MODULE LOG FOLDER``, started by
:mod:`engine.frontends.foreign`, which has the protocol. Descriptors 1 and 2 of native code go to
the log. It ends when its input is closed, also in the middle of a request, or when nothing was
asked for two minutes.

A model's code runs in frameworks that were not made for code of strangers, so the process gives
away what it does not need before it imports one: it writes in FOLDER only. Each request has a
thread of its own, which can only read what the request names.
"""

from __future__ import annotations

import contextlib
import errno
import faulthandler
import json
import os
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from engine.base.confine import confine_process, confine_thread, limit_memory
from engine.base.errors import EngineError, InternalError, SourceModelError, WorkerError
from engine.base.folders import private_folder, private_handle
from engine.base.resources import resource_error
from engine.base.text import printable

__all__ = ["main"]

_IDLE_SECONDS = 120.0
_LOG_LIMIT = 1 << 20
_LINE_LIMIT = 16 << 20
# The parent stops a request that takes too long. It may be gone, and native code may hold the lock
# of the interpreter: then this is what ends the process.
_GRACE_SECONDS = 60.0


def main(module: str, log: str, folder: str) -> None:
    """Serve requests for ``module.convert(request, out)`` until the input is closed."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests, answers = _take_pipes(Path(log))
    faulthandler.enable(file=2)
    with contextlib.suppress(OSError):  # when memory runs out, this process goes first
        Path("/proc/self/oom_score_adj").write_text("500", encoding="ascii")
    confine_process([Path(folder)])
    asked: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(requests, asked), name="reader", daemon=True).start()
    while True:
        try:
            line = asked.get(timeout=_IDLE_SECONDS)
        except queue.Empty:
            return
        _write(answers, _in_thread(module, json.loads(line)))


def _take_pipes(log: Path) -> tuple[int, int]:
    """The two pipes under numbers of their own; what prints to 1 and 2 finds the log there."""
    requests, answers = os.dup(0), os.dup(1)
    try:
        private_folder(log.parent)
        if log.exists() and log.stat().st_size > _LOG_LIMIT:
            log.replace(log.with_suffix(".old.log"))
        noise = private_handle(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    except OSError:
        noise = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    silence = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    for source, number in ((silence, 0), (noise, 1), (noise, 2)):
        os.dup2(source, number)
    return requests, answers


def _read(handle: int, asked: queue.SimpleQueue[bytes]) -> None:
    """Hand requests over; end the process at once when the parent is gone."""
    with contextlib.suppress(OSError), os.fdopen(handle, "rb") as stream:
        while line := stream.readline(_LINE_LIMIT):
            asked.put(line)
    os._exit(0)


def _write(handle: int, message: dict[str, Any]) -> None:
    rest = memoryview(json.dumps(message).encode("ascii") + b"\n")
    while rest:
        rest = rest[os.write(handle, rest) :]


def _in_thread(module: str, message: dict[str, Any]) -> dict[str, Any]:
    """The answer, by a thread that may read what the message names and its own folder."""
    found: list[dict[str, Any]] = []
    try:
        convert = import_module(module).convert
    except Exception as error:  # noqa: BLE001 - nobody else would tell the user
        return {"error": _as_error(error).to_dict()}

    def work() -> None:
        out = Path(message["out"])
        confine_thread([*map(Path, message["reads"]), out.parent.parent])
        found.append(_answered(convert, message["request"], out))

    limit_memory(int(message["growth"]))
    seconds = float(message["seconds"])
    faulthandler.dump_traceback_later(seconds + _GRACE_SECONDS, exit=True, file=2)
    try:
        thread = threading.Thread(target=work, name="request")
        thread.start()
        thread.join()
    finally:
        faulthandler.cancel_dump_traceback_later()
        sys.stdout.flush()
    return found[0]


def _answered(convert: Callable[..., Any], request: Any, out: Path) -> dict[str, Any]:
    try:
        return {"answer": convert(request, out)}
    except Exception as error:  # noqa: BLE001 - nobody else would tell the user
        return {"error": _as_error(error).to_dict()}


def _as_error(error: Exception) -> EngineError:
    if isinstance(error, EngineError):
        return error
    traceback.print_exception(error)  # descriptor 2 is the log
    said = f"{type(error).__name__}: {printable(str(error), 300)}"
    if isinstance(error, OSError) and error.errno == errno.EFBIG:  # the limit is this process's own
        return WorkerError(
            f"The converted model could not be written: {error.strerror}.",
            cause="It grows far beyond the size of the model's file.",
            remedy="Check that this is the right model, and convert it to ONNX with its framework.",
        )
    if (lacking := resource_error(error)) is not None:
        return lacking
    if isinstance(error, ImportError):
        return SourceModelError(
            f"The converter could not be loaded: {said}.",
            cause="An installation is incomplete, or its parts are of versions that do not fit.",
            remedy="Install the extra of this framework anew, in an environment of its own.",
        )
    return InternalError(
        f"This program made a mistake while a model was converted: {said}",
        cause="A case that was not thought of.",
        remedy="Report it with the log of the converter's process.",
    )


if __name__ == "__main__":
    main(*sys.argv[1:4])
    # Threads of libraries are not waited for: everything that counts is on disk.
    os._exit(0)
