"""``rknntui dataset``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from engine import EngineError, sanitize
from engine.wire.codec import Values
from engine.wire.dataset import (
    DATASET_CHECK,
    DATASET_MAKE,
    CheckParams,
    DatasetFacts,
    Made,
)
from rknntui.cli.flags import VerbGroup, json_flag, recipe_flags, values_of
from rknntui.cli.output import emit
from rknntui.cli.progress import Narrator
from rknntui.cli.session import WorkerSession, is_recipe, resolve, with_worker
from rknntui.cli.verb import verb


@click.group("dataset", cls=VerbGroup)
def command() -> None:
    """Make or check a calibration dataset (dataset.txt: a line a sample, a file per input)."""


@verb(DATASET_MAKE, of=command)
def make(made: Made) -> list[str]:
    """Write dataset.txt from the pictures of a folder and its subfolders."""
    lines = [f"{made.path}: {made.samples} samples"]
    return lines + [f"skipped {sanitize(s.file)}: {sanitize(s.why)}" for s in made.skipped]


async def _is_recipe(session: WorkerSession, source: Path) -> bool:
    try:
        return await is_recipe(session, source)
    except EngineError:
        return False  # a folder, or what the reader of datasets refuses in its own words


@command.command("check")
@click.argument("source", metavar="DATASET", type=click.Path(path_type=Path))
@click.option("--model", type=click.Path(path_type=Path), help="Model or recipe to check against.")
@recipe_flags
@json_flag
def check(source: Path, model: Path | None, as_json: bool, **flags: Any) -> None:
    """Read every sample as calibration would, and name each problem by its line.

    DATASET is a list, a folder, or a recipe, whose dataset is checked against its model.
    """

    async def action(session: WorkerSession) -> DatasetFacts:
        options: Values = values_of(flags)
        if await _is_recipe(session, source):
            options = await resolve(session, source, options)
        else:
            options = {**options, "dataset": str(source.absolute())}
        if model is not None:
            chosen = {name: value for name, value in options.items() if name != "model"}
            options = await resolve(session, model, chosen)
        return await session.call(DATASET_CHECK, CheckParams(None, options, decode=True))

    checked = with_worker(action, Narrator())
    lines = [f"{checked.samples} samples, {checked.files} files"]
    lines += [f"line {p.line}: {sanitize(p.file)}: {sanitize(p.what)}" for p in checked.problems]
    lines += [f"{f.severity}: {sanitize(f.what)}" for f in checked.findings]
    emit(checked, lines, as_json=as_json)
    if checked.problems:
        raise click.exceptions.Exit(6)
