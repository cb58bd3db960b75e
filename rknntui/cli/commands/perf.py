"""``rknntui perf``: Time a compiled model on a board, or estimate a model on a chip."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from engine import sanitize
from engine.wire.board_tables import COMPARED_LAYERS, COMPARED_POINTS, KEPT_RUNS, POINTS
from engine.wire.codec import encode
from engine.wire.cost import COST_ESTIMATE, EstimateParams
from engine.wire.devices import (
    DEVICES_PERF,
    MeasuredPoint,
    Performance,
    PerfParams,
)
from engine.wire.measured import (
    MEASURED_COMPARE,
    MEASURED_LIST,
    KeptFilter,
    KeptRuns,
    RunPair,
    RunsCompared,
)
from engine.wire.requests import ModelTarget
from rknntui.cli.board_target import (
    board_target,
    build_flag,
)
from rknntui.cli.cost_text import layer_cost_lines
from rknntui.cli.estimate_output import (
    Asked,
    cores_of,
    report_flag,
    show_calibration,
    show_estimates,
)
from rknntui.cli.figures import layer_lines, memory_line, where_line
from rknntui.cli.flags import Verb, json_flag, quiet_flag, source_flags, values_of
from rknntui.cli.gates import (
    Limits,
    cost_gate_flags,
    exit_code,
    gate_lines,
    measured_gates,
)
from rknntui.cli.output import emit, table_lines
from rknntui.cli.progress import Narrator
from rknntui.cli.request import request_flags, values_for
from rknntui.cli.session import WorkerSession, with_worker


@click.command(
    "perf",
    cls=Verb,
    epilog="Examples: rknntui perf model.rknn --device ssh:pi@board.lan --cores 0_1_2 --threads 3; "
    "rknntui perf model.onnx --chip rk3588 --fail-over 20ms",
)
@click.argument("model", required=False, type=click.Path(path_type=Path))
@request_flags(DEVICES_PERF)
@build_flag
@click.option("--history", is_flag=True, help="List the runs that are kept; nothing is measured.")
@click.option(
    "--compare",
    nargs=2,
    metavar="ID ID",
    help="Compare two kept runs by their ids in the history; nothing is measured.",
)
@click.option(
    "--calibrate",
    metavar="ID",
    help="Correct the estimates of a chip by a kept run of this MODEL (newest: the newest of its "
    "name), from now on.",
)
@request_flags(COST_ESTIMATE, without=("cores",))
@click.option("--advice", is_flag=True, help="With --chip: also say what would make it faster.")
@report_flag
@click.option("--force", is_flag=True, help="Overwrite a report that exists.")
@cost_gate_flags
@source_flags
@json_flag
@quiet_flag
@click.pass_context
def command(
    ctx: click.Context,
    /,
    model: Path | None,
    build: Path | None,
    history: bool,
    compare: tuple[str, str] | None,
    calibrate: str | None,
    advice: bool,
    report: Path | None,
    force: bool,
    as_json: bool,
    quiet: bool,
    **flags: Any,
) -> int:
    """Time a compiled model on a board (measured): percentiles, clocks and temperature beside them.

    MODEL is a .rknn that the vendor's toolkit compiled for the board's chip; an emulated board also
    takes a container of this program or a recipe. Inputs are zeros. Every run is kept: --history
    lists them, --compare sets two side by side.

    With --chip, nothing is measured: MODEL is a model file or a recipe, and the cost of each of its
    layers on that chip is estimated.
    """
    limits, values = Limits.taken(flags), values_for(PerfParams, flags)
    estimate = values_for(EstimateParams, flags)
    if limits and (history or compare is not None):
        raise click.UsageError("A limit is of a run or an estimate, not of the history.", ctx)
    if history:
        _history(values.get("device"), as_json=as_json)
        return 0
    if compare is not None:
        _compare(RunPair(*compare), as_json=as_json)
        return 0
    if model is None:
        raise click.UsageError("Missing argument 'MODEL'.", ctx)
    if calibrate is not None:
        return show_calibration(
            model, None if calibrate == "newest" else calibrate, values_of(flags), as_json=as_json
        )
    if "chips" in estimate:
        if "device" in values:
            raise click.UsageError("--device measures and --chip estimates: give one.", ctx)
        masks = values.pop("cores", ())
        several = len(masks) > 1
        if build or several or values.keys() - {"warmup", "layers"}:
            raise click.UsageError(
                "Several --cores, --threads, --batch, --loops, --seconds, --build and --fix-clocks "
                "are of measurements: they say nothing with --chip.",
                ctx,
            )
        estimate["cores"] = cores_of(masks)
        asked = Asked(
            model,
            estimate,
            values_of(flags),
            limits,
            report,
            force,
            as_json,
            quiet,
            advice,
        )
        return show_estimates(asked, layer_cost_lines, kind="layers")
    if report is not None or advice or limits.cpu is not None or limits.memory is not None:
        raise click.UsageError(
            "--report, --advice, --fail-cpu and --fail-memory are of estimates: give --chip.", ctx
        )

    async def action(session: WorkerSession) -> Performance:
        target = await board_target(session, model)
        made_from = None if build is None else await board_target(session, build)
        if target.path is None:
            made_from = ModelTarget(recipe=target.recipe)
        asked = PerfParams(model=target.path, build=made_from, **values)
        return await session.run(DEVICES_PERF, asked)

    found = with_worker(action, Narrator(quiet=quiet))
    medians = [
        (_name(each), None if each.median is None else each.median / 1000) for each in found.points
    ]
    gates = measured_gates(medians, limits.over, found.label)
    data = encode(found)
    if gates:
        data["gates"] = [encode(one) for one in gates]
    emit(data, [*_lines(found), *gate_lines(gates)], as_json=as_json)
    return exit_code(gates)


def _lines(found: Performance) -> list[str]:
    lines = [where_line(found.device, found.chip, found.runtime, found.driver, found.label), ""]
    lines += table_lines(POINTS, found.points)
    for point in found.points:
        name = _name(point)
        clocks = [f"{part} {hertz / 1e6:.0f} MHz" for part, hertz in point.clocks.items()]
        warm = [f"{zone} {celsius:.1f} C" for zone, celsius in point.celsius.items()]
        if clocks or warm:
            lines.append(f"{name}: {', '.join([*clocks, *warm])}")
        lines += [f"{name}: {sanitize(note)}" for note in (*point.notes, point.failed) if note]
    lines += [f"left out, {sanitize(reason)}" for reason in found.left_out]
    if found.memory is not None:
        lines.append(memory_line(found.memory, found.label))
    lines += layer_lines(found.layers)
    lines += [sanitize(note) for note in found.notes]
    return lines + ([f"kept as {found.kept}"] if found.kept else [])


def _name(point: MeasuredPoint) -> str:
    batch = f", batch {point.batch}" if point.batch > 1 else ""
    return f"cores {point.cores}{batch}, threads {point.threads}"


def _history(device: str | None, *, as_json: bool) -> None:
    async def action(session: WorkerSession) -> KeptRuns:
        return await session.call(MEASURED_LIST, KeptFilter(device=device))

    found = with_worker(action, Narrator())
    lines = table_lines(KEPT_RUNS, found.runs) or ["No run is kept."]
    emit(found, lines, as_json=as_json)


def _compare(pair: RunPair, *, as_json: bool) -> None:
    async def action(session: WorkerSession) -> RunsCompared:
        return await session.call(MEASURED_COMPARE, pair)

    found = with_worker(action, Narrator())
    emit(found, _compared(found), as_json=as_json)


def _compared(found: RunsCompared) -> list[str]:
    first, second = found.labels
    lines = [f"first {first}, second {second}"]
    lines += [f"not equal: {sanitize(text)}" for text in found.differs]
    points = table_lines(COMPARED_POINTS, found.points)
    lines += ["", *points] if points else ["No point was measured in both."]
    layers = table_lines(COMPARED_LAYERS, found.layers)
    return lines + (["", *layers] if layers else [])
