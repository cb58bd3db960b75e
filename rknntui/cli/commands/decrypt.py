"""``rknntui decrypt``: Decrypt a container that was encrypted here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from engine import human_bytes, sanitize
from engine.wire.encryption import (
    ENCRYPTION_DECRYPT,
    ENCRYPTION_KEY,
    Decrypted,
    DecryptParams,
)
from rknntui.cli.flags import json_flag, quiet_flag
from rknntui.cli.keys import given_key, key_file_flag
from rknntui.cli.output import emit
from rknntui.cli.progress import Narrator
from rknntui.cli.request import request_flags, values_for
from rknntui.cli.session import WorkerSession, with_worker


@click.command("decrypt", epilog="Example: rknntui decrypt model.crypt.rknn --key-file key.txt")
@click.argument("model", type=click.Path(path_type=Path))
@request_flags(ENCRYPTION_DECRYPT)
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
    """Write the container that is in MODEL. The vendor's encrypted models are opened by its runtime
    on a board alone.
    """

    values = values_for(DecryptParams, flags)

    async def action(session: WorkerSession) -> Decrypted:
        key = given_key(ctx)
        if key is not None:
            await session.call(ENCRYPTION_KEY, key)
        asked = DecryptParams(path=str(model.absolute()), **values)
        return await session.run(ENCRYPTION_DECRYPT, asked)

    found = with_worker(action, Narrator(quiet=quiet))
    line = f"{sanitize(found.path)}: {human_bytes(found.size)}, SHA-256 {found.sha256}"
    emit(found, line, as_json=as_json)
