"""A program that is run to its end: its output read as it comes, ended with all it started."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.base.errors import ToolkitError
from engine.base.events import Reporter

__all__ = ["Ended", "dying_with_us", "run"]

_LOOK_SECONDS = 0.2
_CHUNK = 1 << 16
_LINE_LIMIT = 1 << 20

# The parent may be killed at any time; what it started must not write on in its folder.
_LAUNCH = (
    "import ctypes,os,runpy,signal,sys\n"
    "parent=int(sys.argv[1])\n"
    "ctypes.CDLL(None).prctl(1,signal.SIGKILL)\n"
    "os.getppid()!=parent and sys.exit(1)\n"
    "sys.argv[:]=sys.argv[2:]\n"
    "runpy.run_module(sys.argv[0],run_name='__main__',alter_sys=True)\n"
)


def dying_with_us(python: str, module: str, *arguments: str) -> list[str]:
    """The command that runs a module in a Python of its own, killed by the kernel with us.

    ``-I``: neither the folder where the user stands nor the user's own packages count.
    """
    return [python, "-I", "-c", _LAUNCH, str(os.getpid()), module, *arguments]


@dataclass(frozen=True)
class Ended:
    """How it ended: its exit code (negative: a signal), or that its time was over."""

    returncode: int
    late: bool = False


def run(
    command: Sequence[str],
    reporter: Reporter,
    *,
    environment: Mapping[str, str],
    on_line: Callable[[str], object],
    folder: Path | None = None,
    seconds: float | None = None,
    keep: Sequence[int] = (),
) -> Ended:
    """Run a program; its standard output and error go line by line to ``on_line``.

    Args:
        command: the program and its arguments; no shell reads them.
        reporter: asked for cancellation five times a second.
        environment: all its variables.
        folder: where it runs.
        seconds: until it is ended; None for no limit.
        keep: descriptors that it inherits.

    Raises:
        ToolkitError: it could not be started.
        JobCancelledError: the user cancelled; all that it started is gone.
    """
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            cwd=folder,
            start_new_session=True,
            bufsize=0,
            pass_fds=tuple(keep),
        )
    except (OSError, ValueError) as error:
        raise ToolkitError(
            f"{command[0]} could not be started: {getattr(error, 'strerror', None) or error}.",
            cause="It was removed, is not a program for this machine, or there is no memory left.",
            remedy="Check that it runs by itself; then try again.",
        ) from error
    try:
        with process.stdout or contextlib.nullcontext():
            late = _follow(process, reporter, on_line, seconds)
    finally:
        _end(process)
    return Ended(process.returncode, late)


def _follow(
    process: subprocess.Popen[bytes],
    reporter: Reporter,
    on_line: Callable[[str], object],
    seconds: float | None,
) -> bool:
    """Read what it says until it ends; whether its time was over before."""
    end = None if seconds is None else time.monotonic() + seconds
    stream, pending = process.stdout, b""
    while stream is not None:
        reporter.check_cancelled()
        if end is not None and time.monotonic() > end:
            return True
        ready, _, _ = select.select([stream], [], [], _LOOK_SECONDS)
        if not ready:
            if process.poll() is not None:
                break  # something that it started has its output still
            continue
        data = os.read(stream.fileno(), _CHUNK)
        *lines, pending = (pending + data).split(b"\n")
        for line in lines:
            on_line(line.decode("utf-8", "replace"))
        pending = pending[-_LINE_LIMIT:]
        if not data:
            break
    if pending:
        on_line(pending.decode("utf-8", "replace"))
    while process.poll() is None:  # it closed its output and works on
        reporter.check_cancelled()
        if end is not None and time.monotonic() > end:
            return True
        time.sleep(_LOOK_SECONDS / 4)
    return False


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill its whole group, also what outlived it.

    It is not asked first: it has nothing to save, and a job that is cancelled has two seconds.
    """
    # its group lives as long as one of its processes; until it is waited for, so does its number
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
