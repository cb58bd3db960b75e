"""Writing without half-written files, and reading within bounds."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from engine.base.errors import OutputError, OutputExistsError, SourceModelError
from engine.base.text import sanitize

_CHUNK = 1 << 20
_READ_CAUSES = {
    errno.EISDIR: "A folder was given where a file belongs.",
    errno.EACCES: "It belongs to another user, or its permissions do not allow it.",
    errno.EPERM: "It belongs to another user, or its permissions do not allow it.",
    errno.ENAMETOOLONG: "Something else than a path was given.",
    errno.ENOTDIR: "A part of the path is a file, not a folder.",
    errno.ELOOP: "Links lead in a circle.",
}


@contextmanager
def output_errors(path: Path) -> Iterator[None]:
    """Turn an ``OSError`` while writing ``path`` into an :class:`OutputError`."""
    try:
        yield
    except OSError as error:
        raise _output_error(path, error) from error


_FULL = "The disk or the quota is full.", "Free space or choose another place."
_FOREIGN = (
    "The folder is read-only or belongs to another user.",
    "Choose a folder that you have permission to write to.",
)
_WRITE_CAUSES = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EACCES: _FOREIGN,
    errno.EPERM: _FOREIGN,
    errno.EROFS: _FOREIGN,
    errno.ENOENT: ("The folder does not exist.", "Make {} first."),
    # making the folder cannot help: its name is taken
    errno.ENOTDIR: (_READ_CAUSES[errno.ENOTDIR], "Choose another folder or name."),
    errno.EFBIG: (
        "The file system, or ulimit -f, allows no file of this size.",
        "Choose another place, or raise the limit.",
    ),
    errno.EISDIR: ("It is a folder.", "Give the name of a file."),
    errno.ENAMETOOLONG: ("File systems allow 255 bytes a name.", "Choose a shorter name."),
}
"""Number of an error -> its cause and its remedy, which may name the folder."""


def _output_error(path: Path, error: OSError) -> OutputError:
    other = "The disk refused it.", "Choose another place."
    cause, remedy = _WRITE_CAUSES.get(error.errno or 0, other)
    return OutputError(
        f"{sanitize(str(path))} could not be written: {error.strerror or error}.",
        cause=cause,
        remedy=remedy.replace("{}", str(path.parent)),
    )


def refuse_existing(path: Path, *, overwrite: bool) -> None:
    """Tell before long work that its result could not be named ``path``.

    Raises:
        OutputExistsError: ``path`` exists and ``overwrite`` is false.
        OutputError: it is a folder, its folder is missing or may not be written to, or the file
            system takes no such name.
    """
    with output_errors(path):
        try:
            status = path.stat()
        except FileNotFoundError:
            path.parent.stat()
            if not os.access(path.parent, os.W_OK | os.X_OK):
                # a read-only file system, or somebody else's folder: making a file tells which
                with tempfile.TemporaryFile(dir=path.parent):
                    pass
            return
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, "Is a directory")
    if not overwrite:
        raise OutputExistsError(
            f"{sanitize(str(path))} exists already.",
            cause="An earlier run wrote it, or it is another file.",
            remedy="Allow overwriting (--force) or choose another name.",
        )


def atomic_write(
    path: Path,
    content: bytes | Callable[[BinaryIO], None],
    *,
    overwrite: bool = False,
    private: bool = False,
) -> int:
    """Write ``content`` to a file without a name in the same folder, then name it ``path``.

    A process that is killed while it writes leaves nothing behind. Where the file system has no
    files without names, a temporary name is used.

    Args:
        path: the file to make.
        content: the bytes, or a function that writes them to a binary stream.
        overwrite: whether an existing file may be replaced.
        private: whether only this user may read it (0600), whatever the umask.

    Returns:
        The size in bytes.

    Raises:
        OutputExistsError: ``path`` exists and ``overwrite`` is false.
        OutputError: the folder is missing or read-only, or the disk is full.
    """
    (size,) = atomic_write_all([(path, content)], overwrite=overwrite, private=private)
    return size


def atomic_copy(source: Path, path: Path, *, overwrite: bool = False) -> int:
    """A copy of ``source`` named ``path``, as :func:`atomic_write`; its size in bytes."""
    with source.open("rb") as stream:
        return atomic_write(
            path, lambda copy: shutil.copyfileobj(stream, copy), overwrite=overwrite
        )


def atomic_write_all(
    contents: Sequence[tuple[Path, bytes | Callable[[BinaryIO], None]]],
    *,
    overwrite: bool = False,
    private: bool = False,
) -> list[int]:
    """As :func:`atomic_write`, of files that belong together: none is named before all are written.

    Returns:
        Their sizes in bytes.

    Raises:
        OutputExistsError, OutputError: as :func:`atomic_write`; no file was made or replaced,
            unless naming itself fails.
    """
    written: list[tuple[Path, Path]] = []
    sizes = []
    try:
        for path, content in contents:
            with output_errors(path):
                refuse_existing(path, overwrite=overwrite)
                temporary, size = _written_apart(path, content)
                if private:
                    temporary.chmod(0o600)
            written.append((path, temporary))
            sizes.append(size)
        for path, temporary in written:
            with output_errors(path):
                if overwrite:
                    temporary.replace(path)
                else:
                    # a hard link fails where another process made the file meanwhile; rename
                    # would not
                    _rename_new(temporary, path)
    finally:
        for _, temporary in written:
            temporary.unlink(missing_ok=True)
    return sizes


def _fill(stream: BinaryIO, content: bytes | Callable[[BinaryIO], None]) -> int:
    if callable(content):
        content(stream)
    else:
        stream.write(content)
    stream.flush()
    os.fsync(stream.fileno())
    return os.fstat(stream.fileno()).st_size


def _written_apart(path: Path, content: bytes | Callable[[BinaryIO], None]) -> tuple[Path, int]:
    """Write ``content`` whole under a temporary name beside ``path``; its name and size."""
    try:
        handle = os.open(path.parent, os.O_TMPFILE | os.O_RDWR, 0o666)
    except OSError:  # not here, or nothing can be written at all, which the next line tells
        return _written_named(path, content)
    with os.fdopen(handle, "w+b") as stream:
        size = _fill(stream, content)
        name = path.with_name(f".{path.name[:40]}.{secrets.token_hex(6)}.part")
        try:
            # by its descriptor, as proc(5) and open(2) describe it
            descriptors = os.open("/proc/self/fd", os.O_PATH | os.O_DIRECTORY)
            try:
                os.link(str(stream.fileno()), name, src_dir_fd=descriptors, follow_symlinks=True)
            finally:
                os.close(descriptors)
        except OSError:  # no /proc, or a file system that cannot name it
            stream.seek(0)
            return _written_named(path, lambda copy: shutil.copyfileobj(stream, copy))
    return name, size


def _written_named(path: Path, content: bytes | Callable[[BinaryIO], None]) -> tuple[Path, int]:
    handle, name = tempfile.mkstemp(prefix=f".{path.name[:40]}.", suffix=".part", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            size = _fill(stream, content)
        temporary.chmod(0o666 & ~_UMASK)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return temporary, size


def _rename_new(temporary: Path, path: Path) -> None:
    try:
        path.hardlink_to(temporary)
    except FileExistsError as error:
        raise OutputExistsError(
            f"{sanitize(str(path))} exists already.",
            cause="Another process made it meanwhile.",
            remedy="Allow overwriting (--force) or choose another name.",
        ) from error
    except OSError:  # a file system without hard links (FAT, some network shares)
        temporary.replace(path)
    else:
        temporary.unlink()


def _read_umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask


# Reading the umask means setting it, which other threads would see: done once, at import.
_UMASK = _read_umask()


def open_regular(path: Path) -> BinaryIO:
    """Open a file for reading, and nothing that waits for ever or has no end.

    Raises:
        OSError: it cannot be opened, or is a pipe, a device or a folder.
    """
    # opening a pipe would wait for its other end
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(
                errno.EINVAL, "It is not a file but a folder, a pipe or a device", str(path)
            )
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def read_regular(path: Path, limit: int) -> bytes:
    """The bytes of a file of at most ``limit`` bytes.

    Room is made for what is there, not for the limit.

    Raises:
        OSError: it cannot be opened, or is a pipe, a device or a folder.
        ValueError: it is larger than ``limit``.
    """
    with open_regular(path) as stream:
        size = os.fstat(stream.fileno()).st_size
        if size > limit:
            raise ValueError(f"{size} bytes, where at most {limit} are read")
        return stream.read(size)


def read_bounded(path: Path, limit: int, what: str) -> bytes:
    """The bytes of ``path``, refused above ``limit`` bytes.

    Raises:
        SourceModelError: missing, unreadable, a folder, or larger than ``limit``; ``what`` names
            the kind of file in the message.
    """
    try:
        size = path.stat().st_size
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "Is a directory")
        if not path.is_file():  # reading a pipe waits for ever, a device has no end
            raise SourceModelError(
                f"{sanitize(str(path))} is a pipe or a device.",
                cause=f"{what[:1].upper()}{what[1:]} is read from a file.",
                remedy="Write it to a file first.",
            )
        if size > limit:
            raise SourceModelError(
                f"{path} has {size} bytes; {what} is read up to {limit}.",
                remedy="Check that this is the right file.",
            )
        with path.open("rb") as stream:
            return stream.read(size)  # room is made for what is there, not for the limit
    except FileNotFoundError as error:
        raise missing_error(path) from error
    except OSError as error:
        raise SourceModelError(
            f"{sanitize(str(path))} could not be read: {error.strerror or error}.",
            cause=_READ_CAUSES.get(error.errno or 0, "The file or its disk is damaged."),
            remedy="Check that it is a file and that you have permission to read it.",
        ) from error


def missing_error(path: Path) -> SourceModelError:
    """The error for a file of the user's that is not there."""
    recipe = path.suffix.lower() in (".yaml", ".yml")
    return SourceModelError(
        f"{sanitize(str(path))} does not exist.",
        cause="The path is misspelled, or the file was moved or deleted.",
        remedy="Check the path; relative paths start at the current folder, in a recipe at "
        "the recipe's folder."
        + (" `rknntui recipe new MODEL -o FILE` writes a recipe." if recipe else ""),
    )


def sha256_of(path: Path) -> str:
    """Hexadecimal SHA-256 of a file, read in chunks."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
