"""Where our files lie on a board, and what is looked at before one is put there.

Every name on a board is made here, of letters, digits, dots and hyphens. Nothing outside of our
own folder is ever written or removed.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.base.errors import DeviceStorageError
from engine.base.paths import cache_folder, private_folder
from engine.base.text import human_bytes, sanitize
from engine.devices.probe.reading import output, read_text
from engine.devices.transport import Moved, Transport

_NAME = "rknntui"
_ANDROID = (f"/data/local/tmp/{_NAME}",)
_LINUX = (f"/userdata/{_NAME}", f"/data/{_NAME}")
_SHARED = f"/tmp/{_NAME}"  # noqa: S108 - it has to be ours, which is checked

_PAINT = re.compile(r"\x1b\[[0-9;]*m")
_PLAIN = re.compile(r"(/[A-Za-z0-9._-]+)+")
_PART = re.compile(r"[A-Za-z0-9._-]{1,120}\.part")
_RUN = re.compile(r"run-[0-9a-f]{16}")
_AGENT = re.compile(r"agent-[0-9a-f]{16}(?:\.pyz|\.bin)")  # .pyz: earlier versions of this program
_MODEL = re.compile(r"model-[0-9a-f]{16}\.rknn")
_DIGEST = re.compile(r"\\?([0-9a-f]{64})\b")
_PART_MINUTES = 60

MEMORY_FILESYSTEMS = frozenset({"tmpfs", "ramfs", "rootfs"})


def agent_name(sha256: str) -> str:
    """The name of an agent on a board, ``agent-<16 hex>.bin``."""
    return f"agent-{_hex(sha256)}.bin"


def model_name(sha256: str) -> str:
    """The name of a model on a board, ``model-<16 hex>.rknn``."""
    return f"model-{_hex(sha256)}.rknn"


def new_run_name() -> str:
    """A name that no other session has, ``run-<16 hex>``: a folder for its tensors."""
    return f"run-{secrets.token_hex(8)}"


def _hex(sha256: str) -> str:
    if not _DIGEST.fullmatch(sha256):
        raise ValueError("no SHA-256")
    return sha256[:16]


@dataclass(frozen=True)
class BoardFolder:
    """Our folder on a board.

    Attributes:
        transport: the board.
        path: absolute path there.
        in_memory: whether it lies in a file system whose files take memory.
    """

    transport: Transport
    path: str
    in_memory: bool = False

    @property
    def note(self) -> str:
        """What a user should know of the folder; empty where there is nothing."""
        if not self.in_memory:
            return ""
        return f"{self.path} of the board is in its memory: a model there takes memory twice."

    def at(self, *names: str) -> str:
        """The path of one of our files."""
        return "/".join((self.path, *names))

    def make(self, *names: str) -> None:
        """Make a folder in ours.

        Raises:
            DeviceStorageError: it cannot be made.
        """
        result = self.transport.run(["mkdir", "-p", self.at(*names)])
        if result.code:
            raise DeviceStorageError(
                f"{self.at(*names)} could not be made on {self.transport.name}.",
                cause=f"The board says: {_said(result.err or result.out)}",
                remedy="Look whether the disk of the board is full or read-only.",
            )

    def names(self) -> tuple[str, ...]:
        """What is in the folder, as far as we made it."""
        listed = self.transport.run(["ls", "-1", self.path])
        if listed.code:
            return ()
        # the ls of busybox paints names where it writes to a terminal, as that of an old adbd
        lines = (_PAINT.sub("", line).strip() for line in listed.text.splitlines())
        return tuple(name for name in lines if _is_ours(name))

    def changed_within(self, minutes: int) -> frozenset[str] | None:
        """What of it was changed in the last minutes; None where the board cannot tell."""
        # -mmin with a minus sign alone: a plus sign is no part of a word for a board
        words = ["find", self.path, "-mindepth", "1", "-maxdepth", "1", "-mmin", f"-{minutes}"]
        listed = self.transport.run(words)
        if listed.code:
            return None
        return frozenset(line.strip().rpartition("/")[2] for line in listed.text.splitlines())

    def runs(self) -> tuple[str, ...]:
        """Names of the folders of sessions, living and dead."""
        return tuple(name for name in self.names() if _RUN.fullmatch(name))

    def remove(self, names: Sequence[str]) -> None:
        """Remove files and run folders of ours.

        Raises:
            ValueError: a name is not one that we make.
        """
        if not all(_is_ours(name) for name in names):
            raise ValueError("not a name of ours")
        files = [self.at(name) for name in names if not _RUN.fullmatch(name)]
        if files:
            self.transport.remove(files)
        for name in names:
            if _RUN.fullmatch(name):
                self.transport.run(["rm", "-rf", self.at(name)])

    def remove_parts(self) -> None:
        """Remove pieces of files whose transfer ended more than an hour ago."""
        parts = [name for name in self.names() if _PART.fullmatch(name)]
        young = self.changed_within(_PART_MINUTES) if parts else None
        if young is not None:
            self.remove([name for name in parts if name not in young])

    def remove_other_agents(self, kept: str) -> None:
        """Remove agents of other versions of this program."""
        self.remove([n for n in self.names() if _AGENT.fullmatch(n) and n != kept])

    def free(self) -> int | None:
        """Free bytes for our files; None where the board does not tell."""
        volume = volume_of(self.transport, self.path)
        return None if volume is None else volume[1]

    def require_room(self, size: int, what: str, *, clear: bool = False) -> None:
        """Refuse what does not fit.

        Args:
            size: bytes of the file.
            what: what it is, for the error: ``The model``.
            clear: models of ours may go to make room; none of them is in use.

        Raises:
            DeviceStorageError: there is no room for it and a tenth more.
        """
        needed = size + size // 10
        free = self.free()
        if clear and free is not None and free < needed:
            self.remove([name for name in self.names() if _MODEL.fullmatch(name)])
            free = self.free()
        if free is not None and free < needed:
            raise DeviceStorageError(
                f"{what} needs {human_bytes(needed)} on {self.transport.name}, and {self.path} has "
                f"{human_bytes(free)} free.",
                cause="The file system of the board is full.",
                remedy="Remove what is not needed from the board, or use a smaller model.",
            )
        memory = available_memory(self.transport) if self.in_memory else None
        if memory is not None and memory < needed + size:
            raise DeviceStorageError(
                f"{what} needs {human_bytes(needed + size)} of memory on {self.transport.name}, "
                f"and {human_bytes(memory)} is available.",
                cause=f"{self.path} is in the memory of the board, so a model takes it twice.",
                remedy="Make /userdata writable on the board, or end programs there.",
            )

    def put(
        self,
        source: Path,
        name: str,
        sha256: str,
        what: str,
        *,
        executable: bool = False,
        digest: Callable[[str], str | None] | None = None,
        moved: Moved | None = None,
    ) -> bool:
        """Have a file on the board under a name of its hash; one that is there is kept.

        Args:
            source: the file of this machine.
            name: of :func:`agent_name` or :func:`model_name`.
            sha256: of its content.
            what: what it is, for an error.
            executable: whether it is a program.
            digest: gives the SHA-256 of a file of the board, None where it cannot tell; the
                board's own ``sha256sum`` when not given.
            moved: told how far it is.

        Returns:
            Whether it was pushed.

        Raises:
            DeviceStorageError: it cannot be written.
        """
        target = self.at(name)
        if name in self.names() and (digest or self.digest)(target) == sha256:
            return False
        self.require_room(source.stat().st_size, what, clear=True)
        self.transport.push(source, target, executable=executable, moved=moved)
        return True

    def digest(self, path: str) -> str | None:
        """The SHA-256 of a file of the board by its own program; None where it cannot tell."""
        result = self.transport.run(["sha256sum", path], seconds=120)
        match = _DIGEST.match(result.text.strip())
        return match[1] if match is not None and not result.code else None


def _is_ours(name: str) -> bool:
    return any(kind.fullmatch(name) for kind in (_PART, _RUN, _AGENT, _MODEL))


def find_folder(transport: Transport) -> BoardFolder:
    """Our folder on a board: the first of the usual places that can be written.

    Raises:
        DeviceStorageError: none can.
    """
    tried = []
    for path in _candidates(transport):
        if reason := _refusal(transport, path):
            tried.append(f"{path}: {reason}")
        else:
            kind = _file_system(transport, path)
            return BoardFolder(transport, path, in_memory=kind in MEMORY_FILESYSTEMS)
    raise DeviceStorageError(
        f"No folder of {transport.name} can be written.",
        cause=f"Tried were {'; '.join(tried)}.",
        remedy="Make one of these folders writable, or restart the board if its disk became "
        "read-only.",
    )


def _candidates(transport: Transport) -> tuple[str, ...]:
    if transport.kind == "local":
        here = str(private_folder(cache_folder() / "board"))
        return (here if _PLAIN.fullmatch(here) else _SHARED,)
    release = transport.run(["getprop", "ro.build.version.release"])
    if not release.code and release.text.strip():
        return _ANDROID
    home = transport.run(["pwd"]).text.strip() if transport.kind == "ssh" else ""
    own = (f"{home}/.cache/{_NAME}",) if _PLAIN.fullmatch(home) else ()
    return (*_LINUX, *own, _SHARED)


def _refusal(transport: Transport, path: str) -> str:
    """Why a folder cannot be used; empty where it can."""
    # where there is no /userdata, none is made: only in a home what leads to ours may be missing
    words = ["mkdir", "-p", path] if "/.cache/" in path else ["mkdir", path]
    result = transport.run(words)
    if result.code and transport.run(["test", "-d", path]).code:
        return _said(result.err or result.out)
    if path == _SHARED and (
        transport.run(["test", "-h", path]).code == 0 or transport.run(["test", "-O", path]).code
    ):
        return "it belongs to somebody else"
    probe = f"{path}/probe-{secrets.token_hex(4)}.part"
    touched = transport.run(["touch", probe])
    if touched.code:
        return _said(touched.err or touched.out)
    transport.remove([probe])
    return ""


def _said(output: bytes) -> str:
    lines = output.decode("utf-8", "replace").strip().splitlines()
    return sanitize(lines[-1], 120) if lines else "it cannot be written"


def _file_system(transport: Transport, path: str) -> str:
    """The kind of the file system that holds a path; empty where the board does not tell."""
    mounts = read_text(transport, "/proc/mounts", 1 << 18) or ""
    best, kind = "", ""
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = fields[1].rstrip("/")
        if f"{path}/".startswith(f"{point}/") and len(point) >= len(best):
            best, kind = point, fields[2]
    return kind


def volume_of(transport: Transport, path: str) -> tuple[str, int] | None:
    """The device of the file system that holds a path, and its free bytes; None where the board
    does not tell.
    """
    lines = output(transport, ["df", "-Pk", path]).strip().splitlines()
    columns = lines[-1].split() if len(lines) > 1 else []
    if len(columns) < 6 or not re.fullmatch("[0-9]{1,15}", columns[3]):
        return None
    return columns[0], int(columns[3]) << 10


def available_memory(transport: Transport) -> int | None:
    """Bytes of memory that programs may still take; None where the board does not tell."""
    text = read_text(transport, "/proc/meminfo") or ""
    match = re.search(r"^MemAvailable:\s+(\d{1,12}) kB", text, re.MULTILINE)
    return int(match[1]) * 1024 if match else None
