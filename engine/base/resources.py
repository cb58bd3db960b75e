"""What the machine lacked: errors that say nothing about a model, a file or this program.

Standard library only.
"""

from __future__ import annotations

import errno
import resource
from collections.abc import Iterator

from engine.base.errors import EngineError, OutputError, WorkerError
from engine.base.text import sanitize

_CHAIN = 20
_DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
_FILES = frozenset({errno.EMFILE, errno.ENFILE})
_NO_FOLDER = "No usable temporary directory"
# How libraries say that there was no room: ImportError and RuntimeError have no number.
_NO_MEMORY = (
    "failed to map segment",  # the loader, of a library's code
    "cannot map zero-fill",
    "cannot allocate memory",
    "failed to allocate memory",
    "bad_alloc",
    "out of memory",
)
_NO_THREAD = ("can't start new thread", "resource temporarily unavailable", "pthread_create failed")


def resource_error(error: BaseException) -> EngineError | None:
    """The error to show where ``error`` came of a lack of memory, disk, processes or open files.

    Looks at what it was raised from and during too: closing a half-written archive after a
    ``MemoryError`` raises something else.

    Returns:
        A :class:`WorkerError` or an :class:`OutputError`; None where nothing was lacking.
    """
    for one in _chain(error):
        if isinstance(one, EngineError):
            return None  # it was understood where it happened
        lacking = _lacking(one)
        if lacking is not None:
            return lacking
    return None


def _chain(error: BaseException) -> Iterator[BaseException]:
    one: BaseException | None = error
    for _ in range(_CHAIN):
        if one is None:
            return
        yield one
        one = one.__cause__ or one.__context__


def _lacking(error: BaseException) -> EngineError | None:
    number = error.errno if isinstance(error, OSError) else None
    text = str(error)
    if isinstance(error, MemoryError) or number == errno.ENOMEM:
        return _no_memory()
    if number in _DISK or _NO_FOLDER in text:
        return _no_room(error)
    if number in _FILES:
        return WorkerError(
            "Too many files are open.",
            cause="The limit of open files (ulimit -n) is low, or another program has many open.",
            remedy="Raise the limit, as with: ulimit -n 1024",
        )
    if number == errno.EAGAIN or _says(error, _NO_THREAD):
        return WorkerError(
            "No further process or thread could be started.",
            cause="The limit of processes (ulimit -u, or of a container) is reached.",
            remedy="End other programs, or raise the limit.",
        )
    # A library whose code found no room says so once, and something else the next time; some
    # return without an exception, which CPython tells as a SystemError.
    limited = resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
    if _says(error, _NO_MEMORY) or (type(error) in (ImportError, SystemError) and limited):
        return _no_memory()
    return None


def _says(error: BaseException, words: tuple[str, ...]) -> bool:
    foreign = isinstance(error, ImportError | OSError | RuntimeError | SystemError)
    return foreign and any(one in str(error).lower() for one in words)


def _no_memory() -> EngineError:
    return WorkerError(
        "Memory ran out.",
        cause="The model or its tensors are larger than what is free, or a limit (ulimit -v) is "
        "low.",
        remedy="Close other programs, raise the limit, or use a smaller model or input.",
    )


def _no_room(error: BaseException) -> EngineError:
    name = getattr(error, "filename", None)
    if name:
        what = f"{sanitize(str(name), 300)} could not be written: {_reason(error)}."
    else:
        what = f"A file for temporary data could not be written: {_reason(error)}."
    return OutputError(
        what,
        cause="The disk, the quota or the folder for temporary files is full.",
        remedy="Free space, or set TMPDIR to a folder with room.",
    )


def _reason(error: BaseException) -> str:
    if _NO_FOLDER in str(error):
        return "no folder for temporary files has room"
    return getattr(error, "strerror", None) or "no space left"
