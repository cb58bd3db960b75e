"""A container of ours, encrypted: AES-256-GCM in chunks, its key derived by scrypt.

All integers little-endian::

    0    "OPENCRYP", u32 version 2, u32 level (1 to 3), u64 P (size of the container in it)
    24   u32 size of a chunk (2**20), u8 log2(N), u8 r and u8 p of scrypt, u8 0
    32   32 random bytes: salt
    64   HMAC-SHA-256 of the bytes before it, by the second derived key
    96   SHA-256 of the bytes before it
    128  the chunks of the container: each as long as a chunk (the last one shorter, never empty),
         encrypted, with its tag of 16 bytes behind it; the file ends with the last tag

scrypt of the key and the salt gives 64 bytes: the key of AES and that of the HMAC. Chunk i has the
nonce u64 i, u32 1 for the last one and 0 for the others (each file has a key of its own), and the
first 128 bytes of the file as associated data: chunks cannot change places, be left out, or move
to another file, and none can be missing at the end.

What scrypt costs stands in the file, at most that of level 3: no file can ask for more. Version 1
has zeros there; its costs follow from the level. What a reader checks first is that the file is as
long as P says. The SHA-256 tells a damaged head, which the HMAC alone could not tell from a wrong
key.

Sources: RFC 7914 (scrypt), NIST SP 800-38D (GCM), Hoang, Reyhanitabar, Rogaway, Vizár: Online
Authenticated-Encryption and its Nonce-Reuse Misuse-Resistance (STREAM, the last chunk's mark).
"""

from __future__ import annotations

import hashlib
import hmac
import os
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

from engine.base.errors import ContainerError, ShortOfMemoryError, UsageError, WrongKeyError
from engine.base.files import atomic_write, open_regular
from engine.base.text import sanitize
from engine.container.blob import HEAD_SIZE, check_head
from engine.container.keys import Key
from engine.container.magic import ENCRYPTED_MAGIC, unreadable_error
from engine.container.other_formats import refuse_other_format

VERSION = 2
CHUNK = 1 << 20
HEADER_SIZE = 128
TAG_SIZE = 16
_SIZE_LIMIT = 2 << 30
_FIELDS = struct.Struct("<8sIIQIBBBB32s")
_NONCE = struct.Struct("<QI")
_DIGEST = 32

_BLOCK = 8


class Cost(NamedTuple):
    """What deriving a key costs: scrypt's log2(N), r and p."""

    exponent: int
    block: int
    parallel: int

    @property
    def memory(self) -> int:
        """Bytes that OpenSSL asks for: 128 N r and a little more."""
        return 128 * self.block * ((1 << self.exponent) + self.parallel + 2) + (1 << 20)


LEVELS: dict[int, Cost] = {
    1: Cost(17, _BLOCK, 1),
    2: Cost(18, _BLOCK, 2),
    3: Cost(18, _BLOCK, 4),
}
"""crypt_level -> cost of what is encrypted now: memory of 128, 256 and 256 MiB, and once, four and
eight times the work. Level 1 is OWASP's first choice for scrypt."""

_FIRST_LEVELS: dict[int, Cost] = {
    1: Cost(15, _BLOCK, 1),
    2: Cost(17, _BLOCK, 1),
    3: Cost(18, _BLOCK, 2),
}
"""Of files of version 1, whose costs do not stand in the file."""


@dataclass(frozen=True)
class EncryptedHeader:
    """The head of an encrypted container.

    Attributes:
        level: 1 to 3.
        size: of the container in it, in bytes.
        cost: of deriving the key.
        salt: 32 bytes.
        raw: the 128 bytes.
    """

    level: int
    size: int
    cost: Cost
    salt: bytes
    raw: bytes


def is_encrypted(head: bytes) -> bool:
    """Whether a file that begins so is a container of ours, encrypted."""
    return head[: len(ENCRYPTED_MAGIC)] == ENCRYPTED_MAGIC


def encrypted_size(size: int) -> int:
    """Bytes of the encrypted form of a container of ``size`` bytes."""
    return HEADER_SIZE + size + TAG_SIZE * _chunks(size)


def _chunks(size: int) -> int:
    return max(1, -(-size // CHUNK))


def check_level(level: object) -> int:
    """``crypt_level`` as a number.

    Raises:
        UsageError: it is not 1, 2 or 3.
    """
    if isinstance(level, bool) or not isinstance(level, int) or level not in LEVELS:
        raise UsageError(
            f"crypt_level is {level!r:.40}; it is 1, 2 or 3.",
            cause="A higher level takes longer to decrypt, and longer to guess a key.",
            remedy="Use 1, 2 or 3.",
        )
    return level


def encrypt(
    source: BinaryIO,
    size: int,
    target: BinaryIO,
    key: Key,
    level: int = 1,
    told: Callable[[int], None] = lambda done: None,
) -> None:
    """Encrypt ``size`` bytes of a stream into another one; holds one chunk at a time.

    Args:
        source, target: read and written from where they are.
        size: of the container, at most 2 GiB.
        key: from which the keys of this file are derived.
        level: 1 to 3.
        told: called with the bytes that are done.

    Raises:
        ContainerError: the container is larger, or ends before ``size`` bytes.
    """
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    if not 0 < size <= _SIZE_LIMIT:
        raise ContainerError(
            f"A container of {size} bytes cannot be encrypted.",
            cause="Containers have up to 2 GiB.",
            remedy="Export it again.",
        )
    salt = os.urandom(32)
    cost = LEVELS[level]
    fields = _FIELDS.pack(ENCRYPTED_MAGIC, VERSION, level, size, CHUNK, *cost, 0, salt)
    own, seal = _derived(key, salt, cost)
    head = fields + hmac.digest(seal, fields, "sha256")
    head += hashlib.sha256(head).digest()
    target.write(head)
    cipher, count = AESGCM(own), _chunks(size)
    for index in range(count):
        length = min(CHUNK, size - index * CHUNK)
        chunk = source.read(length)
        if len(chunk) != length:
            raise ContainerError(
                "The container became shorter while it was encrypted.",
                cause="Another program wrote to it.",
                remedy="Encrypt it again when it is finished.",
            )
        target.write(cipher.encrypt(_nonce(index, count), chunk, head))
        told(index * CHUNK + length)


def read_header(head: bytes, file_size: int, name: str) -> EncryptedHeader:
    """The head of an encrypted container, as far as it can be checked without its key.

    Args:
        head: its first bytes.
        file_size: of the whole file.
        name: what messages call it.

    Raises:
        ContainerError: damaged, cut short, or of a newer version.
    """
    if len(head) < HEADER_SIZE:
        raise _cut_short(name)
    raw = bytes(head[:HEADER_SIZE])
    magic, version, level, size, chunk, *numbers, zero, salt = _FIELDS.unpack_from(raw)
    if magic != ENCRYPTED_MAGIC or hashlib.sha256(raw[:-_DIGEST]).digest() != raw[-_DIGEST:]:
        raise _damaged(name, "its head")
    if not 1 <= version <= VERSION:
        raise ContainerError(
            f"{name} is an encrypted container of version {version}; this program reads up to "
            f"{VERSION}.",
            cause="It was written by a newer version of this program.",
            remedy="Update this program.",
        )
    if level not in LEVELS or chunk != CHUNK or zero or not 0 < size <= _SIZE_LIMIT:
        raise _damaged(name, "its head")
    cost = Cost(*numbers) if version > 1 else _FIRST_LEVELS[level]
    if version == 1 and any(numbers):
        raise _damaged(name, "its head")
    if not all(1 <= one <= most for one, most in zip(cost, LEVELS[max(LEVELS)], strict=True)):
        raise _damaged(name, "its head")
    whole = encrypted_size(size)
    if file_size < whole:
        raise _cut_short(name)
    if file_size > whole:
        raise _damaged(name, "its end")
    return EncryptedHeader(level, size, cost, salt, raw)


def decrypted_chunks(
    source: BinaryIO, header: EncryptedHeader, name: str, key: Key
) -> Iterator[bytes]:
    """The container, chunk by chunk, each authenticated before it is given.

    What came before an error is to be thrown away.

    Args:
        source: just behind the head.
        header: as :func:`read_header` gave it.
        name: what messages call the file.
        key: it was encrypted with.

    Raises:
        WrongKeyError: the key is another one.
        ContainerError: a chunk was changed, or is missing.
    """
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    own, seal = _derived(key, header.salt, header.cost)
    signed, mark = header.raw[: _FIELDS.size], header.raw[_FIELDS.size : -_DIGEST]
    if not hmac.compare_digest(hmac.digest(seal, signed, "sha256"), mark):
        raise WrongKeyError(
            f"The key from {key.origin} does not open {name}.",
            cause="It was encrypted with another key, or somebody forged its head.",
            remedy="Give the key that it was encrypted with. Of a typed key look at capital "
            "letters and blanks; of a file every byte counts, but one line end behind it.",
        )
    cipher, count = AESGCM(own), _chunks(header.size)
    for index in range(count):
        length = min(CHUNK, header.size - index * CHUNK) + TAG_SIZE
        chunk = source.read(length)
        if len(chunk) != length:
            raise _cut_short(name)
        try:
            yield cipher.decrypt(_nonce(index, count), chunk, header.raw)
        except InvalidTag as error:
            raise _damaged(name, f"part {index + 1} of {count}") from error


def _nonce(index: int, count: int) -> bytes:
    return _NONCE.pack(index, int(index == count - 1))


def _derived(key: Key, salt: bytes, cost: Cost) -> tuple[bytes, bytes]:
    """The key of the cipher and the key of the seal."""
    try:
        both = hashlib.scrypt(
            key.secret,
            salt=salt,
            n=1 << cost.exponent,
            r=cost.block,
            p=cost.parallel,
            maxmem=cost.memory,  # OpenSSL asks for leave above 32 MiB
            dklen=64,
        )
    except (MemoryError, ValueError) as error:
        raise ShortOfMemoryError(
            f"There was not enough memory to derive the key: it takes {cost.memory >> 20} MiB.",
            remedy="Close other programs, or encrypt with a lower level.",
        ) from error
    return both[:32], both[32:]


def _damaged(name: str, what: str) -> ContainerError:
    return ContainerError(
        f"{name} is damaged: {what} does not hold.",
        cause="The encrypted file was changed after it was written, by accident or by somebody.",
        remedy="Copy it again from its source, or encrypt the container again.",
    )


def _cut_short(name: str) -> ContainerError:
    return ContainerError(
        f"{name} is cut short.",
        cause="A copy or download did not finish.",
        remedy="Copy it again, or encrypt the container again.",
    )


# Containers of ours encrypted and decrypted as files: a chunk in memory, nothing half-written.

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
        raise unreadable_error(name, error) from error
