"""Keys of encrypted containers: where they come from, and the one that this process holds.

A key is never an argument of a command and never in a record of a job: it comes from a file, from
the environment, or is typed. It is held until the process ends, or another one takes its place.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from engine.base.errors import KeyNeededError, SourceModelError, UsageError
from engine.base.files import read_bounded
from engine.base.findings import Finding
from engine.base.text import sanitize

FILE_VARIABLE = "RKNNTUI_KEY_FILE"
"""Environment: the path of a file that holds the key."""
TEXT_VARIABLE = "RKNNTUI_KEY"
"""Environment: the key itself. A file is safer: children and crash reports see an environment."""
_MOST_BYTES = 64 << 10
SAFE_BYTES = 16
"""A shorter key is told. 16 bytes of chance cannot be guessed, and 16 of words hardly."""


@dataclass(frozen=True)
class Key:
    """What a container is encrypted with.

    Attributes:
        secret: 1 to 65536 bytes, from which the key of each file is derived.
        origin: where it came from, for messages: ``the file /home/me/key``.
    """

    secret: bytes = field(repr=False)
    origin: str

    def __post_init__(self) -> None:
        if not 0 < len(self.secret) <= _MOST_BYTES:
            raise UsageError(
                f"The key from {self.origin} has {len(self.secret)} bytes.",
                cause="A key has from 1 byte to 64 KiB.",
                remedy="Give a passphrase, or a file made by `openssl rand -base64 32`.",
            )


def key_of_text(text: str, origin: str = "the prompt") -> Key:
    """A passphrase; a file with the same text and a line end holds the same key.

    Raises:
        UsageError: it is empty or too long.
    """
    return Key(text.encode("utf-8", "surrogateescape"), origin)


def key_of_file(path: Path) -> Key:
    """The bytes of a file, without one line end behind them.

    Raises:
        UsageError: it is missing, cannot be read, is empty or larger than 64 KiB.
    """
    origin = f"the file {sanitize(str(path), 300)}"
    try:
        content = read_bounded(path, _MOST_BYTES + 2, "a key")
    except SourceModelError as error:
        raise UsageError(
            f"The key cannot be read: {error.what}", cause=error.cause, remedy=error.remedy
        ) from error
    for end in (b"\r\n", b"\n"):
        if content.endswith(end):
            return Key(content[: -len(end)], origin)
    return Key(content, origin)


def key_from_environment() -> Key | None:
    """The key that the environment names: its file, else itself; None where neither is set.

    Raises:
        UsageError: it is set and no key.
    """
    path = os.environ.get(FILE_VARIABLE)
    if path:
        return key_of_file(Path(path).expanduser())
    text = os.environ.get(TEXT_VARIABLE)
    return key_of_text(text, f"the environment variable {TEXT_VARIABLE}") if text else None


def key_findings(key: Key) -> tuple[Finding, ...]:
    """That a key is short, where it is: whoever has the file may try keys as long as he likes."""
    if len(key.secret) >= SAFE_BYTES:
        return ()
    count = len(key.secret)
    return (
        Finding(
            "key-short",
            "warning",
            "key",
            f"The key from {key.origin} is short: {count} {'byte' if count == 1 else 'bytes'}.",
            "Whoever has the encrypted file can try keys without limit, the short ones first.",
            f"Take {SAFE_BYTES} characters or more, or make one: openssl rand -base64 32 > key.txt",
        ),
    )


_held: list[Key] = []


def hold_key(key: Key | None) -> None:
    """Use ``key`` from now on in this process, before what the environment names; None: forget."""
    _held[:] = [] if key is None else [key]


def known_key() -> Key | None:
    """The key that is held, else that of the environment, else None."""
    return _held[0] if _held else key_from_environment()


def needed_key(name: str) -> Key:
    """As :func:`known_key`.

    Args:
        name: what messages call the file that it is for.

    Raises:
        KeyNeededError: there is none.
    """
    key = known_key()
    if key is None:
        raise KeyNeededError(
            f"{name} is encrypted, and no key is given.",
            cause="It can be read with the key alone that it was encrypted with.",
            remedy=f"Name the file that holds the key in the environment variable {FILE_VARIABLE}, "
            "or run the command in a terminal and type the key.",
        )
    return key
