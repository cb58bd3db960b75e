"""``rknntui accuracy``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from engine import printable
from rknntui.cli.flags import json_flag, quiet_flag, recipe_flags, target, values_of
from rknntui.cli.narration import Narrator
from rknntui.cli.output import emit, table
from rknntui.cli.session import WorkerSession, resolve, with_worker

SORTS = ("sqnr", "entire", "single", "graph")


@click.command("accuracy", epilog="TARGET is a model file or a recipe; flags win over the recipe.")
@target
@click.option(
    "-i",
    "--input",
    "files",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A picture or npy file; once per input. Default: the first calibration sample.",
)
@click.option(
    "--output-dir",
    type=click.Path(path_type=Path),
    help="Folder for the snapshot and error_analysis.txt in the vendor's layout.",
)
@click.option(
    "--sort", type=click.Choice(SORTS), default="sqnr", show_default=True, help="Order of the list."
)
@click.option("--count", type=click.IntRange(1), help="Show only that many layers.")
@recipe_flags
@click.option("--force", is_flag=True, help="Overwrite a snapshot that exists.")
@json_flag
@quiet_flag
def command(
    target: Path,
    files: tuple[Path, ...],
    output_dir: Path | None,
    sort: str,
    count: int | None,
    force: bool,
    as_json: bool,
    quiet: bool,
    **flags: Any,
) -> None:
    """Rank the layers of a build by their quantization error (simulated against float).

    Entire: errors accumulate from the input on. Single: the layer alone, fed with float results.
    """

    async def action(session: WorkerSession) -> dict[str, Any]:
        recipe = await resolve(session, target, values_of(flags))
        return await session.run(
            "accuracy",
            recipe=recipe,
            inputs=[str(p.absolute()) for p in files] or None,
            output_dir=None if output_dir is None else str(output_dir.absolute()),
            force=force,
        )

    result = with_worker(action, Narrator(quiet=quiet))
    result["layers"] = _ranked(result["layers"], sort)[:count]
    emit(result, _lines(result), as_json=as_json)


def _ranked(layers: list[dict[str, Any]], sort: str) -> list[dict[str, Any]]:
    if sort == "graph":
        return layers
    if sort == "sqnr":
        return sorted(layers, key=lambda x: float("inf") if x["sqnr"] is None else x["sqnr"])
    return sorted(layers, key=lambda x: x[sort]["cosine"] if x[sort] else 2.0)


def _lines(result: dict[str, Any]) -> list[str]:
    rows = [
        (
            printable(layer["name"], 50),
            layer["op"],
            "equal" if layer["sqnr"] is None else f"{layer['sqnr']:.2f}",
            *_pair(layer["entire"]),
            *_pair(layer["single"]),
        )
        for layer in result["layers"]
    ]
    columns = ("layer", "op", "SQNR dB", "entire cos", "entire euc", "single cos", "single euc")
    return [*table(columns, rows), *[f"wrote {path}" for path in result.get("files", [])]]


def _pair(distance: dict[str, float] | None) -> tuple[str, str]:
    if distance is None:
        return ("", "")
    return (f"{distance['cosine']:.5f}", f"{distance['euclidean']:.4f}")
