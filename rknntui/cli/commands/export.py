"""``rknntui export``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from engine import human_bytes
from engine.wire.build import EXPORT, Exported, ExportForm, ExportParams
from rknntui.cli.flags import (
    EPILOG,
    Verb,
    form_of,
    json_flag,
    output_flag,
    quiet_flag,
    recipe_flags,
    refresh_flag,
    target,
    values_of,
)
from rknntui.cli.output import emit
from rknntui.cli.progress import Narrator
from rknntui.cli.session import WorkerSession, resolve, with_worker


@click.command("export", cls=Verb, epilog=EPILOG)
@target
@output_flag("The file to write.", required=True)
@click.option(
    "--format",
    "form",
    type=click.Choice(["rknn", "onnx", "tflite"]),
    help="rknn: our container; onnx: QDQ ONNX (opset 19) for rknn-toolkit2; tflite: 8-bit "
    "TFLite. Default: the suffix.",
)
@click.option(
    "--layers",
    is_flag=True,
    help="ONNX with all layers as outputs, to be compiled and compared with a board.",
)
@recipe_flags
@refresh_flag
@click.option("--force", is_flag=True, help="Overwrite a file that exists.")
@json_flag
@quiet_flag
def command(
    target: Path,
    output: Path,
    form: ExportForm | None,
    layers: bool,
    refresh: bool,
    force: bool,
    as_json: bool,
    quiet: bool,
    **flags: Any,
) -> None:
    """Write a build as .rknn container, QDQ ONNX or TFLite; builds what the cache does not hold."""
    chosen = form or form_of(output)

    async def action(session: WorkerSession) -> Exported:
        asked = ExportParams(
            recipe=await resolve(session, target, values_of(flags)),
            path=str(output.absolute()),
            format=chosen,
            refresh=refresh,
            force=force,
            layers=layers,
        )
        return await session.run(EXPORT, asked)

    result = with_worker(action, Narrator(quiet=quiet))
    text = f"{result.path}: {human_bytes(result.bytes)}, SHA-256 {result.sha256}\n{result.note}"
    more = [f"also {path}" for path in result.more]
    told = [f"{each.what} {each.remedy}" for each in result.findings]
    text = "\n".join([text, *more, *told])
    emit(result, text, as_json=as_json)
