"""``rknntui decrypt``: Decrypt a container that was encrypted here."""

from __future__ import annotations

from pathlib import Path

import click

from engine import human_bytes, sanitize
from engine.wire.encryption import (
    ENCRYPTION_DECRYPT,
    ENCRYPTION_KEY,
    Decrypted,
    DecryptParams,
)
from rknntui.cli.flags import json_flag, output_flag, quiet_flag
from rknntui.cli.keys import given_key, key_file_flag
from rknntui.cli.output import emit
from rknntui.cli.progress import Narrator
from rknntui.cli.session import WorkerSession, with_worker


@click.command("decrypt", epilog="Example: rknntui decrypt model.crypt.rknn --key-file key.txt")
@click.argument("model", type=click.Path(path_type=Path))
@output_flag("The file to write. Default: its name without .crypt.")
@key_file_flag
@click.option("--force", is_flag=True, help="Overwrite a file that exists.")
@json_flag
@quiet_flag
@click.pass_context
def command(
    ctx: click.Context,
    /,
    model: Path,
    output: Path | None,
    force: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Write the container that is in MODEL. The vendor's encrypted models are opened by its runtime
    on a board alone.
    """

    async def action(session: WorkerSession) -> Decrypted:
        key = given_key(ctx)
        if key is not None:
            await session.call(ENCRYPTION_KEY, key)
        asked = DecryptParams(
            path=str(model.absolute()),
            output=None if output is None else str(output.absolute()),
            force=force,
        )
        return await session.run(ENCRYPTION_DECRYPT, asked)

    found = with_worker(action, Narrator(quiet=quiet))
    line = f"{sanitize(found.path)}: {human_bytes(found.size)}, SHA-256 {found.sha256}"
    emit(found, line, as_json=as_json)
