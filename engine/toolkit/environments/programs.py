"""The interpreters of this machine, and programs that are run in them to their end: their output
read as it comes, ended with all they started.
"""

from __future__ import annotations

import contextlib
import os
import platform
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.base.errors import ToolkitError
from engine.base.events import Reporter

_SECONDS = 20.0
_TEST = "import ensurepip, venv, sys; print('%d.%d' % sys.version_info[:2])"
# what would lead Python or pip elsewhere than to the environment that is made or used
_LEADS_ASTRAY = (
    "PIP_PREFIX",
    "PIP_REQUIRE_VIRTUALENV",
    "PIP_ROOT",
    "PIP_TARGET",
    "VIRTUAL_ENV",
    "__PYVENV_LAUNCHER__",
)


def clean_environment(given: Mapping[str, str] | None = None) -> dict[str, str]:
    """Variables for a program of a toolkit's environment: nothing leads it to other packages.

    Proxies, certificates and indexes of the user stay.
    """
    variables = os.environ if given is None else given
    kept = {
        name: value
        for name, value in variables.items()
        if not name.startswith("PYTHON") and name not in _LEADS_ASTRAY
    }
    return kept | {"ORT_DISABLE_TELEMETRY": "1", "PYTHONNOUSERSITE": "1", "PYTHONUNBUFFERED": "1"}


def check_platform() -> None:
    """Whether the vendor's packages run on this machine at all.

    Raises:
        ToolkitError: they do not; says what they need.
    """
    machine, system = platform.machine(), platform.system()
    if system != "Linux" or machine not in ("x86_64", "aarch64"):
        platform_name = f"{system} on {machine}"
    elif platform.libc_ver()[0] != "glibc":
        platform_name = "Linux without glibc"
    else:
        return
    raise ToolkitError(
        f"The vendor's toolkit does not run here: this is {platform_name}.",
        cause="The vendor has packages for Linux with glibc on x86-64 and arm64 only.",
        remedy="Compile on such a machine; everything but compiling works here.",
    )


def _version_of(python: str) -> str | None:
    """``3.11`` for an interpreter that can make environments; None where it is none."""
    return _answer([python, "-I", "-c", _TEST], clean_environment())


def _answer(command: Sequence[str], variables: Mapping[str, str] | None = None) -> str | None:
    """What a program prints; None where it fails or cannot be run."""
    with contextlib.suppress(OSError, subprocess.SubprocessError, UnicodeDecodeError):
        said = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
            stdin=subprocess.DEVNULL,
            env=variables,
        )
        if said.returncode == 0:
            return said.stdout.strip()
    return None


def find_python(versions: Sequence[str], given: str | None = None) -> tuple[str, str]:
    """An interpreter that can make an environment.

    Args:
        versions: those that fit, the preferred one first.
        given: the user's choice, a path or a name; None to look for one.

    Returns:
        Its absolute path, and its version (``3.11``).

    Raises:
        ToolkitError: there is none.
    """
    if given is not None:
        path = shutil.which(given) or given
        python_version = _version_of(path)
        if python_version is None or python_version not in versions:
            raise ToolkitError(
                f"{given} cannot be used: "
                + (
                    f"it is Python {python_version}."
                    if python_version
                    else "it is no Python that has venv."
                ),
                cause=f"The vendor's toolkit is made for Python {_listed(versions)} here.",
                remedy="Name another one with --python, or leave it out to have one looked for.",
            )
        return os.path.abspath(path), python_version  # noqa: PTH100 - a link stays: it may be the answer
    for version in versions:
        for path in _candidates(version):
            if _version_of(path) == version:
                return path, version
    first = versions[0]
    raise ToolkitError(
        f"There is no Python {_listed(versions)} here that can make environments.",
        cause="The vendor's toolkit has packages for these only, and a system's Python may lack "
        "its venv module.",
        remedy=f"Install python{first} with its venv module (Debian: python{first}-venv; or: uv "
        f"python install {first}), or name one with --python.",
    )


def _listed(versions: Sequence[str]) -> str:
    *most, last = sorted(versions, key=lambda one: int(one.partition(".")[2]))
    return f"{', '.join(most)} or {last}" if most else last


def _candidates(version: str) -> Iterator[str]:
    """Interpreters of a version, in the order in which they are tried."""
    if ".".join(map(str, sys.version_info[:2])) == version:
        yield sys.executable
    if program := shutil.which(f"python{version}"):
        yield program
    root = Path(os.environ.get("PYENV_ROOT", str(Path.home() / ".pyenv")))
    yield from (str(path) for path in sorted(root.glob(f"versions/{version}.*/bin/python")))
    for uv in ("uv", str(Path.home() / ".local" / "bin" / "uv")):
        if program := _answer([uv, "python", "find", "--no-python-downloads", version]):
            yield program


# ------------------------------------------------------------------------------- a program's run

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
