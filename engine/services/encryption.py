"""Answers of the worker about encrypted models: it holds the key, encrypts and decrypts."""

from __future__ import annotations

from pathlib import Path

from engine.base.events import ArtifactWritten, Reporter
from engine.base.files import refuse_existing, sha256_of
from engine.base.text import sanitize
from engine.container.encryption import decrypt_file, decrypted_name
from engine.container.keys import hold_key, key_of_file, key_of_text, needed_key
from engine.export.encryption import encrypt_model, progress_teller
from engine.services.registry import answers, runs
from engine.wire.encryption import (
    ENCRYPTION_DECRYPT,
    ENCRYPTION_ENCRYPT,
    ENCRYPTION_KEY,
    Decrypted,
    DecryptParams,
    Encrypted,
    EncryptParams,
    KeyParams,
)
from engine.wire.method import Nothing


@answers(ENCRYPTION_KEY)
def key(params: KeyParams) -> Nothing:
    """Hold a key from now on, or forget the one that is held.

    Raises:
        UsageError: it is no key.
    """
    if params.file is not None:
        hold_key(key_of_file(Path(params.file)))
    elif params.text is not None:
        hold_key(key_of_text(params.text, sanitize(params.origin, 200)))
    else:
        hold_key(None)
    return Nothing()


@runs(ENCRYPTION_ENCRYPT)
def encrypt(params: EncryptParams, reporter: Reporter) -> Encrypted:
    """Encrypt a container of ours with the key that is held, or a compiled model of the vendor.

    Raises:
        EngineError: as of :func:`engine.export.encryption.encrypt_model`.
    """
    encrypted = encrypt_model(
        Path(params.path),
        None if params.output is None else Path(params.output),
        params.level,
        toolkit=params.toolkit,
        overwrite=params.force,
        wipe_plain=params.wipe,
        reporter=reporter,
    )
    reporter.emit(ArtifactWritten(encrypted.path, "rknn", encrypted.size))
    return encrypted


@runs(ENCRYPTION_DECRYPT)
def decrypt(params: DecryptParams, reporter: Reporter) -> Decrypted:
    """Decrypt a container of ours with the key that is held.

    Raises:
        EngineError: as of :func:`engine.container.encryption.decrypt_file`.
    """
    path = Path(params.path)
    target = decrypted_name(path) if params.output is None else Path(params.output)
    refuse_existing(target, overwrite=params.force)
    known = needed_key(sanitize(path.name, 200))
    progress = progress_teller(reporter, "decrypt")
    size = decrypt_file(path, target, known, overwrite=params.force, told=progress)
    reporter.emit(ArtifactWritten(str(target), "rknn", size))
    return Decrypted(str(target), size, sha256_of(target))
