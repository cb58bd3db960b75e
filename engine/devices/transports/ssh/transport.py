"""A board behind SSH, as every other one is used."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import asyncssh

from engine.base.errors import (
    DeviceError,
    DeviceLostError,
    DeviceTimeoutError,
)
from engine.base.text import sanitize
from engine.devices.address import Address
from engine.devices.transport import Check, Completed, Moved, TransportKind
from engine.devices.transports.shared import BaseTransport, Source, check_words, storage_error
from engine.devices.transports.ssh import files
from engine.devices.transports.ssh.conversation import SshConversation
from engine.devices.transports.ssh.login import LOGIN_SECONDS, Login, log_in, shown_name, unanswered
from engine.devices.transports.ssh.loop import LoopThread
from engine.devices.transports.ssh.program import finish, start

_SMALL_SECONDS = 10.0
_STALL_SECONDS = 30.0
_SFTP_SECONDS = 5.0
_GIVE_UP_SECONDS = 5.0
_SFTP_LOST = (asyncssh.SFTPConnectionLost, asyncssh.SFTPNoConnection)


class SshTransport(BaseTransport):
    """One board behind an SSH server.

    It logs in at the first call, and again where the connection was lost meanwhile; that may take
    :data:`~engine.devices.transports.ssh.login.LOGIN_SECONDS` more than a method says. What is
    under way when a connection is lost is not repeated. Several threads may use it.

    Args:
        address: of kind ``ssh``.

    Attributes:
        kind, name, converses: see :class:`~engine.devices.transport.Transport`.
    """

    kind: TransportKind = "ssh"
    converses = True

    def __init__(self, address: Address) -> None:
        self.name = shown_name(address)
        self._address = address
        self._loop = LoopThread(f"ssh {self.name}")
        self._entry = asyncio.Lock()
        self._login: Login | None = None
        self._sftp: asyncssh.SFTPClient | None = None
        self._sftp_missing = False

    def _run(self, words: Sequence[str], seconds: float, limit: int, check: Check) -> Completed:
        with self._errors(f"{words[0]} did not end within {seconds:g} s."):
            return self._loop.call(_run(self._logged_in(), words, limit), seconds, check)

    def read(self, path: str, *, limit: int = 1 << 20) -> bytes | None:
        """The first ``limit`` bytes of a file; None where there is none."""
        check_words([path])
        with self._errors(f"{path} was not read in time.", path):
            return self._loop.call(self._files().read(path, limit), _SMALL_SECONDS)

    def _write(
        self, stream: Source, part: str, target: str, mode: int, moved: Moved | None
    ) -> None:
        with self._errors(_stalled(target), target):
            writing = self._loop.call(self._files().writing(part), _SMALL_SECONDS)
            done = there = 0
            try:
                while (data := stream.read(files.CHUNK)) or there < done:
                    there = self._loop.call(writing.write(data), _STALL_SECONDS)
                    done += len(data)
                    if moved is not None and there:
                        moved(there, max(done, stream.size))
                self._loop.call(writing.finish(done, target, mode), _STALL_SECONDS)
            except BaseException:
                # over a slow link what is on the way comes first
                self._loop.finish(writing.give_up(), _GIVE_UP_SECONDS)
                raise

    @contextmanager
    def _reading(self, source: str) -> Iterator[tuple[int, Iterator[bytes]]]:
        with self._errors(_stalled(source), source):
            reading = self._loop.call(self._files().reading(source), _SMALL_SECONDS)
        try:
            yield reading.size, self._pieces(reading, source)
        finally:
            self._loop.finish(reading.close(), _GIVE_UP_SECONDS)

    def remove(self, paths: Sequence[str]) -> None:
        """Remove files of ours that may be there."""
        if not paths:
            return
        done = self.run(["rm", "-f", "--", *paths])
        if done.code:
            raise storage_error(paths[0], done.err.decode("utf-8", "replace"))

    def converse(self, words: Sequence[str]) -> SshConversation:
        """Start a program that speaks the protocol of :mod:`engine.base.peers.far`."""
        check_words(words)
        with self._errors(f"{words[0]} could not be started in time."):
            login = self._logged_in()
            program = self._loop.call(start(login.connection, words), _SMALL_SECONDS)
            return SshConversation(self._loop, program, self.name, lambda: self._lost(login))

    def close(self) -> None:
        """Let the board go; conversations end."""
        with contextlib.suppress(TimeoutError):
            self._loop.call(self._leave(), _GIVE_UP_SECONDS)
        self._loop.close()

    def _pieces(self, reading: files.Reading, source: str) -> Iterator[bytes]:
        while True:
            # here, so that no error of the board is taken for one of the file that is written
            with self._errors(_stalled(source), source):
                data = self._loop.call(reading.read(), _STALL_SECONDS)
            if not data:
                return
            yield data

    def _logged_in(self) -> Login:
        """The connection, made where there is none or it was lost."""
        return self._loop.call(self._enter(), LOGIN_SECONDS + _SMALL_SECONDS)

    def _files(self) -> files.Files:
        """The board's files, by SFTP where the server has it."""
        login = self._logged_in()
        sftp = self._loop.call(self._start_sftp(login), _SFTP_SECONDS + _SMALL_SECONDS)
        return files.files_of(login.connection, sftp)

    async def _enter(self) -> Login:
        async with self._entry:
            if self._login is not None and self._login.client.lost:
                self._login.close()
                self._login = None
            if self._login is None:
                self._sftp, self._sftp_missing = None, False
                try:
                    async with asyncio.timeout(LOGIN_SECONDS):
                        self._login = await log_in(self._address)
                except TimeoutError as error:
                    raise unanswered(self._address) from error
            return self._login

    async def _start_sftp(self, login: Login) -> asyncssh.SFTPClient | None:
        async with self._entry:
            if self._sftp is None and not self._sftp_missing and login is self._login:
                try:
                    # a login file that prints spoils the protocol: the answer may never come
                    async with asyncio.timeout(_SFTP_SECONDS):
                        self._sftp = await login.connection.start_sftp_client()
                except (asyncssh.Error, TimeoutError):
                    if login.client.lost:
                        raise
                    self._sftp_missing = True
            return self._sftp

    async def _leave(self) -> None:
        if self._login is not None:
            self._login.connection.close()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._login.connection.wait_closed()
            self._login.close()

    def _lost(self, login: Login) -> DeviceLostError | None:
        """Why the connection is lost; None where it is not."""
        if not login.client.lost:
            return None
        return self._lost_error(login.client.why)

    def _lost_error(self, why: str) -> DeviceLostError:
        return DeviceLostError(
            f"The connection to {self.name} was lost.",
            cause=f"The cable, the network or the power failed, or the board restarts ({why})."
            if why
            else "The cable, the network or the power failed, or the board restarts.",
            remedy="Check the board; the next command logs in again.",
        )

    @contextmanager
    def _errors(self, late: str, path: str = "") -> Iterator[None]:
        """Turn the errors of the library into those of boards."""
        try:
            yield
        except (asyncssh.Error, OSError) as error:
            raise self._board_error(error, late, path) from error

    def _board_error(self, error: asyncssh.Error | OSError, late: str, path: str) -> DeviceError:
        if self._login is not None and (lost := self._lost(self._login)) is not None:
            return lost
        said = sanitize(str(error))
        if isinstance(error, TimeoutError):
            return DeviceTimeoutError(
                f"{self.name} did not answer in time: {late}",
                cause="The board hangs or is very busy, or the link is very slow.",
                remedy="Try again; restart the board where it goes on.",
            )
        if isinstance(error, (asyncssh.DisconnectError, OSError, *_SFTP_LOST)):
            return self._lost_error(said)
        if isinstance(error, asyncssh.SFTPError):
            return storage_error(path, error.reason)
        return DeviceError(
            f"{self.name} refused it: {said}.",
            cause="Its SSH server allows no programs, or too many run at once.",
            remedy="Check the settings of its SSH server.",
        )


async def _run(login: Login, words: Sequence[str], limit: int) -> Completed:
    return await finish(await start(login.connection, words), limit)


def _stalled(path: str) -> str:
    return f"nothing of {path} was moved for {_STALL_SECONDS:g} s."
