"""``rknntui chips`` and ``check``: a model on the chips (estimated)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from engine import CHIP_ORDERS, answer_lines, judged, ranked
from engine.wire.cost import COST_CHECK, COST_CHIPS, COST_ESTIMATE, ChipsParams, Estimates
from rknntui.cli.estimate_output import estimate_flags, loaded, show_estimates
from rknntui.cli.flags import Verb
from rknntui.cli.output import emit
from rknntui.cli.progress import Narrator
from rknntui.cli.request import request_flags
from rknntui.cli.session import with_worker
from rknntui.cli.verb import limits_taken, verb


@click.command(
    "chips",
    cls=Verb,
    epilog="Example: rknntui chips model.onnx --chip rk3566 --chip rk3588 --report chips.html",
)
@click.argument("model", required=False, type=click.Path(path_type=Path))
@request_flags(COST_ESTIMATE)
@click.option(
    "--sort",
    type=click.Choice(list(CHIP_ORDERS)),
    help="Put the best chip first: by frames a second, memory, or layers on the CPU.",
)
@click.option(
    "--fps",
    type=click.FloatRange(min=0, min_open=True),
    metavar="N",
    help="Say which chips do N frames a second; maybe where the interval leaves it open.",
)
@click.option("--layers", is_flag=True, help="With --json: every layer of every chip, too.")
@estimate_flags("over", "cpu", "memory")
def command(
    model: Path | None, sort: str | None, fps: float | None, layers: bool, **flags: Any
) -> int:
    """Set chips side by side for a model (estimated): frames a second, memory, layers on the CPU.

    MODEL is a model file or a recipe; without it, what is known of the chips. Without --chip all
    of them.
    """
    if model is None:
        if limits_taken(flags) or flags["report"] is not None or sort or fps:
            raise click.UsageError("Reports, limits, --sort and --fps are of a model: name one.")
        asked = ChipsParams(tuple(flags["param_chips"]))
        narrator = Narrator(quiet=flags["quiet"])
        facts = with_worker(lambda session: session.call(COST_CHIPS, asked), narrator)
        emit(facts, answer_lines(facts), as_json=flags["as_json"])
        return 0

    def order(estimates: Estimates) -> Estimates:
        estimates = estimates if sort is None else ranked(estimates, sort)
        return estimates if fps is None else judged(estimates, fps)

    return show_estimates(model, flags, "chips", layers=layers, order=order)


@verb(COST_CHECK, fill=loaded, limits=("cpu",))
def check() -> None:
    """Say per chip which layers run on the CPU or are refused, why, and what to do (estimated).

    TARGET is a model file or a recipe; the compiler's known rewrites are applied first, and
    op_target is honoured. Without --chip all chips.
    """
