"""Child Python processes, a vendor's script too: started safely, told apart and ended.

Standard library only.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from engine.base.paths import private_handle
from engine.base.plain import Values

_THREAD_CAPS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)


def child_environment(given: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a child that must find this same engine and nothing from where the user
    stands.

    Empty and relative entries of ``PYTHONPATH`` mean the current folder and are left out. An engine
    that is run from its sources is put first; an installed one is found anyway, and its folder must
    not come before the standard library. Libraries for linear algebra get one thread, so that the
    interface keeps a core.
    """
    environment = dict(os.environ if given is None else given)
    root = str(Path(__file__).resolve().parents[2])
    entries = [
        e for e in environment.get("PYTHONPATH", "").split(os.pathsep) if e.startswith(os.sep)
    ]
    if not is_site_folder(root):
        entries = [root, *(e for e in entries if e != root)]
    if entries:
        environment["PYTHONPATH"] = os.pathsep.join(entries)
    else:
        environment.pop("PYTHONPATH", None)
    for name in _THREAD_CAPS:
        environment[name] = "1"
    environment["ORT_DISABLE_TELEMETRY"] = "1"
    environment["PYTHONUNBUFFERED"] = "1"
    return environment


def is_site_folder(root: str) -> bool:
    """Whether a folder is one that Python searches for installed packages."""
    import site

    known = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    if site.ENABLE_USER_SITE:
        known.append(site.getusersitepackages())
    return any(os.path.realpath(path) == root for path in known if path)


def engine_command(module: str, *arguments: str) -> list[str]:
    """The command that runs a module of the engine, with :func:`child_environment`.

    ``-P`` keeps the current folder out of the module search: a folder ``engine/`` where the user
    stands is not run instead of ours.
    """
    return [sys.executable, "-P", "-m", module, *arguments]


@cache
def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


def _start_ticks(pid: int) -> int:
    """When a process started, in clock ticks since boot; 0 where there is none (or it is a
    zombie).
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return 0
    fields = text.rpartition(")")[2].split()
    return 0 if fields[0] in ("Z", "X") else int(fields[19])


@dataclass(frozen=True)
class ProcessId:
    """A process that cannot be mistaken for a later one with the same number.

    Attributes:
        pid: its number.
        started: clock ticks since boot at its start.
        boot: the boot of the machine that it belongs to.
    """

    pid: int
    started: int
    boot: str

    @classmethod
    def of(cls, pid: int) -> ProcessId:
        """The identity of a process that runs now."""
        return cls(pid, _start_ticks(pid), _boot_id())

    @classmethod
    def from_dict(cls, data: Values) -> ProcessId:
        """Rebuild from ``dataclasses.asdict``; a broken record names no process."""
        try:
            return cls(int(data["pid"]), int(data["started"]), str(data["boot"]))
        except (KeyError, TypeError, ValueError):
            return cls(0, 0, "")

    @property
    def same_boot(self) -> bool:
        """Whether the machine was not restarted since (and is the same one)."""
        return self.boot == _boot_id()

    @property
    def alive(self) -> bool:
        """Whether this very process still runs."""
        return self.pid > 1 and self.same_boot and 0 < self.started == _start_ticks(self.pid)

    def send(self, number: signal.Signals) -> bool:
        """Send a signal to this very process; False where it has ended."""
        if not self.alive:
            return False
        try:
            os.kill(self.pid, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True


def exit_reason(returncode: int | None) -> tuple[str, str]:
    """How a child ended, and the likely cause: ``("was killed by SIGKILL", "Memory ran out,
    ...")``.
    """
    if returncode is None:
        return "ended", "It was killed, or the machine was restarted."
    if returncode >= 0:
        return f"ended with exit code {returncode}", "It crashed; its log has the details."
    try:
        name = signal.Signals(-returncode).name
    except ValueError:
        name = f"signal {-returncode}"
    cause = {
        "SIGKILL": "Killed, probably by the system because it was out of memory.",
        "SIGTERM": "It was asked to end, or the machine is shutting down.",
        "SIGSEGV": "A library crashed.",
        "SIGBUS": "A library crashed, or a file was cut short while it was read.",
        "SIGABRT": "A library gave up, often because memory ran out.",
        "SIGILL": "A library uses instructions that this processor does not have.",
        "SIGXFSZ": "A file grew above the size that this system allows.",
    }.get(name, "A signal ended it.")
    return f"was killed by {name}", cause


@contextlib.contextmanager
def try_lock(path: Path) -> Iterator[bool]:
    """Take a lock file for the time of the block; False where another process has it.

    Raises:
        OSError: the file could not be made.
    """
    handle = private_handle(path, os.O_RDWR | os.O_CREAT)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True
    finally:
        os.close(handle)


# The environment of a script of the vendor's toolkit that this program runs.
#
# ``engine/api/drop_in`` holds packages with the vendor's names, ``rknn`` and ``rknnlite``; they are
# found only where that folder is on the path. Standard library only.

_ROOT = Path(__file__).resolve().parents[2]
DROP_IN = _ROOT / "engine" / "api" / "drop_in"
"""The folder that holds the packages ``rknn`` and ``rknnlite``."""
SCRIPT = "RKNNTUI_SCRIPT"
"""Environment variable: set where a user asked for these names, by ``rknntui script``."""
GENERATION = "RKNNTUI_GENERATION"
"""Environment variable: 1 or 2, whose rules hold for ``RKNN()`` of a script."""
COMPILER = "RKNNTUI_COMPILER"
"""Environment variable: ``rockchip`` where ``export_rknn`` is to write what an NPU runs."""


def script_environment(
    given: Mapping[str, str], *, generation: str | None = None, compiler: str | None = None
) -> dict[str, str]:
    """The variables of a process in which ``from rknn.api import RKNN`` gives ours.

    Args:
        given: the variables it starts from. Entries of ``PYTHONPATH`` stay, behind ours.
        generation: ``1`` or ``2``; None: the first ``config`` of the script decides.
        compiler: of ``export_rknn``; None: as ``given`` says.
    """
    environment = dict(given)
    paths = [str(DROP_IN), *filter(None, given.get("PYTHONPATH", "").split(os.pathsep))]
    if not is_site_folder(str(_ROOT)):
        paths.insert(1, str(_ROOT))
    environment["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
    environment[SCRIPT] = "1"
    said = {GENERATION: generation, COMPILER: compiler}
    return environment | {name: value for name, value in said.items() if value is not None}
