"""Containers of ours encrypted and decrypted as files: a chunk in memory, nothing half-written."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from engine.base.errors import ContainerError, UsageError
from engine.base.files import atomic_write, open_regular
from engine.base.text import sanitize
from engine.container.blob import HEAD_SIZE, check_head
from engine.container.encryption import (
    HEADER_SIZE,
    check_level,
    decrypted_chunks,
    encrypt,
    is_encrypted,
    read_header,
)
from engine.container.keys import Key
from engine.container.other_formats import refuse_other_format

Told = Callable[[int, int], None]
"""Called with the bytes that are done, and all of them; it may raise to stop the work."""
_MARK = ".crypt"
_SUFFIX = ".rknn"


def encrypted_name(path: Path) -> Path:
    """``NAME.crypt.rknn`` beside ``NAME.rknn`` [RKNN-T2 2.3.0, 2.15]."""
    stem = path.name[: -len(_SUFFIX)] if path.name.lower().endswith(_SUFFIX) else path.name
    return path.with_name(f"{stem}{_MARK}{_SUFFIX}")


def decrypted_name(path: Path) -> Path:
    """``NAME.rknn`` beside ``NAME.crypt.rknn``; ``NAME.plain.rknn`` for any other name."""
    ending = _MARK + _SUFFIX
    if path.name.lower().endswith(ending) and len(path.name) > len(ending):
        return path.with_name(path.name[: -len(ending)] + _SUFFIX)
    return path.with_name(f"{path.stem}.plain{_SUFFIX}")


def encrypt_file(
    path: Path,
    output: Path,
    key: Key,
    level: int = 1,
    *,
    overwrite: bool = False,
    told: Told = lambda done, total: None,
) -> int:
    """Encrypt a container of ours.

    Args:
        path: of the container.
        output: the file to make; may be ``path`` where it is overwritten.
        key: that opens it from then on. Without it nobody reads the file again.
        level: 1 to 3.
        overwrite: whether ``output`` may be there.
        told: of progress.

    Returns:
        The size of ``output`` in bytes.

    Raises:
        ContainerError: it cannot be read, or is no container of ours.
        UsageError: it is encrypted already, or another level.
        OutputError: it cannot be written.
    """
    check_level(level)
    name = sanitize(str(path), 300)
    with _opened(path, name) as source:
        head = source.read(HEAD_SIZE)
        if is_encrypted(head):
            raise UsageError(
                f"{name} is encrypted already.",
                cause="Encrypting it again would add nothing.",
                remedy="Decrypt it first to use another key or another level.",
            )
        refuse_other_format(name, head, path)
        size = os.fstat(source.fileno()).st_size
        check_head(head, size, name)  # a damaged one would come back as it went in
        source.seek(0)

        def write(stream: BinaryIO) -> None:
            encrypt(source, size, stream, key, level, lambda done: told(done, size))

        return atomic_write(output, write, overwrite=overwrite)


def decrypt_file(
    path: Path,
    output: Path,
    key: Key,
    *,
    overwrite: bool = False,
    told: Told = lambda done, total: None,
) -> int:
    """Decrypt a container of ours; ``output`` is named when its last part was authenticated.

    Nobody but this user may read it (0600), whatever the umask.

    Args:
        path: of the encrypted container.
        output: the file to make.
        key: that it was encrypted with.
        overwrite: whether ``output`` may be there.
        told: of progress.

    Returns:
        The size of ``output`` in bytes.

    Raises:
        UsageError: it is not encrypted.
        WrongKeyError: the key is another one.
        ContainerError: it cannot be read, or is no container of ours; damaged or cut short.
        OutputError: it cannot be written.
    """
    name = sanitize(str(path), 300)
    with _opened(path, name) as source:
        head = source.read(HEADER_SIZE)
        refuse_other_format(name, head, path)
        if not is_encrypted(head):
            raise UsageError(
                f"{name} is not encrypted.",
                cause="It is a plain container of this program.",
                remedy="Use it as it is.",
            )
        header = read_header(head, os.fstat(source.fileno()).st_size, name)

        def write(stream: BinaryIO) -> None:
            done = 0
            for chunk in decrypted_chunks(source, header, name, key):
                stream.write(chunk)
                done += len(chunk)
                told(done, header.size)

        return atomic_write(output, write, overwrite=overwrite, private=True)


def opens_as(encrypted: Path, plain: Path, key: Key) -> bool:
    """Whether an encrypted file holds just what a plain one does.

    Raises:
        WrongKeyError, ContainerError: as of :func:`decrypt_file`.
    """
    name = sanitize(str(encrypted), 300)
    with _opened(encrypted, name) as source, _opened(plain, str(plain)) as other:
        head = source.read(HEADER_SIZE)
        header = read_header(head, os.fstat(source.fileno()).st_size, name)
        chunks = decrypted_chunks(source, header, name, key)
        return all(chunk == other.read(len(chunk)) for chunk in chunks) and not other.read(1)


def _opened(path: Path, name: str) -> BinaryIO:
    try:
        return open_regular(path)
    except OSError as error:
        raise ContainerError(
            f"{name} could not be read: {error.strerror or error}.",
            cause="The path is misspelled, or it is no file, or you may not read it.",
            remedy="Check the path, and that you have permission to read it.",
        ) from error
