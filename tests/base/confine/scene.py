"""What an attack is made on: files, a socket and a process of a user, and who is that user."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from engine.base.confine import Walls
from engine.base.process import child_environment, engine_command

__all__ = ["DENIED", "STRANGER", "Scene", "require_walls", "scene"]

STRANGER = 61_217
"""An ordinary user without a name; programs of root become it."""

DENIED = {
    "Operation not permitted",
    "Permission denied",
    "Function not implemented",
    "Invalid cross-device link",  # of Landlock, for a file that would get into another folder
}


@cache
def active() -> Walls:
    """What holds a process that confines itself on this machine."""
    words = engine_command("engine.base.confine")
    done = subprocess.run(words, env=child_environment(), capture_output=True, check=True)
    return Walls(**json.loads(done.stdout))


def require_walls() -> None:
    """Skip a test where it would only show that this kernel has no walls."""
    if not active().landlock or not active().seccomp:
        pytest.skip(f"this kernel gives {active()} only")


class Scene:
    """Files outside of what the attacker was given.

    Attributes:
        root: of all of it.
        given: keywords of ``attack``.
    """

    def __init__(self, root: Path, user: int, port: int) -> None:
        self.root, self.user = root, user
        home, self.folder = root / "home", root / "folder"
        for path in (home / ".ssh", self.folder):
            path.mkdir(parents=True)
        self.target, self.secret = home / "target", home / ".ssh" / "id_rsa"
        given, program = home / "model", home / "program"
        for path in (self.target, self.secret, given):
            path.write_bytes(b"precious")
        program.write_text("#!/bin/sh\nexit 0\n")
        program.chmod(0o755)
        self.target.chmod(0o640)
        self.victim = subprocess.Popen(["sleep", "300"], **self.as_user())
        self._datagrams = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._datagrams.bind(str(home / "socket"))
        self._datagrams.setblocking(False)
        for path in (root, *root.rglob("*")):
            os.chown(path, user, user)
        self.before = self.target.stat()
        self.given: dict[str, Any] = {
            "target": str(self.target),
            "secret": str(self.secret),
            "given": str(given),
            "folder": str(self.folder),
            "victim": self.victim.pid,
            "unix": [str(home / "socket"), port, str(program)],
        }

    def as_user(self) -> dict[str, Any]:
        """Keywords of ``subprocess``, by which a program is the user's."""
        if self.user == os.geteuid():
            return {}
        return {"user": self.user, "group": self.user, "extra_groups": []}

    def check_untouched(self) -> None:
        """All is as it was."""
        assert self.target.read_bytes() == b"precious"
        now = self.target.stat()
        assert (now.st_mode, now.st_mtime_ns) == (self.before.st_mode, self.before.st_mtime_ns)
        names = sorted(path.name for path in self.target.parent.iterdir())
        assert names == [".ssh", "model", "program", "socket", "target"]
        with pytest.raises(BlockingIOError):
            self._datagrams.recv(10)
        assert self.victim.poll() is None

    def close(self) -> None:
        """End the process."""
        self.victim.kill()
        self.victim.wait()
        self._datagrams.close()


@contextmanager
def scene(user: int) -> Iterator[Scene]:
    """One for the time of the block, in a folder that another user reaches, too."""
    with ExitStack() as ending:
        root = Path(tempfile.mkdtemp(prefix="confine-", dir="/tmp"))
        ending.callback(shutil.rmtree, root, ignore_errors=True)
        listens = ending.enter_context(socket.create_server(("127.0.0.1", 0)))
        made = Scene(root, user, listens.getsockname()[1])
        ending.callback(made.close)
        yield made
