"""A board that is this machine: real programs in real folders, with the faults of a test."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from engine.base.errors import (
    DeviceError,
    DeviceLostError,
    DeviceStorageError,
    DeviceTimeoutError,
)
from engine.base.peers.child import Child
from engine.base.peers.near import LOOK_SECONDS, Call, Peer
from engine.devices.transport import LINE_LIMIT, Completed, Moved, TransportKind

ELF = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x03\x00\x3e\x00"
"""The first bytes of a library for this machine's processor."""
ELF_ARM = b"\x7fELF\x01\x01\x01" + bytes(9) + b"\x03\x00\x28\x00"


class FakeTalk:
    """A conversation with a program of this machine."""

    def __init__(self, board: FakeBoard, child: Child) -> None:
        self._board, self._child = board, child

    @property
    def peer(self) -> Peer:
        return self._child.peer

    @property
    def pid(self) -> int:
        """Number of the process."""
        return self._child.process.pid

    def lost(self) -> DeviceError:
        code = self._child.returncode()
        if self._board.gone:
            return DeviceLostError(f"{self._board.name} has gone.")
        said = self._child.peer.last_words
        return DeviceError(f"The program ended with exit code {code}.", cause=said)

    def stop(self, call: Call) -> bool:
        return self._child.stop(call)

    def end(self) -> None:
        self._child.end(kill=True)

    def cut(self) -> None:
        """Take the cable away."""
        self._child.process.kill()


class FakeBoard:
    """A transport to this machine.

    Args:
        root: folder of its files; the paths of the board are below it.
        kind, converses: see :class:`engine.devices.transport.Transport`.

    Attributes:
        files: what it reads in place of real files; None: there is none.
        programs: what answers in place of a program, by its name.
        ran: every command.
        pushed: the last name of what was pushed.
        gone: whether the cable is out.
    """

    def __init__(
        self, root: Path, *, kind: TransportKind = "local", converses: bool = True
    ) -> None:
        self.root, self.kind, self.converses = root, kind, converses
        self.name = "fake-board"
        self.files: dict[str, bytes | None] = {
            "/etc/rknntui-emulated": None,
            "/usr/lib/librknnrt.so": ELF,
        }
        self.programs: dict[str, Callable[[Sequence[str]], Completed]] = {}
        self.ran: list[list[str]] = []
        self.pushed: list[str] = []
        self.gone = False
        self.talks: list[FakeTalk] = []
        self.before_push: Callable[[str], object] = lambda _target: None

    def pull_cable(self) -> None:
        self.gone = True
        for talk in self.talks:
            talk.cut()

    def _look(self) -> None:
        if self.gone:
            raise DeviceLostError(f"{self.name} has gone.")

    def run(
        self,
        words: Sequence[str],
        *,
        seconds: float = 10.0,
        limit: int = 1 << 20,
        check: Callable[[], object] | None = None,
    ) -> Completed:
        self._look()
        self.ran.append(list(words))
        if words[0] in self.programs:
            return self.programs[words[0]](words)
        pipe = subprocess.PIPE
        try:
            process = subprocess.Popen(list(words), stdout=pipe, stderr=pipe)
        except FileNotFoundError:
            return Completed(127, b"", b"not found")
        end = time.monotonic() + seconds
        while True:
            try:
                if check is not None:
                    check()
                out, err = process.communicate(timeout=LOOK_SECONDS)
                return Completed(process.returncode, out[:limit], err[:limit])
            except subprocess.TimeoutExpired as error:
                if time.monotonic() > end:
                    process.kill()
                    process.communicate()
                    raise DeviceTimeoutError("It did not end.") from error
            except BaseException:
                process.kill()
                process.communicate()
                raise

    def read(self, path: str, *, limit: int = 1 << 20) -> bytes | None:
        self._look()
        if path in self.files:
            content = self.files[path]
            return None if content is None else content[:limit]
        try:
            with Path(path).open("rb") as stream:
                return stream.read(limit)
        except OSError:
            return None

    def push(
        self, source: Path, target: str, *, executable: bool = False, moved: Moved | None = None
    ) -> None:
        self._look()
        self.before_push(target)
        self._look()
        if moved is not None:
            moved(0, source.stat().st_size)
        part = f"{target}.part"
        try:
            shutil.copyfile(source, part)
            Path(part).chmod(0o755 if executable else 0o644)
            Path(part).replace(target)
        except OSError as error:
            raise DeviceStorageError(f"{target} could not be written.") from error
        self.pushed.append(Path(target).name)

    def pull(self, source: str, target: Path, *, limit: int, moved: Moved | None = None) -> None:
        self._look()
        if not Path(source).is_file() or Path(source).stat().st_size > limit:
            raise DeviceStorageError(f"{source} is not there, or too large.")
        shutil.copyfile(source, target)

    def remove(self, paths: Sequence[str]) -> None:
        self._look()
        for path in paths:
            Path(path).unlink(missing_ok=True)

    def converse(
        self, words: Sequence[str], *, environment: Mapping[str, str] | None = None
    ) -> FakeTalk:
        self._look()
        variables = os.environ | dict(environment or {})
        talk = FakeTalk(self, Child(list(words), variables, "The agent", limit=LINE_LIMIT))
        self.talks.append(talk)
        return talk

    def close(self) -> None:
        for talk in self.talks:
            with contextlib.suppress(OSError):
                talk.end()
