"""A folder that looks like a board: its paths, and the environment of its programs.

It keeps tests and honest programs apart from this machine and is no wall against hostile ones:
programs of the emulated board are programs of this machine, with the rights of who started it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import BinaryIO

from engine.base.leftovers import let_go, make_owned

_TOP = [
    "bin", "data", "etc", "lib", "lib64", "media", "mnt", "oem", "proc", "root",
    "rockchip_test", "run", "sbin", "sdcard", "sys", "system", "tmp", "userdata", "usr",
    "var", "vendor",
]  # fmt: skip

_DEVICES = ["dma_heap", "dri", "galcore", "rknpu"]


class Sandbox:
    """The files of a board, in a folder of this machine that goes at the end.

    Attributes:
        root: the folder that programs see as ``/``.
    """

    def __init__(self) -> None:
        self._owned = make_owned("board")  # so it goes, also where the emulator is killed
        self.root = self._owned.resolve() / "root"
        self.root.mkdir()
        tops = "|".join([*_TOP, *(f"dev/{name}" for name in _DEVICES)])
        here = re.escape(str(self.root).lstrip("/"))
        self._paths = re.compile(
            rf"(?<![\w./$}}-])/(?!{here}(?:/|$))(?:{tops})(?![\w.-])"
            r"""|(?<![^\s"'=])/(?=$|[\s"';|&)])"""
        )

    @property
    def programs(self) -> Path:
        """The folder of the programs, the only one on the path of the board."""
        return self.root / ("usr/bin" if (self.root / "usr").is_dir() else "system/bin")

    def path(self, remote: str) -> Path:
        """Where a path of the board is here; ``..`` does not lead out."""
        return self.root / os.path.normpath(f"/{remote}").lstrip("/")

    def write(self, remote: str, content: str | bytes, mode: int = 0o644) -> None:
        """Put a file on the board."""
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
        return self._paths.sub(lambda match: str(self.root) + match[0], command)

    def environment(self) -> dict[str, str]:
        """The variables of a program of the board; ``BOARD_ROOT`` tells it where its files are."""
        root = self.root
        libraries = ("usr/lib", "usr/lib64", "oem/usr/lib", "vendor/lib64", "vendor/lib")
        return {
            "BOARD_ROOT": str(root),
            "HOME": str(root / "root"),
            "LANG": "C.UTF-8",
            "LD_LIBRARY_PATH": ":".join(str(root / folder) for folder in libraries),
            "PATH": str(self.programs),
            "SHELL": "/bin/sh",
            "TMPDIR": str(
                root / ("data/local/tmp" if self.programs.parent.name == "system" else "tmp")
            ),
        }

    def create(self, remote: str) -> BinaryIO:
        """A new file that a host pushes.

        Raises:
            OSError: as the board's kernel refuses it.
        """
        path = self.path(remote)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("wb")

    def discard(self, path: Path) -> None:
        """Remove a file whose push has ended too early."""
        path.unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove what was made here."""
        let_go(self._owned)
