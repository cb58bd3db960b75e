"""Whose program is at the other end of a connection on loopback."""

from __future__ import annotations

import os
import socket
from pathlib import Path

__all__ = ["same_user"]

_ADDRESS, _PEER, _USER = 1, 2, 7
"""Columns of ``/proc/net/tcp``."""


def same_user(peer: tuple[str, int], port: int) -> bool:
    """Whether the socket at ``peer``, connected to ``port`` of loopback, is of the same user.

    adb asks a network board for no password: without this, every user of a shared machine could
    run programs as the one who emulates a board. The kernel lists the owner of each socket in
    ``/proc/net/tcp``; addresses there are in the byte order of the machine.
    """
    number = socket.inet_aton("127.0.0.1")
    host = f"{int.from_bytes(number, 'little'):08X}"
    mapped = f"0000000000000000FFFF0000{host}"
    for table, address in (("tcp", host), ("tcp6", mapped)):
        try:
            lines = Path(f"/proc/net/{table}").read_text("ascii").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            columns = line.split()
            theirs, ours = f"{address}:{peer[1]:04X}", f"{address}:{port:04X}"
            if columns[_ADDRESS] == theirs and columns[_PEER] == ours:
                return int(columns[_USER]) == os.getuid()
    return False
