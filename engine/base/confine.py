"""What this process, or a thread of it, may no longer do: Landlock and seccomp of Linux.

A second wall behind the checks of what a model's file names: a framework that was led astray can
then write no file but in its own folder, connect to nothing and start no program. Where the kernel
does not have one of them, the rest still holds; :func:`walls` tells which are there. Nothing that
was taken away can be given back. Standard library only.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import resource
import struct
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.base.peers.limits import limit_data, limit_soft, private_bytes

__all__ = ["Walls", "confine_process", "confine_thread", "limit_memory", "walls"]

# include/uapi/linux/landlock.h; the three calls have one number on every architecture
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION = 1
_PATH_BENEATH = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_CHANGES = _WRITE_FILE | sum(1 << bit for bit in range(4, 13))  # removing and making of any kind
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_SINCE = ((2, _REFER), (3, _TRUNCATE), (5, _IOCTL_DEV))  # version of Landlock -> right
_TCP = 0b11  # bind and connect, since version 4
_SCOPES = 0b11  # abstract sockets and signals, since version 6

_NO_NEW_PRIVS, _SET_SECCOMP, _FILTER = 38, 22, 2  # include/uapi/linux/prctl.h, seccomp.h
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06  # linux/bpf_common.h

# What Landlock does not hold back, by number (arch/x86/entry/syscalls/syscall_64.tbl,
# include/uapi/asm-generic/unistd.h): network, programs, other processes, modes and owners of
# files, mounts, what the whole machine has one of, memory that is shared by a key, and the kernel's
# large interfaces.
_EVERYWHERE = (
    *(424, 434, 438, 440, 448),  # pidfd_send_signal, _open, _getfd process_madvise process_mrelease
    *(425, 426, 427, 452),  # io_uring_setup, _enter, _register fchmodat2
    *(428, 429, 430, 431, 432, 433, 442),  # open_tree move_mount fsopen ... mount_setattr
)
_DENIED = {
    "x86_64": (
        0xC000003E,
        (
            *(41, 42, 43, 49, 50, 288),  # socket connect accept bind listen accept4
            *(59, 322, 101, 310, 311),  # execve execveat ptrace process_vm_readv, _writev
            *(90, 91, 268, 92, 93, 94, 260),  # chmod fchmod fchmodat chown fchown lchown fchownat
            *(132, 235, 261, 280, 76),  # utime utimes futimesat utimensat truncate
            *(188, 189, 190, 197, 198, 199),  # setxattr and removexattr, with l and f
            *(161, 165, 272, 308, 304),  # chroot mount unshare setns open_by_handle_at
            *(248, 249, 250, 298, 321, 323),  # keys, perf_event_open bpf userfaultfd
            *(169, 175, 313, 246, 320),  # reboot init_module finit_module kexec_load, _file_load
            *(170, 171, 164, 227, 159, 305),  # sethostname, -domainname; settimeofday and its kin
            *(167, 168, 163, 103, 179, 155, 166),  # swapon, -off acct syslog quotactl mounts
            *(29, 30, 31, 64, 65, 66, 220),  # shmget shmat shmctl semget semop semctl semtimedop
            *(68, 69, 70, 71, 240, 241),  # msgget msgsnd msgrcv msgctl mq_open mq_unlink
            *(256, 279, 312, 300, 212, 176, 153),  # migrate_pages move_pages kcmp fanotify_init ...
            *(105, 106, 113, 114, 117, 119, 116, 126),  # users and groups, capset
            200,  # tkill: it names a thread alone, of whatever process
        ),
    ),
    "aarch64": (
        0xC00000B7,
        (
            *(198, 203, 202, 200, 201, 242),
            *(221, 281, 117, 270, 271),
            *(52, 53, 54, 55),
            *(88, 45),
            *(5, 6, 7, 14, 15, 16),
            *(51, 40, 97, 268, 265),
            *(217, 218, 219, 241, 280, 282),
            *(142, 105, 273, 104, 294),
            *(161, 162, 170, 112, 171, 266),
            *(224, 225, 89, 116, 60, 41, 39),
            *(194, 196, 195, 190, 193, 191, 192),
            *(186, 189, 188, 187, 180, 181),
            *(238, 239, 272, 262, 18, 106, 58),
            *(146, 144, 145, 143, 147, 149, 159, 91),
            130,
        ),
    ),
}
_SELF = {
    # number -> (which argument names the process; whether 0 is this one, too)
    "x86_64": {62: (0, False), 234: (0, False), 129: (0, False), 297: (0, False),
               302: (0, True), 141: (1, True), 203: (0, True), 144: (0, True), 142: (0, True),
               314: (0, True), 251: (1, True)},
    "aarch64": {129: (0, False), 131: (0, False), 138: (0, False), 240: (0, False),
                261: (0, True), 140: (1, True), 122: (0, True), 119: (0, True), 118: (0, True),
                274: (0, True), 30: (1, True)},
}  # fmt: skip
"""Calls that a process may make of itself alone: kill tgkill rt_sigqueueinfo rt_tgsigqueueinfo,
prlimit64 setpriority sched_setaffinity sched_setscheduler sched_setparam sched_setattr ioprio_set.
"""
_ARGUMENTS = 16
"""Where they begin in ``struct seccomp_data``, eight bytes each; a process is the low four."""
_CAPABILITIES = 0x20080522
"""Version 3 of ``capset(2)``: two words of 32 bits for each set."""
_KEPT_CAPABILITIES = 1 << 1 | 1 << 2
"""``CAP_DAC_OVERRIDE`` and ``CAP_DAC_READ_SEARCH``, by which root reads a model of another user;
what may be read and written is for Landlock to say.
"""
_CAPSET = {"x86_64": (125, 126), "aarch64": (90, 91)}
_FOREIGN_ABI = 0x40000000  # x32: the same calls under other numbers

# what libraries read while they are loaded and used
_SYSTEM = (
    "/usr", "/bin", "/lib", "/lib32", "/lib64", "/opt", "/nix", "/snap", "/gnu", "/sys",
    "/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/version", "/proc/sys",
    "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime", "/etc/timezone",
    "/etc/os-release", "/etc/mime.types", "/etc/alternatives", "/dev/null", "/dev/zero",
    "/dev/random", "/dev/urandom",
)  # fmt: skip
_MEMORY_SLACK = 512 << 20


@dataclass(frozen=True)
class Walls:
    """What the kernel has.

    Attributes:
        landlock: its version, 0 where there is none (before Linux 5.13, or switched off).
        seccomp: whether calls can be filtered, on a processor whose numbers are known here.
    """

    landlock: int
    seccomp: bool


def walls() -> Walls:
    """Ask the kernel; nothing is changed."""
    if not sys.platform.startswith("linux"):
        return Walls(0, seccomp=False)
    version = _call(_CREATE_RULESET, None, 0, _VERSION)
    return Walls(max(0, version), seccomp=platform.machine() in _DENIED and _has_filters())


def confine_process(writable: Sequence[Path]) -> Walls:
    """Take away from this process and all its later threads, before it has a second one.

    It writes below ``writable`` and to /dev/null only, connects to nothing, starts no program,
    signals and changes no other process, and has of root's rights those to read files alone; files
    that are open stay so.

    Returns:
        What is active now.
    """
    found = walls()
    if found == Walls(0, seccomp=False) or not _no_new_privileges():
        return Walls(0, seccomp=False)
    handled = _CHANGES | _EXECUTE | sum(bit for since, bit in _SINCE if found.landlock >= since)
    rights = handled & ~_EXECUTE
    _drop_capabilities()
    rules = [*((path, rights) for path in writable), (Path("/dev/null"), rights)]
    landlock = found.landlock if found.landlock and _landlock(found, handled, rules) else 0
    return Walls(landlock, seccomp=found.seccomp and _filter_calls())


def confine_thread(readable: Iterable[Path]) -> bool:
    """Let this thread, and those that it starts, read ``readable`` and what libraries need only.

    Returns:
        Whether it is so.
    """
    found = walls()
    if not found.landlock or not _no_new_privileges():
        return False
    rights = _READ_FILE | _READ_DIR
    rules = [(path, rights) for path in (*readable, *_libraries())]
    return _landlock(found, rights, rules, network=False)


def limit_memory(growth: int) -> None:
    """Let this process allocate ``growth`` bytes and a little more than it has, and write no file
    above ``growth`` bytes; what goes beyond fails instead of filling the machine.
    """
    if now := private_bytes():
        limit_data(now + growth + _MEMORY_SLACK)
    limit_soft(resource.RLIMIT_FSIZE, growth + _MEMORY_SLACK)


def _libraries() -> list[Path]:
    """Where Python and its packages are; not a whole home folder that stands in the search path."""
    prefixes = [sys.prefix, sys.base_prefix, sys.exec_prefix]
    given = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    own = [str(Path(__file__).resolve().parents[1])]
    paths = {*prefixes, *sysconfig.get_paths().values(), *sys.path, *given, *own}
    spared = {"/", os.path.expanduser("~"), ""}  # noqa: PTH111 - no error where there is no home
    return [*map(Path, _SYSTEM), *(Path(p) for p in sorted(paths - spared) if p.startswith("/"))]


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _call(number: int, *arguments: object) -> int:
    """The result of a system call; below 0 where it failed."""
    syscall = _libc().syscall
    syscall.restype = ctypes.c_long
    made = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    return int(syscall(ctypes.c_long(number), *made))


def _no_new_privileges() -> bool:
    return int(_libc().prctl(_NO_NEW_PRIVS, 1, 0, 0, 0)) == 0


def _landlock(
    found: Walls, handled: int, rules: Iterable[tuple[Path, int]], *, network: bool = True
) -> bool:
    attributes = struct.pack("=Q", handled)
    if found.landlock >= 4:
        attributes += struct.pack("=Q", _TCP if network else 0)
    if found.landlock >= 6:
        attributes += struct.pack("=Q", _SCOPES if network else 0)
    ruleset = _call(_CREATE_RULESET, attributes, len(attributes), 0)
    if ruleset < 0:
        return False
    try:
        for path, rights in rules:
            _allow(ruleset, path, rights)
        return _call(_RESTRICT_SELF, ruleset, 0) == 0
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: Path, rights: int) -> None:
    """Keep rights beneath a path; one that is not there needs none."""
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        kept = rights if path.is_dir() else rights & _OF_FILES
        _call(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", kept, handle), 0)
    finally:
        os.close(handle)


def _has_filters() -> bool:
    """A filter at address 0 is refused with EFAULT where filters are known, else with EINVAL."""
    failed = _libc().prctl(_SET_SECCOMP, _FILTER, None, 0, 0) != 0
    return bool(failed) and ctypes.get_errno() == errno.EFAULT


def _drop_capabilities() -> None:
    """Keep no right of root but to read files; a user who is not root has none."""
    numbers = _CAPSET.get(platform.machine())
    if numbers is None:
        return
    head = struct.pack("=Ii", _CAPABILITIES, 0)
    found = ctypes.create_string_buffer(24)
    if _call(numbers[0], head, found) != 0:
        return
    permitted = struct.unpack("=6I", found.raw)[1] & _KEPT_CAPABILITIES
    _call(numbers[1], head, struct.pack("=6I", permitted, permitted, 0, 0, 0, 0))


def _filter_calls() -> bool:
    """Refuse calls with EPERM: by number, of another process, and those of another architecture."""
    architecture, numbers = _DENIED[platform.machine()]
    allow, refuse = (_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _ERRNO | errno.EPERM)
    program = [
        (_LOAD, 0, 0, 4),  # the architecture, then the number of the call
        (_EQUAL, 1, 0, architecture),
        refuse,
        (_LOAD, 0, 0, 0),
        (_AT_LEAST, 0, 1, _FOREIGN_ABI),
        refuse,
    ]
    for number in (*numbers, *_EVERYWHERE):
        program += [(_EQUAL, 0, 1, number), refuse]
    for number, (argument, zero) in _SELF[platform.machine()].items():
        own = [(_EQUAL, 0, 1, os.getpid()), allow]
        own += [(_EQUAL, 0, 1, 0), allow] if zero else []
        program += [
            (_EQUAL, 0, len(own) + 2, number),
            (_LOAD, 0, 0, _ARGUMENTS + 8 * argument),
            *own,
            refuse,
        ]
    program.append(allow)
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in program))
    head = ctypes.create_string_buffer(struct.pack("@HP", len(program), ctypes.addressof(code)))
    return int(_libc().prctl(_SET_SECCOMP, _FILTER, head, 0, 0)) == 0
