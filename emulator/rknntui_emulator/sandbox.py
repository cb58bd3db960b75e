"""A folder that looks like a board: its paths, and the environment of its programs.

It keeps tests and honest programs apart from this machine and is no wall against hostile ones:
programs of the emulated board are programs of this machine, with the rights of who started it.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import sys
from pathlib import Path, PurePosixPath

from engine.base.leftovers import let_go, make_owned
from rknntui_emulator.faults import Faults

__all__ = ["Sandbox"]

_TOP = [
    "bin",
    "data",
    "etc",
    "lib",
    "lib64",
    "media",
    "mnt",
    "oem",
    "proc",
    "root",
    "rockchip_test",
    "run",
    "sbin",
    "sdcard",
    "sys",
    "system",
    "tmp",
    "userdata",
    "usr",
    "var",
    "vendor",
]

_DEVICES = ["dma_heap", "dri", "galcore", "rknpu"]


class Sandbox:
    """The files of a board, in a folder of this machine.

    Args:
        root: the folder; one of its own that is removed at the end where it is None.
        faults: what goes wrong with its file systems.

    Attributes:
        root: the folder that programs see as ``/``.
        state: a folder beside it that the board's own programs read.
    """

    def __init__(self, root: Path | None, faults: Faults) -> None:
        self._owned = make_owned("board")  # so it goes, also where the emulator is killed
        self._made = self._owned.resolve()
        self.root = (root or self._made / "root").resolve()
        self.state = self._made / "state"
        self._faults = faults
        for folder in (self.root, self.state):
            folder.mkdir(parents=True, exist_ok=True)
        tops = "|".join([*_TOP, *(f"dev/{name}" for name in _DEVICES)])
        here = re.escape(str(self.root).lstrip("/"))
        self._paths = re.compile(
            rf"(?<![\w./$}}-])/(?!{here}(?:/|$))(?:{tops})(?![\w.-])"
            r"""|(?<![^\s"'=])/(?=$|[\s"';|&)])"""
        )
        faults.watch(self._keep_state)

    @property
    def programs(self) -> Path:
        """The folder of the programs, the only one on the path of the board."""
        return self.root / ("usr/bin" if (self.root / "usr").is_dir() else "system/bin")

    def path(self, remote: str) -> Path:
        """Where a path of the board is here; ``..`` does not lead out."""
        parts: list[str] = []
        for part in PurePosixPath("/" + remote).parts[1:]:
            if part == "..":
                parts = parts[:-1]
            elif part != ".":
                parts.append(part)
        return self.root.joinpath(*parts)

    def write(self, remote: str, content: str | bytes, mode: int = 0o644) -> None:
        """Put a file on the board, whatever its faults."""
        path = self.path(remote)
        data = content.encode() if isinstance(content, str) else content
        new = path.with_name(f".{path.name}.new") if path.exists() else path
        try:
            new.write_bytes(data)
        except FileNotFoundError:
            path.parent.mkdir(parents=True)
            new.write_bytes(data)
        if mode != 0o644:
            new.chmod(mode)
        if new != path:
            new.replace(path)

    def rewrite(self, command: str) -> str:
        """A command of the board with its absolute paths led into the folder."""
        return self._paths.sub(lambda found: str(self.root) + found[0], command)

    def environment(self) -> dict[str, str]:
        """The variables of a program of the board; ``BOARD_ROOT`` tells it where its files are."""
        root = self.root
        libraries = ("usr/lib", "usr/lib64", "oem/usr/lib", "vendor/lib64", "vendor/lib")
        return {
            "BOARD_ROOT": str(root),
            "BOARD_STATE": str(self.state),
            "HOME": str(root / "root"),
            "LANG": "C.UTF-8",
            "LD_LIBRARY_PATH": ":".join(str(root / folder) for folder in libraries),
            "PATH": str(self.programs),
            "SHELL": "/bin/sh",
            "TMPDIR": str(
                root / ("data/local/tmp" if self.programs.parent.name == "system" else "tmp")
            ),
        }

    def login(self) -> Path:
        """A program for the ``ForceCommand`` of an SSH server: it runs commands on this board."""
        facts = {
            "root": str(self.root),
            "paths": self._paths.pattern,
            "environment": self.environment(),
        }
        stored, script = self.state / "login.json", self.state / "login"
        stored.write_text(json.dumps(facts))
        program = Path(__file__).with_name("board_login.py")
        words = [sys.executable, "-I", "-S", str(program), str(stored)]
        script.write_text(f"#!/bin/sh\nexec {shlex.join(words)}\n")
        script.chmod(0o755)
        return script

    def check_writable(self, remote: str) -> None:
        """Raise what the board's kernel would where nothing can be written at ``remote``.

        Raises:
            OSError: the file system is read-only there.
        """
        plain = "/" + str(self.path(remote).relative_to(self.root))
        if self._faults.is_read_only(plain):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), remote)

    def take_space(self, size: int) -> None:
        """Count bytes that are about to be written.

        Raises:
            OSError: the disk has no room for them.
        """
        free = self._faults.disk_free
        if free is None:
            return
        if size > free:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._faults.disk_free = free - size

    def remove(self) -> None:
        """Remove what was made here."""
        let_go(self._owned)

    def _keep_state(self) -> None:
        """Let the board's programs know which file systems refuse what."""
        free = self._faults.disk_free
        values = {
            "read-only": "".join(f"{folder.rstrip('/')}\n" for folder in self._faults.read_only),
            "free": "" if free is None else f"{free}\n",
        }
        for name, text in values.items():
            new = self.state / f".{name}"
            new.write_text(text)
            new.replace(self.state / name)
