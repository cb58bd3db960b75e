"""``rknntui encrypt`` and ``rknntui decrypt``: a container or a compiled model."""

from __future__ import annotations

from pathlib import Path

import click

from engine import UsageError, human_bytes, sanitize
from engine.wire.codec import Values
from engine.wire.encryption import (
    ENCRYPTION_DECRYPT,
    ENCRYPTION_ENCRYPT,
    ENCRYPTION_KEY,
    Decrypted,
    Encrypted,
    PlainCopy,
)
from engine.wire.model import SNIFF
from engine.wire.requests import AtPath
from rknntui.cli.inspect_output import finding_lines
from rknntui.cli.keys import asked_key, given_key
from rknntui.cli.session import WorkerSession
from rknntui.cli.verb import verb


async def _with_key(session: WorkerSession, model: Path, _options: Values, _: Values) -> Values:
    path = str(model.absolute())
    if (await session.call(SNIFF, AtPath(path))).kind == "rknn":
        key = given_key(click.get_current_context()) or asked_key(
            sanitize(model.name, 80), twice=True
        )
        if key is None:
            raise UsageError(
                "There is no key to encrypt with.",
                cause="Standard input is no terminal, and no file is named.",
                remedy="Name a file that holds the key with --key-file, or in the environment "
                "variable RKNNTUI_KEY_FILE.",
            )
        await session.call(ENCRYPTION_KEY, key)
    return {}


@verb(
    ENCRYPTION_ENCRYPT,
    fill=_with_key,
    keys=True,
    epilog="Examples: rknntui encrypt model.rknn --key-file key.txt; rknntui encrypt model.rknn "
    "--level 3, which asks for the key. There is no way to read a container without its key.",
)
def encrypt(found: Encrypted) -> list[str]:
    """Encrypt MODEL: a container of this program with a key of yours (AES-256-GCM), or a compiled
    model of the vendor by its toolkit, which needs no key and whose runtime opens it by itself.
    """
    how = "AES-256-GCM, with your key" if found.ours else sanitize(found.toolkit)
    lines = [_written(found), f"encrypted, level {found.level} ({how})"]
    return [*lines, *finding_lines(found.findings), *_plain(found)]


async def _known_key(session: WorkerSession, _: Path, _options: Values, _fields: Values) -> Values:
    key = given_key(click.get_current_context())
    if key is not None:
        await session.call(ENCRYPTION_KEY, key)
    return {}


@verb(
    ENCRYPTION_DECRYPT,
    fill=_known_key,
    keys=True,
    epilog="Example: rknntui decrypt model.crypt.rknn --key-file key.txt",
)
def decrypt(found: Decrypted) -> str:
    """Write the container that is in MODEL. The vendor's encrypted models are opened by its runtime
    on a board alone.
    """
    return _written(found)


def _written(found: Encrypted | Decrypted) -> str:
    return f"{sanitize(found.path)}: {human_bytes(found.size)}, SHA-256 {found.sha256}"


_WORDS = {
    "model": "what was encrypted",
    "side file": "its side file",
    "source": "its source model, wherever it lies",
    "dataset": "its samples, wherever they lie",
    "cache": "this program's cache of all models",
}


def _plain(found: Encrypted) -> list[str]:
    """What holds the model in plain form, and what was removed of it."""
    text = [f"removed: {_copy(each)}" for each in found.wiped]
    if found.stays:
        text += ["in plain form there is still:", *(f"  {_copy(each)}" for each in found.stays)]
    if any(each.ours for each in found.stays):
        text.append("--wipe removes what this program wrote of it (with --force).")
    return text


def _copy(one: PlainCopy) -> str:
    size = "" if one.size is None else f", {human_bytes(one.size)}"
    return f"{sanitize(one.name, 300)} ({_WORDS[one.what]}{size})"
