"""A board that is this machine: real programs in real folders, with the faults of a test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from engine.base.errors import DeviceError, DeviceLostError
from engine.devices.transport import Completed, TransportKind
from engine.devices.transports.local import LocalConversation, LocalTransport

ELF = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x03\x00\x3e\x00"
"""The first bytes of a library for this machine's processor."""
ELF_ARM = b"\x7fELF\x01\x01\x01" + bytes(9) + b"\x03\x00\x28\x00"


class FakeTalk(LocalConversation):
    """A conversation with a program of this machine, which ends with the cable."""

    def __init__(self, board: FakeBoard, conversation: LocalConversation, name: str) -> None:
        super().__init__(conversation._child, name)
        self._board = board

    @property
    def pid(self) -> int:
        """Number of the process."""
        return self._child.process.pid

    def lost(self) -> DeviceError:
        return self._board.lost() if self._board.gone else super().lost()

    def end(self) -> None:
        self._child.end(kill=True)

    def cut(self) -> None:
        """Take the cable away."""
        self._child.process.kill()


class FakeBoard(LocalTransport):
    """A transport to this machine.

    Args:
        root: folder of a test; paths of the board are those of this machine.
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
        super().__init__()
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

    def lost(self) -> DeviceLostError:
        """The error of whoever asks a board that has gone."""
        return DeviceLostError(f"{self.name} has gone.")

    def pull_cable(self) -> None:
        self.gone = True
        for talk in self.talks:
            talk.cut()

    def _look(self) -> None:
        if self.gone:
            raise self.lost()

    def run(self, words: Sequence[str], **options: Any) -> Completed:
        self._look()
        self.ran.append(list(words))
        if words[0] in self.programs:
            return self.programs[words[0]](words)
        return super().run(words, **options)

    def read(self, path: str, *, limit: int = 1 << 20) -> bytes | None:
        self._look()
        if path in self.files:
            content = self.files[path]
            return None if content is None else content[:limit]
        return super().read(path, limit=limit)

    def push(self, source: Path, target: str, **options: Any) -> None:
        self._look()
        self.before_push(target)
        self._look()
        super().push(source, target, **options)
        self.pushed.append(Path(target).name)

    def pull(self, source: str, target: Path, **options: Any) -> None:
        self._look()
        super().pull(source, target, **options)

    def remove(self, paths: Sequence[str]) -> None:
        self._look()
        super().remove(paths)

    def converse(self, words: Sequence[str]) -> FakeTalk:
        self._look()
        self.talks.append(FakeTalk(self, super().converse(words), words[0]))
        return self.talks[-1]

    def close(self) -> None:
        for talk in self.talks:
            talk.end()
