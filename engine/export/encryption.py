"""Models encrypted, ours here and the vendor's by its toolkit [RKNN-T2 2.3.0, 2.15]."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from engine.base.errors import ContainerError
from engine.base.events import NullReporter, Progress, Reporter
from engine.base.files import open_regular, refuse_existing, sha256_of
from engine.base.text import sanitize
from engine.container.encrypted_files import encrypt_file, encrypted_name
from engine.container.encryption import check_level
from engine.container.keys import Key, key_findings, needed_key
from engine.container.other_formats import other_format
from engine.wire.encryption import Encrypted


def encrypt_model(
    path: Path,
    output: Path | None = None,
    level: int = 1,
    *,
    key: Key | None = None,
    toolkit: str | None = None,
    overwrite: bool = False,
    wipe_plain: bool = False,
    reporter: Reporter | None = None,
) -> Encrypted:
    """Encrypt a container of ours with a key, or a compiled model by the vendor's toolkit.

    Args:
        path: of the model.
        output: the file to make; None: ``NAME.crypt.rknn`` beside it.
        level: 1 to 3.
        key: for a container of ours; None: the one that the process knows. The vendor's has none:
            its runtime opens such a file by itself.
        toolkit: name of the vendor's environment; None: the default of generation 2.
        overwrite: whether ``output`` may be there.
        wipe_plain: whether what this program wrote of the model in plain form is removed.
        reporter: told of progress, asked whether to stop.

    Raises:
        UsageError: another level, a model that is encrypted already, or a chip that has no
            encrypted models.
        KeyNeededError: a container of ours and no key.
        ContainerError: no model, or damaged.
        ToolkitError, CompilerError: the vendor's toolkit is not there, or failed.
        OutputError: the file cannot be written.
    """
    check_level(level)
    events = reporter or NullReporter()
    target = output or encrypted_name(path)
    refuse_existing(target, overwrite=overwrite)
    encrypted = Encrypted(path=str(target), size=0, sha256="", level=level, ours=not _kind(path))
    if encrypted.ours:
        known = key or needed_key(f"What becomes of {sanitize(path.name, 200)}")
        size = encrypt_file(
            path, target, known, level, overwrite=overwrite, told=progress_teller(events, "encrypt")
        )
        encrypted = replace(encrypted, size=size, findings=key_findings(known))
        return _after(encrypted, path, known, wipe_plain)
    from engine.export.encrypt_compiled import encrypt_compiled

    size, name = encrypt_compiled(
        path, target, level, toolkit=toolkit, overwrite=overwrite, reporter=events
    )
    return _after(replace(encrypted, size=size, toolkit=name), path, None, wipe_plain)


def _after(encrypted: Encrypted, path: Path, key: Key | None, wipe_plain: bool) -> Encrypted:
    """With its hash, and what stays of the model in plain form or is wiped."""
    from engine.export.plain_copies import plain_copies, wipe

    target, wiped = Path(encrypted.path), encrypted.wiped
    stays = plain_copies(path, target, ours=encrypted.ours)
    if wipe_plain:
        wiped, stays = wipe(stays, target, key)
    return replace(encrypted, sha256=sha256_of(target), stays=stays, wiped=wiped)


def progress_teller(reporter: Reporter, stage: str) -> Callable[[int, int], None]:
    """A function that tells how many MiB are done, and stops where the reporter says so."""

    def told(done: int, total: int) -> None:
        reporter.check_cancelled()
        reporter.emit(Progress(stage, done >> 20, max(1, total >> 20), "MiB"))

    return told


def _kind(path: Path) -> str:
    try:
        with open_regular(path) as stream:
            return other_format(stream.read(64))
    except OSError as error:
        raise ContainerError(
            f"{sanitize(str(path), 300)} could not be read: {error.strerror or error}.",
            remedy="Check the path, and that you have permission to read it.",
        ) from error
