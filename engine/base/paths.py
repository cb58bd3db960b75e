"""The user's folders of this program: state, cache and settings.

platformdirs is imported on use: the interface process asks after its first paint only.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
import traceback
from pathlib import Path
from typing import BinaryIO

_NAME = "rknntui"


def state_folder() -> Path:
    """History, jobs, logs and the interface's state (``$XDG_STATE_HOME/rknntui`` on Linux)."""
    import platformdirs

    return Path(platformdirs.user_state_dir(_NAME, appauthor=False))


def cache_folder() -> Path:
    """Results that can be computed again (``$XDG_CACHE_HOME/rknntui``)."""
    import platformdirs

    return Path(platformdirs.user_cache_dir(_NAME, appauthor=False))


def config_folder() -> Path:
    """Settings, key maps and themes of the user (``$XDG_CONFIG_HOME/rknntui``)."""
    import platformdirs

    return Path(platformdirs.user_config_dir(_NAME, appauthor=False))


def data_folder() -> Path:
    """What the user had made here and keeps (``$XDG_DATA_HOME/rknntui``)."""
    import platformdirs

    return Path(platformdirs.user_data_dir(_NAME, appauthor=False))


def user_dirs() -> dict[str, Path]:
    """State, cache, settings and what was made here, by name."""
    return {
        "state": state_folder(),
        "cache": cache_folder(),
        "config": config_folder(),
        "data": data_folder(),
    }


def private_folder(path: Path) -> Path:
    """Make a folder, and those above it that are missing, for this user alone: 0700 whatever the
    umask. Of the state and the cache folder also what is there already becomes 0700.

    Raises:
        OSError: one could not be made.
    """
    roots = (state_folder(), cache_folder())
    for part in (*reversed(path.parents), path):
        try:
            part.mkdir(0o700)
        except OSError as error:
            if isinstance(error, FileExistsError) and not part.is_dir():
                code = errno.ENOTDIR
                raise NotADirectoryError(code, os.strerror(code), str(part)) from error
            if not part.is_dir():
                raise
            mine = any(part == root or root in part.parents for root in roots)
            if not mine or not part.stat().st_mode & 0o077:
                continue
        with contextlib.suppress(OSError):  # somebody else's, or a disk without modes
            part.chmod(0o700)
    return path


def private_file(path: Path, *, append: bool = False) -> BinaryIO:
    """Open a file for writing that only this user may read: 0600 whatever the umask.

    Raises:
        OSError: it could not be opened.
    """
    how = os.O_APPEND if append else os.O_TRUNC
    return os.fdopen(private_handle(path, os.O_WRONLY | os.O_CREAT | how), "wb")


def private_handle(path: Path, flags: int) -> int:
    """As :func:`private_file`, as a descriptor opened with ``flags``.

    Raises:
        OSError: it could not be opened.
    """
    handle = os.open(path, flags | os.O_CLOEXEC, 0o600)
    with contextlib.suppress(OSError):  # somebody else's, or a disk without modes
        if os.fstat(handle).st_mode & 0o777 != 0o600:
            os.fchmod(handle, 0o600)
    return handle


def log_handle(path: Path, limit: int = 0) -> int:
    """A descriptor that appends to a log; one that is longer than ``limit`` bytes (unless that is
    0) is set aside first. Where it cannot be written, the descriptor leads nowhere.
    """
    try:
        private_folder(path.parent)
        if limit and path.exists() and path.stat().st_size > limit:
            path.replace(path.with_suffix(".old.log"))
        return private_handle(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    except OSError:
        return os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)


def log_crash(error: BaseException) -> Path | None:
    """Write the traceback of a mistake of this program to a new log file.

    Returns:
        Its path, or None where it cannot be written: telling a crash must never crash.
    """
    text = "".join(traceback.format_exception(error))
    stamp = time.strftime("%Y%m%d-%H%M%S")
    try:
        path = private_folder(state_folder() / "logs") / f"crash-{stamp}-{os.getpid()}.log"
        with private_file(path) as stream:
            stream.write(text.encode("utf-8", "backslashreplace"))
    except OSError:
        return None
    return path
