"""seccomp: the calls of the kernel that a process may make. In the language of Python 3.6.

``calls.csv`` has them by name, with their number on each processor and from which role on they are
allowed; what is not in it fails. Rules of this module look at the arguments of some of them.
"""

import csv
import ctypes
import errno
import os
import struct
from typing import Dict, List, NamedTuple, Optional, Tuple

from .kernel import architecture, prctl

ROLES = ("converter", "toolkit", "board")
"""Each may what those before it may: a converter, a toolkit of the vendor, one with a board."""

Instruction = Tuple[int, int, int, int]
"""``struct sock_filter``: code, jump if true, jump if false, constant."""

_SET_SECCOMP, _FILTER = 22, 2  # include/uapi/linux/prctl.h, seccomp.h
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06  # linux/bpf_common.h
_EQUAL, _ABOVE, _AT_LEAST = 0x15, 0x25, 0x35
_ARGUMENTS = 16
"""Where they begin in ``struct seccomp_data``, eight bytes each; what is looked at is in the low
four.
"""
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # linux/audit.h
_FOREIGN_ABI = 0x40000000  # x32: the same calls under other numbers
_NEWER = 424
"""From this number on all processors have the same calls, and a library that uses one of them
has another way where the kernel does not know it: clone3, io_uring, pidfd_open, fchmodat2.
"""

_PERMIT = (_RETURN, 0, 0, _ALLOW)
_REFUSE = (_RETURN, 0, 0, _ERRNO | errno.EPERM)
_UNKNOWN = (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)
_NOTHING_DONE = (_RETURN, 0, 0, _ERRNO)


class Condition(NamedTuple):
    """An argument, without the bits that the mask leaves out, is one of the values."""

    argument: int
    mask: int
    values: List[int]


_ALL = 0xFFFFFFFF
_OWN = -1
"""Stands for the number of this process."""
_NAMESPACES = 0x7E020000  # CLONE_NEW... of linux/sched.h; the one of time is clone3's alone
_THREAD = 0x00010000  # CLONE_THREAD
_PROCESS = Condition(0, _ALL, [0])  # PRIO_PROCESS: 0 is no group and no user there
_FCNTL = [
    *range(8),  # F_DUPFD to F_SETLKW; not F_SETOWN, by which the kernel signals others
    *(36, 37, 38),  # F_OFD_GETLK, _SETLK, _SETLKW
    *(1030, 1031, 1032, 1033, 1034),  # F_DUPFD_CLOEXEC, F_..PIPE_SZ, F_.._SEALS
]
_IOCTL = [
    *(0x5401, 0x802C542A, 0x5413),  # TCGETS, TCGETS2, TIOCGWINSZ: whether it is a terminal
    *(0x541B, 0x5421, 0x5450, 0x5451),  # FIONREAD, FIONBIO, FIONCLEX, FIOCLEX
]
_PRCTL = [
    *(2, 3, 15, 16, 21, 23),  # GET_PDEATHSIG GET_DUMPABLE .._NAME GET_SECCOMP CAPBSET_READ
    *(29, 30, 38, 39, 40, 41, 42),  # .._TIMERSLACK, .._NO_NEW_PRIVS, GET_TID_ADDRESS, THP
    *(50, 51, 52, 56, 63, 64),  # lengths of vectors, speculation, tagged addresses
    0x53564D41,  # SET_VMA: names of memory
]
_RULES: Dict[str, List[Condition]] = {
    "clone": [Condition(0, _NAMESPACES | _THREAD, [_THREAD])],
    "fcntl": [Condition(1, _ALL, _FCNTL)],
    "ioctl": [Condition(1, _ALL, _IOCTL)],
    "prctl": [Condition(0, _ALL, _PRCTL)],
    # a pair of datagrams could be sent elsewhere
    "socketpair": [Condition(0, _ALL, [1]), Condition(1, 0xF, [1])],  # AF_UNIX, SOCK_STREAM
    "socket": [Condition(0, _ALL, [1, 2, 10])],  # AF_UNIX, AF_INET, AF_INET6
    "kill": [Condition(0, _ALL, [_OWN])],
    "tgkill": [Condition(0, _ALL, [_OWN])],
    "rt_sigqueueinfo": [Condition(0, _ALL, [_OWN])],
    "rt_tgsigqueueinfo": [Condition(0, _ALL, [_OWN])],
    "getpriority": [_PROCESS, Condition(1, _ALL, [0, _OWN])],
    "setpriority": [_PROCESS, Condition(1, _ALL, [0, _OWN])],
    "ioprio_get": [Condition(0, _ALL, [1]), Condition(1, _ALL, [0, _OWN])],
    "ioprio_set": [Condition(0, _ALL, [1]), Condition(1, _ALL, [0, _OWN])],
}
_RULES.update(
    (name, [Condition(0, _ALL, [0, _OWN])])
    for name in (
        "prlimit64", "getpgid", "getsid", "sched_setaffinity", "sched_setscheduler",
        "sched_setparam", "sched_setattr",
    )
)  # fmt: skip
_OTHER_RULES: Dict[str, Dict[str, List[Condition]]] = {
    "toolkit": {"clone": [Condition(0, _NAMESPACES, [0])]},
    "board": {"ioctl": []},  # an adb server that is started there speaks to USB
}
_IGNORED = frozenset(
    ["chmod", "fchmod", "fchmodat", "utime", "utimes", "futimesat", "utimensat"]
)  # fmt: skip
"""Calls of a toolkit that change nothing and say that they did: Landlock does not hold back modes
and times of files, and a copy of a tree fails without them.
"""


class Call(NamedTuple):
    """A call that is allowed, with its number on the processors that have it."""

    name: str
    numbers: Dict[str, int]
    role: str


def table() -> List[Call]:
    """All of ``calls.csv``."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "calls.csv")
    with open(path, encoding="ascii", newline="") as stream:
        return [
            Call(row["name"], {m: int(row[m]) for m in _ARCHITECTURES if row[m]}, row["role"])
            for row in csv.DictReader(stream)
        ]


def filter_calls(program: List[Instruction]) -> bool:
    """Let this process and all that it starts make the calls of a program only; whether it is so.

    An empty one, as it is for a processor that is not known here, changes nothing.
    """
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *one) for one in program))
    head = ctypes.create_string_buffer(struct.pack("@HP", len(program), ctypes.addressof(code)))
    return bool(program) and prctl(_SET_SECCOMP, _FILTER, head, 0, 0) == 0


def own_program(role: str) -> List[Instruction]:
    """The filter of this process in a role, to be made while its table can still be read."""
    machine = architecture()
    return filter_program(machine, role, os.getpid()) if machine else []


def filter_program(machine: str, role: str, process: int) -> List[Instruction]:
    """The filter: instructions of the kernel's classic BPF.

    Args:
        machine: ``x86_64`` or ``aarch64``.
        role: of :data:`ROLES`.
        process: number of the process that it is for.
    """
    program: List[Instruction] = [
        (_LOAD, 0, 0, 4),  # the architecture, then the number of the call
        (_EQUAL, 1, 0, _ARCHITECTURES[machine]),
        _REFUSE,
        (_LOAD, 0, 0, 0),
        (_AT_LEAST, 0, 1, _FOREIGN_ABI),
        _REFUSE,
    ]
    free = []
    for number, name in allowed_numbers(machine, role).items():
        rule = _rule(name, role)
        if name in _IGNORED:
            program += [(_EQUAL, 0, 1, number), _NOTHING_DONE]
        elif rule:
            block = _block(rule, process)
            program += [(_EQUAL, 0, len(block), number), *block]
        else:
            free.append(number)
    for low, high in _ranges(free):
        program += [(_AT_LEAST, 0, 2, low), (_ABOVE, 1, 0, high), _PERMIT]
    return [*program, (_AT_LEAST, 0, 1, _NEWER), _UNKNOWN, _REFUSE]


def allowed_numbers(machine: str, role: str) -> Dict[int, str]:
    """Number -> name of the calls that a role may make, at least with some arguments."""
    may = ROLES[: ROLES.index(role) + 1]
    return {
        one.numbers[machine]: one.name
        for one in table()
        if one.role in may and machine in one.numbers
    }


def _rule(name: str, role: str) -> Optional[List[Condition]]:
    for one in reversed(ROLES[: ROLES.index(role) + 1]):
        if name in _OTHER_RULES.get(one, {}):
            return _OTHER_RULES[one][name]
    return _RULES.get(name)


def _block(rule: List[Condition], process: int) -> List[Instruction]:
    """Permit where all conditions hold; it is left by that, or refused, and never at its end."""
    block: List[Instruction] = [_PERMIT, _REFUSE]
    for condition in reversed(rule):
        values = [process if one == _OWN else one for one in condition.values]
        tests: List[Instruction] = []
        for at, value in enumerate(values):
            after = len(values) - at - 1  # tests that follow
            refuse = len(block) - 1 if after == 0 else 0
            tests.append((_EQUAL, after, refuse, value))
        load: List[Instruction] = [(_LOAD, 0, 0, _ARGUMENTS + 8 * condition.argument)]
        if condition.mask != _ALL:
            load.append((_AND, 0, 0, condition.mask))
        block = [*load, *tests, *block]
    return block


def _ranges(numbers: List[int]) -> List[Tuple[int, int]]:
    """First and last of each row of numbers without a gap."""
    ranges: List[Tuple[int, int]] = []
    for number in sorted(numbers):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ranges
