"""Landlock: which files a process or a thread may reach. In the language of Python 3.6."""

import os
import struct
from typing import Dict, Iterable, List, Tuple

from .kernel import call

Rule = Tuple[str, int]
"""A path, and what may be done beneath it."""

# include/uapi/linux/landlock.h; the three calls have one number on every architecture
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION = 1
_PATH_BENEATH = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_CHANGES = _WRITE_FILE | sum(1 << bit for bit in range(4, 13))  # removing and making of any kind
_SPECIAL = 1 << 6 | sum(1 << bit for bit in range(9, 13))  # devices, sockets, pipes, links
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_SINCE = ((2, _REFER), (3, _TRUNCATE), (5, _IOCTL_DEV))  # version of Landlock -> right
_TCP = 0b11  # bind and connect, since version 4
_ABSTRACT_SOCKETS, _SIGNALS = 0b01, 0b10  # scopes, since version 6

READS = _READ_FILE | _READ_DIR
"""The right to read files and to list folders."""
RUNS = READS | _EXECUTE
"""The right to start programs as well."""


def version() -> int:
    """Of the kernel's Landlock; 0 where there is none (before Linux 5.13, or switched off)."""
    return max(0, call(_CREATE_RULESET, None, 0, _VERSION))


def everything() -> int:
    """All rights that this kernel knows."""
    abi = version()
    return RUNS | _CHANGES | sum(bit for since, bit in _SINCE if abi >= since)


def changes() -> int:
    """The right to read, write, make and remove files and folders.

    Nothing else is made: who reads the results could be led to another file by a link, and would
    wait for a pipe.
    """
    return everything() & ~_EXECUTE & ~_SPECIAL


def restrict(
    handled: int, rules: Iterable[Rule], network: bool = True, signals: bool = False
) -> bool:
    """Take the rights ``handled`` away from this thread and what it starts, but for ``rules``.

    Args:
        handled: rights that are asked for from now on.
        rules: a path that is not there needs none.
        network: whether TCP and abstract sockets of others stay in reach.
        signals: whether processes outside may be signalled.

    Returns:
        Whether it is so.
    """
    abi = version()
    attributes = struct.pack("=Q", handled)
    if abi >= 4:
        attributes += struct.pack("=Q", 0 if network else _TCP)
    if abi >= 6:
        scopes = (0 if network else _ABSTRACT_SOCKETS) | (0 if signals else _SIGNALS)
        attributes += struct.pack("=Q", scopes)
    ruleset = call(_CREATE_RULESET, attributes, len(attributes), 0) if abi else -1
    if ruleset < 0:
        return False
    try:
        for path, rights in _joined(rules):
            _allow(ruleset, path, rights & handled)
        return call(_RESTRICT_SELF, ruleset, 0) == 0
    finally:
        os.close(ruleset)


def _joined(rules: Iterable[Rule]) -> List[Rule]:
    """Each path once: a home folder is in many lists."""
    rights_of: Dict[str, int] = {}
    for path, rights in rules:
        rights_of[path] = rights_of.get(path, 0) | rights
    return list(rights_of.items())


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        kept = rights if os.path.isdir(path) else rights & _OF_FILES
        call(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", kept, handle), 0)
    finally:
        os.close(handle)
