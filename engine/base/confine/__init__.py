"""What a process, or a thread of it, may no longer do: Landlock, seccomp and namespaces of Linux.

A second wall behind the checks of what a model's file names: a framework or a toolkit that was led
astray can then write no file but in its own folders, connect to nothing and reach no other process.
Where the kernel does not have one of them, the rest still holds; ``python -m engine.base.confine``
tells which of them hold a process here. Nothing that was taken away can be given back.

Standard library only, in the language of Python 3.6: a copy of this folder confines the vendor's
toolkits in their own Pythons, so its modules name each other without the name of the package.
"""

import os
import sys
import sysconfig
from typing import Iterable, List, NamedTuple, Sequence, Tuple

from . import filters, landlock, namespaces
from .kernel import prctl

__all__ = ["Walls", "confine_process", "confine_thread", "confine_toolkit"]

_NO_NEW_PRIVS = 38  # include/uapi/linux/prctl.h

# what libraries read while they are loaded and used, and programs of the system
_PROGRAMS = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt", "/nix", "/snap", "/gnu",
)  # fmt: skip
_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/fd")
_PROC = (
    "/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/version", "/proc/sys",
    "/proc/filesystems", "/proc/loadavg", "/proc/uptime",
)  # fmt: skip
_ETC = (
    "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime", "/etc/timezone",
    "/etc/os-release", "/etc/mime.types", "/etc/alternatives",
)  # fmt: skip
_SYSTEM = (*_PROGRAMS, "/sys", *_PROC, *_ETC, *_DEVICES)
_NETWORK = (
    "/etc/hosts",
    "/etc/resolv.conf",
    "/etc/nsswitch.conf",
    "/etc/host.conf",
    "/run/resolvconf",
)
_BOARDS = ("/dev/bus/usb",)


class Walls(NamedTuple):
    """What holds a process.

    Attributes:
        landlock: its version, 0 where there is none (before Linux 5.13, or switched off).
        seccomp: whether calls are filtered, on a processor whose numbers are known here.
        namespaces: whether it has a network and shared memory of its own.
    """

    landlock: int = 0
    seccomp: bool = False
    namespaces: bool = False


def confine_process(writable: Sequence[str]) -> Walls:
    """Confine a converter, before this process has a second thread.

    It writes below ``writable`` and to /dev/null only, reads of /proc what is its own, connects to
    nothing, starts no program and no process, signals and changes no other one, and has of root's
    rights those to read files alone; files that are open stay so. What a request may read is for
    :func:`confine_thread` to say.

    Returns:
        What holds it now.
    """
    changes = landlock.changes()
    rules = [("/" + name, landlock.READS) for name in sorted(os.listdir("/"))]
    rules = [rule for rule in rules if rule[0] not in ("/proc", "/dev")]
    rules += [(path, landlock.READS) for path in (*_PROC, *_DEVICES, "/dev/shm")]  # noqa: S108
    rules += [(path, changes) for path in (*writable, "/dev/null")]
    return _confine("converter", rules)


def confine_toolkit(
    writable: Sequence[str], readable: Iterable[str], programs: Iterable[str], board: bool
) -> Walls:
    """Confine the toolkit of a vendor, before this process has a second thread.

    As :func:`confine_process`, and it reads what libraries need and ``readable`` only, and starts
    programs of the system, of its environment and ``programs``, which are confined with it.

    Args:
        writable: folders.
        readable: files and folders.
        programs: others that it may start.
        board: whether it may use the network and USB as well, and leave an adb server behind.

    Returns:
        What holds it now.
    """
    changes = landlock.changes()
    runs = [*_PROGRAMS, *_environment(), *programs]
    rules = [(path, landlock.RUNS) for path in runs]
    rules += [(path, landlock.READS) for path in (*_SYSTEM, *readable)]
    rules += [(path, changes) for path in (*writable, "/dev/null")]
    if board:
        rules += [(path, landlock.READS) for path in _NETWORK]
        rules += [(path, changes) for path in _BOARDS]
    return _confine("board" if board else "toolkit", rules)


def confine_thread(readable: Iterable[str]) -> bool:
    """Let this thread, and those that it starts, read ``readable`` and what libraries need only.

    Returns:
        Whether it is so.
    """
    if not landlock.version() or not _no_new_privileges():
        return False
    engine = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    paths = [*readable, *_SYSTEM, *_environment(), engine]
    rules = [(path, landlock.READS) for path in paths]
    return landlock.restrict(landlock.READS, rules, signals=True)


def _confine(role: str, rules: List[Tuple[str, int]]) -> Walls:
    if not sys.platform.startswith("linux") or not _no_new_privileges():
        return Walls()
    board, program = role == "board", filters.own_program(role)
    apart = namespaces.leave(network=not board)
    namespaces.drop_capabilities()
    held = landlock.restrict(landlock.everything(), rules, network=board)
    return Walls(landlock.version() if held else 0, filters.filter_calls(program), apart)


def _environment() -> List[str]:
    """Where Python and its packages are; not a whole home folder that stands in the search path."""
    prefixes = [sys.prefix, sys.base_prefix, sys.exec_prefix]
    library_folders = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    paths = {*prefixes, *sysconfig.get_paths().values(), *sys.path, *library_folders}
    spared = {"/", os.path.expanduser("~"), ""}
    for folder in set(sys.path) - spared:
        paths.update(_linked(folder))
    return [path for path in sorted(paths - spared) if path.startswith("/")]


def _linked(folder: str) -> List[str]:
    """Where the packages of a folder are that are links."""
    try:
        with os.scandir(folder) as entries:
            return [os.path.realpath(entry.path) for entry in entries if entry.is_symlink()]
    except OSError:
        return []


def _no_new_privileges() -> bool:
    return prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
