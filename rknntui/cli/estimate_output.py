"""What the verbs that estimate have in common: ask, write the report, print, and the gates."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from engine import (
    COST_REPORTS,
    CostReport,
    answer_lines,
    atomic_write,
    cost_report,
    refuse_existing,
)
from engine.wire.codec import Values, encode
from engine.wire.cost import (
    COST_ADVICE,
    COST_ESTIMATE,
    AdviceAnswer,
    AdviceParams,
    EstimateParams,
    Estimates,
)
from engine.wire.model import LOAD, LoadParams
from rknntui.cli.flags import force_flag, json_flag, quiet_flag, recipe_flags, values_of
from rknntui.cli.progress import Narrator
from rknntui.cli.request import values_for
from rknntui.cli.session import WorkerSession, resolve, with_worker
from rknntui.cli.verb import Given, Printed, limit_flags, limits_taken, show

Command = TypeVar("Command", bound=Callable[..., Any])


async def loaded(given: Given) -> Values:
    """The recipe of a request about a model, which is loaded: one of TensorFlow or PyTorch is
    converted first.

    With other sizes of inputs it is loaded with those, by who is asked for an answer.

    Raises:
        EngineError: it cannot be used, or loaded.
    """
    return {"recipe": await _loaded(given.session, given.target, given.options, given.fields)}


async def _loaded(session: WorkerSession, model: Path, options: Values, fields: Values) -> Values:
    recipe = await resolve(session, model, options)
    if not fields.get("input_sizes"):
        await session.run(LOAD, LoadParams(recipe=recipe))
    return recipe


def _checked(_ctx: click.Context, _param: click.Parameter, path: Path | None) -> Path | None:
    if path is not None and path.suffix.lower() not in COST_REPORTS:
        raise click.BadParameter(f"{path} does not end in {', '.join(COST_REPORTS)}.")
    return path


report_flag = click.option(
    "--report",
    type=click.Path(path_type=Path, dir_okay=False),
    callback=_checked,
    metavar="FILE",
    help="Also write the estimate to a file: .csv, .html or .svg.",
)


def estimate_flags(*limits: str) -> Callable[[Command], Command]:
    """The flags of a verb that estimates, behind those of its request, with these limits."""

    def add(command: Command) -> Command:
        of_limits = limit_flags(*limits)
        for flag in (quiet_flag, json_flag, recipe_flags, of_limits, force_flag, report_flag):
            command = flag(command)
        return command

    return add


def show_estimates(
    model: Path,
    flags: dict[str, Any],
    kind: CostReport,
    *,
    layers: bool = True,
    spans: bool = False,
    order: Callable[[Estimates], Estimates] | None = None,
) -> int:
    """Estimate, print, write the report; the exit code that the gates give.

    Args:
        model: a model file or a recipe.
        flags: of the command, with those of :func:`estimate_flags`; it takes them out.
        kind: what text and report are about.
        layers, spans: what the JSON has.
        order: puts the chips in another order than they were asked for.
    """
    limits, values = limits_taken(flags), values_for(EstimateParams, flags)
    options = values_of(flags)
    report, force, advised = flags["report"], flags["force"], flags.get("advice", False)
    if report is not None:
        refuse_existing(report.absolute(), overwrite=force)
    narrator = Narrator(quiet=flags["quiet"])

    async def action(session: WorkerSession) -> tuple[Estimates, list[AdviceAnswer]]:
        whole = report is not None
        recipe = await _loaded(session, model, options, values)
        asked = EstimateParams(
            recipe=recipe, **values, layers=layers or whole, spans=spans or whole
        )
        estimates = await session.call(COST_ESTIMATE, asked)
        same = {name: values[name] for name in ("input_sizes", "npu_mhz") if name in values}
        questions = [
            AdviceParams(recipe=recipe, chip=one.chip, dtype=one.dtype, **same)
            for one in estimates.chips
            if advised and not one.problem
        ]
        return estimates, [await session.call(COST_ADVICE, one) for one in questions]

    estimates, advice = with_worker(action, narrator)
    estimates = order(estimates) if order is not None else estimates
    if report is not None:
        text = cost_report(estimates, report.suffix, kind)
        atomic_write(report.absolute(), text.encode("utf-8"), overwrite=force)
        narrator.say(f"wrote {report}")
    more = {"advice": [encode(one) for one in advice]} if advised else {}
    lines = answer_lines(estimates, kind=kind)
    lines += [line for one in advice for line in answer_lines(one)]
    return show(estimates, Printed(lines, more=more), as_json=flags["as_json"], limits=limits)
