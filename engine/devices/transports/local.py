"""The board that the program itself runs on."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from io import FileIO
from pathlib import Path
from typing import BinaryIO, cast

from engine.base.errors import DeviceError, DeviceTimeoutError, WorkerError
from engine.base.files import open_regular
from engine.base.peers.child import Child
from engine.base.peers.near import LOOK_SECONDS, Call, Peer
from engine.devices.transport import LINE_LIMIT, Check, Completed, Moved, TransportKind
from engine.devices.transports.shared import (
    STOP_SECONDS,
    BaseTransport,
    Source,
    check_words,
    storage_error,
    write_pieces,
)

_CHUNK = 1 << 17
_NOT_EXECUTABLE, _NOT_FOUND = 126, 127
_END_SECONDS = 2.0


class LocalTransport(BaseTransport):
    """This machine as a board: programs without a shell, files by copying.

    Args:
        root: the folder that stands for ``/``: absolute paths in every call are those of a board
            below it.
        environment: all variables of its programs; those of this process where it is None.

    Attributes:
        kind, name, converses: see :class:`~engine.devices.transport.Transport`.
    """

    kind: TransportKind = "local"
    name = "local"
    converses = True

    def __init__(
        self, root: Path = Path("/"), environment: Mapping[str, str] | None = None
    ) -> None:
        self._root = root
        self._environment = dict(os.environ if environment is None else environment)
        self._conversations: list[LocalConversation] = []

    def _run(self, words: Sequence[str], seconds: float, limit: int, check: Check) -> Completed:
        try:
            process = subprocess.Popen(
                self._command(words),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**self._environment, "LC_ALL": "C"},
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            # the codes of a shell, which runs it on every other board
            code = _NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_EXECUTABLE
            return Completed(code, b"", f"{words[0]}: {error.strerror}\n".encode())
        with process:
            streams = cast("FileIO", process.stdout), cast("FileIO", process.stderr)
            try:
                out, err = _heads(streams, time.monotonic() + seconds, limit, check)
                code = process.wait(_END_SECONDS)
            except BaseException as error:
                _kill(process)
                if isinstance(error, (TimeoutError, subprocess.TimeoutExpired)):
                    raise DeviceTimeoutError(
                        f"{words[0]} did not end within {seconds:g} s.",
                        cause="It hangs, or the board is very busy.",
                        remedy="Try again.",
                    ) from error
                raise
        return Completed(code if code >= 0 else 128 - code, out, err)

    def read(self, path: str, *, limit: int = 1 << 20) -> bytes | None:
        """The first ``limit`` bytes of a file; None where there is none."""
        check_words([path])
        with _storage(path):
            try:
                with open_regular(self._path(path)) as stream:
                    return stream.read(limit)
            except (FileNotFoundError, NotADirectoryError):
                return None

    def _write(
        self, stream: Source, part: str, target: str, mode: int, moved: Moved | None
    ) -> None:
        path = self._path(part)
        try:
            with _storage(target), path.open("xb") as copy:
                pieces = iter(partial(stream.read, _CHUNK), b"")
                write_pieces(pieces, copy, target, size=stream.size, moved=moved)
                copy.flush()
                os.fsync(copy.fileno())
            with _storage(target):
                path.chmod(mode)
                path.replace(self._path(target))
        finally:
            with contextlib.suppress(OSError):
                path.unlink()

    @contextmanager
    def _reading(self, source: str) -> Iterator[tuple[int, Iterator[bytes]]]:
        with _storage(source):
            stream = open_regular(self._path(source))
        with stream:
            yield os.fstat(stream.fileno()).st_size, _pieces(stream, source)

    def remove(self, paths: Sequence[str]) -> None:
        """Remove files of ours that may be there."""
        check_words(paths or ["-"])
        for path in paths:
            with _storage(path):
                self._path(path).unlink(missing_ok=True)

    def converse(self, words: Sequence[str]) -> LocalConversation:
        """Start a program that speaks the protocol of :mod:`engine.base.peers.far`."""
        try:
            child = Child(self._command(words), self._environment, words[0], limit=LINE_LIMIT)
        except WorkerError as error:
            raise DeviceError(error.what, cause=error.cause, remedy=error.remedy) from error
        conversation = LocalConversation(child, words[0])
        self._conversations = [one for one in self._conversations if one.alive]
        self._conversations.append(conversation)
        return conversation

    def close(self) -> None:
        """End the conversations."""
        while self._conversations:
            self._conversations.pop().end()

    def _command(self, words: Sequence[str]) -> list[str]:
        check_words(words)
        return [str(self._path(word)) if word.startswith("/") else word for word in words]

    def _path(self, path: str) -> Path:
        return self._root / path.lstrip("/")


class LocalConversation:
    """A child process that is asked.

    Args:
        child: the process.
        name: of its program.

    Attributes:
        peer: who is asked.
    """

    def __init__(self, child: Child, name: str) -> None:
        self._child, self._name = child, name
        self.peer: Peer = child.peer

    @property
    def alive(self) -> bool:
        """Whether the program runs."""
        return self._child.alive

    def lost(self) -> DeviceError:
        """Why no answer will come: how the program ended, and what it said last."""
        error = self._child.lost(self._name, self._child.returncode(), "Try again.")
        broken = f"It broke the protocol: {self.peer.fault}. " if self.peer.fault else ""
        return DeviceError(error.what, cause=broken + error.cause, remedy=error.remedy)

    def stop(self, call: Call) -> bool:
        """End a call: it is cancelled, then the program is terminated, then killed.

        Returns:
            Whether the program is still there to be asked.
        """
        return self._child.stop(call, STOP_SECONDS)

    def end(self) -> None:
        """Let the program go (it ends when its input does) or kill it; it is gone afterwards."""
        self._child.end(kill=False)


@contextmanager
def _storage(path: str) -> Iterator[None]:
    """Turn an ``OSError`` of a file of the board into the error for it."""
    try:
        yield
    except OSError as error:
        raise storage_error(path, error.strerror or str(error)) from error


def _pieces(stream: BinaryIO, source: str) -> Iterator[bytes]:
    while True:
        with _storage(source):
            data = stream.read(_CHUNK)
        if not data:
            return
        yield data


def _heads(streams: Sequence[FileIO], deadline: float, limit: int, check: Check) -> list[bytes]:
    """The first bytes of streams; all of them is read, so that their program can end.

    Raises:
        TimeoutError: they have not ended by then.
    """
    kept = {stream.fileno(): bytearray() for stream in streams}
    ready = select.poll()
    for handle in kept:
        ready.register(handle, select.POLLIN)
    left = len(kept)
    while left:
        seconds = deadline - time.monotonic()
        if seconds <= 0:
            raise TimeoutError
        if check is not None:
            check()
            seconds = min(seconds, LOOK_SECONDS)
        for handle, _ in ready.poll(seconds * 1000):
            data = os.read(handle, _CHUNK)
            if not data:
                ready.unregister(handle)
                left -= 1
            kept[handle] += data[: limit - len(kept[handle])]
    return [bytes(content) for content in kept.values()]


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
