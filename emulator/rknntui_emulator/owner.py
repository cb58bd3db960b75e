"""Whose program is at the other end of a connection on loopback."""

from __future__ import annotations

import os

from engine.devices.loopback import opened

__all__ = ["same_user"]


def same_user(peer: tuple[str, int], port: int) -> bool:
    """Whether the socket at ``peer``, connected to ``port`` of loopback, is of the same user.

    adb asks a network board for no password: without this, every user of a shared machine could
    run programs as the one who emulates a board. A socket that no program holds is refused.
    """
    found = opened(peer[1], port)
    return found is not None and found.owner == os.getuid()
