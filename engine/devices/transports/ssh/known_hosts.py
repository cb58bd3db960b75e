"""The host keys that the user has accepted, found and compared as OpenSSH does.

asyncssh reads one file by itself, fails where another is missing or has a line that it does not
know, and believes every host where ``UserKnownHostsFile`` is ``none``. Format of the files and the
tokens in their names: sshd(8) and ssh_config(5).
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import asyncssh

from engine.base.files import read_regular

__all__ = ["GLOBAL_FILES", "USER_FILES", "KnownHosts"]

USER_FILES = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2")
GLOBAL_FILES = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")

_LIMIT = 16 << 20


class KnownHosts(asyncssh.SSHKnownHosts):
    """The keys of several files; what is missing or unreadable there proves nothing.

    Args:
        files: their names.
        tokens: what ``%h`` and others in the names stand for.

    Attributes:
        name: of the host that was looked up last, as the files have it.
        listed: whether it has a key there.
    """

    def __init__(self, files: Sequence[str], tokens: Mapping[str, str]) -> None:
        super().__init__()
        self.name = ""
        self.listed = False
        for name in files:
            with contextlib.suppress(OSError, ValueError, RuntimeError):
                path = Path(_expand(name, tokens)).expanduser()
                text = read_regular(path, _LIMIT).decode("utf-8", "replace")
                for line in text.splitlines():
                    with contextlib.suppress(ValueError):
                        self.load(line)

    def match(self, host: str, addr: str, port: int | None) -> Any:
        """The keys of a host, by its name alone, as ``CheckHostIP no`` (the standard) says."""
        self.name = f"[{host}]:{port}" if port else host
        self.listed = any(super().match(self.name, "", None)[:2])
        # a server at another port may show the key of the host itself
        return super().match(host, "", port)


def _expand(name: str, tokens: Mapping[str, str]) -> str:
    parts = name.split("%%")
    for token, value in tokens.items():
        parts = [part.replace(f"%{token}", value) for part in parts]
    return "%".join(parts)
