"""``rknntui perf``: Time a compiled model on a board."""

from __future__ import annotations

from pathlib import Path

import click

from engine import human_bytes, sanitize
from engine.wire.devices import CORES, DEVICES_PERF, Performance, PerfParams
from rknntui.cli.flags import json_flag, quiet_flag
from rknntui.cli.output import emit, table
from rknntui.cli.progress import Narrator
from rknntui.cli.session import WorkerSession, with_worker


@click.command(
    "perf",
    epilog="Example: rknntui perf model.rknn --device ssh:pi@board.lan --cores auto --cores 0_1_2 "
    "--threads 1 --threads 3",
)
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--device", help="The board; without it the only one there is.")
@click.option(
    "--cores",
    multiple=True,
    type=click.Choice(CORES),
    metavar="CORES",
    help=f"NPU cores, once per point: {', '.join(CORES)}. Default: auto.",
)
@click.option(
    "--threads",
    multiple=True,
    type=click.IntRange(1, 32),
    help="Threads that run the model at the same time, once per point. Default: 1.",
)
@click.option("--warmup", type=click.IntRange(0, 100_000), default=5, show_default=True)
@click.option(
    "--loops", type=click.IntRange(1, 100_000), help="Inferences that are timed. Default: 50."
)
@click.option("--seconds", type=click.FloatRange(0, 3600, min_open=True), help="In place of loops.")
@click.option("--layers", is_flag=True, help="Also time each layer, in a run of its own.")
@click.option(
    "--fix-clocks", is_flag=True, help="Set the clocks of the vendor's script; restored afterwards."
)
@json_flag
@quiet_flag
def command(
    model: Path,
    device: str | None,
    cores: tuple[str, ...],
    threads: tuple[int, ...],
    warmup: int,
    loops: int | None,
    seconds: float | None,
    layers: bool,
    fix_clocks: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Time a compiled model on a board (measured): percentiles, clocks and temperature beside them.

    MODEL is a .rknn that the vendor's toolkit compiled for the board's chip. Inputs are zeros.
    """
    asked = PerfParams(
        device,
        str(model.absolute()),
        cores or ("auto",),
        threads or (1,),
        warmup,
        loops,
        seconds,
        layers,
        fix_clocks,
    )

    async def action(session: WorkerSession) -> Performance:
        return await session.run(DEVICES_PERF, asked)

    found = with_worker(action, Narrator(quiet=quiet))
    emit(found, _lines(found), as_json=as_json)


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value / 1000:.3f}"


def _lines(found: Performance) -> list[str]:
    where = f"{sanitize(found.device)}: {found.chip}, runtime {sanitize(found.runtime)}"
    lines = [f"{where}, driver {sanitize(found.driver)} ({found.label})", ""]
    head = ["cores", "threads", "runs", "median ms", "min", "p90", "p99", "max", "frames/s"]
    rows = [
        [
            point.cores,
            str(point.threads),
            str(point.count),
            *map(_ms, (point.median, point.minimum, point.p90, point.p99, point.maximum)),
            "-" if point.frames_per_second is None else f"{point.frames_per_second:.1f}",
        ]
        for point in found.points
    ]
    lines += table(head, rows)
    for point in found.points:
        name = f"cores {point.cores}, threads {point.threads}"
        clocks = [f"{part} {hertz / 1e6:.0f} MHz" for part, hertz in point.clocks.items()]
        warm = [f"{zone} {celsius:.1f} C" for zone, celsius in point.celsius.items()]
        if clocks or warm:
            lines.append(f"{name}: {', '.join([*clocks, *warm])}")
        lines += [f"{name}: {sanitize(note)}" for note in (*point.notes, point.failed) if note]
    lines += [f"left out, {sanitize(reason)}" for reason in found.left_out]
    if found.memory is not None:
        memory = found.memory
        lines.append(
            f"memory: weights {human_bytes(memory.weight)}, internal tensors "
            f"{human_bytes(memory.internal)}, other {human_bytes(memory.other)}, "
            f"total {human_bytes(memory.total)} ({found.label})"
        )
    if found.layers:
        layers = [
            [
                str(layer.id),
                layer.op,
                layer.dtype,
                layer.target,
                "-" if layer.microseconds is None else f"{layer.microseconds:.0f}",
                "-" if layer.traffic is None else human_bytes(layer.traffic),
                sanitize(layer.name, 80),
            ]
            for layer in found.layers
        ]
        lines += [
            "",
            *table(["id", "operator", "dtype", "target", "us", "traffic", "name"], layers),
        ]
    return lines + [sanitize(note) for note in found.notes]
