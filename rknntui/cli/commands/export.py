"""``rknntui export``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from engine import human_bytes
from engine.wire.build import EXPORT
from rknntui.cli.flags import (
    EPILOG,
    Verb,
    json_flag,
    quiet_flag,
    recipe_flags,
    target,
)
from rknntui.cli.output import emit
from rknntui.cli.progress import Narrator
from rknntui.cli.request import ask, request_flags


@click.command("export", cls=Verb, epilog=EPILOG)
@target
@request_flags(EXPORT)
@recipe_flags
@json_flag
@quiet_flag
def command(
    target: Path,
    as_json: bool,
    quiet: bool,
    **flags: Any,
) -> None:
    """Write a build as .rknn container, QDQ ONNX or TFLite; builds what the cache does not hold."""
    result = ask(EXPORT, target, flags, Narrator(quiet=quiet))
    text = f"{result.path}: {human_bytes(result.bytes)}, SHA-256 {result.sha256}\n{result.note}"
    more = [f"also {path}" for path in result.more]
    told = [f"{each.what} {each.remedy}" for each in result.findings]
    text = "\n".join([text, *more, *told])
    emit(result, text, as_json=as_json)
