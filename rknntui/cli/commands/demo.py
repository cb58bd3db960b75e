"""``rknntui demo``."""

from __future__ import annotations

from pathlib import Path

import click

from engine import OutputExistsError, output_errors, refuse_existing, sanitize, summary_text
from engine.wire.accuracy import EVALUATE, Evaluated, EvaluateParams
from engine.wire.build import BUILD, EXPORT, BuildParams, BuildSummary, Exported, ExportParams
from engine.wire.codec import encode
from engine.wire.formats import PERCENT
from rknntui.cli.flags import force_flag, json_flag, output_flag, quiet_flag
from rknntui.cli.output import emit
from rknntui.cli.progress import Narrator
from rknntui.cli.session import WorkerSession, with_worker
from rknntui.demo import CHIP, copy_demo, demo_recipe, demo_test_samples


@click.command("demo")
@click.option("--headless", is_flag=True, help="Print the report instead of opening the workbench.")
@output_flag("Export the demo's container there.")
@click.option(
    "--copy",
    "folder",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    help="Only copy the demo's model, photos and labelled samples into a new folder.",
)
@force_flag
@json_flag
@quiet_flag
def command(
    headless: bool,
    output: Path | None,
    folder: Path | None,
    force: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Build the demo model, score it before and after, then open the workbench on the result.

    Works offline: model and samples come with the program.
    """
    if folder is not None:
        _copy(folder.absolute(), as_json=as_json)
        return
    narrate = Narrator(quiet=quiet)
    if output is not None:
        refuse_existing(output.absolute(), overwrite=force)
    recipe = demo_recipe(None if headless or as_json else CHIP)

    async def action(session: WorkerSession) -> tuple[BuildSummary, Evaluated, Exported | None]:
        summary = await session.run(BUILD, BuildParams(recipe=recipe))
        labelled = EvaluateParams(recipe, str(demo_test_samples()))
        scored = await session.run_after(EVALUATE, labelled)
        if output is None:
            return summary, scored, None
        file = ExportParams(recipe=recipe, path=str(output.absolute()), force=force)
        return summary, scored, await session.run_after(EXPORT, file)

    summary, scored, exported = with_worker(action, narrate)
    if headless or as_json:
        data = encode(summary)
        text = [summary_text(summary), "", *_score_lines(scored)]
        data["score"] = _score(scored)
        if exported is not None:
            data["exported"] = encode(exported)
            text += ["", f"Exported {exported.path}", f"  {exported.note}"]
        emit(data, text, as_json=as_json)
        return
    from rknntui.launch import open_workbench

    raise click.exceptions.Exit(open_workbench(recipe=recipe))


def _copy(folder: Path, *, as_json: bool) -> None:
    """``--copy``: files for a first try; a folder that has files is left as it is."""
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise OutputExistsError(
            f"{sanitize(str(folder))} exists already.", remedy="Name a folder that does not exist."
        )
    with output_errors(folder):
        names = copy_demo(folder)
    emit({"folder": str(folder), "files": names}, [str(folder / n) for n in names], as_json=as_json)


def _score(scored: Evaluated) -> dict[str, float | None]:
    """Top-1 of an evaluation, in short."""
    first = scored.scores[0]
    return {
        "samples": scored.samples,
        "float_top1": first.golden,
        "simulated_top1": first.simulated,
        "agreement": scored.agreement,
    }


def _score_lines(scored: Evaluated) -> list[str]:
    first = scored.scores[0]
    return [
        f"Top-1 on {scored.samples} test samples (simulated)",
        f"  float      {PERCENT.text(first.golden)} %",
        f"  quantized  {PERCENT.text(first.simulated)} %",
        f"  same answer as float on {PERCENT.text(scored.agreement)} %",
    ]
