"""What the verbs that estimate have in common: ask, write the report, print, and the gates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from engine import atomic_write, refuse_existing
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
from engine.wire.requests import ModelTarget
from rknntui.cli.cost_text import advice_lines
from rknntui.cli.gates import Limits, estimate_figures
from rknntui.cli.progress import Narrator
from rknntui.cli.session import WorkerSession, resolve, with_worker
from rknntui.cli.verb import Printed, show
from rknntui.cost_report import REPORTS, Kind, report_text


async def load_target(
    session: WorkerSession, model: Path, given: Values, sizes: Sequence[str] = ()
) -> ModelTarget:
    """The model or recipe, loaded: one of TensorFlow or PyTorch is converted first.

    With other sizes of inputs it is loaded with those, by who is asked for an answer.

    Raises:
        EngineError: it cannot be used, or loaded.
    """
    recipe = await resolve(session, model, given)
    if not sizes:
        await session.run(LOAD, LoadParams(recipe=recipe))
    return ModelTarget(recipe=recipe)


async def loaded(session: WorkerSession, model: Path, options: Values, fields: Values) -> Values:
    """The recipe of a request about a model, which is loaded."""
    loaded_model = await load_target(session, model, options, fields.get("input_sizes", ()))
    return {"recipe": loaded_model.recipe}


async def estimated(
    session: WorkerSession, model: Path, given: Values, values: dict[str, Any]
) -> Estimates:
    """What a model costs; ``values``: the other fields of the request."""
    loaded_model = await load_target(session, model, given, values.get("input_sizes", ()))
    return await session.call(COST_ESTIMATE, EstimateParams(recipe=loaded_model.recipe, **values))


def _checked(_ctx: click.Context, _param: click.Parameter, path: Path | None) -> Path | None:
    if path is not None and path.suffix.lower() not in REPORTS:
        raise click.BadParameter(f"{path} does not end in {', '.join(REPORTS)}.")
    return path


report_flag = click.option(
    "--report",
    type=click.Path(path_type=Path, dir_okay=False),
    callback=_checked,
    metavar="FILE",
    help="Also write the estimate to a file: .csv, .html or .svg.",
)


@dataclass(frozen=True)
class Asked:
    """What a verb was given.

    Attributes:
        values: fields of the request for estimates.
        given: the recipe's options of its flags.
    """

    model: Path
    values: dict[str, Any]
    given: Values
    limits: Limits = field(default_factory=Limits)
    report: Path | None = None
    force: bool = False
    as_json: bool = False
    quiet: bool = False
    advice: bool = False


def show_estimates(
    asked: Asked,
    lines: Callable[[Estimates], list[str]],
    *,
    kind: Kind,
    layers: bool = True,
    spans: bool = False,
    order: Callable[[Estimates], Estimates] | None = None,
) -> int:
    """Estimate, print, write the report; the exit code that the gates give.

    Args:
        asked: by the verb.
        lines: for people.
        kind: what a report is about.
        layers, spans: what the JSON has.
        order: puts the chips in another order than they were asked for.
    """
    if asked.report is not None:
        refuse_existing(asked.report.absolute(), overwrite=asked.force)
    narrator = Narrator(quiet=asked.quiet)

    async def action(session: WorkerSession) -> tuple[Estimates, list[AdviceAnswer]]:
        whole = asked.report is not None
        values = asked.values | {"layers": layers or whole, "spans": spans or whole}
        estimates = await estimated(session, asked.model, asked.given, values)
        chips = [one for one in estimates.chips if asked.advice and not one.problem]
        recipe = await resolve(session, asked.model, asked.given) if chips else None
        same = {name: values[name] for name in ("input_sizes", "npu_mhz") if name in values}
        questions = [
            AdviceParams(recipe=recipe, chip=one.chip, dtype=one.dtype, **same) for one in chips
        ]
        return estimates, [await session.call(COST_ADVICE, one) for one in questions]

    estimates, advice = with_worker(action, narrator)
    estimates = order(estimates) if order is not None else estimates
    if asked.report is not None:
        text = report_text(estimates, asked.report.suffix, kind)
        atomic_write(asked.report.absolute(), text.encode("utf-8"), overwrite=asked.force)
        narrator.say(f"wrote {asked.report}")
    gates = asked.limits.gates(estimate_figures(estimates.chips))
    more = {"advice": [encode(one) for one in advice]} if asked.advice else {}
    report_lines = [*lines(estimates), *advice_lines(advice)]
    return show(estimates, Printed(report_lines, gates, more=more), as_json=asked.as_json)
