"""Calls of the kernel that Python has no name for. In the language of Python 3.6."""

import ctypes
import platform
import struct

_KNOWN = ("x86_64", "aarch64")


def architecture() -> str:
    """The processor of this process; empty where its numbers of calls are not known here."""
    machine = platform.machine()
    return machine if machine in _KNOWN and struct.calcsize("P") == 8 else ""


def call(number: int, *arguments: object) -> int:
    """The result of a system call; below 0 where it failed."""
    syscall = _libc().syscall
    syscall.restype = ctypes.c_long
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    return int(syscall(ctypes.c_long(number), *words))


def prctl(option: int, *arguments: object) -> int:
    """Its result; below 0 where it failed."""
    words = [ctypes.c_ulong(a) if isinstance(a, int) else a for a in arguments]
    return int(_libc().prctl(ctypes.c_int(option), *words))


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
