"""``rknntui accuracy``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from engine import layers_counted, printable
from rknntui.cli.flags import json_flag, quiet_flag, recipe_flags, target, values_of
from rknntui.cli.guidance import guide_lines, run_guide
from rknntui.cli.narration import Narrator
from rknntui.cli.output import emit, table
from rknntui.cli.session import WorkerSession, resolve, with_worker

SORTS = ("sqnr", "own", "damage", "entire", "single", "graph")


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
@click.option(
    "--damage",
    is_flag=True,
    help="Measure what the worst layers, each alone, do to the outputs.",
)
@click.option(
    "--guide",
    is_flag=True,
    help="Run the manuals' debugging procedure to its end and say what to change.",
)
@click.option(
    "--reference",
    "references",
    multiple=True,
    type=click.Path(path_type=Path),
    help="With --guide: an npy with an output of the original framework for the first sample of "
    "the dataset; once per output.",
)
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
    damage: bool,
    guide: bool,
    references: tuple[Path, ...],
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
        if guide:
            return await run_guide(session, recipe, references)
        return await session.run(
            "accuracy",
            recipe=recipe,
            inputs=[str(p.absolute()) for p in files] or None,
            output_dir=None if output_dir is None else str(output_dir.absolute()),
            force=force,
            damage=damage or sort == "damage",
        )

    result = with_worker(action, Narrator(quiet=quiet))
    if guide:
        emit(result, guide_lines(result), as_json=as_json)
        return
    counted = layers_counted(result)
    result["layers"] = _ranked(result["layers"], sort)[:count]
    emit(result, _lines(result, counted), as_json=as_json)


def _ranked(layers: list[dict[str, Any]], sort: str) -> list[dict[str, Any]]:
    """Worst first; a layer without the figure comes last."""
    last = float("inf")

    def key(layer: dict[str, Any]) -> float:
        if sort in ("sqnr", "own"):
            found = layer["sqnr" if sort == "sqnr" else "own_sqnr"]
            return last if found is None else float(found)
        if sort == "damage":
            return last if layer["damage"] is None else -float(layer["damage"])
        return float(layer[sort]["cosine"]) if layer[sort] else last

    return layers if sort == "graph" else sorted(layers, key=key)


def _lines(result: dict[str, Any], counted: str) -> list[str]:
    rows = [
        (
            printable(layer["name"], 50),
            layer["op"],
            layer["dtype"],
            _decibels(layer["sqnr"], layer["entire"]),
            _decibels(layer["own_sqnr"], layer["single"]),
            _percent(layer["own_share"]),
            _percent(sum(layer["saturation"].values()) if layer["saturation"] else None),
            *_pair(layer["entire"]),
            *_pair(layer["single"]),
            _percent(layer["damage"]),
            printable(", ".join(n for n in layer["sources"] if n != layer["name"]), 60),
        )
        for layer in result["layers"]
        if not layer["inner"]
    ]
    columns = (
        "layer",
        "op",
        "type",
        "SQNR dB",
        "own dB",
        "own %",
        "satur. %",
        "entire cos",
        "entire euc",
        "single cos",
        "single euc",
        "of output %",
        "made of",
    )
    empty = [i for i in range(len(columns)) if not any(row[i] for row in rows)]
    kept = [i for i in range(len(columns)) if i not in empty]
    shown = [tuple(row[i] for i in kept) for row in rows]
    lines = [f"{counted}, simulated against float", *table([columns[i] for i in kept], shown)]
    return [*lines, *[f"wrote {path}" for path in result.get("files", [])]]


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share * 100:.3g}"


def _decibels(sqnr: float | None, distance: dict[str, float | None] | None) -> str:
    if sqnr is not None:
        return f"{sqnr:.2f}"
    return "nan" if distance and distance["cosine"] is None else "equal"


def _pair(distance: dict[str, float | None] | None) -> tuple[str, str]:
    if distance is None:
        return ("", "")
    cosine, euclidean = distance["cosine"], distance["euclidean"]  # None: NaN, which JSON has not
    return (
        "nan" if cosine is None else f"{cosine:.5f}",
        "nan" if euclidean is None else f"{euclidean:.4f}",
    )
