"""``rknntui chips`` and ``check``: a model on the chips (estimated)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import click

from engine import judged, sanitize
from engine.wire.cost import (
    COST_CHECK,
    COST_CHIPS,
    COST_ESTIMATE,
    CheckAnswer,
    ChipEstimate,
    ChipsParams,
    Estimates,
)
from engine.wire.cost_tables import CHECKED
from engine.wire.layers import OFF_NPU, layer_rows
from rknntui.cli.cost_text import chip_lines, facts_lines
from rknntui.cli.estimate_output import estimate_flags, loaded, show_estimates
from rknntui.cli.flags import Verb
from rknntui.cli.gates import Limits, check_figures
from rknntui.cli.output import emit, table_lines
from rknntui.cli.progress import Narrator
from rknntui.cli.request import request_flags
from rknntui.cli.session import with_worker
from rknntui.cli.verb import Printed, verb

SORTS: dict[str, Callable[[ChipEstimate], float]] = {
    "fps": lambda each: -each.fps.value if each.fps is not None else inf,
    "memory": lambda each: each.memory.total if each.memory is not None else inf,
    "cpu": lambda each: inf if each.cpu_layers is None else each.cpu_layers + each.refused_layers,
}
"""What ``--sort`` takes -> a number that is small where a chip is good."""


@click.command(
    "chips",
    cls=Verb,
    epilog="Example: rknntui chips model.onnx --chip rk3566 --chip rk3588 --report chips.html",
)
@click.argument("model", required=False, type=click.Path(path_type=Path))
@request_flags(COST_ESTIMATE)
@click.option(
    "--sort",
    type=click.Choice(list(SORTS)),
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
        if Limits.taken(flags) or flags["report"] is not None or sort or fps:
            raise click.UsageError("Reports, limits, --sort and --fps are of a model: name one.")
        asked = ChipsParams(tuple(flags["param_chips"]))
        narrator = Narrator(quiet=flags["quiet"])
        facts = with_worker(lambda session: session.call(COST_CHIPS, asked), narrator)
        emit(facts, facts_lines(facts.chips), as_json=flags["as_json"])
        return 0

    def order(estimates: Estimates) -> Estimates:
        estimates = estimates if sort is None else ranked(estimates, sort)
        return estimates if fps is None else judged(estimates, fps)

    return show_estimates(model, flags, chip_lines, kind="chips", layers=layers, order=order)


def ranked(found: Estimates, sort: str) -> Estimates:
    """The chips with the best first; those without an estimate come last."""
    key = SORTS[sort]
    chips = sorted(found.chips, key=lambda chip: (bool(chip.problem), key(chip)))
    return replace(found, chips=tuple(chips))


@verb(
    COST_CHECK,
    fill=loaded,
    limits=("cpu",),
)
def check(found: CheckAnswer, limits: Limits) -> Printed:
    """Say per chip which layers run on the CPU or are refused, why, and what to do (estimated).

    TARGET is a model file or a recipe; the compiler's known rewrites are applied first, and
    op_target is honoured. Without --chip all chips.
    """
    return Printed(_check_lines(found), limits.gates(check_figures(found.chips)))


def _check_lines(answer: CheckAnswer) -> list[str]:
    lines = [f"{sanitize(answer.model)} (estimated)", "", *table_lines(CHECKED, answer.chips)]
    lines += [f"{one.chip}: {sanitize(one.problem)}" for one in answer.chips if one.problem]
    return lines + _off_lines(answer) + _warnings(answer)


def _warnings(answer: CheckAnswer) -> list[str]:
    """What crashes the compiler, with the chips of which that is so."""
    chips_of: dict[str, list[str]] = {}
    for one in answer.chips:
        for text in one.warnings:
            chips_of.setdefault(text, []).append(one.chip)
    lines = [f"warning: {', '.join(on)}: {sanitize(text, 400)}" for text, on in chips_of.items()]
    return ["", *lines] if lines else []


def _off_lines(answer: CheckAnswer) -> list[str]:
    """Layers that are not on the NPU, with the chips of which that is so."""
    chips_of: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for one in answer.chips:
        for row in layer_rows(one):
            values = OFF_NPU.record(row, chips=None)
            chips_of.setdefault(tuple(values.items()), []).append(one.chip)
    records = [dict(values) | {"chips": " ".join(on)} for values, on in chips_of.items()]
    lines = table_lines(OFF_NPU, records)
    return ["", *lines] if lines else []
