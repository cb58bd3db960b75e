"""``rknntui encrypt``: Encrypt a container or a compiled model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from engine import UsageError, human_bytes, sanitize
from engine.wire.encryption import (
    ENCRYPTION_ENCRYPT,
    ENCRYPTION_KEY,
    Encrypted,
    EncryptParams,
    PlainCopy,
)
from engine.wire.model import SNIFF
from engine.wire.requests import AtPath
from rknntui.cli.flags import json_flag, quiet_flag
from rknntui.cli.inspect_output import finding_lines
from rknntui.cli.keys import asked_key, given_key, key_file_flag
from rknntui.cli.output import emit
from rknntui.cli.progress import Narrator
from rknntui.cli.request import request_flags, values_for
from rknntui.cli.session import WorkerSession, with_worker


@click.command(
    "encrypt",
    epilog="Examples: rknntui encrypt model.rknn --key-file key.txt; rknntui encrypt model.rknn "
    "--level 3, which asks for the key. There is no way to read a container without its key.",
)
@click.argument("model", type=click.Path(path_type=Path))
@request_flags(ENCRYPTION_ENCRYPT)
@key_file_flag
@json_flag
@quiet_flag
@click.pass_context
def command(
    ctx: click.Context,
    /,
    model: Path,
    as_json: bool,
    quiet: bool,
    **flags: Any,
) -> None:
    """Encrypt MODEL: a container of this program with a key of yours (AES-256-GCM), or a compiled
    model of the vendor by its toolkit, which needs no key and whose runtime opens it by itself.
    """

    values = values_for(EncryptParams, flags)

    async def action(session: WorkerSession) -> Encrypted:
        path = str(model.absolute())
        if (await session.call(SNIFF, AtPath(path))).kind == "rknn":
            key = given_key(ctx) or asked_key(sanitize(model.name, 80), twice=True)
            if key is None:
                raise UsageError(
                    "There is no key to encrypt with.",
                    cause="Standard input is no terminal, and no file is named.",
                    remedy="Name a file that holds the key with --key-file, or in the environment "
                    "variable RKNNTUI_KEY_FILE.",
                )
            await session.call(ENCRYPTION_KEY, key)
        asked = EncryptParams(path=path, **values)
        return await session.run(ENCRYPTION_ENCRYPT, asked)

    found = with_worker(action, Narrator(quiet=quiet))
    how = "AES-256-GCM, with your key" if found.ours else sanitize(found.toolkit)
    lines = [
        f"{sanitize(found.path)}: {human_bytes(found.size)}, SHA-256 {found.sha256}",
        f"encrypted, level {found.level} ({how})",
    ]
    emit(found, [*lines, *finding_lines(found.findings), *_plain(found)], as_json=as_json)


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
