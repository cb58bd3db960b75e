"""The process in which TensorFlow or PyTorch converts models, one request after another.

``python -P -m engine.frontends.converter_child MODULE LOG FOLDER``, the far end of
:mod:`engine.frontends.converter_process`. Descriptors 1 and 2 of native code go to the log. It ends
when its input is closed, also in the middle of a request, or when nothing was asked for two
minutes.

A model's code runs in frameworks that were not made for code of strangers, so the process gives
away what it does not need before it imports one: it writes in FOLDER only. Each request has a
thread of its own, which can only read what the request names.
"""

from __future__ import annotations

import contextlib
import errno
import faulthandler
import os
import signal
import sys
import threading
import traceback
from functools import partial
from importlib import import_module
from pathlib import Path

from engine.base.confine import confine_process, confine_thread
from engine.base.errors import EngineError, InternalError, SourceModelError, WorkerError
from engine.base.paths import log_handle
from engine.base.peers.far import FarEnd, Message, outcome, take_streams
from engine.base.peers.limits import limit_growth
from engine.base.resources import resource_error
from engine.base.text import sanitize

_IDLE_SECONDS = 120.0
_LOG_LIMIT = 1 << 20
_LINE_LIMIT = 16 << 20
# The parent stops a request that takes too long. It may be gone, and native code may hold the lock
# of the interpreter: then this is what ends the process.
_GRACE_SECONDS = 60.0
_SANDBOX = (errno.EPERM, errno.EACCES, errno.ENOSYS)


def main(module: str, log: str, folder: str) -> None:
    """Serve requests for ``module.convert(request, out)`` until the input is closed."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # without ``ended`` the process goes with its parent, also in the middle of a request
    far = FarEnd(*take_streams(log_handle(Path(log), _LOG_LIMIT)), limit=_LINE_LIMIT)
    faulthandler.enable(file=2)
    with contextlib.suppress(OSError):  # when memory runs out, this process goes first
        Path("/proc/self/oom_score_adj").write_text("500", encoding="ascii")
    confine_process([folder])
    far.start()
    while (request := far.next(_IDLE_SECONDS)) is not None:
        request.answer(_answer(module, request.params))


def _answer(module: str, params: Message) -> Message:
    """The answer, by a thread that may read what the request names and its own folder."""
    answers: list[Message] = []
    try:
        convert = import_module(module).convert
    except Exception as error:  # noqa: BLE001 - nobody else would tell the user
        return {"error": _describe(error)}

    def work() -> None:
        out = Path(params["out"])
        confine_thread([*params["reads"], str(out.parent.parent)])
        answers.append(outcome(partial(convert, params["request"], out), _describe))

    limit_growth(int(params["growth"]))
    seconds = float(params["seconds"])
    faulthandler.dump_traceback_later(seconds + _GRACE_SECONDS, exit=True, file=2)
    try:
        thread = threading.Thread(target=work, name="request")
        thread.start()
        thread.join()
    finally:
        faulthandler.cancel_dump_traceback_later()
        sys.stdout.flush()
    return answers[0]


def _describe(error: Exception) -> Message:
    return dict(_as_error(error).to_dict())


def _as_error(error: Exception) -> EngineError:
    if isinstance(error, EngineError):
        return error
    traceback.print_exception(error)  # descriptor 2 is the log
    said = f"{type(error).__name__}: {sanitize(str(error), 300)}"
    if isinstance(error, OSError) and error.errno == errno.EFBIG:  # the limit is this process's own
        return WorkerError(
            f"The converted model could not be written: {error.strerror}.",
            cause="It grows far beyond the size of the model's file.",
            remedy="Check that this is the right model, and convert it to ONNX with its framework.",
        )
    if isinstance(error, OSError) and error.errno in _SANDBOX:
        name = error.filename if isinstance(error.filename, str) else "a call of the system"
        return WorkerError(
            f"The converter was refused {sanitize(name, 300)}: {error.strerror}.",
            cause="It runs in a sandbox: it writes in its own folder only, reads its libraries and "
            "the files of this model, starts nothing and connects to nothing. Or the file is not "
            "this user's.",
            remedy="Look whether the model needs this; if it does, convert it to ONNX with its own "
            "framework. What was said is in the log of the converter's process.",
        )
    if (lacking := resource_error(error)) is not None:
        return lacking
    if isinstance(error, ImportError):
        return SourceModelError(
            f"The converter could not be loaded: {said}.",
            cause="An installation is incomplete, or its parts are of versions that do not fit.",
            remedy="Install the extra of this framework again, in an environment of its own.",
        )
    return InternalError(
        f"Internal error while converting a model; please report it: {said}",
        cause="A bug in this program.",
        remedy="Report it with the log of the converter's process.",
    )


if __name__ == "__main__":
    main(*sys.argv[1:4])
    # Threads of libraries are not waited for: everything that counts is on disk.
    os._exit(0)
