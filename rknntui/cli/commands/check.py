"""``rknntui check``: Check which layers of a model run on the NPU of each chip."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from engine import sanitize
from engine.wire.codec import encode
from engine.wire.cost import COST_CHECK, CheckAnswer, ChipCheck, CostCheckParams
from rknntui.chip_facts import on_cpu
from rknntui.cli.cost_flags import load_target
from rknntui.cli.flags import Verb, json_flag, quiet_flag, recipe_flags, values_of
from rknntui.cli.gates import CostLimits, exit_code, fail_cpu_flag, gate_lines
from rknntui.cli.output import emit, table
from rknntui.cli.progress import Narrator
from rknntui.cli.request import request_flags, values_for
from rknntui.cli.session import WorkerSession, with_worker


@click.command(
    "check", cls=Verb, epilog="Example: rknntui check model.onnx --chip rk3566 --fail-cpu 0"
)
@click.argument("model", type=click.Path(path_type=Path))
@request_flags(COST_CHECK)
@fail_cpu_flag
@recipe_flags
@json_flag
@quiet_flag
def command(
    model: Path,
    fail_cpu: int | None,
    as_json: bool,
    quiet: bool,
    **flags: Any,
) -> int:
    """Say per chip which layers run on the CPU or are refused, why, and what to do (estimated).

    MODEL is a model file or a recipe; the compiler's known rewrites are applied first, and
    op_target is honoured. Without --chip all chips.
    """

    given, values = values_of(flags), values_for(CostCheckParams, flags)

    async def action(session: WorkerSession) -> CheckAnswer:
        found = await load_target(session, model, given, values.get("input_sizes", ()))
        return await session.call(COST_CHECK, CostCheckParams(recipe=found.recipe, **values))

    found = with_worker(action, Narrator(quiet=quiet))
    gates = CostLimits(cpu=fail_cpu).gates_of_checks(found.chips)
    data = encode(found)
    if gates:
        data["gates"] = [encode(one) for one in gates]
    emit(data, [*_lines(found), *gate_lines(gates)], as_json=as_json)
    return exit_code(gates)


def _lines(found: CheckAnswer) -> list[str]:
    columns = ("chip", "dtype", "NPU", "CPU", "refused")
    rows = [
        [one.chip, one.dtype, *(["-"] * 3 if one.problem else map(str, _counts(one)))]
        for one in found.chips
    ]
    lines = [f"{sanitize(found.model)} (estimated)", "", *table(columns, rows)]
    lines += [f"{one.chip}: {sanitize(one.problem)}" for one in found.chips if one.problem]
    return lines + _off_lines(found) + _warnings(found)


def _warnings(found: CheckAnswer) -> list[str]:
    """What crashes the compiler, with the chips of which that is so."""
    told: dict[str, list[str]] = {}
    for one in found.chips:
        for text in one.warnings:
            told.setdefault(text, []).append(one.chip)
    lines = [f"warning: {', '.join(on)}: {sanitize(text, 400)}" for text, on in told.items()]
    return ["", *lines] if lines else []


def _off_lines(found: CheckAnswer) -> list[str]:
    """Layers that are not on the NPU, with the chips of which that is so."""
    told: dict[tuple[str, ...], list[str]] = {}
    for one in found.chips:
        for row in one.rows:
            why, fix = sanitize(row.reason, 160), sanitize(row.remedy, 160)
            cells = (sanitize(row.id, 60), row.op, row.target, why, fix)
            told.setdefault(cells, []).append(one.chip)
    columns = ("layer", "op", "on", "why", "fix", "chips")
    lines = table(columns, [[*cells, " ".join(on)] for cells, on in told.items()])
    return ["", *lines] if lines else []


def _counts(one: ChipCheck) -> tuple[int, str, int]:
    return one.npu_layers, on_cpu(one), one.refused_layers
