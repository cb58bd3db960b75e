"""A network and shared memory of its own, and none of root's rights. In the language of Python 3.6.

Processes are not given numbers of their own: that takes a further process that waits for the first
one and passes on how it ended. Those of others are hidden by Landlock and out of reach by the
filter instead.
"""

import ctypes
import os
import struct

from .kernel import architecture, call

# include/uapi/linux/sched.h
_NEW_UTS, _NEW_IPC, _NEW_USER, _NEW_NET = 0x04000000, 0x08000000, 0x10000000, 0x40000000

_CAPABILITIES = 0x20080522
"""Version 3 of ``capset(2)``: two words of 32 bits for each set."""
_KEPT_CAPABILITIES = 1 << 1 | 1 << 2
"""``CAP_DAC_OVERRIDE`` and ``CAP_DAC_READ_SEARCH``, by which root reads a model of another user;
what may be read and written is for Landlock to say.
"""
_UNSHARE = {"x86_64": 272, "aarch64": 97}
_CAPSET = {"x86_64": (125, 126), "aarch64": (90, 91)}  # capget, capset


def leave(network: bool) -> bool:
    """Leave the machine's name, its memory that is shared by a key and, where asked, its network.

    Root needs no more for it than to ask; another user becomes root of a user namespace for a
    moment, where the system allows that.

    Returns:
        Whether it is so.
    """
    number = _UNSHARE.get(architecture())
    if number is None:
        return False
    flags = _NEW_UTS | _NEW_IPC | (_NEW_NET if network else 0)
    if call(number, flags) == 0:
        return True
    # a namespace without a user in it would make no file any more: tried in a child first
    return _succeeds(number, flags | _NEW_USER) and _with_user(number, flags | _NEW_USER)


def _with_user(number: int, flags: int) -> bool:
    user, group = os.geteuid(), os.getegid()
    if call(number, flags) != 0:
        return False
    try:
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", "{0} {0} 1".format(user)),
            ("gid_map", "{0} {0} 1".format(group)),
        ):
            with open("/proc/self/" + name, "w") as stream:
                stream.write(text)
    except OSError:
        return False
    return os.geteuid() == user


def _succeeds(number: int, flags: int) -> bool:
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if _with_user(number, flags) else 1)
        finally:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def drop_capabilities() -> None:
    """Keep no right of root but to read files; another user keeps none, also of its namespace."""
    numbers = _CAPSET.get(architecture())
    if numbers is None:
        return
    head = struct.pack("=Ii", _CAPABILITIES, 0)
    sets = ctypes.create_string_buffer(24)
    if call(numbers[0], head, sets) != 0:
        return
    kept = 0 if os.geteuid() else _KEPT_CAPABILITIES
    permitted = struct.unpack("=6I", sets.raw)[1] & kept
    call(numbers[1], head, struct.pack("=6I", permitted, permitted, 0, 0, 0, 0))
