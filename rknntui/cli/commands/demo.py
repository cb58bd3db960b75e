"""``rknntui demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from engine import refuse_existing, summary_text
from rknntui.cli.flags import json_flag, quiet_flag
from rknntui.cli.narration import Narrator
from rknntui.cli.output import emit
from rknntui.cli.session import WorkerSession, with_worker
from rknntui.demo import demo_recipe, demo_test_samples


@click.command("demo")
@click.option("--headless", is_flag=True, help="Print the report instead of opening the workbench.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Export the demo's container there.",
)
@click.option("--force", is_flag=True, help="Overwrite a file that exists.")
@json_flag
@quiet_flag
def command(headless: bool, output: Path | None, force: bool, as_json: bool, quiet: bool) -> None:
    """Build the demo model, score it before and after, then open the workbench on the result.

    Works offline: model and samples come with the program.
    """
    narrate = Narrator(quiet=quiet)
    if output is not None:
        refuse_existing(output.absolute(), overwrite=force)
    recipe = demo_recipe()

    async def action(session: WorkerSession) -> dict[str, Any]:
        summary = await session.run("build", recipe=recipe)
        labels = str(demo_test_samples())
        scored = await session.run_after("evaluate", recipe=recipe, labels=labels)
        summary["score"] = _score(scored)
        if output is not None:
            summary["exported"] = await session.run_after(
                "export", recipe=recipe, path=str(output.absolute()), format="rknn", force=force
            )
        return summary

    summary = with_worker(action, narrate)
    if headless or as_json:
        emit(summary, [summary_text(summary), "", *_score_lines(summary)], as_json=as_json)
        return
    from rknntui.__main__ import open_workbench

    raise click.exceptions.Exit(open_workbench(recipe=recipe))


def _score(scored: dict[str, Any]) -> dict[str, Any]:
    """Top-1 of an evaluation, in short."""
    first = scored["scores"][0]
    return {
        "samples": scored["samples"],
        "float_top1": first["float"],
        "simulated_top1": first["simulated"],
        "agreement": scored["agreement"],
    }


def _score_lines(summary: dict[str, Any]) -> list[str]:
    score = summary["score"]
    lines = [
        f"Top-1 on {score['samples']} test samples (simulated)",
        f"  float      {score['float_top1']:.2%}",
        f"  quantized  {score['simulated_top1']:.2%}",
        f"  same answer as float on {score['agreement']:.2%}",
    ]
    if "exported" in summary:
        lines += ["", f"Exported {summary['exported']['path']}", f"  {summary['exported']['note']}"]
    return lines
